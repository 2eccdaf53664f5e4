#include <iostream>

#include "dispatch/recorder.hpp"
#include "interop/judgement.hpp"
#include "op_cases/op_cases.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;

std::string file_name(std::string title) {
  for (char& c : title)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return title;
}

/// Saves a model, and what it must give for these inputs. Returns why ONNX cannot say it, or "".
std::string write(const std::filesystem::path& folder, const std::string& title, const Signature& signature,
                  const std::map<std::string, Tensor>& inputs) {
  const std::string name = file_name(title);
  try {
    onnx::save((folder / (name + ".onnx")).string(), signature);
  } catch (const UnimplementedError& error) {
    return error.message();
  }
  Judgement judgement(folder / (name + ".judge.pb"));
  judgement.add("title", title);
  Feeds feeds;
  for (const auto& [input, value] : inputs) {
    judgement.feed(input, value);
    feeds.add(signature.inputs.at(input), value);
  }
  const Session session(signature.outputs.begin()->second.op().graph());
  for (const auto& [output, value] : session.run(signature.outputs, feeds)) judgement.fetch(output, value);
  judgement.save();
  return {};
}

/// A row of the op table, traced: its value, or that and its gradients.
std::string write_row(const std::filesystem::path& folder, const std::string& title, const OpCase& row,
                      const Inputs& inputs, bool gradients, bool unknown_batch) {
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) {
    Shape shape = input.shape();
    if (unknown_batch && shape.rank() > 0) shape.set(0, -1);
    specs.push_back(spec(input.dtype(), shape));
  }
  const auto traced =
      trace([&](const Inputs& x) { return gradients ? value_and_gradients(row, x) : Inputs{row.f(x)}; }, specs);
  Signature signature;
  std::map<std::string, Tensor> values;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    signature.inputs.emplace(detail::join('x', i), traced.input(i));
    values.emplace(detail::join('x', i), inputs[i]);
  }
  for (std::size_t i = 0; i < traced.outputs().size(); ++i)
    signature.outputs.emplace(i == 0 ? "y" : detail::join("gradient", i), traced.output(i));
  return write(folder, title, signature, values);
}

Inputs in_single_precision(const Inputs& inputs) {
  Inputs result;
  for (const Tensor& each : inputs) result.push_back(each.dtype() == float64 ? each.cast(float32) : each);
  return result;
}

/// Traced, with Variables: convolution, pooling, two dense layers.
void write_network(const std::filesystem::path& folder) {
  random::NumpyLegacy numbers(7);
  const auto draw = [&](const Shape& shape) {
    const ExecuteNow now;
    return numbers.randn(shape).cast(float32);
  };
  Variable filter(draw({3, 3, 1, 4}), {.name = "filter"}), w(draw({36, 10}), {.name = "w"}), b(draw({10}));
  const auto predict = trace(
      [&](const Tensor& x) {
        const Tensor pooled =
            max_pool2d(relu(conv2d(x, filter, {.strides = 2, .padding = "SAME"})), {.padding = "SAME"});
        const Tensor logits = matmul(reshape(pooled, {-1, 36}), w) + b;
        return std::tuple{softmax(logits), argmax(logits, -1)};
      },
      {spec(float32, {-1, 11, 11, 1}, "x")});
  const std::string problem = write(folder, "a network",
                                    {.inputs = {{"images", predict.input()}},
                                     .outputs = {{"scores", predict.output(0)}, {"class", predict.output(1)}}},
                                    {{"images", draw({5, 11, 11, 1})}});
  if (!problem.empty()) throw InternalError(problem);
}

}  // namespace

int write_onnx_models(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  write_network(folder);
  int count = 1;
  for (const OpCase& row : op_cases()) {
    std::string problem = write_row(folder, row.name + " (float64)", row, row.inputs, false, false);
    if (!problem.empty()) {
      std::cout << "not for ONNX: " << row.name << ": " << problem << '\n';
      continue;
    }
    const Inputs single = in_single_precision(row.inputs);
    write_row(folder, row.name + " (float32)", row, single, false, false);
    count += 2;
    // The rank of what a squeeze without axes gives depends on the batch size.
    if (!row.inputs.empty() && row.name != "squeeze") {
      problem = write_row(folder, row.name + " (unknown batch size)", row, single, false, true);
      if (problem.empty())
        ++count;
      else
        std::cout << "not for ONNX: " << row.name << " of an unknown batch size: " << problem << '\n';
    }
    if (row.orders == 0) continue;
    problem = write_row(folder, row.name + " (gradients)", row, row.inputs, true, false);
    if (problem.empty())
      ++count;
    else
      std::cout << "not for ONNX: the gradient of " << row.name << ": " << problem << '\n';
  }
  return count;
}

}  // namespace tapestry::test

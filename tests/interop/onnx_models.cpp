#include "interop/onnx_models.hpp"

#include <cmath>
#include <iostream>
#include <limits>

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
  return write_onnx_model(folder, title, signature, values);
}

/// What the rows do not have: whole numbers of both signs, and numbers at the ends of the functions' ranges.
OpCases more_cases() {
  OpCases rows;
  const auto add = [&](std::string name, Inputs inputs, const std::function<Inputs(const Inputs&)>& f) {
    rows.push_back({.name = std::move(name),
                    .inputs = std::move(inputs),
                    .f =
                        [f](const Inputs& x) {
                          Inputs flat;
                          const DType dtype = is_floating(x[0].dtype()) ? x[0].dtype() : float64;
                          for (const Tensor& each : f(x)) flat.push_back(reshape(each, {-1}).cast(dtype));
                          return concat(flat);
                        },
                    .orders = 0});
  };
  for (const DType dtype : {int32, int64}) {
    const Tensor a = tensor({-7, -6, -1, 0, 1, 5, 6, 7}).cast(dtype),
                 b = tensor({2, -3, 4, -5, 3, 5, -4, -2}).cast(dtype);
    add(to_string(dtype), {a, b}, [](const Inputs& x) -> Inputs {
      const Tensor &p = x[0], &q = x[1], square_p = reshape(p, {2, 4});
      return {p + q,
              p - q,
              p * q,
              floor_divide(p, q),
              mod(p, q),
              power(p, abs(q)),
              maximum(p, q),
              minimum(p, q),
              negative(p),
              sign(p),
              square(p),
              relu(p),
              clip(p, -2, 3),
              less(p, q),
              less_equal(p, q),
              greater(p, q),
              greater_equal(p, q),
              equal(p, q),
              not_equal(p, q),
              where(less(p, q), p, q),
              matmul(square_p, reshape(q, {4, 2})),
              cumsum(p, 0, {.exclusive = true}),
              reduce_sum(square_p, 0),
              reduce_max(square_p, 1),
              reduce_min(square_p),
              reduce_prod(square_p, {0}, {.keep_dims = true}),
              argmax(square_p, 1),
              reduce_any(greater(square_p, 5), 1),
              reduce_all(less(square_p, 5), 1),
              zeros_like(p),
              sum_like(square_p, reshape(slice(p, {0}, {4}), {4}))};
    });
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = tensor<double>({-infinity, -50, -3, -0.75, -1e-9, 0, 1e-9, 0.75, 3, 50, infinity});
  add("special numbers", {x}, [](const Inputs& inputs) -> Inputs {
    const Tensor& a = inputs[0];
    return {expm1(minimum(a, 3.0)),
            log1p(maximum(a, -1.0)),
            tanh(a),
            sigmoid(a),
            relu(a),
            elu(a),
            softplus(clip(a, -50.0, 50.0)),
            is_finite(a),
            is_nan(a - a),
            round(a),
            floor(a),
            xlogy(relu(a), relu(a) + 1.0),
            divide_no_nan(clip(a, -9.0, 9.0), round(clip(a, -9.0, 9.0))),
            clip(a, -1.0, 2.0)};
  });
  const Tensor signs = tensor<double>({{-3, 2}, {3, -2}, {-3, -2}, {3, 2}, {2, 0}, {-2, 0}, {0, 0}, {0, 1}, {4, -2}});
  add("all quadrants", {signs}, [](const Inputs& inputs) -> Inputs {
    const std::vector<Tensor> columns = unstack(inputs[0], 1);
    const Tensor &y = columns[0], &x_or_one = columns[1], divisor = where(equal(x_or_one, 0.0), 1.5, x_or_one);
    return {atan2(y, x_or_one), mod(y, divisor), floor_divide(y, divisor)};
  });
  return rows;
}

/// Bytes, convolution, pooling, a dense layer.
void write_image_network(const std::filesystem::path& folder) {
  random::NumpyLegacy numbers(7);
  const Variable filter(draw(numbers, {3, 3, 1, 4}), {.name = "filter"}), w(draw(numbers, {36, 10}), {.name = "w"}),
      b(draw(numbers, {10}), {.name = "b"});
  const auto predict = trace(
      [&](const Tensor& x) {
        const Tensor hidden = relu(conv2d(x.cast(float32) / 255.0, filter, {.strides = 2, .padding = "SAME"}));
        const Tensor logits = matmul(reshape(max_pool2d(hidden, {.padding = "SAME"}), {-1, 36}), w) + b;
        return std::tuple{softmax(logits), argmax(logits, -1)};
      },
      {spec(uint8, {-1, 11, 11, 1}, "x")});
  const std::string problem =
      write_onnx_model(folder, "a network for images",
                       {.inputs = {{"images", predict.input()}},
                        .outputs = {{"scores", predict.output(0)}, {"class", predict.output(1)}}},
                       {{"images", clip(draw(numbers, {5, 11, 11, 1}) * 50.0 + 128.0, 0.0, 255.0).cast(uint8)}});
  if (!problem.empty()) throw InternalError(problem);
}

/// A block of a transformer, for batches and texts of any length, with a mask.
void write_text_network(const std::filesystem::path& folder) {
  random::NumpyLegacy numbers(8);
  const Variable table(draw(numbers, {20, 8})), query(draw(numbers, {8, 8})), key(draw(numbers, {8, 8})),
      value(draw(numbers, {8, 8})), scale(draw(numbers, {8})), offset(draw(numbers, {8})), w(draw(numbers, {8, 16})),
      v(draw(numbers, {16, 8}));
  const auto predict = trace(
      [&](const Tensor& ids, const Tensor& padding) {
        const Tensor x = embedding_lookup(table, ids), normal = layer_norm(x, scale, offset);
        const Tensor scores =
            matmul(matmul(normal, query), matmul(normal, key), {.transpose_b = true}) / std::sqrt(8.0);
        const Tensor weights = softmax(where(expand_dims(padding, 1), -1e9, scores));
        const Tensor attended = x + matmul(weights, matmul(normal, value));
        return attended + matmul(gelu(matmul(layer_norm(attended, scale, offset), w)), v);
      },
      {spec(int32, {-1, -1}, "ids"), spec(boolean, {-1, -1}, "padding")});
  const std::string problem = write_onnx_model(
      folder, "a network for texts",
      {.inputs = {{"ids", predict.input(0)}, {"padding", predict.input(1)}}, .outputs = {{"y", predict.output()}}},
      {{"ids", tensor({{1, 5, 19, 0}, {7, 7, 2, 3}}).cast(int32)},
       {"padding", tensor({{false, false, false, true}, {false, false, true, true}})}});
  if (!problem.empty()) throw InternalError(problem);
}

}  // namespace

std::string write_onnx_model(const std::filesystem::path& folder, const std::string& title, const Signature& signature,
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

int write_onnx_models(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  write_image_network(folder);
  write_text_network(folder);
  int count = 2 + write_onnx_flow_models(folder);
  OpCases rows = op_cases();
  for (OpCase& each : more_cases()) rows.push_back(std::move(each));
  for (const OpCase& row : rows) {
    const Inputs single = converted(row.inputs, float32);
    for (const bool gradients : {false, true}) {
      if (gradients && row.orders == 0) continue;
      const std::string name = gradients ? "the gradients of " + row.name : row.name;
      const auto write_it = [&](const std::string& variant, const Inputs& inputs, bool unknown_batch) {
        const std::string title = detail::join(name, " (", variant, ")");
        const std::string problem = write_row(folder, title, row, inputs, gradients, unknown_batch);
        count += problem.empty();
        if (!problem.empty()) std::cout << "not for ONNX: " << title << ": " << problem << '\n';
        return problem.empty();
      };
      if (!write_it("float64", row.inputs, false)) continue;
      write_it("float32", single, false);
      for (const DType dtype : {float16, bfloat16}) write_it(to_string(dtype), converted(row.inputs, dtype), false);
      // The rank of what a squeeze without axes gives depends on the batch size.
      if (!row.inputs.empty() && row.name != "squeeze") write_it("unknown batch size", single, true);
    }
  }
  return count;
}

}  // namespace tapestry::test

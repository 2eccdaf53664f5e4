// Random nodes of all ops of ONNX over a few values, and graphs that Tapestry has written, damaged field by field.

#include <fstream>
#include <iterator>

#include "fuzz/mutants.hpp"
#include "fuzz/wire_damage.hpp"
#include "io/onnx/onnx_ops.hpp"
#include "onnx_builder.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test {
namespace {

using namespace onnx_file;

/// What a model may cost: enough for every sound one.
constexpr GraphLimits limits{.bytes = 16 << 20, .elements = 1 << 16, .nodes = 1 << 12, .time_in_ms = 200};

const std::vector<std::string>& all_ops() {
  static const auto& names = *new std::vector<std::string>([] {
    std::vector<std::string> list{"If", "Loop", "Scan", "Constant", "Unknown"};
    for (const io::OnnxOps& table :
         {io::onnx_elementwise(), io::onnx_arrays(), io::onnx_indexing(), io::onnx_reductions(), io::onnx_images(),
          io::onnx_networks(), io::onnx_recurrent(), io::onnx_sequences()})
      for (const io::OnnxOp& each : table) list.emplace_back(each.name);
    return list;
  }());
  return names;
}

/// Attributes that many ops have, with values that may fit.
Attribute any_attribute(Dice& dice) {
  using List = std::vector<std::int64_t>;
  constexpr auto numbers = std::to_array<const char*>({"axis",
                                                       "keepdims",
                                                       "group",
                                                       "to",
                                                       "num_outputs",
                                                       "hidden_size",
                                                       "batch_dims",
                                                       "blocksize",
                                                       "ceil_mode",
                                                       "k",
                                                       "largest",
                                                       "upper",
                                                       "num_groups",
                                                       "size",
                                                       "allowzero",
                                                       "start",
                                                       "end",
                                                       "training_mode",
                                                       "layout",
                                                       "dtype",
                                                       "time_axis",
                                                       "batch_axis",
                                                       "num_scan_inputs",
                                                       "count_include_pad",
                                                       "storage_order",
                                                       "p",
                                                       "antialias"});
  constexpr auto lists = std::to_array<const char*>({"axes", "perm", "pads", "strides", "dilations", "kernel_shape",
                                                     "output_shape", "output_padding", "split", "shape", "starts",
                                                     "ends", "scan_input_axes", "scan_input_directions"});
  constexpr auto texts =
      std::to_array<std::pair<const char*, const char*>>({{"mode", "linear"},
                                                          {"mode", "edge"},
                                                          {"mode", "reflect"},
                                                          {"mode", "cubic"},
                                                          {"auto_pad", "SAME_UPPER"},
                                                          {"auto_pad", "SAME_LOWER"},
                                                          {"direction", "bidirectional"},
                                                          {"reduction", "add"},
                                                          {"equation", "ij,jk->ik"},
                                                          {"equation", "...i->i"},
                                                          {"coordinate_transformation_mode", "align_corners"},
                                                          {"direction", "reverse"}});
  constexpr auto reals = std::to_array<const char*>({"alpha", "beta", "epsilon", "momentum", "ratio", "min", "max"});
  switch (dice.below(4)) {
    case 0:
      return {dice.of(numbers), dice.one_in(6) ? dice.number() : static_cast<std::int64_t>(dice.below(4)) - 1};
    case 1: {
      List list;
      for (std::size_t i = dice.below(5); i > 0; --i)
        list.push_back(dice.one_in(10) ? dice.number() : static_cast<std::int64_t>(dice.below(4)));
      return {dice.of(lists), list};
    }
    case 2: {
      const auto& [name, text] = dice.of(texts);
      return {name, std::string(text)};
    }
    default:
      return {dice.of(reals), static_cast<float>(dice.below(5)) - 1};
  }
}

/// A graph of some nodes over inputs and initializers of several shapes and types.
std::string random_model(Dice& dice) {
  GraphParts parts;
  std::vector<std::string> names{""};
  const auto add_input = [&](const std::string& name, DType dtype, const Shape& shape) {
    parts.inputs.push_back(value_info(name, dtype, shape));
    names.push_back(name);
  };
  const auto add_value = [&](const std::string& name, const Tensor& value) {
    parts.initializers.push_back(initializer(name, value));
    names.push_back(name);
  };
  add_input("image", float32, dice.one_in(2) ? Shape{2, 4, 5, 5} : Shape{-1, 4, -1, 5});
  add_input("rows", float32, dice.one_in(2) ? Shape{3, 4} : Shape{-1, 4});
  add_input("steps", float32, {3, 2, 4});
  add_input("index", int64, dice.one_in(2) ? Shape{3} : Shape::unknown_rank());
  add_value("filter", ones({4, 4, 3, 3}));
  add_value("matrix", ones({4, 4}));
  add_value("row", ones({4}));
  add_value("pair", tensor<std::int64_t>({1, 2}));
  add_value("sizes", tensor<std::int64_t>({0, -1}));
  add_value("one", tensor<std::int64_t>(dice.one_in(3) ? dice.number() : 1));
  add_value("half", tensor<float>(0.5F));
  add_value("yes", tensor(true));
  const std::size_t count = 1 + dice.below(6);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string op = dice.of(all_ops());
    std::vector<std::string> inputs;
    for (std::size_t k = dice.below(4); k > 0; --k)
      inputs.push_back(dice.one_in(2) && i > 0 ? detail::join('v', dice.below(i)) : dice.of(names));
    if (op != "Constant" && inputs.empty()) inputs.push_back(dice.of(names));
    std::vector<Attribute> attributes;
    for (std::size_t k = dice.below(4); k > 0; --k) attributes.push_back(any_attribute(dice));
    if (op == "If" || op == "Loop" || op == "Scan") {
      // A function of what the loop gives it, and of what is around it.
      GraphParts body;
      for (std::size_t k = 0; k < (op == "If" ? 0 : inputs.size()); ++k)
        body.inputs.push_back(value_info(detail::join("in", k), k == 0 ? int64 : float32, Shape::unknown_rank()));
      body.nodes.push_back(node(dice.one_in(2) ? "Add" : dice.of(all_ops()), {"row", "row"}, {"out0"}));
      body.nodes.push_back(node("Identity", {dice.one_in(2) ? "yes" : "half"}, {"out1"}));
      for (std::size_t k = 0; k < 1 + dice.below(3); ++k)
        body.outputs.push_back(value_info(detail::join("out", k % 2), float32, Shape::unknown_rank()));
      const std::string inner = graph(body);
      if (op == "If") {
        attributes.push_back({"then_branch", {}, inner});
        attributes.push_back({"else_branch", {}, inner});
      } else {
        attributes.push_back({"body", {}, inner});
        attributes.push_back({"num_scan_inputs", static_cast<std::int64_t>(1)});
      }
    }
    const std::size_t colons = op.find("::");
    std::vector<std::string> outputs{detail::join('v', i)};
    if (dice.one_in(5)) outputs.push_back(detail::join('w', i));
    parts.nodes.push_back(node(colons == std::string::npos ? op : op.substr(colons + 2), inputs, outputs, attributes,
                               colons == std::string::npos ? "" : op.substr(0, colons)));
    parts.outputs.push_back(value_info(outputs[0], float32, Shape::unknown_rank()));
  }
  return model_bytes(parts, dice.one_in(3) ? 7 + static_cast<std::int64_t>(dice.below(16)) : 17);
}

template <class F>
std::string written(const TemporaryFolder& folder, const F& f, std::size_t inputs) {
  Signature signature{.inputs = {}, .outputs = {{"y", f.output()}}};
  for (std::size_t i = 0; i < inputs; ++i) signature.inputs.emplace(detail::join('x', i), f.input(i));
  onnx::save(folder / "seed.onnx", signature);
  std::ifstream file(folder / "seed.onnx", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Networks, branches and loops as Tapestry writes them.
const std::vector<std::string>& onnx_seeds() {
  static const auto& seeds = *new std::vector<std::string>([] {
    const TemporaryFolder folder;
    const Variable w(ones({3}), {.name = "w"}), filter(ones({3, 3, 2, 4}), {.name = "filter"});
    std::vector<std::string> list;
    list.push_back(written(folder,
                           trace([&](Tensor x) { return max_pool2d(relu(conv2d(x, filter, {.padding = "SAME"}))); },
                                 {spec(float32, {-1, 4, 4, 2})}),
                           1));
    list.push_back(
        written(folder, trace([&](Tensor x) { return softmax(layer_norm(x, w, w)); }, {spec(float32, {-1, 3})}), 1));
    list.push_back(written(folder,
                           trace(
                               [&](Tensor x) {
                                 return cond(
                                     less(reduce_sum(x), 1.0F), [&] { return x * w; }, [&] { return sin(x); });
                               },
                               {spec(float32, {-1, 3})}),
                           1));
    list.push_back(written(folder,
                           trace(
                               [&](Tensor x) {
                                 return while_loop([](Tensor s) { return less(reduce_max(s), 9.0F); },
                                                   [&](Tensor s) { return s * 2.0F + w; }, x,
                                                   {.maximum_iterations = 5});
                               },
                               {spec(float32, {-1, 3})}),
                           1));
    list.push_back(written(folder,
                           trace(
                               [&](Tensor x) {
                                 return std::get<1>(scan(
                                     [&](Tensor h, Tensor e) {
                                       const Tensor next = tanh(h * w + e);
                                       return std::tuple{next, next * e};
                                     },
                                     zeros({3}), x));
                               },
                               {spec(float32, {4, 3})}),
                           1));
    return list;
  }());
  return seeds;
}

std::string make_onnx_mutant(Dice& dice) {
  std::string bytes = dice.one_in(3) ? dice.of(onnx_seeds()) : random_model(dice);
  if (dice.one_in(2))
    for (std::size_t count = 1 + dice.below(3); count > 0; --count) bytes = damage_onnx_field(bytes, dice);
  if (dice.one_in(64)) bytes = dice.damaged(bytes);
  return bytes;
}

/// Runs each output by itself, so that one that is refused hides no other; trains, and writes the model again.
bool use_onnx(const std::string& bytes, Dice& dice) {
  const TemporaryFolder folder;
  std::ofstream(folder / "model.onnx", std::ios::binary) << bytes;
  std::optional<Model> model;
  try {
    model = onnx::load(folder / "model.onnx", limits);
  } catch (const Error&) {
    return false;
  }
  const Graph graph = model->graph();
  Feeds feeds, named;
  try {
    for (const auto& [name, input] : model->signature().inputs) {
      Shape shape = input.shape().has_rank() ? input.shape() : Shape{2};
      for (int axis = 0; axis < shape.rank(); ++axis)
        if (!shape[axis].is_known()) shape.set(axis, 1 + static_cast<std::int64_t>(dice.below(3)));
      if (shape.num_elements() < 0 || shape.num_elements() > limits.elements) return true;
      const Tensor value = ones(shape, {.dtype = input.dtype() == DType::unknown ? float32 : input.dtype()});
      feeds.add(input, value);
      named.add(name, value);
    }
  } catch (const Error&) {
    return true;
  }
  const Session session(graph, {.optimize = !dice.one_in(4)});
  for (const auto& [name, output] : model->signature().outputs) {
    try {
      session.run(output, feeds);
    } catch (const Error&) {
      // This is how a session says no.
    }
  }
  try {
    GradientTape tape;
    std::vector<Tensor> sums;
    for (const Tensor& each : (*model)(named))
      if (is_floating(each.dtype())) sums.push_back(reduce_sum(each));
    if (!sums.empty()) tape.gradient(TensorList(sums), model->parameters(), {.unconnected = Unconnected::zero});
  } catch (const Error&) {
    // An op that is refused, or has no gradient.
  }
  try {
    onnx::save(folder / "again.onnx", *model);
    onnx::load(folder / "again.onnx", limits);
  } catch (const Error&) {
    // Sizes that are not known yet are not written.
  }
  return true;
}

}  // namespace

Mutants onnx_mutants() { return {.name = "mutate_onnx", .make = make_onnx_mutant, .use = use_onnx}; }

}  // namespace tapestry::test

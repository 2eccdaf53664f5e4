// The attribute "_output_shapes" of what graphs are saved as: TensorFlow refuses a file in which it does not have one
// shape for each output of TensorFlow's own op.

#include <filesystem>
#include <memory>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::output_shapes_test {
namespace {

/// How many outputs TensorFlow's op has, by its definition.
std::size_t outputs_of(const io::NodeDef& def) {
  const auto number = [&](const char* attr) {
    return static_cast<std::size_t>(std::get<std::int64_t>(def.attrs.at(attr)));
  };
  static const std::map<std::string, std::size_t> fixed{{"NoOp", 0},
                                                        {"AssignVariableOp", 0},
                                                        {"AssignAddVariableOp", 0},
                                                        {"AssignSubVariableOp", 0},
                                                        {"BroadcastGradientArgs", 2},
                                                        {"TopKV2", 2},
                                                        {"SoftmaxCrossEntropyWithLogits", 2},
                                                        {"SparseSoftmaxCrossEntropyWithLogits", 2},
                                                        {"Svd", 3},
                                                        {"LogMatrixDeterminant", 2},
                                                        {"Qr", 2},
                                                        {"SelfAdjointEigV2", 2},
                                                        {"FusedBatchNorm", 5},
                                                        {"BatchNormWithGlobalNormalizationGrad", 5},
                                                        {"FusedBatchNormGrad", 5},
                                                        {"FusedBatchNormGradV2", 5},
                                                        {"FusedBatchNormGradV3", 5},
                                                        {"AllCandidateSampler", 3},
                                                        {"DenseToSparseSetOperation", 3},
                                                        {"ListDiff", 2},
                                                        {"Lu", 2},
                                                        {"MaxPoolWithArgmax", 2},
                                                        {"Merge", 2},
                                                        {"RaggedRange", 2},
                                                        {"RaggedTensorToSparse", 3},
                                                        {"SparseCross", 3},
                                                        {"SparseToSparseSetOperation", 3},
                                                        {"StatelessRandomGetKeyCounter", 2},
                                                        {"Switch", 2},
                                                        {"SparseReorder", 2},
                                                        {"_FusedBatchNormEx", 6},
                                                        {"CombinedNonMaxSuppression", 4},
                                                        {"TopK", 2},
                                                        {"Unique", 2},
                                                        {"UniqueV2", 2},
                                                        {"UniqueWithCounts", 3},
                                                        {"FusedBatchNormV2", 5},
                                                        {"FusedBatchNormV3", 6}};
  if (const auto found = fixed.find(def.op); found != fixed.end()) return found->second;
  if (def.op.starts_with("ResourceApply")) return 0;
  if (def.op == "Split" || def.op == "SplitV") return number("num_split");
  if (def.op == "Unpack") return number("num");
  if (def.op == "CTCBeamSearchDecoder") return 3 * number("top_paths") + 1;
  if (def.op == "RaggedGather") return number("OUTPUT_RAGGED_RANK") + 1;
  if (def.op == "ConcatOffset" || def.op == "ShapeN") return number("N");
  if (def.op == "IdentityN") return std::get<io::ListDef>(def.attrs.at("T")).types.size();
  return 1;
}

/// Checks each node of a file; returns how many have the attribute.
int check_file(const std::string& bytes) {
  int count = 0;
  for (const io::NodeDef& def : io::decode(bytes).nodes) {
    const auto found = def.attrs.find("_output_shapes");
    if (found == def.attrs.end()) continue;
    ++count;
    INFO(def.name, ", ", def.op);
    const std::vector<Shape>& shapes = std::get<io::ListDef>(found->second).shapes;
    REQUIRE(shapes.size() == outputs_of(def));
    if (def.op == "Const") CHECK(shapes[0] == std::get<io::TensorDef>(def.attrs.at("value")).value.shape());
    if (def.op == "Placeholder" || def.op == "VariableV2") CHECK(shapes[0] == std::get<Shape>(def.attrs.at("shape")));
    if (def.op == "VarHandleOp") CHECK(shapes[0] == Shape{});
  }
  return count;
}

constexpr VariableStyle styles[] = {VariableStyle::resource, VariableStyle::reference, VariableStyle::frozen};

}  // namespace

TEST_CASE("over the op table: one shape for each output of TensorFlow's op") {
  for (const OpCase& row : op_cases())
    for (const bool unknown_batch : {false, true}) {
      if (unknown_batch && row.name == "squeeze") continue;
      INFO(row.name, unknown_batch ? ", unknown batch" : "");
      std::vector<TensorSpec> specs;
      for (const Tensor& input : row.inputs) {
        Shape shape = input.shape();
        if (unknown_batch && shape.rank() > 0) shape.set(0, -1);
        specs.push_back(spec(input.dtype(), shape));
      }
      const auto traced = trace([&](const std::vector<Tensor>& x) { return value_and_gradients(row, x); }, specs);
      CHECK(check_file(traced.graph().as_graph_def({.output_shapes = true})) > 0);
    }
}

TEST_CASE("of each optimizer, in each style") {
  using namespace train;
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  optimizers.push_back(std::make_unique<GradientDescentOptimizer>(0.5, GradientDescentOptions{.weight_decay = 0.01}));
  optimizers.push_back(std::make_unique<MomentumOptimizer>(0.1, 0.9));
  optimizers.push_back(std::make_unique<MomentumOptimizer>(0.1, 0.9, MomentumOptions{true, 0.01}));
  optimizers.push_back(std::make_unique<AdamOptimizer>(0.05));
  optimizers.push_back(std::make_unique<AdamWOptimizer>(0.05));
  optimizers.push_back(std::make_unique<RMSPropOptimizer>(0.05, RMSPropOptions{0.8, 0.5, 0.001, 0.01}));
  optimizers.push_back(std::make_unique<AdagradOptimizer>(0.1));
  for (const auto& optimizer : optimizers)
    for (const DType dtype : {float32, float64}) {
      const Tensor weights = ones({3, 2}, {.dtype = dtype}), bias = zeros({2}, {.dtype = dtype});
      const Graph graph;
      const auto open = graph.as_default();
      const Tensor x = placeholder(dtype, {-1, 3}, "x"), labels = placeholder(dtype, {-1, 2}, "labels");
      const Variable w(weights, {.name = "w"}), b(bias, {.name = "b"});
      const Variable global_step(0, {.name = "global_step", .trainable = false, .dtype = int64});
      const Tensor loss = reduce_mean(softmax_cross_entropy(labels, matmul(x, w) + b));
      optimizer->minimize(loss, {}, {.global_step = global_step});
      global_variables_initializer();
      for (const VariableStyle style : styles) {
        const std::string bytes = graph.as_graph_def({.variables = style, .output_shapes = true});
        CHECK(check_file(bytes) > 0);
        CHECK_NOTHROW(Graph::from_graph_def(bytes));
      }
    }
}

TEST_CASE("of what other programs have written, nodes included that are kept as they are") {
  int written = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GOLDEN_FILES)) {
    const std::string path = entry.path();
    if (path.ends_with(".expected.pb") || !(path.ends_with(".pb") || path.ends_with(".pbtxt"))) continue;
    CAPTURE(path);
    const Graph graph = Graph::load(path);
    for (const VariableStyle style : styles) {
      std::string bytes;
      try {
        bytes = graph.as_graph_def({.variables = style, .output_shapes = true});
      } catch (const UnimplementedError&) {
        continue;  // what has no type yet
      } catch (const FailedPreconditionError&) {
        continue;  // Variables without values have no fixed ones
      }
      CHECK(check_file(bytes) > 0);
      ++written;
    }
  }
  CHECK(written > 20);
  const Graph kept = Graph::from_graph_def(io::from_text(R"(
      node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
             attr { key: "shape" value { shape { unknown_rank: true } } } }
      node { name: "one" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
             attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 1 } } } }
      node { name: "y" op: "FusedBatchNormV3" input: ["x", "one", "one", "one", "one"]
             attr { key: "T" value { type: DT_FLOAT } } attr { key: "U" value { type: DT_FLOAT } }
             attr { key: "is_training" value { b: false } } })"));
  CHECK(check_file(kept.as_graph_def({.output_shapes = true})) == 3);
  const auto shape = Session(kept).run("y:0", {{"x:0", ones({1, 2, 2, 2})}}).shape();
  CHECK(shape == Shape{1, 2, 2, 2});
}

}  // namespace tapestry::test::output_shapes_test

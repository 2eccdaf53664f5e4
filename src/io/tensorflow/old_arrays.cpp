#include "io/tensorflow/old_arrays.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/node_adder.hpp"

namespace tapestry::io {
namespace {

/// The ops without their versions.
constexpr auto kinds = std::to_array<std::string_view>(
    {"TensorArray", "TensorArrayClose", "TensorArrayConcat", "TensorArrayGather", "TensorArrayGrad", "TensorArrayRead",
     "TensorArrayScatter", "TensorArraySize", "TensorArraySplit", "TensorArrayWrite"});

bool is_old(const NodeDef& node) {
  std::string_view op = node.op;
  if (op == "TensorArrayPack" || op == "TensorArrayUnpack") return true;
  if (op.ends_with("V2")) op.remove_suffix(2);
  return std::find(kinds.begin(), kinds.end(), op) != kinds.end();
}

class Renamer {
 public:
  explicit Renamer(GraphDef& graph) : graph_(graph) {
    for (const NodeDef& each : graph.nodes) names_.insert(each.name);
  }

  void run() {
    for (NodeDef& each : graph_.nodes) {
      if (each.op == "TensorArrayPack" && data_inputs(each) == 2) {
        gather_all(each);
      } else if (each.op == "TensorArrayUnpack" && data_inputs(each) == 3) {
        scatter_all(each);
      } else if (is_old(each)) {
        if (each.op.ends_with("V2")) each.op.resize(each.op.size() - 2);
        each.op += "V3";
      }
      if (each.op == "TensorArrayV3") arrays_.insert(each.name);
    }
    for (NodeDef& each : graph_.nodes)
      if (each.op == "Const" && each.inputs.size() == 1 && arrays_.contains(producer_name(each.inputs[0])))
        take_flow(each);
    std::move(added_.begin(), added_.end(), std::back_inserter(graph_.nodes));
  }

 private:
  NodeAdder adder(const NodeDef& node) { return NodeAdder(added_, names_, node.name + "/_/", node.device); }

  static std::string range(NodeAdder& add, const std::string& count) {
    return add.op("Range", {add.number("start", 0), count, add.number("step", 1)}, {{"Tidx", code_of(int32)}});
  }
  static void insert(NodeDef& node, std::ptrdiff_t at, std::string input) {
    node.inputs.insert(node.inputs.begin() + at, std::move(input));
  }

  void gather_all(NodeDef& node) {
    NodeAdder add = adder(node);
    const std::string count = add.op("TensorArraySizeV3", {node.inputs[0], node.inputs[1]}, {});
    insert(node, 1, range(add, count));
    node.op = "TensorArrayGatherV3";
  }

  void scatter_all(NodeDef& node) {
    NodeAdder add = adder(node);
    const auto* type = attr_of<TypeCode>(node, "T");
    if (!type) return;
    const std::string sizes = add.op("Shape", {node.inputs[1]}, {{"T", *type}, {"out_type", code_of(int32)}});
    const std::string count =
        add.op("StridedSlice", {sizes, first(add, "begin", 0), first(add, "end", 1), first(add, "step", 1)},
               {{"T", code_of(int32)}, {"Index", code_of(int32)}, {"shrink_axis_mask", std::int64_t{1}}}, "count");
    insert(node, 1, range(add, count));
    node.op = "TensorArrayScatterV3";
  }
  static std::string first(NodeAdder& add, std::string_view label, std::int64_t value) {
    return add.shape(label, Shape{value});
  }

  /// A constant that waits for an array, and is not used for itself: the flow before anything is written.
  void take_flow(NodeDef& constant) {
    const auto* value = attr_of<TensorDef>(constant, "value");
    if (!value || !bool(value->value) || value->value.dtype() != float32 || value->value.rank() != 0) return;
    constant.op = "Identity";
    constant.inputs = {producer_name(constant.inputs[0]) + ":1"};
    constant.attrs = {{"T", code_of(float32)}};
  }

  GraphDef& graph_;
  FileNames names_;
  std::unordered_set<std::string> arrays_;
  std::vector<NodeDef> added_;
};

}  // namespace

void rename_old_arrays(GraphDef& graph) {
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), is_old)) Renamer(graph).run();
}

}  // namespace tapestry::io

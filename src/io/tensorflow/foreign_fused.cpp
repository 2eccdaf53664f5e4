// What TensorFlow's optimizer fuses: a product or a normalization, and what is done with its result.

#include <algorithm>
#include <array>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

struct Fused {
  std::string_view op, first;  ///< the first of the ops that it stands for
  std::size_t inputs;          ///< of this
};
constexpr std::array fused_ops = std::to_array<Fused>({{"_FusedBatchNormEx", "FusedBatchNormV3", 5},
                                                       {"_FusedConv2D", "Conv2D", 2},
                                                       {"_FusedDepthwiseConv2dNative", "DepthwiseConv2dNative", 2},
                                                       {"_FusedMatMul", "MatMul", 2}});

/// The first of the nodes that a node stands for, with its inputs.
struct First {
  NodeDef def;
  std::vector<Source> sources{};
  Tensors inputs{};

  First(const NodeReader& reader, const Tensors& all) : def(reader.def()) {
    const Fused& fused = *std::find_if(fused_ops.begin(), fused_ops.end(),
                                       [&](const Fused& each) { return each.op == reader.def().op; });
    if (all.size() < fused.inputs) reader.refuse(detail::join("it has ", all.size(), " inputs"));
    def.name += "/_/first";
    def.op = fused.first;
    for (std::size_t i = 0; i < fused.inputs; ++i) {
      sources.push_back(reader.input(i));
      inputs.push_back(all[i]);
    }
  }
};

bool lacks_first_sizes(const NodeReader& reader, const Tensors& inputs) {
  const First first(reader, inputs);
  return lacks_sizes(NodeReader(first.def, first.sources), first.inputs);
}

Tensor activated(const ForeignNode& n, const Tensor& x, const std::string& op) {
  if (op == "Relu") return relu(x);
  if (op == "Relu6") return minimum(relu(x), 6);
  if (op == "Elu") return elu(x);
  if (op == "LeakyRelu") return leaky_relu(x, n.node.attr_or<float>("leakyrelu_alpha", 0.2F));
  if (op == "Tanh") return tanh(x);
  if (op == "Sigmoid") return sigmoid(x);
  if (op == "GeluExact" || op == "GeluApproximate") return gelu(x, op == "GeluApproximate");
  lack(n, "'" + op + "'");
}

Tensors read_fused_product(const ForeignNode& n) {
  const First first(n.node, n.inputs);
  const bool channels_first = n.node.attr_or<std::string>("data_format", "NHWC") == "NCHW";
  std::size_t next = first.inputs.size();
  const auto argument = [&]() -> const Tensor& {
    if (next >= n.inputs.size()) n.node.refuse(detail::join("it has ", n.inputs.size(), " inputs"));
    return n.in(next++);
  };
  const auto by_channel = [&] {
    const Tensor& list = argument();
    return channels_first ? reshape(list, {-1, 1, 1}) : list;
  };
  Tensor x = read_op(NodeReader(first.def, first.sources), first.inputs, n.where)[0];
  return n.composed([&] {
    for (const std::string& op : n.node.attr<ListDef>("fused_ops").strings) {
      if (op == "BiasAdd") {
        x = x + by_channel();
      } else if (op == "Add") {
        x = x + argument();
      } else if (op == "FusedBatchNorm") {
        const Tensor scale = by_channel(), offset = by_channel(), mean = by_channel(), variance = by_channel();
        const double epsilon = n.node.attr_or<float>("epsilon", 1e-4F);
        x = (x - mean) * (rsqrt(variance + epsilon) * scale) + offset;
      } else {
        x = activated(n, x, op);
      }
    }
    return x;
  });
}

Tensors read_fused_normalization(const ForeignNode& n) {
  const First first(n.node, n.inputs);
  const auto activation = n.node.attr_or<std::string>("activation_mode", "Identity");
  const bool has_side = n.node.attr_or<std::int64_t>("num_side_inputs", 0) > 0;
  if (has_side && n.inputs.size() != first.inputs.size() + 1) n.node.refuse("it lacks its side input");
  Tensors outputs = read_op(NodeReader(first.def, first.sources), first.inputs, n.where);
  outputs[0] = n.composed([&]() -> Tensor {
    const Tensor x = has_side ? outputs[0] + n.in(first.inputs.size()) : outputs[0];
    return activation == "Identity" ? identity(x) : activated(n, x, activation);
  })[0];
  return outputs;
}

}  // namespace

ForeignOps foreign_fused() {
  ForeignOps ops;
  for (const Fused& each : fused_ops) {
    const bool normalizes = each.first == "FusedBatchNormV3";
    ops.push_back({.name = each.op,
                   .inputs = -1,
                   .lacks_sizes = lacks_first_sizes,
                   .outputs = {like(0)},
                   .read = normalizes ? read_fused_normalization : read_fused_product});
    if (normalizes) ops.back().outputs.insert(ops.back().outputs.end(), 5, like(3));
  }
  return ops;
}

}  // namespace tapestry::io

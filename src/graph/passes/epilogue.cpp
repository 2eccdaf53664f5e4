#include <algorithm>
#include <array>
#include <optional>

#include "backend/backend.hpp"
#include "backend/program.hpp"
#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"
#include "graph/state_ops.hpp"
#include "ops/handles.hpp"

namespace tapestry::detail {
namespace {

/// The op of a matrix product and the program that follows it. Only plans have it.
const Op& product_op() {
  static const Op& op = *new Op{
      .name = "_FusedMatMul",
      .infer = program_specs,
      .forward =
          [](Backend& backend, const Call& call) {
            const Ints& way = call.attr<Ints>("way");
            const Backend::FusedProduct fused{.transpose_a = way[0] != 0,
                                              .transpose_b = way[1] != 0,
                                              .product = static_cast<std::size_t>(way[2]),
                                              .into = static_cast<std::size_t>(way[3])};
            const Tensors& inputs = call.inputs();
            backend.gemm_program(fused, inputs[0], inputs[1], *call.attr<ProgramRef>("program"),
                                 {inputs.begin() + 2, inputs.end()}, {call.outputs().begin(), call.outputs().size()});
          },
      .gradient = no_gradient,
      .outputs = -1,
      .busy =
          [](const Call& call) {
            return busy_with_product(call.input(0), call.attr<Ints>("way")[0] != 0, call.output());
          },
  };
  return op;
}

/// A product of fewer elements stays in the first-level cache anyway.
constexpr std::int64_t smallest_product = 4096;

/// The program that follows a product, and its inputs. The product is the input number `input`, and is written to the
/// output number `into`.
struct Epilogue {
  const Node* product;
  ProgramRef program;
  Tensors inputs;
  std::size_t input, into;
};

/// Whether the input and the output may share memory: no instruction reads the input after the output is written.
bool may_share(const Program& program, std::size_t input, std::size_t output) {
  bool written = false;
  for (const Program::Instruction& each : program.instructions) {
    const auto end = each.operands.begin() + operands_of(each.function);
    if (written && std::find(each.operands.begin(), end, input) != end) return false;
    written = written || each.result == program.inputs + output;
  }
  return written;
}

bool is_set(const Node& node, std::string_view name) {
  const bool* value = node.attrs().find<bool>(name);
  return value && *value;
}

class Joiner {
 public:
  explicit Joiner(const PlanGraph& plan)
      : plan_(plan),
        graph_(*plan.graph),
        rewrite_(plan),
        uses_(graph_.size()),
        first_wait_(graph_.size(), graph_.size()) {
    for (const Tensor& fetch : plan.fetches) ++uses_[endpoint_of(fetch).node->index];
    for (const Node* operation : plan.operations) ++uses_[operation->index];
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      std::vector<const Node*> producers;
      for (const Tensor& input : graph_.node(i).inputs()) producers.push_back(endpoint_of(input).node);
      std::sort(producers.begin(), producers.end());
      producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
      for (const Node* each : producers) ++uses_[each->index];
      for (const Node* each : graph_.node(i).control_inputs)
        first_wait_[each->index] = std::min(first_wait_[each->index], i);
    }
  }

  PlanGraph run() {
    std::vector<std::optional<Epilogue>> found(graph_.size());
    std::vector<char> joined(graph_.size());
    for (std::size_t i = 0; i < graph_.size(); ++i)
      if ((found[i] = epilogue_of(graph_.node(i)))) joined[found[i]->product->index] = 1;
    if (std::find(joined.begin(), joined.end(), 1) == joined.end()) return plan_;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      if (found[i]) {
        join(node, *found[i]);
      } else if (!joined[i]) {
        rewrite_.copy(node);
      }
    }
    return rewrite_.plan_like(plan_);
  }

 private:
  /// The node as the epilogue of the last large product that it reads and nothing else uses; empty if there is none.
  std::optional<Epilogue> epilogue_of(const Node& node) const {
    if (!node.attrs().find("program") && !may_be_fused(node)) return {};
    Epilogue epilogue{};
    epilogue.program = program_of(node, epilogue.inputs);
    for (std::size_t i = epilogue.inputs.size(); i-- > 0;) {
      const Tensor& input = epilogue.inputs[i];
      const Node& product = *endpoint_of(input).node;
      if (&product.op() != &ops::matmul || input.shape().num_elements() < smallest_product ||
          !is_floating(input.dtype()) || uses_[product.index] > 1 || first_wait_[product.index] < node.index ||
          plan_.device_of(product) != plan_.device_of(node) || product.device != node.device)
        continue;
      for (std::size_t k = 0; k < node.outputs().size(); ++k)
        if (node.output(k).spec() == input.spec() && may_share(*epilogue.program, i, k)) {
          epilogue.product = &product;
          epilogue.input = i;
          epilogue.into = k;
          return epilogue;
        }
    }
    return {};
  }

  void join(const Node& node, const Epilogue& epilogue) {
    const std::array group{epilogue.product, &node};
    rewrite_.build(group, [&] {
      Tensors inputs = rewrite_.inputs_of(*epilogue.product);
      for (std::size_t i = 0; i < epilogue.inputs.size(); ++i)
        if (i != epilogue.input) inputs.push_back(rewrite_.of(epilogue.inputs[i]));
      const Node& product = *epilogue.product;
      const Attrs attrs{
          {"program", epilogue.program},
          {"shape", node.output().shape()},
          {"way", Ints{is_set(product, "transpose_a"), is_set(product, "transpose_b"),
                       static_cast<std::int64_t>(epilogue.input), static_cast<std::int64_t>(epilogue.into)}}};
      Specs specs;
      for (const Tensor& output : node.outputs()) specs.push_back(output.spec());
      Tensors outputs{Tensor()};  // of the product: nothing else reads it
      for (const Tensor& output : rewrite_.add(product_op(), inputs, attrs, specs, node).outputs())
        outputs.push_back(output);
      return outputs;
    });
  }

  const PlanGraph& plan_;
  const GraphState& graph_;
  Rewrite rewrite_;
  std::vector<std::size_t> uses_;        ///< by node: how many nodes and fetches use it
  std::vector<std::size_t> first_wait_;  ///< by node: the first node that has it as a control input
};

}  // namespace

PlanGraph epilogue(const PlanGraph& plan) { return Joiner(plan).run(); }

}  // namespace tapestry::detail

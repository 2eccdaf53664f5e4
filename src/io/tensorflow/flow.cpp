#include "io/tensorflow/flow.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/make_tensor.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/nodes.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {
namespace {

constexpr std::array flow_ops =
    std::to_array<std::string_view>({"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"});

bool is_set(const NodeDef& node, std::string_view attr) {
  const auto found = node.attrs.find(attr);
  const auto* value = found == node.attrs.end() ? nullptr : std::get_if<bool>(&found->second);
  return value && *value;
}

/// Looks at one loop.
class LoopReader {
 public:
  LoopReader(const NodeDef& loop, const Nodes& around) : loop_(loop), around_(around), flow_(*loop.flow) {}

  Flow read() {
    is_taken_.resize(count());
    if (is_ours_) read_lacking_elements();
    count_uses();
    find_counters(Nodes(flow_.functions[0].graph));
    read_popped_lists();
    const Nodes body(flow_.functions[0].graph), condition(flow_.functions[1].graph);
    find_passed_on(body);
    if (is_ours_) find_condition(condition);
    count_uses();
    if (!has_own_condition_) find_iterations(condition);
    find_stacked(body);
    find_sequences(body);
    classify();
    return std::move(flow_);
  }

 private:
  const std::vector<std::string>& arguments() const { return flow_.functions[0].inputs; }
  std::size_t count() const { return arguments().size(); }
  const std::string& result(std::size_t i) const { return flow_.functions[0].outputs[i]; }

  std::optional<std::size_t> argument_of(const FunctionBody& function, const Nodes& nodes,
                                         const std::string& tensor) const {
    const std::string origin = nodes.origin(tensor);
    const auto found = std::find(function.inputs.begin(), function.inputs.end(), origin);
    if (found == function.inputs.end()) return {};
    return static_cast<std::size_t>(found - function.inputs.begin());
  }

  void find_passed_on(const Nodes& body) {
    is_passed_on_.clear();
    const auto* hint = attr_of<std::int64_t>(loop_, hint_carried);
    const std::size_t carried = is_ours_ && hint ? static_cast<std::size_t>(*hint) : 0;
    for (std::size_t i = 0; i < count(); ++i)
      is_passed_on_.push_back(body.origin(result(i)) == arguments()[i] && (i < 2 || i - 2 >= carried));
  }

  /// Finds out whether a loop of ours has a condition beside its number of iterations, and which.
  void find_condition(const Nodes& condition) {
    FunctionBody& function = flow_.functions[1];
    const auto counts = [&](const std::string& tensor) {
      const NodeDef* less = condition.source(tensor, "Less", 2);
      return less && is_counter(0) && count() > 1 && is_passed_on_[1] &&
             condition.origin(less->inputs[0]) == function.inputs[0] &&
             condition.origin(less->inputs[1]) == function.inputs[1];
    };
    has_own_condition_ = !counts(function.outputs[0]);
    const NodeDef* both = condition.source(function.outputs[0], "LogicalAnd", 2);
    if (!both || !counts(both->inputs[0])) return;
    const std::int64_t most = around_.number(loop_.inputs[1]).value_or(-1);
    has_own_condition_ = most >= 0;
    if (most < 0) return;
    flow_.iterations = most;
    function.outputs[0] = both->inputs[1];
  }

  /// Counters start at 0 and grow by 1.
  void find_counters(const Nodes& body) {
    find_passed_on(body);
    for (std::size_t i = 0; i < count(); ++i) {
      const NodeDef* add = body.source(result(i));
      const bool adds = add && (add->op == "AddV2" || add->op == "Add") && data_inputs(*add) == 2;
      const auto is = [&](std::size_t a, std::size_t b) {
        return body.origin(add->inputs[a]) == arguments()[i] && number_inside(body, add->inputs[b]) == 1;
      };
      if (adds && (is(0, 1) || is(1, 0)) && around_.number(loop_.inputs[i]) == 0) flow_.counters.push_back(i);
    }
  }
  bool is_counter(std::size_t variable) const { return contains(flow_.counters, variable); }

  /// Lets our loop set the elements of its lists, whether or not a branch gives them. What it keeps of their shapes
  /// becomes what it is given.
  void read_lacking_elements() {
    FunctionBody& function = flow_.functions[0];
    const Nodes body(function.graph);
    for (NodeDef& each : function.graph.nodes) {
      if (each.op != "TensorListScatterIntoExistingList" || !each.attrs.contains(hint_loop) || data_inputs(each) != 3)
        continue;
      const NodeDef *rows = body.source(each.inputs[1], "Reshape", 2), *place = body.source(each.inputs[2], "Fill", 2),
                    *shape = rows ? body.source(rows->inputs[1], "ConcatV2", 3) : nullptr;
      if (!place || !shape) continue;
      for (std::size_t i = 0; i < count(); ++i)
        if (const NodeDef* largest = body.source(result(i), "Maximum", 2);
            largest && largest->inputs[1] == shape->inputs[1])
          function.outputs[i] = arguments()[i];
      const NodeDef* longer = body.source(each.inputs[0], "TensorListResize", 2);
      each.op = longer ? "TensorListPushBack" : "TensorListSetItem";
      if (longer)
        each.inputs = {longer->inputs[0], rows->inputs[0]};
      else
        each.inputs = {each.inputs[0], place->inputs[1], rows->inputs[0]};
    }
  }

  /// Lets each iteration read the list that it takes the last element of: the element (length - 1) - counter.
  void read_popped_lists() {
    FunctionBody& function = flow_.functions[0];
    for (std::size_t i = 0; i < count() && !flow_.counters.empty(); ++i) {
      const Nodes body(function.graph);
      const NodeDef* pop = body.source(result(i), "TensorListPopBack", 2);
      if (!pop || body.origin(pop->inputs[0]) != arguments()[i] || uses(i) != 1) continue;
      const std::string name = pop->name, &list = arguments()[i], &counter = arguments()[flow_.counters[0]];
      const auto named = [&](std::string_view part) { return detail::join(name, "/_/", part); };
      const Tensor one = detail::make_scalar(1, int32);
      NodeDef item{.name = named("item"), .op = "TensorListGetItem"};
      item.inputs = {list, named("place"), pop->inputs[1]};
      item.attrs = pop->attrs;
      const std::map<std::string, AttrDef, std::less<>> attrs{{"T", code_of(int32)}};
      std::vector<NodeDef> added{
          {.name = named("length"), .op = "TensorListLength", .inputs = {list}},
          {.name = named("one"),
           .op = "Const",
           .attrs = {{"dtype", code_of(int32)}, {"value", TensorDef{code_of(int32), one}}}},
          {.name = named("last"), .op = "Sub", .inputs = {named("length"), named("one")}, .attrs = attrs},
          {.name = named("place"), .op = "Sub", .inputs = {named("last"), counter}, .attrs = attrs},
          std::move(item)};
      const auto replace = [&](std::string& tensor) {
        if (tensor == name + ":1") tensor = named("item");
        if (without_zero(tensor) == name) tensor = list;
        if (tensor == "^" + name) tensor = "^" + named("item");
      };
      for (NodeDef& each : function.graph.nodes) std::for_each(each.inputs.begin(), each.inputs.end(), replace);
      std::for_each(function.outputs.begin(), function.outputs.end(), replace);
      function.outputs[i] = list;
      std::erase_if(function.graph.nodes, [&](const NodeDef& each) { return each.name == name; });
      std::move(added.begin(), added.end(), std::back_inserter(function.graph.nodes));
      flow_.popped.push_back(i);
    }
  }

  /// The value of a constant of the body, or of one that it is given.
  std::optional<std::int64_t> number_inside(const Nodes& body, const std::string& tensor) const {
    if (const auto value = body.number(tensor)) return value;
    const auto given = argument_of(flow_.functions[0], body, tensor);
    return given && is_passed_on_[*given] ? around_.number(loop_.inputs[*given]) : std::nullopt;
  }

  /// The key, around the loop, of a scalar that the loop does not change; "" for others.
  std::string key_inside(const FunctionBody& function, const Nodes& nodes, const std::string& tensor) const {
    if (const NodeDef* length = nodes.source(tensor, "TensorListLength", 1)) {
      const auto list = argument_of(function, nodes, length->inputs[0]);
      return list && is_passed_on_[*list] ? around_.list_length_key(loop_.inputs[*list]) : "";
    }
    if (const auto given = argument_of(function, nodes, tensor))
      return is_passed_on_[*given] ? around_.key(loop_.inputs[*given]) : "";
    const auto value = nodes.number(tensor);
    return value ? detail::join("=", *value) : "";
  }

  /// Finds the key of the number of iterations, if the condition compares counters with one number only.
  void find_iterations(const Nodes& condition) {
    const FunctionBody& function = flow_.functions[1];
    std::vector<std::string> pending{function.outputs[0]};
    for (std::size_t steps = 0; !pending.empty(); ++steps) {
      const std::string tensor = pending.back();
      pending.pop_back();
      const NodeDef* node = condition.source(tensor);
      if (!node || data_inputs(*node) != 2 || steps > 100) return iterations_.clear();
      if (node->op == "LogicalAnd") {
        pending.insert(pending.end(), {node->inputs[0], node->inputs[1]});
        continue;
      }
      if (node->op == "GreaterEqual" && iterations_.empty() && pending.empty()) {
        iterations_ = counts_down_from(function, condition, node->inputs[0], node->inputs[1]);
        return;
      }
      std::string counter = node->inputs[0], limit = node->inputs[1];
      if (node->op == "Greater") std::swap(counter, limit);
      const auto index = argument_of(function, condition, counter);
      const bool compares = (node->op == "Less" || node->op == "Greater") && index && is_counter(*index);
      const std::string key = compares ? key_inside(function, condition, limit) : "";
      if (key.empty() || (!iterations_.empty() && iterations_ != key)) return iterations_.clear();
      iterations_ = key;
    }
  }
  /// The key of the first value of a loop variable that goes down by 1 while it is at least 1, as in the gradients of
  /// TensorFlow 1's loops; "" for any other variable.
  std::string counts_down_from(const FunctionBody& function, const Nodes& condition, const std::string& variable,
                               const std::string& limit) const {
    const auto index = argument_of(function, condition, variable);
    const Nodes body(flow_.functions[0].graph);
    const NodeDef* next = index ? body.source(result(*index), "Sub", 2) : nullptr;
    const bool is_down = next && body.origin(next->inputs[0]) == arguments()[*index] &&
                         number_inside(body, next->inputs[1]) == 1 && key_inside(function, condition, limit) == "=1";
    return is_down ? around_.key(loop_.inputs[*index]) : "";
  }

  /// How an index goes through the iterations.
  enum class Way { forward, backward, other };
  Way way_of(const Nodes& body, const std::string& index) const {
    if (const auto given = argument_of(flow_.functions[0], body, index))
      return is_counter(*given) ? Way::forward : Way::other;
    // An element of a list of counters.
    if (const NodeDef* item = body.source(index, "TensorListGetItem", 3)) {
      const auto list = argument_of(flow_.functions[0], body, item->inputs[0]);
      const bool counts = list && is_passed_on_[*list] && around_.is_counting(loop_.inputs[*list]);
      return counts ? way_of(body, item->inputs[1]) : Way::other;
    }
    // (n - 1) - counter
    const NodeDef* difference = body.source(index, "Sub", 2);
    const auto counter = difference ? argument_of(flow_.functions[0], body, difference->inputs[1]) : std::nullopt;
    if (!counter || !is_counter(*counter)) return Way::other;
    const NodeDef* last = body.source(difference->inputs[0], "Sub", 2);
    if (last && number_inside(body, last->inputs[1]) == 1 && !iterations_.empty() &&
        key_inside(flow_.functions[0], body, last->inputs[0]) == iterations_)
      return Way::backward;
    return Way::other;
  }

  /// How often the body, with its results, and the condition use an argument or a copy of it.
  std::size_t uses(std::size_t i) const {
    const std::size_t of_body = uses_[0].at(arguments()[i]);
    return flow_.has_condition ? of_body + uses_[1].at(flow_.functions[1].inputs[i]) : of_body;
  }
  /// `with_waits`: also how often something waits for a copy, which needs the argument to be given.
  void count_uses(bool with_waits = false) {
    uses_.assign(2, {});
    for (std::size_t f = 0; f < 2; ++f) {
      const FunctionBody& function = flow_.functions[f];
      const Nodes nodes(function.graph);
      for (const std::string& each : function.inputs) uses_[f][each] = 0;
      const auto count_use = [&](const std::string& tensor) {
        if (const auto found = uses_[f].find(nodes.origin(tensor)); found != uses_[f].end()) ++found->second;
      };
      for (const NodeDef* each : nodes.needed_by(function)) {
        for (std::size_t k = 0; k < each->inputs.size(); ++k) {
          const bool waits = k >= data_inputs(*each);
          if (waits ? with_waits : !nodes.is_copy(*each)) count_use(each->inputs[k].substr(waits ? 1 : 0));
        }
        for (const std::string& input : hinted(*each)) count_use(input);
      }
      for (const std::string& each : function.outputs) count_use(each);
    }
  }

  /// Finds the lists to which each iteration appends, in which it sets the element at the counter, or which have one
  /// element, which it sets to the new value of another loop variable.
  void find_stacked(const Nodes& body) {
    for (std::size_t i = 0; i < count(); ++i) {
      if (uses(i) != 1) continue;
      const NodeDef* given = around_.source(loop_.inputs[i]);
      if (const NodeDef* push = body.source(result(i), "TensorListPushBack", 2);
          push && body.origin(push->inputs[0]) == arguments()[i]) {
        take(i, push->inputs[1], true);
        flow_.stacked.back().extends = !given || given->op != "EmptyTensorList";
        flow_.stacked.back().appends = true;
      }
      if (!given) continue;
      if (given->op == "ZerosLike") find_sum(i, body);
      if (given->op != "TensorListReserve" || data_inputs(*given) != 2) continue;
      const NodeDef* write = body.source(result(i), "TensorListSetItem", 3);
      if (!write || body.origin(write->inputs[0]) != arguments()[i]) continue;
      const bool grows = is_set(*write, "resize_if_index_out_of_bounds") || is_set(*given, "dynamic_size");
      const bool is_full = (!iterations_.empty() && around_.key(given->inputs[1]) == iterations_) ||
                           (grows && around_.number(given->inputs[1]) == 0);
      const Way way = way_of(body, write->inputs[1]);
      if (way == Way::forward || (way == Way::backward && is_full)) {
        writes_.push_back({i, write->inputs[2], way, is_full, grows});
      } else if (around_.number(given->inputs[1]) == 1 && number_inside(body, write->inputs[1]) == 0) {
        const auto same = variable_that_becomes(body, write->inputs[2]);
        if (!same) continue;
        flow_.lasts.push_back({i, *same});
        is_taken_[i] = 1;
      }
    }
  }
  /// A sum of lists of which each iteration adds one with one element.
  void find_sum(std::size_t i, const Nodes& body) {
    const NodeDef* sum = body.source(result(i));
    if (!sum || (sum->op != "AddV2" && sum->op != "Add" && sum->op != "AddN") || data_inputs(*sum) != 2) return;
    if (iterations_.empty() || around_.list_length_key(loop_.inputs[i]) != iterations_) return;
    for (const std::size_t k : {0, 1}) {
      const NodeDef* write = body.source(sum->inputs[1 - k], "TensorListSetItem", 3);
      if (body.origin(sum->inputs[k]) != arguments()[i] || !write || !body.source(write->inputs[0], "ZerosLike", 1))
        continue;
      if (const Way way = way_of(body, write->inputs[1]); way != Way::other)
        writes_.push_back({i, write->inputs[2], way, true, false});
    }
  }
  void take(std::size_t list, const std::string& element, bool is_full, bool grows = false) {
    flow_.stacked.push_back({list, element, is_full, grows});
    is_taken_[list] = 1;
  }
  std::optional<std::size_t> variable_that_becomes(const Nodes& body, const std::string& tensor) const {
    for (std::size_t i = 0; i < count(); ++i)
      if (!is_passed_on_[i] && body.origin(result(i)) == body.origin(tensor)) return i;
    return {};
  }

  /// Lists that are read at the counter, and as long as the loop has iterations.
  void find_sequences(const Nodes& body) {
    struct Read {
      std::size_t variable;
      std::string node;
      Way way;
    };
    std::vector<Read> reads;
    for (const NodeDef& each : flow_.functions[0].graph.nodes) {
      if (each.op != "TensorListGetItem" || data_inputs(each) != 3 || iterations_.empty()) continue;
      const auto list = argument_of(flow_.functions[0], body, each.inputs[0]);
      if (!list || !is_passed_on_[*list]) continue;
      // Those of a loop that was written for one of ours are its sequences, whatever their lengths. They may be
      // unequal.
      if (!is_ours_ && around_.list_length_key(loop_.inputs[*list]) != iterations_) continue;
      if (const Way way = way_of(body, each.inputs[1]); way != Way::other) reads.push_back({*list, each.name, way});
    }
    // A body may ignore the elements, and write backward all the same.
    const bool writes_backward =
        std::any_of(writes_.begin(), writes_.end(), [](const Write& each) { return each.way == Way::backward; });
    for (std::size_t i = 0; reads.empty() && writes_backward && i < count(); ++i)
      if (is_passed_on_[i] && around_.list_length_key(loop_.inputs[i]) == iterations_)
        reads.push_back({i, arguments()[i] + "/_/element", Way::backward});
    // The body of a loop of ours may ignore any of its sequences.
    const auto count_reads = [&](Way way) { return std::ranges::count(reads, way, &Read::way); };
    const bool goes_backward = writes_backward || (count_reads(Way::backward) > 0 && count_reads(Way::forward) == 0);
    for (std::size_t i = 0; is_ours_ && !iterations_.empty() && i < count(); ++i) {
      const auto is_it = [&](const Read& each) { return each.variable == i; };
      const auto& types = flow_.functions[0].types;
      if (is_passed_on_[i] && i < types.size() && types[i] == variant_type && std::ranges::none_of(reads, is_it))
        reads.push_back({i, arguments()[i] + "/_/element", goes_backward ? Way::backward : Way::forward});
    }
    if (is_ours_) std::ranges::stable_sort(reads, {}, &Read::variable);
    // A loop goes through all its sequences in one direction, and writes in this direction, too.
    const bool is_counted = iterations_.starts_with('=');
    flow_.reverse = reads.empty() ? writes_backward && is_counted : goes_backward;
    const Way way = flow_.reverse ? Way::backward : Way::forward;
    for (const Read& each : reads)
      if (each.way == way) flow_.sequences.push_back({each.variable, each.node});
    flow_.has_condition = has_own_condition_ || (flow_.sequences.empty() && !is_counted);
    if (flow_.has_condition) flow_.reverse = false;
    flow_.count_key = iterations_;
    if (flow_.sequences.empty() && is_counted)
      flow_.iterations = std::max<std::int64_t>(std::stoll(iterations_.substr(1)), 0);
    for (const Write& each : writes_)
      if (each.way == (flow_.reverse ? Way::backward : Way::forward))
        take(each.variable, each.element, each.is_full, each.grows);
    std::sort(flow_.stacked.begin(), flow_.stacked.end(),
              [](const auto& a, const auto& b) { return a.variable < b.variable; });
    // The node of an element becomes an argument.
    for (NodeDef& each : flow_.functions[0].graph.nodes)
      if (std::any_of(flow_.sequences.begin(), flow_.sequences.end(),
                      [&](const Flow::Sequence& sequence) { return sequence.element == each.name; }))
        each = {.name = each.name, .op = std::string(argument_op)};
  }

  void classify() {
    for (const Flow::Stacked& each : flow_.stacked) flow_.functions[0].outputs[each.variable] = each.element;
    count_uses(true);
    for (std::size_t i = 0; i < count(); ++i) {
      if (is_taken_[i]) continue;
      const bool only_counts = i == 0 && is_ours_ && is_counter(i) && uses(i) == 1;
      if (is_passed_on_[i]) {
        if (uses(i) > 1) flow_.operands.push_back(i);
        if (!contains(flow_.popped, i)) flow_.passed_on.push_back(i);
      } else if (!only_counts) {
        flow_.carried.push_back(i);
      }
    }
  }

  struct Write {
    std::size_t variable;
    std::string element;
    Way way;
    bool is_full, grows;
  };

  const NodeDef& loop_;
  const Nodes& around_;
  Flow flow_;
  const bool is_ours_ = loop_.attrs.contains(hint_loop);  ///< it was written for one of our loops
  bool has_own_condition_ = false;             ///< such a loop has a condition beside its number of iterations
  std::vector<char> is_passed_on_, is_taken_;  ///< by loop variable
  std::string iterations_;                     ///< the key of their number; "" if none is known
  std::vector<Write> writes_;
  std::vector<std::unordered_map<std::string, std::size_t>> uses_;  ///< of the arguments of the body and the condition
};

}  // namespace

std::vector<std::size_t> Flow::used_variables() const {
  std::vector<std::size_t> used = carried;
  for (const Sequence& each : sequences) used.push_back(each.variable);
  used.insert(used.end(), operands.begin(), operands.end());
  return used;
}

bool is_flow_op(std::string_view op) { return std::find(flow_ops.begin(), flow_ops.end(), op) != flow_ops.end(); }
bool is_loop_op(std::string_view op) { return op == "While" || op == "StatelessWhile"; }

bool is_result_of_loop(const NodeDef& node) {
  constexpr std::array ops =
      std::to_array<std::string_view>({"Identity", "IdentityN", "TensorListFromTensor", "TensorListStack"});
  return node.attrs.contains(hint_loop) && std::find(ops.begin(), ops.end(), node.op) != ops.end();
}

bool has_effect(const NodeDef& node) {
  return node.op.starts_with("Assign") || node.op.starts_with("Apply") || node.op.starts_with("ResourceApply") ||
         node.op.starts_with("Scatter") || node.op.starts_with("ResourceScatter");
}

namespace {

/// Whether a node passes handles of Variables on, as what stands for a call of a function does.
bool passes_handles(const NodeDef& node) {
  const auto* types = node.op == "IdentityN" ? attr_of<ListDef>(node, "T") : nullptr;
  return types && types->types.size() == data_inputs(node) &&
         std::find(types->types.begin(), types->types.end(), resource_type) != types->types.end();
}

/// Replaces outputs of loops: of variables that never change by what the loop is given, of lists that may be longer
/// than the loop has iterations by longer ones, and of lists in another order than that of the iterations. Replaces
/// handles that are passed on by those that are given.
class OutputReplacer {
 public:
  explicit OutputReplacer(GraphDef& graph) : graph_(graph), nodes_(graph) {
    for (const NodeDef& each : graph.nodes) {
      for (std::size_t i = 0; passes_handles(each) && i < data_inputs(each); ++i)
        if (attr_of<ListDef>(each, "T")->types[i] == resource_type) replace(each, i, each.inputs[i]);
      if (!each.flow) continue;
      for (const std::size_t i : each.flow->passed_on) replace(each, i, each.inputs[i]);
      for (const std::size_t i : each.flow->popped) add_rest(each, i);
      for (const Flow::Stacked& list : each.flow->stacked) add_stacked(each, list);
    }
  }

  /// Changes the nodes' inputs and the names in `outputs`, if there are any.
  void apply(std::vector<std::string>* outputs) {
    for (NodeDef& each : graph_.nodes)
      for (std::string& input : each.inputs) follow(input);
    if (outputs)
      for (std::string& each : *outputs) follow(each);
    std::move(added_.begin(), added_.end(), std::back_inserter(graph_.nodes));
  }

 private:
  static std::string output(const NodeDef& node, std::size_t i) {
    return without_zero(detail::join(node.name, ":", i));
  }
  void replace(const NodeDef& node, std::size_t i, const std::string& by) { replaced_.emplace(output(node, i), by); }

  void follow(std::string& tensor) const {
    std::size_t steps = 0;
    for (auto found = replaced_.find(without_zero(tensor)); found != replaced_.end();
         found = replaced_.find(without_zero(tensor))) {
      if (++steps > replaced_.size())
        throw InvalidArgumentError(detail::join("Loops pass '", tensor, "' on to each other"));
      tensor = found->second;
    }
  }

  /// Of a list from which a loop takes elements, as many are left as the loop did not take.
  void add_rest(const NodeDef& loop, std::size_t i) {
    const auto named = [&](std::string_view part) { return detail::join(loop.name, "/_/list_", i, part); };
    NodeDef left{.name = named("/left"), .op = "Sub"};
    left.inputs = {named("/length"), detail::join(loop.name, ":", loop.flow->counters[0])};
    left.attrs = {{"T", code_of(int32)}};
    added_.push_back({.name = named("/length"), .op = "TensorListLength", .inputs = {loop.inputs[i]}});
    added_.push_back(std::move(left));
    added_.push_back({.name = named(""), .op = "TensorListResize", .inputs = {loop.inputs[i], named("/left")}});
    replace(loop, i, named(""));
  }

  /// A list to which a loop adds, in the order and of the length that it has in the file.
  void add_stacked(const NodeDef& loop, const Flow::Stacked& list) {
    const std::string name = detail::join(loop.name, "/_/list_", list.variable);
    const std::string given = output(loop, list.variable);
    std::string tensor = given;
    if (list.appends && loop.flow->reverse) {
      NodeDef axis{.name = name + "/axis", .op = "Const"};
      axis.attrs = {{"dtype", code_of(int32)}, {"value", TensorDef{code_of(int32), vector_of({0}, int32)}}};
      tensor = name + "/turned";
      added_.push_back({.name = tensor, .op = "ReverseV2", .inputs = {given, axis.name}});
      added_.push_back(std::move(axis));
    }
    if (list.extends) {
      added_.push_back({.name = name, .op = "TensorListConcatLists", .inputs = {loop.inputs[list.variable], tensor}});
      tensor = name;
    }
    if (list.is_full) {
      if (tensor != given) replaced_.emplace(given, tensor);
      return;
    }
    replaced_.emplace(given, name);
    std::string length = nodes_.source(loop.inputs[list.variable])->inputs[1];
    if (list.grows) {
      NodeDef longer{.name = name + "/longer", .op = "Maximum", .inputs = {length, name + "/length"}};
      longer.attrs = {{"T", code_of(int32)}};
      length = longer.name;
      added_.push_back({.name = name + "/length", .op = "TensorListLength", .inputs = {tensor}});
      added_.push_back(std::move(longer));
    }
    added_.push_back({.name = name, .op = "TensorListResize", .inputs = {tensor, length}});
  }

  GraphDef& graph_;
  const Nodes nodes_;
  std::vector<NodeDef> added_;
  std::unordered_map<std::string, std::string> replaced_;
};

using EmptyLists = std::map<std::string, std::string>;  // the node that makes each, by the argument that it is

/// The node that makes a list empty; "" if none is found.
std::string origin_of_list(const Nodes& nodes, const EmptyLists& given, std::string tensor) {
  for (int steps = 0; steps < 100; ++steps) {
    const auto [node, output] = nodes.endpoint(nodes.origin(tensor));
    if (!node) break;
    if (node->op == "EmptyTensorList") return node->name;
    if (const auto found = given.find(node->name); found != given.end()) return found->second;
    if (!node->flow || !node->flow->is_loop || output >= data_inputs(*node)) break;
    tensor = node->inputs[output];
  }
  return {};
}

void find_sequences(GraphDef& graph, std::vector<std::string>* outputs, const EmptyLists& given) {
  std::optional<Nodes> around;
  for (NodeDef& each : graph.nodes) {
    if (!each.flow) continue;
    if (!around) around.emplace(graph);
    Flow flow = each.flow->is_loop ? LoopReader(each, *around).read() : *each.flow;
    const auto origin = [&](std::size_t i) { return origin_of_list(*around, given, each.inputs[i]); };
    for (Flow::Stacked& list : flow.stacked)
      if (list.appends) list.origin = origin(list.variable);
    const std::size_t first = flow.is_loop ? 0 : 1;
    for (FunctionBody& function : flow.functions) {
      EmptyLists inside;
      for (std::size_t i = first; i < data_inputs(each) && i - first < function.inputs.size(); ++i)
        if (std::string list = origin(i); !list.empty()) inside.emplace(function.inputs[i - first], std::move(list));
      find_sequences(function.graph, &function.outputs, inside);
    }
    each.flow = std::make_shared<const Flow>(std::move(flow));
  }
  if (around || std::any_of(graph.nodes.begin(), graph.nodes.end(), passes_handles))
    OutputReplacer(graph).apply(outputs);
}

}  // namespace

void find_sequences(GraphDef& graph) { find_sequences(graph, nullptr, {}); }

}  // namespace tapestry::io

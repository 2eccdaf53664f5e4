/// TensorFlow's gradients of branches and loops pass variants on: optionals, which are what one branch or another has
/// computed, and lists, also of lists or of optionals. Here each becomes the tensors and lists of tensors that it
/// consists of, which take its place among the inputs and outputs of functions.

#include "io/tensorflow/split_variants.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "core/make_tensor.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/frames.hpp"

namespace tapestry::io {
namespace {

/// A tensor, or a list of tensors, that is a part of a variant.
struct VariantPart {
  /// The numbers of the branches that give it, from the outermost optional to the innermost.
  std::vector<int> branches{};
  /// Empty for a tensor. For a list, a letter for each list around a tensor, the innermost first: 'i' for the list of
  /// its items; or, if the items are lists, 'e' for the list of all their elements and 'n' for the list of their
  /// lengths; or, if the items are tensors of different shapes, 'f' for the list of all their numbers and 's' for the
  /// list of their shapes.
  std::string lists{};
  TypeCode dtype{};
  std::string tensor{};  ///< its name
  /// Whether an optional of TensorFlow 1's branches has it, whose lists are elements of stacks as they are: a branch
  /// that does not give such a list gives nothing, and not an empty one.
  bool is_of_stack = false;

  bool is_same(const VariantPart& other) const { return branches == other.branches && lists == other.lists; }
};
/// The branch of an optional that has not left its branch yet.
constexpr int own_branch = -1;
/// A list of lists, or an optional of two branches, has twice the parts of what is in it: a short file could ask for
/// any number.
constexpr std::size_t most_parts = 256;

using VariantParts = std::vector<VariantPart>;

struct Variant {
  VariantParts parts{};
  /// The node or argument that is a list of variants to which nothing has been added yet: its parts are not known.
  std::string unset{};
};
using VariantRef = std::shared_ptr<Variant>;

const VariantPart* find_same(const VariantParts& parts, const VariantPart& wanted) {
  const auto found =
      std::find_if(parts.begin(), parts.end(), [&](const VariantPart& each) { return each.is_same(wanted); });
  return found == parts.end() ? nullptr : &*found;
}

bool is_tensor(const VariantParts& parts) {
  return parts.size() == 1 && parts[0].branches.empty() && parts[0].lists.empty();
}

/// The parts of a list that has such an item.
VariantParts parts_of_list(const VariantParts& item) {
  VariantParts list;
  for (const VariantPart& each : item) {
    if (each.lists.empty()) {
      list.push_back({each.branches, "i", each.dtype});
      continue;
    }
    list.push_back({each.branches, each.lists + 'e', each.dtype});
    list.push_back({each.branches, each.lists + 'n', code_of(int32)});
  }
  return list;
}

/// The parts of a list of tensors of this type that have different shapes.
VariantParts parts_of_uneven_list(TypeCode dtype) { return {{{}, "f", dtype}, {{}, "s", code_of(int32)}}; }

std::string tensor_name(const std::string& node, std::size_t number) {
  return number == 0 ? node : detail::join(node, ":", number);
}

/// A graph, or that of a function.
class VariantSplitter {
 public:
  /// `branch`: the number of the branch whose function it is.
  VariantSplitter(GraphDef& graph, int branch, const UnevenLists& uneven)
      : graph_(graph), uneven_(uneven), index_(numbers_by_name(graph)), branch_(branch) {}

  void run() {
    for (const std::size_t i : in_order(graph_, index_)) visit(graph_.nodes[i]);
    for (NodeDef& each : added_) graph_.nodes.push_back(std::move(each));
  }

 private:
  VariantRef find(const std::string& tensor) const {
    const auto found = variants_.find(without_zero(tensor));
    return found == variants_.end() ? nullptr : found->second;
  }
  void set(const std::string& tensor, VariantParts parts) {
    if (parts.size() > most_parts)
      throw UnimplementedError(
          detail::join("'", tensor, "' is a variant of ", parts.size(), " tensors; at most ", most_parts, " are read"));
    if (is_tensor(parts) && parts[0].tensor == tensor) return;
    variants_.insert_or_assign(tensor, std::make_shared<Variant>(Variant{std::move(parts)}));
  }

  [[noreturn]] static void lack(const NodeDef& node, std::string_view what) {
    throw UnimplementedError(detail::join("Node '", node.name, "' (op: '", node.op, "') ", what));
  }

  static NodeDef constant(std::string name, Tensor value) {
    NodeDef constant{.name = std::move(name), .op = "Const"};
    constant.attrs = {{"dtype", code_of(int32)}, {"value", TensorDef{code_of(int32), std::move(value)}}};
    return constant;
  }
  static NodeDef number(std::string name, int value) {
    return constant(std::move(name), detail::make_scalar(value, int32));
  }
  static NodeDef numbers(std::string name, const std::vector<std::int64_t>& values) {
    return constant(std::move(name), vector_of(values, int32));
  }

  void visit(NodeDef& node) {
    if (node.flow) return node.flow->is_loop ? visit_loop(node) : visit_branches(node);
    const std::size_t inputs = data_inputs(node);
    if (node.op == "OptionalFromValue" || node.op == "OptionalGetValue") {
      if (inputs != 1) lack(node, "has not one value");
      return node.op == "OptionalFromValue" ? give_optional(node) : take_optional(node);
    }
    if (node.op == "OptionalNone") return set(node.name, {});
    if (node.op == "TensorListPushBack" && inputs == 2 && push(node)) return;
    if (node.op == "TensorListPopBack" && inputs == 2 && pop(node)) return;
    if (node.op == "ZerosLike" && inputs == 1 && make_zeros(node)) return;
    if (node.op == "TensorListLength" && inputs == 1) {
      use_length(node);
    } else if (is_identity(node) || node.op == "IdentityN") {
      for (std::size_t k = 0; k < inputs; ++k)
        if (const VariantRef given = find(node.inputs[k])) variants_.insert_or_assign(tensor_name(node.name, k), given);
    } else {
      for (std::size_t k = 0; k < inputs; ++k)
        if (const VariantRef given = find(node.inputs[k]); given && given->parts.size() > 1)
          lack(node, detail::join("uses '", node.inputs[k], "', a variant of several tensors"));
    }
    use_first_parts(node);
    note_list(node);
  }

  void use_first_parts(NodeDef& node) const {
    for (std::size_t k = 0; k < data_inputs(node); ++k)
      if (const VariantRef given = find(node.inputs[k]); given && !given->parts.empty())
        node.inputs[k] = given->parts[0].tensor;
  }

  // ---- Optionals ----

  void give_optional(NodeDef& node) {
    const VariantRef value = find(node.inputs[0]);
    const auto* types = attr_of<ListDef>(node, "Toutput_types");
    const TypeCode dtype = types && types->types.size() == 1 ? types->types[0] : TypeCode();
    VariantParts parts = value ? value->parts : VariantParts();
    if (parts.empty()) parts.push_back({{}, "", dtype, node.name});
    for (VariantPart& each : parts) {
      each.branches.insert(each.branches.begin(), own_branch);
      each.is_of_stack = !types;
    }
    become_copy(node);
    set(node.name, std::move(parts));
  }

  /// A branch of a gradient takes what the same branch has given.
  void take_optional(NodeDef& node) {
    const VariantRef given = find(node.inputs[0]);
    become_copy(node);
    if (!given || given->parts.empty()) return;
    const auto branch_of = [](const VariantPart& each) {
      return each.branches.empty() ? own_branch : each.branches[0];
    };
    const int first = branch_of(given->parts[0]);
    const bool is_only = std::all_of(given->parts.begin(), given->parts.end(),
                                     [&](const VariantPart& each) { return branch_of(each) == first; });
    VariantParts parts;
    for (VariantPart each : given->parts) {
      if (!is_only && branch_of(each) != branch_ && branch_of(each) != own_branch) continue;
      if (!each.branches.empty()) each.branches.erase(each.branches.begin());
      parts.push_back(std::move(each));
    }
    if (parts.empty()) lack(node, detail::join("takes '", node.inputs[0], "', which its branch does not give"));
    node.inputs[0] = parts[0].tensor;
    set(node.name, std::move(parts));
  }

  static void become_copy(NodeDef& node) {
    node.op = "Identity";
    node.attrs.clear();
  }

  // ---- Lists ----

  /// Notes a list that a node makes.
  void note_list(const NodeDef& node) {
    static constexpr auto makers = std::to_array<std::string_view>(
        {"EmptyTensorList", "TensorListFromTensor", "TensorListPopBack", "TensorListPushBack", "TensorListReserve",
         "TensorListScatterV2", "TensorListSetItem", "TensorListSplit"});
    const auto* dtype = attr_of<TypeCode>(node, "element_dtype");
    if (!dtype || std::find(makers.begin(), makers.end(), node.op) == makers.end()) return;
    const bool is_empty = node.op == "EmptyTensorList";
    if (*dtype != variant_type && !(is_empty && uneven_.contains(node.name)))
      return set(node.name, {{{}, "i", *dtype, node.name}});
    if (is_empty) variants_[node.name] = std::make_shared<Variant>(Variant{{}, node.name});
  }

  /// Lets a list have these parts. Throws UnimplementedError if it has others already.
  void require_parts(Variant& list, const VariantParts& wanted, const NodeDef& user) {
    if (!list.unset.empty()) {
      const std::string name = std::exchange(list.unset, {});
      const auto found = index_.find(name);
      if (found == index_.end()) lack(user, detail::join("uses '", name, "', which is no list"));
      const NodeDef origin = graph_.nodes[found->second];
      for (const VariantPart& each : wanted) {
        NodeDef part = origin;
        if (!list.parts.empty()) part.name = new_name(detail::join(name, "/_/", list.parts.size()));
        if (part.op != argument_op) part.attrs.insert_or_assign("element_dtype", each.dtype);
        if (const auto uneven = uneven_.find(name); uneven != uneven_.end() && data_inputs(part) > 0) {
          part.inputs[0] = new_name(part.name + "/element_shape");
          place(numbers(part.inputs[0],
                        each.lists == "f" ? std::vector<std::int64_t>() : std::vector<std::int64_t>{uneven->second}));
        }
        list.parts.push_back({each.branches, each.lists, each.dtype, part.name});
        place(std::move(part));
      }
    }
    const auto is_same = [](const VariantPart& a, const VariantPart& b) { return a.is_same(b); };
    if (!std::equal(wanted.begin(), wanted.end(), list.parts.begin(), list.parts.end(), is_same))
      lack(user, "makes a list of variants that are not alike");
  }
  /// A name that no node of the file has.
  std::string new_name(std::string name) const {
    while (index_.contains(name)) name += '_';
    return name;
  }
  /// Adds a node, or replaces that of the same name.
  void place(NodeDef node) {
    const auto found = index_.find(node.name);
    (found == index_.end() ? added_.emplace_back() : graph_.nodes[found->second]) = std::move(node);
  }

  /// The nodes that take the place of one with a list of several parts.
  class ListNodes {
   public:
    ListNodes(VariantSplitter& scope, const NodeDef& node) : scope_(scope), name_(node.name) {}
    /// Adds a node whose first output is a list of this type, or is like one. The first has the name of the node that
    /// they replace.
    std::string add_list(std::string op, std::vector<std::string> inputs, TypeCode dtype,
                         std::string type_attr = "element_dtype") {
      std::string name = lists_ == 0 ? name_ : scope_.new_name(detail::join(name_, "/_/", lists_));
      ++lists_;
      scope_.place(
          {.name = name, .op = std::move(op), .inputs = std::move(inputs), .attrs = {{std::move(type_attr), dtype}}});
      return name;
    }
    /// Adds a node that gives a number.
    std::string add_number(std::string op, std::vector<std::string> inputs, std::string_view type_attr = {}) {
      std::string name = scope_.new_name(detail::join(name_, "/_/number_", numbers_++));
      NodeDef node{.name = name, .op = std::move(op), .inputs = std::move(inputs)};
      if (!type_attr.empty()) node.attrs.emplace(type_attr, code_of(int32));
      scope_.place(std::move(node));
      return name;
    }
    std::string add_constant(int value) {
      std::string name = scope_.new_name(detail::join(name_, "/_/number_", numbers_++));
      scope_.place(number(name, value));
      return name;
    }
    /// Adds a node that gives a tensor of this type with another shape; "" for that of a vector.
    std::string add_reshape(const std::string& tensor, std::string shape, TypeCode dtype) {
      std::string name = scope_.new_name(detail::join(name_, "/_/number_", numbers_++));
      if (shape.empty()) {
        shape = name + "/shape";
        scope_.place(numbers(shape, {-1}));
      }
      NodeDef node{.name = name, .op = "Reshape", .inputs = {tensor, shape}};
      node.attrs = {{"T", dtype}, {"Tshape", code_of(int32)}};
      scope_.place(std::move(node));
      return name;
    }

   private:
    VariantSplitter& scope_;
    const std::string name_;
    int lists_ = 0, numbers_ = 0;
  };

  /// Whether the node was replaced.
  bool push(NodeDef& node) {
    const VariantRef list = find(node.inputs[0]);
    VariantRef item = find(node.inputs[1]);
    if (!list) return false;
    if (item && is_tensor(item->parts)) {
      node.inputs[1] = item->parts[0].tensor;
      item = nullptr;
    }
    if (!item && pushes_uneven(node, *list)) return push_uneven(node, *list);
    const VariantParts wanted = item ? parts_of_list(item->parts) : VariantParts();
    // A list of TensorFlow 1's stacks is none of variants: its items, if they are lists, must be equally long.
    const bool is_plain = list->parts.size() == 1 && !(wanted.size() == 1 && list->parts[0].is_same(wanted[0]));
    if (is_plain) {
      use_first_parts(node);
      VariantPart part = list->parts[0];
      part.tensor = node.name;
      set(node.name, {part});
      return true;
    }
    if (wanted.empty()) return false;
    require_parts(*list, wanted, node);
    ListNodes made(*this, node);
    const std::string name = node.name;
    VariantParts result = list->parts;
    auto to = result.begin();
    for (const VariantPart& each : item->parts) {
      const bool is_list = !each.lists.empty();
      to->tensor = made.add_list(is_list ? "TensorListConcatLists" : "TensorListPushBack", {to->tensor, each.tensor},
                                 each.dtype);
      ++to;
      if (!is_list) continue;
      const std::string length = made.add_number("TensorListLength", {each.tensor});
      to->tensor = made.add_list("TensorListPushBack", {to->tensor, length}, code_of(int32));
      ++to;
    }
    set(name, std::move(result));
    return true;
  }
  /// Whether a node adds a tensor to a list whose elements have different shapes.
  static bool pushes_uneven(const NodeDef& node, const Variant& list) {
    const auto* dtype = attr_of<TypeCode>(node, "element_dtype");
    return dtype && *dtype != variant_type &&
           (list.parts.empty() ? !list.unset.empty() : list.parts[0].lists == "f" && list.parts[0].branches.empty());
  }
  bool push_uneven(const NodeDef& node, Variant& list) {
    const std::string name = node.name, item = node.inputs[1];
    const TypeCode dtype = *attr_of<TypeCode>(node, "element_dtype");
    require_parts(list, parts_of_uneven_list(dtype), node);
    ListNodes made(*this, node);
    VariantParts result = list.parts;
    result[0].tensor =
        made.add_list("TensorListConcatLists", {result[0].tensor, made.add_reshape(item, "", dtype)}, dtype);
    const std::string shape = made.add_number("Shape", {item}, "out_type");
    result[1].tensor = made.add_list("TensorListPushBack", {result[1].tensor, shape}, code_of(int32));
    set(name, std::move(result));
    return true;
  }
  bool pop(NodeDef& node) {
    const VariantRef list = find(node.inputs[0]);
    if (!list || list->parts.empty()) return false;
    ListNodes made(*this, node);
    use_first_parts(node);
    const std::string name = node.name, shape = node.inputs[1];
    VariantParts left = list->parts, item;
    for (std::size_t k = 0; k < left.size(); ++k) {
      const std::string lists = left[k].lists;
      if (lists.empty()) lack(node, detail::join("uses '", left[k].tensor, "', which is no list"));
      item.push_back({left[k].branches, lists.substr(0, lists.size() - 1), left[k].dtype});
      if (lists.back() == 'i') {
        left[k].tensor = made.add_list("TensorListPopBack", {left[k].tensor, shape}, left[k].dtype);
        item.back().tensor = left[k].tensor + ":1";
        continue;
      }
      // The last elements are those of the last list, or the numbers of the last tensor.
      VariantPart& elements = left[k];
      VariantPart& lengths = left[++k];
      const bool is_list = lists.back() == 'e';
      const std::string list_of_elements = elements.tensor;
      const std::string all = made.add_number("TensorListLength", {list_of_elements});
      lengths.tensor = made.add_list("TensorListPopBack", {lengths.tensor, shape}, code_of(int32));
      const std::string last = lengths.tensor + ":1";
      const std::string count = is_list ? last : made.add_number("Prod", {last, made.add_constant(0)}, "T");
      const std::string begin = made.add_number("Sub", {all, count}, "T");
      const std::string places = made.add_number("Range", {begin, all, made.add_constant(1)}, "Tidx");
      elements.tensor = made.add_list("TensorListResize", {list_of_elements, begin}, elements.dtype);
      item.back().tensor = made.add_list("TensorListGather", {list_of_elements, places, shape}, elements.dtype);
      if (!is_list) item.back().tensor = made.add_reshape(item.back().tensor, last, elements.dtype);
    }
    set(name + ":1", std::move(item));
    set(name, std::move(left));
    return true;
  }

  bool make_zeros(NodeDef& node) {
    const VariantRef like = find(node.inputs[0]);
    if (!like || like->parts.empty()) return false;
    ListNodes made(*this, node);
    VariantParts parts = like->parts;
    for (VariantPart& each : parts)
      if (each.lists.find_first_of("ns") == std::string::npos)
        each.tensor = made.add_list("ZerosLike", {each.tensor}, each.dtype, "T");
    set(node.name, std::move(parts));
    return true;
  }

  /// Takes the length of a part that has as many elements as the list.
  void use_length(NodeDef& node) const {
    if (const VariantRef list = find(node.inputs[0]))
      for (const VariantPart& each : list->parts)
        if (each.lists.ends_with('i') || each.lists.ends_with('n') || each.lists.ends_with('s'))
          node.inputs[0] = each.tensor;
  }

  // ---- Functions ----

  /// Gives an argument of the function the parts of a variant, all but the first by further arguments.
  void give(FunctionBody& function, std::size_t argument, const Variant& given) {
    const std::string& name = function.inputs[argument];
    note_argument(name, given);
    append_arguments(function, find(name)->parts);
  }
  void note_argument(const std::string& name, const Variant& given) {
    auto inside = std::make_shared<Variant>(Variant{given.parts, given.unset.empty() ? "" : name});
    for (std::size_t k = 0; k < inside->parts.size(); ++k) {
      inside->parts[k].tensor = k == 0 ? name : new_name(detail::join(name, "/_/", k));
      if (k > 0) place({.name = inside->parts[k].tensor, .op = std::string(argument_op)});
    }
    variants_[without_zero(name)] = std::move(inside);
  }
  static void append_arguments(FunctionBody& function, const VariantParts& parts) {
    for (std::size_t k = 1; k < parts.size(); ++k) function.inputs.push_back(parts[k].tensor);
  }
  /// Lets the node take further inputs.
  static void append_inputs(NodeDef& node, const std::vector<std::string>& more) {
    node.inputs.insert(node.inputs.begin() + static_cast<std::ptrdiff_t>(data_inputs(node)), more.begin(), more.end());
  }

  void visit_branches(NodeDef& node) {
    Flow flow = *node.flow;
    std::vector<VariantSplitter> branches;
    for (FunctionBody& each : flow.functions)
      branches.emplace_back(each.graph, static_cast<int>(branches.size()), uneven_);
    std::vector<std::string> more, unset;
    for (std::size_t i = 1; i < data_inputs(node); ++i) {
      const VariantRef given = find(node.inputs[i]);
      if (!given) continue;
      for (std::size_t b = 0; b < branches.size(); ++b) branches[b].give(flow.functions[b], i - 1, *given);
      for (std::size_t k = 1; k < given->parts.size(); ++k) more.push_back(given->parts[k].tensor);
    }
    use_first_parts(node);
    append_inputs(node, more);
    for (std::size_t b = 0; b < branches.size(); ++b) {
      branches[b].run();
      for (std::size_t i = 1; i < data_inputs(node); ++i)
        if (const VariantRef given = find(node.inputs[i]);
            given && !given->unset.empty() && branches[b].find(flow.functions[b].inputs[i - 1])->unset.empty())
          lack(node, detail::join("adds variants to '", node.inputs[i], "' in a branch"));
    }
    const std::size_t outputs = flow.functions[0].outputs.size();
    for (std::size_t k = 0; k < outputs; ++k) give_back(node, flow, branches, k);
    node.flow = std::make_shared<const Flow>(std::move(flow));
  }

  /// An output of branches: each of its parts is an output, which not every branch gives.
  void give_back(const NodeDef& node, Flow& flow, std::vector<VariantSplitter>& branches, std::size_t number) {
    VariantParts all;
    bool is_variant = false;
    const auto parts_of = [&](std::size_t b) {
      const VariantRef given = branches[b].find(flow.functions[b].outputs[number]);
      is_variant = is_variant || bool(given);
      VariantParts parts = given ? given->parts : VariantParts();
      for (VariantPart& each : parts)
        if (!each.branches.empty() && each.branches[0] == own_branch) each.branches[0] = static_cast<int>(b);
      return parts;
    };
    for (std::size_t b = 0; b < branches.size(); ++b)
      for (const VariantPart& each : parts_of(b))
        if (!find_same(all, each)) all.push_back(each);
    if (!is_variant) return;
    for (std::size_t b = 0; b < branches.size(); ++b) {
      const VariantParts own = parts_of(b);
      std::vector<std::string>& outputs = flow.functions[b].outputs;
      if (all.empty()) outputs[number].clear();
      for (std::size_t k = 0; k < all.size(); ++k) {
        if (k == 0 && !branches[b].find(outputs[number])) continue;  // a tensor
        const VariantPart* given = find_same(own, all[k]);
        const bool lacks = all[k].lists.empty() || all[k].is_of_stack;
        std::string tensor = given ? given->tensor : lacks ? "" : branches[b].add_empty_list(all[k].dtype);
        if (k == 0)
          outputs[number] = std::move(tensor);
        else
          outputs.push_back(std::move(tensor));
      }
    }
    const std::size_t first_more = flow.functions[0].outputs.size() - all.size();
    for (std::size_t k = 0; k < all.size(); ++k)
      all[k].tensor = tensor_name(node.name, k == 0 ? number : first_more + k);
    set(tensor_name(node.name, number), std::move(all));
  }
  std::string add_empty_list(TypeCode dtype) {
    std::string name = new_name(detail::join("absent_list_", graph_.nodes.size()));
    const std::string shape = new_name(name + "/shape");
    graph_.nodes.push_back(number(shape, -1));
    graph_.nodes.push_back(
        {.name = name, .op = "EmptyTensorList", .inputs = {shape, shape}, .attrs = {{"element_dtype", dtype}}});
    return name;
  }

  void visit_loop(NodeDef& node) {
    Flow flow = *node.flow;
    FunctionBody &function = flow.functions[0], &condition = flow.functions[1];
    VariantSplitter body(function.graph, branch_, uneven_), compared(condition.graph, branch_, uneven_);
    const std::size_t count = data_inputs(node);
    for (std::size_t i = 0; i < count; ++i)
      if (const VariantRef given = find(node.inputs[i])) body.note_argument(function.inputs[i], *given);
    body.run();
    std::vector<std::string> more;
    for (std::size_t i = 0; i < count; ++i) {
      const VariantRef given = find(node.inputs[i]);
      if (!given) continue;
      const VariantRef inside = body.find(function.inputs[i]), next = body.find(function.outputs[i]);
      if (inside->unset.empty()) require_parts(*given, inside->parts, node);
      if (given->parts.empty() || !next) continue;
      compared.give(condition, i, *given);
      append_arguments(function, inside->parts);
      VariantParts results = given->parts;
      for (std::size_t k = 0; k < results.size(); ++k) {
        const VariantPart* part = find_same(next->parts, results[k]);
        if (!part) lack(node, detail::join("changes what its loop variable ", i, " consists of"));
        results[k].tensor = tensor_name(node.name, k == 0 ? i : count + more.size());
        if (k == 0) {
          function.outputs[i] = part->tensor;
          continue;
        }
        function.outputs.push_back(part->tensor);
        more.push_back(given->parts[k].tensor);
      }
      set(tensor_name(node.name, i), std::move(results));
    }
    compared.run();
    use_first_parts(node);
    append_inputs(node, more);
    node.flow = std::make_shared<const Flow>(std::move(flow));
  }

  GraphDef& graph_;
  const UnevenLists& uneven_;
  const Index index_;
  const int branch_;
  std::unordered_map<std::string, VariantRef> variants_;  ///< by tensor
  std::vector<NodeDef> added_;
};

bool has_variants(const GraphDef& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const NodeDef& node) {
    return node.op.starts_with("TensorList") || node.op == "EmptyTensorList" || node.op.starts_with("Optional") ||
           (node.flow && std::any_of(node.flow->functions.begin(), node.flow->functions.end(),
                                     [](const FunctionBody& each) { return has_variants(each.graph); }));
  });
}

}  // namespace

void split_variants(GraphDef& graph, const UnevenLists& uneven) {
  if (has_variants(graph)) VariantSplitter(graph, own_branch, uneven).run();
}

}  // namespace tapestry::io

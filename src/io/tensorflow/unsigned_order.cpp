#include "io/tensorflow/unsigned_order.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/make_tensor.hpp"
#include "io/tensorflow/frames.hpp"

namespace tapestry::io {
namespace {

constexpr double most_positive = 0x1p63;  ///< one more than the greatest number of int64

bool is_comparison(std::string_view op) {
  return op == "Less" || op == "LessEqual" || op == "Greater" || op == "GreaterEqual";
}
bool is_scattered_choice(std::string_view op) { return op == "TensorScatterMax" || op == "TensorScatterMin"; }
bool is_choice(std::string_view op) {
  return op == "Maximum" || op == "Minimum" || op == "Max" || op == "Min" || is_scattered_choice(op);
}
bool is_place(std::string_view op) { return op == "ArgMax" || op == "ArgMin"; }
bool is_quotient(std::string_view op) { return op == "FloorDiv" || op == "TruncateDiv"; }
bool is_remainder(std::string_view op) { return op == "FloorMod" || op == "TruncateMod"; }

/// Adds the nodes that stand for one.
class Unsigned {
 public:
  Unsigned(NodeDef& node, std::vector<NodeDef>& added) : node_(node), added_(added) {}

  std::string in(std::size_t i) const { return node_.inputs[i]; }
  std::string add(std::string_view op, std::vector<std::string> inputs, AttrDefs attrs) {
    added_.push_back({.name = detail::join(node_.name, "/_/unsigned_", count_++),
                      .op = std::string(op),
                      .device = node_.device,
                      .inputs = std::move(inputs),
                      .attrs = std::move(attrs)});
    return added_.back().name;
  }
  std::string of_numbers(std::string_view op, const std::string& a, const std::string& b, DType dtype = int64) {
    return add(op, {a, b}, {{"T", code_of(dtype)}});
  }
  std::string cast(const std::string& x, DType from, DType to) {
    return add("Cast", {x}, {{"SrcT", code_of(from)}, {"DstT", code_of(to)}});
  }
  std::string number(double value, DType dtype = int64) {
    return add("Const", {},
               {{"dtype", code_of(dtype)}, {"value", TensorDef{code_of(dtype), detail::make_scalar(value, dtype)}}});
  }
  /// int64 numbers that have the order of those without a sign, or the reverse: from the least of them on.
  std::string ordered(const std::string& x) { return of_numbers("AddV2", x, number(-most_positive)); }
  std::string is_less(const std::string& a, const std::string& b) { return of_numbers("Less", ordered(a), ordered(b)); }
  std::string greatest() { return of_numbers("AddV2", number(-most_positive), number(-1)); }
  /// Without the last bit, and half as large.
  std::string half(const std::string& x) {
    return of_numbers("BitwiseAnd", of_numbers("RightShift", x, number(1)), greatest());
  }
  std::string choose(const std::string& condition, const std::string& a, const std::string& b, DType dtype = int64) {
    return add("SelectV2", {condition, a, b}, {{"T", code_of(dtype)}});
  }

  /// Twice the quotient of the half is the quotient, or one less. A divisor from 2^63 on is there once at most.
  std::string quotient(const std::string& a, const std::string& b) {
    const std::string is_large = of_numbers("Less", b, number(0));
    const auto fits_once = [&](const std::string& divisor, const std::string& into) {
      return choose(is_less(into, divisor), number(0), number(1));
    };
    const std::string small = choose(is_large, number(1), b);
    const std::string twice = of_numbers("Mul", of_numbers("FloorDiv", half(a), small), number(2));
    const std::string rest = of_numbers("Sub", a, of_numbers("Mul", twice, small));
    return choose(is_large, fits_once(b, a), of_numbers("AddV2", twice, fits_once(small, rest)));
  }

  std::string shifted(const std::string& x, const std::string& by) {
    const std::string less = of_numbers("Maximum", of_numbers("Sub", by, number(1)), number(0));
    const std::string kept = of_numbers("RightShift", greatest(), less);
    return choose(of_numbers("Equal", by, number(0)), x,
                  of_numbers("BitwiseAnd", of_numbers("RightShift", x, by), kept));
  }

  /// The last bit of the half says whether there was anything behind it, as rounding has it.
  std::string to_real(const std::string& x, DType dtype) {
    const std::string rounded = of_numbers("BitwiseOr", half(x), of_numbers("BitwiseAnd", x, number(1)));
    const std::string large = of_numbers("Mul", cast(rounded, int64, dtype), number(2, dtype), dtype);
    return choose(of_numbers("Less", x, number(0)), large, cast(x, int64, dtype), dtype);
  }
  std::string from_real(const std::string& x, DType dtype) {
    const std::string limit = number(most_positive, dtype), rest = of_numbers("Sub", x, limit, dtype);
    return choose(of_numbers("Less", x, limit, dtype), cast(x, dtype, int64), ordered(cast(rest, dtype, int64)));
  }

  /// The node gives tensors that stand for its own.
  void become(std::vector<std::string> results) {
    node_.op = results.size() == 1 ? "Identity" : "IdentityN";
    results.insert(results.end(), node_.inputs.begin() + static_cast<std::ptrdiff_t>(data_inputs(node_)),
                   node_.inputs.end());
    node_.inputs = std::move(results);
  }

 private:
  NodeDef& node_;
  std::vector<NodeDef>& added_;
  int count_ = 0;
};

DType type_of(const AttrDefs& types, std::string_view name) {
  const auto found = types.find(name);
  const auto* type = found == types.end() ? nullptr : std::get_if<TypeCode>(&found->second);
  return !type ? DType::unknown : *type == uint64_type ? int64 : dtype_of(*type);
}

}  // namespace

bool is_cast_of_floats(const NodeDef& node) {
  const auto is_real = [&](std::string_view name) {
    const auto* type = attr_of<TypeCode>(node, name);
    return type && is_floating(dtype_of(*type));
  };
  return node.op == "Cast" && is_real("SrcT") != is_real("DstT");
}

bool can_order_unsigned(const NodeDef& node) {
  const std::string_view op = node.op;
  if (data_inputs(node) == 1) return is_cast_of_floats(node) || op == "Relu" || op == "Relu6";
  if (data_inputs(node) == 3) return is_scattered_choice(op);
  return data_inputs(node) == 2 && !is_scattered_choice(op) &&
         (op == "TopKV2" || is_comparison(op) || is_choice(op) || is_place(op) || is_quotient(op) || is_remainder(op) ||
          op == "RightShift");
}

void order_unsigned(NodeDef& node, const AttrDefs& types, std::vector<NodeDef>& added) {
  Unsigned made(node, added);
  const std::string op = node.op;
  const bool has_axes = op == "Max" || op == "Min" || is_place(op);
  AttrDefs result{{"T", code_of(int64)}};
  if (op == "Cast") {
    const DType from = type_of(types, "SrcT"), to = type_of(types, "DstT");
    made.become({is_floating(to) ? made.to_real(made.in(0), to) : made.from_real(made.in(0), from)});
    result = {{"T", code_of(to)}};
  } else if (is_quotient(op)) {
    made.become({made.quotient(made.in(0), made.in(1))});
  } else if (is_remainder(op)) {
    const std::string whole = made.of_numbers("Mul", made.quotient(made.in(0), made.in(1)), made.in(1));
    made.become({made.of_numbers("Sub", made.in(0), whole)});
  } else if (op == "RightShift") {
    made.become({made.shifted(made.in(0), made.in(1))});
  } else if (op == "Relu") {
    made.become({made.in(0)});
  } else if (op == "Relu6") {
    made.become({made.ordered(made.of_numbers("Minimum", made.ordered(made.in(0)), made.ordered(made.number(6))))});
  } else if (op == "TopKV2") {
    const std::string top = made.add(op, {made.ordered(made.in(0)), made.in(1)}, node.attrs);
    made.become({made.ordered(top), top + ":1"});
    const DType places = type_of(types, "index_type");
    result = {{"T", ListDef{.types = {code_of(int64), code_of(places == DType::unknown ? int32 : places)}}}};
  } else {
    std::vector<std::string> inputs(node.inputs.begin(),
                                    node.inputs.begin() + static_cast<std::ptrdiff_t>(data_inputs(node)));
    inputs.front() = made.ordered(inputs.front());
    if (!has_axes) inputs.back() = made.ordered(inputs.back());
    if (!is_choice(op)) {
      std::copy(inputs.begin(), inputs.end(), node.inputs.begin());
      return;
    }
    made.become({made.ordered(made.add(op, inputs, node.attrs))});
  }
  node.attrs = std::move(result);
}

}  // namespace tapestry::io

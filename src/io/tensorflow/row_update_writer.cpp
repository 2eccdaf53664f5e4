/// Writes the updates of rows. TensorFlow's ops apply equal indices one after the other and ours sum their rows up, so
/// that the sums come before the update.

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "io/tensorflow/update_writer.hpp"

namespace tapestry::io {
namespace {

using detail::Node;

/// Ops on rows of the Variables of one update.
class RowWriter {
 public:
  RowWriter(NodeWriter& writer, bool resource) : writer_(writer), node_(writer.node()), resource_(resource) {
    const std::size_t last = node_.inputs().size() - 1;
    rows = writer.op("Unique", {writer.in(last - 2)}, {{"out_idx", code_of(int32)}});
    const Value count = writer.element(writer.shape_of(rows, int32), 0), places{rows.name + ":1", int32};
    gradient = writer.op("UnsortedSegmentSum", {writer.in(last), places, count},
                         {{"Tindices", code_of(int32)}, {"Tnumsegments", code_of(int32)}});
  }

  Value handle(std::size_t i) const { return {endpoint_name(node_.input(i)), gradient.dtype}; }

  /// The rows of the Variable or of one of its slots.
  Value read(std::size_t i) {
    const TypeCode type = code_of(gradient.dtype), index = code_of(rows.dtype);
    if (resource_)
      return writer_.stateful_op(
          "ResourceGather", {handle(i), rows}, gradient.dtype,
          {{"dtype", type}, {"Tindices", index}, {"batch_dims", std::int64_t{0}}, {"validate_indices", true}});
    return writer_.stateful_op(
        "GatherV2", {handle(i), rows, writer_.number(0, int32)}, gradient.dtype,
        {{"Tparams", type}, {"Tindices", index}, {"Taxis", code_of(int32)}, {"batch_dims", std::int64_t{0}}});
  }

  /// Changes these rows, before the update itself. `op`: "Update", "Sub".
  void change(std::size_t i, const std::string& op, const Value& by) {
    changes.push_back({"^" + writer_.stateful_op(op_name(op), {handle(i), rows, by}, gradient.dtype, fields(i)).name});
  }

  /// The difference that Adam subtracts from the rows; the rows of both moments are changed before. `numbers`: as an
  /// UpdateRule has them. `rate` and the powers of the betas are float64.
  Value adam_difference(const std::vector<double>& numbers, const Value& rate, const Value& beta1_power,
                        const Value& beta2_power) {
    const DType dtype = gradient.dtype;
    const auto moment = [&](std::size_t slot, const Value& of) {
      const double beta = numbers[slot];
      Value next = writer_.op("AddV2", {writer_.op("Mul", {writer_.number(beta, dtype), read(slot)}),
                                        writer_.op("Mul", {writer_.number(1 - beta, dtype), of})});
      change(slot, "Update", next);
      return next;
    };
    const auto left = [&](const Value& power) { return writer_.op("Sub", {writer_.number(1, float64), power}); };
    const Value m = moment(1, gradient);
    const Value v = moment(2, writer_.op("Square", {gradient}));
    const Value step = in_dtype(writer_.op("RealDiv", {rate, left(beta1_power)}));
    const Value root = writer_.op("Sqrt", {writer_.op("RealDiv", {v, in_dtype(left(beta2_power))})});
    return writer_.op("RealDiv",
                      {writer_.op("Mul", {step, m}), writer_.op("AddV2", {root, writer_.number(numbers[3], dtype)})});
  }

  /// A number in the dtype of the Variable.
  Value in_dtype(const Value& x) { return x.dtype == gradient.dtype ? x : writer_.cast(x, gradient.dtype); }

  /// A value that is computed after these changes. The update itself does not wait for them: its reader knows them.
  Value after_changes(const Value& value) const {
    if (changes.empty()) return value;
    std::vector<Value> inputs{value};
    inputs.insert(inputs.end(), changes.begin(), changes.end());
    return writer_.op("Identity", inputs);
  }

  std::string op_name(const std::string& op) const { return (resource_ ? "ResourceScatter" : "Scatter") + op; }
  FieldList fields(std::size_t i) const {
    FieldList made{{resource_ ? "dtype" : "T", code_of(gradient.dtype)}, {"Tindices", code_of(rows.dtype)}};
    if (!resource_) {
      made.emplace("use_locking", false);
      made.emplace("_class", class_of(*detail::endpoint_of(node_.input(i)).node));
    }
    return made;
  }

  Value rows, gradient;
  std::vector<Value> changes;  ///< control inputs: what has been changed before

 private:
  NodeWriter& writer_;
  const Node& node_;
  bool resource_;
};

/// What tells a reader which op of ours an update was, with which inputs and numbers. `counter`: Adam's Variable that
/// counts the steps, or "".
FieldList hints_of(const Node& node, const std::string& counter, const std::vector<double>& numbers) {
  const ExecuteNow now;
  ListDef hinted;
  const std::size_t last = node.inputs().size() - 1;
  for (std::size_t i = 0; i + 2 < last; ++i) hinted.strings.push_back(endpoint_name(node.input(i)));
  if (!counter.empty()) hinted.strings.push_back(counter);
  hinted.strings.push_back(endpoint_name(node.input(last - 2)));
  hinted.strings.push_back(endpoint_name(node.input(last)));
  hinted.strings.push_back(rate_of(node).name());
  return {{std::string(hint_op), node.type()},
          {std::string(hint_inputs), hinted},
          {std::string(hint_numbers), TensorDef{code_of(float64), Init(numbers).tensor()}}};
}

}  // namespace

void UpdateWriter::write_row_update(NodeWriter& writer, const UpdateRule& rule) const {
  const Node& node = writer.node();
  const Rate& rate = rates_.at(&rate_of(node));
  const bool composed = rule.has(UpdateRule::Part::difference);
  if (composed && rate.is_computed) refuse(node, "the graph computes its numbers");
  RowWriter rows(writer, resource_);
  const DType dtype = rows.gradient.dtype;
  const auto number = [&](std::size_t i, std::string_view label = {}) -> Value {
    if (rate.is_computed)
      return rows.in_dtype(writer.element(writer.in(node.inputs().size() - 2), static_cast<int>(i)));
    if (i == 0 && rate.dtype == dtype) return {rate_of(node).name(), dtype};
    if (i == 0 && rate.is_scheduled) return rows.in_dtype(rate.scheduled);
    return writer.constant(label.empty() ? "learning_rate" : label, detail::make_scalar(rate.numbers[i], dtype));
  };

  if (!rate.is_computed && rate.numbers.back() != 0) {
    const Value lost = writer.op("Mul", {decay_of(writer, rate, dtype), rows.read(0)});
    if (rule.decays_variable)
      rows.change(0, "Sub", lost);
    else
      rows.gradient = writer.op("AddV2", {rows.gradient, lost});
  }

  std::vector<std::string> inputs;
  FieldList fields;
  if (composed) {
    const Value difference =
        rule.is_adam() ? rows.adam_difference(
                             rate.numbers, rate.is_scheduled ? rate.scheduled : writer.number(rate.numbers[0], float64),
                             rate.from_step[UpdateRule::beta1_power], rate.from_step[UpdateRule::beta2_power])
                       : writer.op("Mul", {number(0), rows.gradient});
    inputs = {rows.handle(0).name, rows.rows.name, rows.after_changes(difference).name};
    fields = rows.fields(0);
  } else {
    for (const UpdateRule::Argument& each : rule.arguments) {
      const auto index = static_cast<std::size_t>(each.index);
      inputs.push_back(each.part == UpdateRule::Part::handle     ? rows.handle(index).name
                       : each.part == UpdateRule::Part::gradient ? rows.gradient.name
                       : each.part == UpdateRule::Part::indices  ? rows.rows.name
                                                                 : number(index, each.label).name);
    }
    fields = {{"T", code_of(dtype)}, {"Tindices", code_of(rows.rows.dtype)}, {"use_locking", false}};
    if (rule.resource.ends_with("Momentum")) fields.emplace("use_nesterov", rule.nesterov);
    if (rule.resource.ends_with("V2")) fields.emplace("update_slots", true);
    if (!resource_) fields.emplace("_class", class_of(*detail::endpoint_of(node.input(0)).node));
  }
  if (!rate.is_computed && !rate.is_scheduled)
    fields.merge(hints_of(node, rate.is_adam ? rate.counter : "", rate.numbers));
  writer.finish(resource_ ? rule.resource : rule.reference, inputs, std::move(fields));
}

}  // namespace tapestry::io

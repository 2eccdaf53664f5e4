#include "graph/explain.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <ostream>
#include <set>
#include <sstream>

#include "graph/flow/flow_ops.hpp"
#include "graph/staged_plan.hpp"
#include "graph/state_ops.hpp"

namespace tapestry {
namespace detail {

Explanation explain(const GraphState& graph, const Request& request, const SessionOptions& options) {
  Explanation explanation;
  SessionOptions quiet = options;
  quiet.log_device_placement = false;
  quiet.allow_soft_placement = options.allow_soft_placement || graph.file != nullptr;
  const PlannedPart part = first_part(graph, request);
  Plan plan = make_plan(part.graph ? *part.graph : graph, part.request, quiet,
                        [&](std::string_view stage, const PlanGraph& now) {
                          explanation.stages.push_back({std::string(stage), Graph(now.graph)});
                        });
  explanation.plan = Partitioned(std::move(plan)).description();
  return explanation;
}

}  // namespace detail

namespace {

using Row = std::vector<std::string>;

/// Prints columns as wide as their contents. Columns whose bit in `to_right` is set are aligned to the right.
void print_table(std::ostream& out, const std::vector<Row>& rows, unsigned to_right) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - row[i].size(), ' ');
      line += "  " + ((to_right >> i & 1) != 0 ? gap + row[i] : row[i] + gap);
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
  }
}

std::string size_text(std::int64_t bytes) {
  constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  std::ostringstream text;
  text << std::fixed << std::setprecision(unit == 0 ? 0 : 1) << value << ' ' << units[unit];
  return text.str();
}

/// `x` for the tensor "x:0", and "_" for none.
std::string short_name(const Tensor& tensor) {
  if (!tensor) return "_";
  const std::string name = tensor.name();
  return name.ends_with(":0") ? name.substr(0, name.size() - 2) : name;
}

std::string listed(const Tensors& tensors) {
  std::string text;
  for (const Tensor& each : tensors) text += (text.empty() ? "" : ", ") + short_name(each);
  return text;
}

std::string attrs_text(const detail::Node& node) {
  std::vector<Attr> shown;
  for (const Attr& each : node.attrs())
    if (!std::holds_alternative<FunctionsRef>(each.value)) shown.push_back(each);
  return shown.empty() ? "" : " {" + to_string(Attrs(shown)) + "}";
}

/// `name = Type(inputs, ^control inputs) {attributes} -> float32[4] on device`.
std::string line_of(const detail::Node& node) {
  std::string text = node.name() + " = " + node.type() + "(" + listed(node.inputs());
  for (const detail::Node* control : node.control_inputs) text += (text.back() == '(' ? "^" : ", ^") + control->name();
  text += ")";
  if (&node.op() != &placeholder_op && &node.op() != &var_handle_op) text += attrs_text(node);
  for (const Tensor& output : node.outputs())
    text += detail::join(&output == node.outputs().begin() ? " -> " : ", ", to_string(output.dtype()), output.shape());
  if (!node.device.empty()) text += " on " + node.device;
  return text;
}

/// A text in full, and without what the stage before has shown already.
struct Text {
  Text() = default;
  explicit Text(const std::string& line) : full(line), shown(line) {}
  void operator+=(const Text& more) {
    full += more.full;
    shown += more.shown;
  }

  std::string full, shown;
};

/// The graph of one stage as text.
class StageText {
 public:
  /// `before`: the functions of the stage before. Those that are alike are not shown again.
  StageText(const detail::GraphState& graph, const std::set<std::string>& before) : before_(before) {
    const std::lock_guard lock(graph.mutex());
    for (std::size_t i = 0; i < graph.size(); ++i) text_ += of(graph.node(i), "", "  ");
  }

  const Text& text() const { return text_; }
  /// The functions of the stage, each behind the names of what is around it.
  const std::set<std::string>& functions() const { return functions_; }

 private:
  Text of(const detail::Node& node, const std::string& path, const std::string& indent) {
    Text text(indent + line_of(node) + "\n");
    if (!detail::is_flow(node.op())) return text;
    for (const detail::GraphFunction& each : detail::functions_of(node))
      text += of(each, path + node.name() + "/", indent + "  ");
    return text;
  }

  /// `name(inputs) -> outputs`, and below it the operations.
  Text of(const detail::GraphFunction& function, const std::string& path, const std::string& indent) {
    std::string head = indent + function.name + "(" + listed(function.inputs) + ")";
    if (!function.outputs.empty()) head += " -> " + listed(function.outputs);
    Text text(head + "\n");
    for (const detail::Node* each : detail::nodes_of(function).running)
      text += of(*each, path + function.name + "/", indent + "  ");
    functions_.insert(path + text.full);
    if (before_.contains(path + text.full)) text.shown = indent + function.name + ": as before\n";
    return text;
  }

  std::set<std::string> before_, functions_;
  Text text_;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const ExecutionPlan& plan) {
  out << "steps: " << plan.steps.size() << '\n';
  std::vector<Row> rows;
  for (const ExecutionPlan::Step& step : plan.steps) {
    const std::size_t number = rows.size();
    const std::string together =
        step.together > 1 ? detail::join("side by side: ", number, "-", number + step.together - 1) : "";
    rows.push_back({std::to_string(number), step.type, step.name, to_string(step.device), together});
  }
  if (!rows.empty()) print_table(out, rows, 1);
  out << "memory:";
  for (const ExecutionPlan::Arena& arena : plan.arenas)
    out << (&arena == plan.arenas.data() ? " " : "; ") << size_text(arena.bytes) << " on " << arena.device << ", "
        << size_text(arena.bytes_without_reuse) << " without reuse";
  out << (plan.arenas.empty() ? " no arena\n" : "\n");
  rows = {{"tensor", "bytes", "offset", "steps"}};
  for (const ExecutionPlan::Buffer& buffer : plan.buffers) {
    const std::string offset = buffer.memory == ExecutionPlan::Memory::arena     ? std::to_string(buffer.offset)
                               : buffer.memory == ExecutionPlan::Memory::fetched ? "fetched"
                                                                                 : "bound";
    rows.push_back(
        {buffer.tensor, std::to_string(buffer.bytes), offset, detail::join(buffer.first_step, "-", buffer.last_step)});
  }
  if (rows.size() > 1) print_table(out, rows, 2 | 4);
  return out;
}

std::ostream& operator<<(std::ostream& out, const Explanation& explanation) {
  std::string before;
  std::set<std::string> functions;
  for (const Explanation::Stage& stage : explanation.stages) {
    const StageText stage_text(*stage.graph.state(), functions);
    const Text& text = stage_text.text();
    if (text.full == before) {
      out << stage.name << ": as before\n";
    } else {
      out << stage.name << ": " << stage.graph.operations().size() << " operations\n" << text.shown;
    }
    before = text.full;
    functions = stage_text.functions();
  }
  return out << explanation.plan;
}

}  // namespace tapestry

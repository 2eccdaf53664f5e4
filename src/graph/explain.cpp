#include "graph/explain.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "graph/partitioned.hpp"
#include "graph/state_ops.hpp"

namespace tapestry {
namespace detail {

Explanation explain(const GraphState& graph, const Request& request, const SessionOptions& options) {
  Explanation explanation;
  SessionOptions quiet = options;
  quiet.log_device_placement = false;
  Plan plan = make_plan(graph, request, quiet, [&](std::string_view stage, const PlanGraph& now) {
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

/// `name = Type(inputs, ^control inputs) {attributes} -> float32[4] on device`.
std::string line_of(const Operation& operation) {
  std::string text = operation.name() + " = " + operation.type() + "(";
  for (const Tensor& input : operation.inputs()) {
    const std::string name = input.name();
    text += (text.back() == '(' ? "" : ", ") + (name.ends_with(":0") ? name.substr(0, name.size() - 2) : name);
  }
  for (const Operation& control : operation.control_inputs())
    text += (text.back() == '(' ? "^" : ", ^") + control.name();
  text += ")";
  const Op& op = operation.call().op();
  if (!operation.attrs().empty() && &op != &placeholder_op && &op != &var_handle_op)
    text += " {" + to_string(operation.attrs()) + "}";
  for (const Tensor& output : operation.outputs())
    text +=
        detail::join(&output == operation.outputs().begin() ? " -> " : ", ", to_string(output.dtype()), output.shape());
  if (!operation.device().empty()) text += " on " + operation.device();
  return text;
}

std::string text_of(const Graph& graph) {
  std::string text;
  for (const Operation& operation : graph.operations()) text += "  " + line_of(operation) + "\n";
  return text;
}

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
  for (const Explanation::Stage& stage : explanation.stages) {
    const std::string text = text_of(stage.graph);
    if (text == before) {
      out << stage.name << ": as before\n";
    } else {
      out << stage.name << ": " << stage.graph.operations().size() << " operations\n" << text;
    }
    before = text;
  }
  return out << explanation.plan;
}

}  // namespace tapestry

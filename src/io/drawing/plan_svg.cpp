/// The pictures of an Explanation: a graph for each stage, and the arenas over time.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "io/drawing/drawing.hpp"
#include "io/file.hpp"
#include "tapestry/execution_plan.hpp"

namespace tapestry {
namespace io {
namespace {

constexpr double step_width = 28, plot_height = 320, plot_left = 90, plot_top = 30, between_plots = 70;

std::string number(double value) { return std::to_string(std::lround(value)); }

std::string text_at(double x, double y, std::string_view anchor, std::string_view text) {
  return detail::join("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"", anchor, "\">", escaped(text),
                      "</text>\n");
}

/// One arena: the steps from left to right, the offsets from bottom to top, and a box for each tensor.
std::string drawn(const ExecutionPlan& plan, const ExecutionPlan::Arena& arena, double y) {
  constexpr std::array colours{"#d7ecff", "#ffe9b8", "#dff2d8", "#f6dcea", "#e6e0f8", "#eeeeee"};
  const double width = step_width * static_cast<double>(plan.steps.size());
  const double scale = plot_height / static_cast<double>(std::max<std::int64_t>(arena.bytes, 1));
  const double bottom = y + plot_height;
  std::string text =
      text_at(plot_left, y - 10, "start",
              detail::join(arena.device, ": ", arena.bytes, " bytes, ", arena.bytes_without_reuse, " without reuse")) +
      text_at(plot_left - 6, y + 8, "end", std::to_string(arena.bytes)) + text_at(plot_left - 6, bottom, "end", "0") +
      detail::join("<rect x=\"", number(plot_left), "\" y=\"", number(y), "\" width=\"", number(width), "\" height=\"",
                   number(plot_height), "\" fill=\"none\" stroke=\"#888\"/>\n");
  std::size_t colour = 0;
  for (const ExecutionPlan::Buffer& buffer : plan.buffers) {
    if (buffer.memory != ExecutionPlan::Memory::arena || buffer.device != arena.device) continue;
    const double x = plot_left + step_width * static_cast<double>(buffer.first_step);
    const double wide = step_width * static_cast<double>(buffer.last_step - buffer.first_step + 1);
    const double high = std::max(scale * static_cast<double>(buffer.bytes), 1.0);
    const double above = bottom - scale * static_cast<double>(buffer.offset) - high;
    text += detail::join("<g><title>", escaped(buffer.tensor), ": ", buffer.bytes, " bytes at ", buffer.offset,
                         ", steps ", buffer.first_step, " to ", buffer.last_step, "</title><rect x=\"", number(x),
                         "\" y=\"", number(above), "\" width=\"", number(wide), "\" height=\"", number(high),
                         "\" fill=\"", colours[colour++ % colours.size()], "\" stroke=\"#888\"/>");
    const auto letters = static_cast<std::size_t>(std::max(wide - 6, 0.0) / letter_width);
    const std::string name = buffer.tensor.substr(buffer.tensor.rfind('/') + 1);
    if (high >= 12 && letters >= 3)
      text += detail::join("<text x=\"", number(x + 3), "\" y=\"", number(above + high / 2 + 4), "\">",
                           escaped(name.size() <= letters ? name : name.substr(0, letters - 2) + ".."), "</text>");
    text += "</g>\n";
  }
  for (std::size_t i = 0; i < plan.steps.size(); ++i)
    text += detail::join("<g><title>", escaped(plan.steps[i].name), " (", escaped(plan.steps[i].type), ")</title>",
                         "<text x=\"", number(plot_left + step_width * (static_cast<double>(i) + 0.5)), "\" y=\"",
                         number(bottom + 16), "\" text-anchor=\"middle\">", i, "</text></g>\n");
  return text;
}

std::string memory_svg(const ExecutionPlan& plan) {
  const double width = plot_left + step_width * static_cast<double>(plan.steps.size()) + margin;
  const double height = plot_top + (plot_height + between_plots) * static_cast<double>(plan.arenas.size());
  std::string text;
  double y = plot_top;
  for (const ExecutionPlan::Arena& arena : plan.arenas) {
    text += drawn(plan, arena, y);
    y += plot_height + between_plots;
  }
  return detail::join("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", number(std::max(width, 400.0)),
                      "\" height=\"", number(height),
                      "\" font-family=\"sans-serif\" font-size=\"11\">\n"
                      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                      text, "</svg>\n");
}

}  // namespace
}  // namespace io

void Explanation::write_svg(const std::string& folder, const DrawOptions& options, Where where) const {
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw FailedPreconditionError(detail::join("Cannot make ", folder, ": ", error.message()), where);
  std::size_t count = 0;
  const auto write = [&](const std::string& name, const std::string& svg) {
    const auto path = std::filesystem::path(folder) / detail::join(count++, "-", name, ".svg");
    io::write_file(path, std::as_bytes(std::span(svg)), where);
  };
  for (const Stage& stage : stages) write(stage.name, stage.graph.to_svg(options, where));
  write("memory", io::memory_svg(plan));
}

}  // namespace tapestry

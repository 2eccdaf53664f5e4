#include "io/tensorflow/variable_table.hpp"

#include <algorithm>
#include <limits>

#include "graph/graph_state.hpp"

namespace tapestry::io {
namespace {

/// The greatest number where there are more bytes than it counts; 0 for sizes that change.
std::int64_t bytes_of(const Spec& spec) {
  constexpr std::int64_t greatest = std::numeric_limits<std::int64_t>::max();
  const auto size = static_cast<std::int64_t>(size_of(spec.dtype)), elements = spec.shape.num_elements();
  if (elements < 0) return 0;
  return elements > greatest / size ? greatest : elements * size;
}

}  // namespace

std::shared_ptr<Variable::Cell> VariableTable::cell(const std::string& container, const std::string& name,
                                                    const Spec& spec) {
  const std::lock_guard lock(mutex_);
  auto& cell = cells_[{container.empty() ? default_container_ : container, name}];
  if (cell) return cell;
  const std::int64_t bytes = bytes_of(spec);
  if (bytes > most_bytes_ - bytes_)
    throw ResourceExhaustedError(detail::join("The Variable '", name, "' takes ", bytes, " bytes beside ", bytes_,
                                              " of others; all Variables may take ", most_bytes_,
                                              " (ServerOptions::variable_bytes)"));
  auto made = std::make_shared<Variable::Cell>();
  made->name = name;
  made->spec = spec;
  bytes_ += bytes;
  return cell = std::move(made);
}

void VariableTable::clear(const std::vector<std::string>& containers) {
  const std::lock_guard lock(mutex_);
  std::erase_if(cells_, [&](const auto& each) {
    const std::string& container = each.first.first;
    const bool named = containers.empty()
                           ? container == default_container_
                           : std::find(containers.begin(), containers.end(), container) != containers.end();
    if (named && each.second) bytes_ -= bytes_of(each.second->spec);
    return named;
  });
}

}  // namespace tapestry::io

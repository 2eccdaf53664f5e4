#include "io/tensorflow/variable_table.hpp"

#include <algorithm>

#include "graph/graph_state.hpp"

namespace tapestry::io {
namespace {

std::int64_t bytes_of(const Spec& spec) {
  return spec.shape.num_elements() * static_cast<std::int64_t>(size_of(spec.dtype));
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

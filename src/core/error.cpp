#include "core/call_site.hpp"
#include "tapestry/detail/function.hpp"

namespace tapestry {

std::string to_string(Where where) {
  if (!where) return "an unknown place";
  std::string_view file = where.file;
  file.remove_prefix(file.find_last_of('/') + 1);
  return std::string(file) + ":" + std::to_string(where.line);
}

constinit thread_local Where detail::call_site = {};

Error::Error(Code code, std::string message)
    : std::runtime_error(message), code_(code), message_(std::move(message)), text_(message_) {}

namespace {

/// Whether the position is in a header of ours or of the standard library. There an argument becomes an In when a
/// template calls a function of the user's that takes one, such as a layer.
bool is_in_header(std::string_view file) {
  return file.find("include/tapestry/") != std::string_view::npos ||
         file.find("/include/c++/") != std::string_view::npos;
}

/// Whether the file may be a source of the library. As a build may name its files "../src/nn/dense.cpp", it may be the
/// user's.
bool may_be_source(std::string_view file) {
  constexpr std::string_view here = __FILE__, name = "core/error.cpp";
  static_assert(here.ends_with(name));
  return file.starts_with(here.substr(0, here.size() - name.size()));
}

std::string_view file_of(Where where) { return where.file ? where.file : ""; }

/// The line that an error is to name.
Where user_line(Where where) {
  if (is_in_header(file_of(where))) return {};
  return detail::call_site && may_be_source(file_of(where)) ? detail::call_site : where;
}

}  // namespace

void detail::refuse_empty_function(std::string_view op, Where where) {
  throw InvalidArgumentError("The function is empty: a std::function without a target, or a null pointer", op, where);
}

void Error::locate(std::string_view op, Where where) { locate(op, {}, where); }

void Error::locate(std::string_view op, std::string_view node, Where where) {
  if (op_.empty()) op_ = op;
  if (node_.empty()) node_ = node;
  // A shape that an op makes knows the op's own line only.
  const bool is_better = bool(where) && may_be_source(file_of(where_)) && !may_be_source(file_of(where));
  if (!where_ || is_better) where_ = user_line(where);
  compose();
}

void Error::show_node() {
  shows_node_ = true;
  compose();
}

void Error::compose() {
  text_ = message_;
  if (!op_.empty()) text_ += " [Op:" + op_ + "]";
  // A node of a file may have become several, named "node/_/Op".
  const std::string node = node_.substr(0, node_.find("/_/"));
  if (shows_node_ && !node.empty() && message_.find("'" + node) == std::string::npos)
    text_ += " in node '" + node + "'";
  if (where_) text_ += " at " + to_string(where_);
}

}  // namespace tapestry

#include "tapestry/error.hpp"

namespace tapestry {

std::string to_string(Where where) {
  if (!where) return "an unknown place";
  std::string_view file = where.file;
  file.remove_prefix(file.find_last_of('/') + 1);
  return std::string(file) + ":" + std::to_string(where.line);
}

Error::Error(Code code, std::string message)
    : std::runtime_error(message), code_(code), message_(std::move(message)), text_(message_) {}

namespace {

/// Whether the position is in a header of ours or of the standard library. There an argument becomes an In when a
/// template calls a function of the user's that takes one, such as a layer.
bool is_in_library(Where where) {
  const std::string_view file = where.file ? where.file : "";
  return file.find("include/tapestry/") != std::string_view::npos ||
         file.find("/include/c++/") != std::string_view::npos;
}

}  // namespace

void Error::locate(std::string_view op, Where where) { locate(op, {}, where); }

void Error::locate(std::string_view op, std::string_view node, Where where) {
  if (op_.empty()) op_ = op;
  if (node_.empty()) node_ = node;
  if (!where_ && !is_in_library(where)) where_ = where;
  compose();
}

void Error::compose() {
  text_ = message_;
  if (!op_.empty()) text_ += " [Op:" + op_ + "]";
  if (where_) text_ += " at " + to_string(where_);
}

}  // namespace tapestry

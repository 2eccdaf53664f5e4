#pragma once

#include <functional>
#include <map>
#include <string>

#include "../temporary_folder.hpp"
#include "serve/rest.hpp"
#include "tapestry/tapestry.hpp"

// Models for tests of the server.

namespace tapestry::serve {

/// Writes a SavedModel as a whole: under another name, and then renamed, as a server that looks on needs it.
inline void write_model(const std::filesystem::path& folder, const std::function<Signature()>& build) {
  Graph graph;
  const auto scope = graph.as_default();
  const std::filesystem::path hidden = folder.parent_path() / ("writing-" + folder.filename().string());
  saved_model::save(hidden.string(), build());
  std::filesystem::rename(hidden, folder);
}

/// y = factor x + summand, for any number of x.
inline void write_line(const std::filesystem::path& folder, double factor, double summand) {
  write_model(folder, [&] {
    const Tensor x = placeholder(float32, {-1}, "x");
    return Signature{.inputs = {{"x", x}}, .outputs = {{"y", x * factor + summand}}};
  });
}

/// The same x again, of this type.
inline void write_identity(const std::filesystem::path& folder, DType dtype, const Shape& shape = {-1}) {
  write_model(folder, [&] {
    const Tensor x = placeholder(dtype, shape, "x");
    return Signature{.inputs = {{"x", x}}, .outputs = {{"y", identity(x)}}};
  });
}

/// Counts up to the largest x, one by one: as long a run as a test asks for.
inline void write_counter(const std::filesystem::path& folder) {
  write_model(folder, [] {
    const Tensor x = placeholder(float32, {-1}, "x"), end = reduce_max(x.cast(float64));
    const Tensor counted = while_loop([&](const Tensor& i) { return less(i, end); },
                                      [](const Tensor& i) { return i + 1.0; }, zeros({}, {.dtype = float64}));
    return Signature{.inputs = {{"x", x}}, .outputs = {{"y", zeros_like(x) + counted.cast(float32)}}};
  });
}

inline Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(30); }

}  // namespace tapestry::serve

#include <algorithm>
#include <cstdint>

#include "autodiff/points.hpp"
#include "dispatch/recorder.hpp"
#include "graph/graph_state.hpp"
#include "graph/vmap.hpp"
#include "ops/batching.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"
#include "tapestry/transformations.hpp"

namespace tapestry {
namespace {

/// The derivatives of f in these directions [n, ...], each of the shape of x: [n, ...], each of the shape of f(x).
Tensor pushed(const TensorFunction& f, const Tensor& x, const Tensor& directions, Where where) {
  return detail::locating({}, where, [&] {
    const auto along = [&](const Tensors& direction) -> Tensors { return {jvp(f, x, direction[0], where).second}; };
    return detail::map_directions(along, directions, where);
  });
}

Tensor forward_jacobian(const TensorFunction& f, const Tensor& x, Where where) {
  const Tensor units = unit_vectors(x.shape(), x.dtype(), x.device(), where);
  Shape directions = x.shape();
  directions.insert(0, units.shape()[0]);
  const Tensor columns = pushed(f, x, reshape(In(units, where), directions), where);
  Shape of_y = columns.shape();
  of_y.erase(0);
  const Tensor by_element = with_axes_moved(columns, 0, 1, columns.rank() - 1, where);
  return reshape(In(by_element, where), detail::joined(of_y, x.shape()));
}

/// The derivatives by each point, one after another: what f has of the others is constant.
Tensors forward_jacobians(const detail::ListFunction& f, const Tensors& points, Where where) {
  Tensors result;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const TensorFunction of_one = [&](const Tensor& x) {
      Tensors xs = points;
      xs[i] = x;
      return f(xs);
    };
    result.push_back(forward_jacobian(of_one, points[i], where));
  }
  return result;
}

/// `may_go_forward`: it does where f has more elements than the points. That runs f once more, so it goes backward for
/// an f that draws random numbers, and for one that changes Variables or has ops that `vmap` refuses.
Tensors backward_jacobians(const detail::ListFunction& f, const std::vector<Value>& points, bool may_go_forward,
                           Where where) {
  const Tensors xs = detail::own_points(points, where);
  GradientTape tape({.persistent = xs.size() > 1});
  tape.watch(xs, where);
  const auto graph = open_sink() ? default_graph().state() : nullptr;
  const std::size_t first = graph ? graph->size() : 0;
  const random::State before = random::state();
  const Tensor y = detail::locating({}, where, [&] { return f(xs); });
  const bool draws = graph ? graph->draws_from(first) : random::state() != before;
  bool forward = may_go_forward && y.shape().is_known() && !draws;
  std::int64_t elements = 0;
  for (const Tensor& x : xs) {
    forward = forward && x.shape().is_known();
    if (forward) elements += x.size();
  }
  if (forward && y.size() > elements) {
    const auto pause = tape.stop_recording();
    try {
      return forward_jacobians(f, xs, where);
    } catch (const UnimplementedError&) {  // NOLINT(bugprone-empty-catch): the way back is open
    }
  }
  Tensors result;
  for (const Tensor& x : xs) {
    const Tensor found = tape.jacobian({y, where}, x);
    const TensorOptions like{.dtype = x.dtype(), .device = x.device()};
    result.push_back(found ? found : zeros(detail::joined(y.shape(), x.shape()), like, {}, where));
  }
  return result;
}

// ---- Sparse --------------------------------------------------------------------------------------------------------

/// The stored elements of a pattern, and for each column the direction in which it is computed.
struct Coloring {
  std::vector<std::int64_t> rows, columns;  ///< of the stored elements, in row-major order
  std::vector<std::int64_t> color;          ///< by column
  std::int64_t colors = 0;
};

/// Gives each column the first color that no column has with which it shares a row.
Coloring color(const Tensor& pattern) {
  const std::int64_t rows = pattern.shape()[0], columns = pattern.shape()[1];
  const std::vector<bool> stored = pattern.to_vector<bool>();
  Coloring result;
  std::vector<std::vector<std::int64_t>> rows_of(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      if (stored[static_cast<std::size_t>(i * columns + j)]) {
        result.rows.push_back(i);
        result.columns.push_back(j);
        rows_of[static_cast<std::size_t>(j)].push_back(i);
      }
  std::vector<std::vector<bool>> taken;  // by color and row
  for (std::int64_t j = 0; j < columns; ++j) {
    const auto& own = rows_of[static_cast<std::size_t>(j)];
    const auto is_free = [&](const std::vector<bool>& of_color) {
      return std::none_of(own.begin(), own.end(),
                          [&](std::int64_t i) { return of_color[static_cast<std::size_t>(i)]; });
    };
    const auto found = std::find_if(taken.begin(), taken.end(), is_free);
    const auto number = static_cast<std::size_t>(found - taken.begin());
    if (found == taken.end()) taken.emplace_back(static_cast<std::size_t>(rows));
    for (const std::int64_t i : own) taken[number][static_cast<std::size_t>(i)] = true;
    result.color.push_back(static_cast<std::int64_t>(number));
  }
  result.colors = static_cast<std::int64_t>(taken.size());
  return result;
}

Tensor indices_of(const std::vector<std::int64_t>& rows, const std::vector<std::int64_t>& columns, Device device) {
  return stack({tensor<std::int64_t>(rows), tensor<std::int64_t>(columns)}, 1).to(device);
}

SparseMatrix stored_jacobian(const TensorFunction& f, const Tensor& x, const Coloring& coloring, const Shape& shape,
                             Where where) {
  if (x.size(where) != shape[1])
    throw InvalidArgumentError(
        detail::join("The pattern ", shape, " has ", shape[1], " columns for the ", x.size(where), " elements of x"));
  // Direction c is 1 at the columns of color c. The jacobian's element (i, j) is element i of what is pushed along the
  // direction of j's color.
  std::vector<double> directions(static_cast<std::size_t>(coloring.colors * x.size(where)));
  for (std::size_t j = 0; j < coloring.color.size(); ++j)
    directions[static_cast<std::size_t>(coloring.color[j]) * coloring.color.size() + j] = 1;
  Shape seeded = x.shape();
  seeded.insert(0, coloring.colors);
  const Tensor seeds = reshape(tensor<double>(directions).cast(x.dtype()).to(x.device()), seeded);
  const Tensor found = pushed(f, x, seeds, where);
  const std::int64_t rows = shape[0], elements = coloring.colors * rows;
  if (found.size(where) != elements)
    throw InvalidArgumentError(detail::join("The pattern ", shape, " has ", rows, " rows for the ",
                                            coloring.colors > 0 ? found.size(where) / coloring.colors : 0,
                                            " elements of f(x)"));
  std::vector<std::int64_t> colors;
  for (const std::int64_t j : coloring.columns) colors.push_back(coloring.color[static_cast<std::size_t>(j)]);
  const Tensor values =
      gather_nd(reshape(found, {coloring.colors, rows}), indices_of(colors, coloring.rows, x.device()));
  return {indices_of(coloring.rows, coloring.columns, x.device()), values, shape};
}

}  // namespace

Tensors detail::flat_jacobian(const ListFunction& f, const std::vector<Value>& points, Way way, Where where) {
  if (way != Way::forward) return backward_jacobians(f, points, way == Way::shorter, where);
  Tensors xs;
  for (const Value& each : points) xs.push_back(each.tensor({}, where));
  return forward_jacobians(f, xs, where);
}

Tensor SparseMatrix::dense(Where where) const {
  const Tensor empty = zeros(dense_shape, {.dtype = values.dtype(), .device = values.device()}, {}, where);
  return tensor_scatter_nd_add(In(empty, where), indices, values);
}

std::function<SparseMatrix(const Value&)> detail::sparse_jacobian_of(TensorFunction f, const Tensor& pattern,
                                                                     Where where) {
  return detail::locating("sparse_jacobian", where, [&]() -> std::function<SparseMatrix(const Value&)> {
    if (!pattern || pattern.rank() != 2)
      throw InvalidArgumentError(detail::join("The pattern must be a matrix, not ",
                                              pattern ? to_string(pattern.shape()) : std::string("an empty Tensor")));
    if (pattern.is_symbolic())
      throw FailedPreconditionError("The pattern has no elements until a graph runs: make it outside of the trace");
    return [f = std::move(f), coloring = color(pattern.cast(boolean, where).to(cpu())), shape = pattern.shape(),
            where](const Value& x) {
      return detail::locating("sparse_jacobian", where,
                              [&] { return stored_jacobian(f, x.tensor({}, where), coloring, shape, where); });
    };
  });
}

}  // namespace tapestry

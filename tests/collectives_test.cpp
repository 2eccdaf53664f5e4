#include <algorithm>
#include <functional>
#include <numeric>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "ranks.hpp"
#include "tapestry/control_flow.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/session.hpp"
#include "tapestry/trace.hpp"

namespace collectives_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

using Inputs = std::vector<Elements>;  // by rank

constexpr Reduce all_reduces[] = {Reduce::sum, Reduce::mean, Reduce::min, Reduce::max, Reduce::product};
constexpr DType all_dtypes[] = {boolean, uint8, int32, int64, float16, bfloat16, float32, float64};

bool can_reduce(Reduce reduce, DType dtype) {
  if (reduce == Reduce::mean) return is_floating(dtype);
  return reduce != Reduce::sum || dtype != boolean;
}

double combined(Reduce reduce, double a, double b) {
  if (reduce == Reduce::min) return std::min(a, b);
  if (reduce == Reduce::max) return std::max(a, b);
  return reduce == Reduce::product ? a * b : a + b;
}

/// All ranks' elements, reduced to one list.
Elements reduced(const Inputs& all, Reduce reduce) {
  Elements result = all[0];
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = combined(reduce, result[i], all[rank][i]);
  if (reduce == Reduce::mean)
    for (double& each : result) each /= static_cast<double>(all.size());
  return result;
}

/// A collective, and what it gives on a rank.
struct Collective {
  std::string name;
  std::function<Tensor(const Communicator&, const Tensor&)> f;
  std::function<Elements(const Inputs&, std::size_t rank)> reference;
  std::function<bool(DType)> takes = [](DType) { return true; };
  bool scatters = false;  ///< the first axis must be divisible
};

std::vector<Collective> collectives() {
  std::vector<Collective> list;
  for (const Reduce reduce : all_reduces) {
    const auto takes = [reduce](DType dtype) { return can_reduce(reduce, dtype); };
    list.push_back({"all_reduce " + to_string(reduce),
                    [reduce](const Communicator& world, const Tensor& x) { return world.all_reduce(x, reduce); },
                    [reduce](const Inputs& all, std::size_t) { return reduced(all, reduce); }, takes});
    list.push_back({"all_reduce of a list, " + to_string(reduce),
                    [reduce](const Communicator& world, const Tensor& x) {
                      const Tensor other = reshape(tensor(std::vector<double>(3, 1)), {3});
                      return world.all_reduce({x.cast(x.dtype()), Tensor(), other, x}, reduce)[3];
                    },
                    [reduce](const Inputs& all, std::size_t) { return reduced(all, reduce); }, takes});
    list.push_back({"reduce_scatter " + to_string(reduce),
                    [reduce](const Communicator& world, const Tensor& x) { return world.reduce_scatter(x, reduce); },
                    [reduce](const Inputs& all, std::size_t rank) {
                      const Elements whole = reduced(all, reduce);
                      const auto part = static_cast<std::ptrdiff_t>(whole.size() / all.size());
                      const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(rank) * part;
                      return Elements(begin, begin + part);
                    },
                    takes, true});
  }
  list.push_back({"all_gather", [](const Communicator& world, const Tensor& x) { return world.all_gather(x); },
                  [](const Inputs& all, std::size_t) {
                    Elements joined;
                    for (const Elements& each : all) joined.insert(joined.end(), each.begin(), each.end());
                    return joined;
                  }});
  for (const int last : {0, 1})
    list.push_back(
        {last ? "broadcast from the last" : "broadcast from the first",
         [last](const Communicator& world, const Tensor& x) { return world.broadcast(x, last ? world.size() - 1 : 0); },
         [last](const Inputs& all, std::size_t) { return last ? all.back() : all[0]; }});
  return list;
}

/// A rank's argument: numbers that every dtype keeps, and whose products and sums it keeps, too.
Tensor argument(const Shape& shape, DType dtype, int rank) {
  const auto seed = static_cast<unsigned>(7 + rank);
  if (dtype == boolean) return booleans(shape, seed);
  return whole_numbers(shape, is_floating(dtype) || dtype == int32 ? -3 : 0, 4, seed).cast(dtype);
}

/// The shapes of arguments: scalars, empty ones, odd ones, and one larger than the ranges into which ranks divide it.
std::vector<Shape> shapes(const Collective& collective, int ranks) {
  if (collective.scatters) return {{ranks}, {0, 3}, {3 * ranks, 5}, {ranks, 7, 1, 3}, {ranks * 1001}};
  return {{}, {1}, {0}, {3, 0, 2}, {7}, {5, 3}, {2, 3, 5, 7}, {1001}};
}

template <class F>
void for_each_case(F f) {
  for (const Collective& each : collectives())
    for (int ranks = 1; ranks <= 4; ++ranks)
      for (const Shape& shape : shapes(each, ranks)) f(each, ranks, shape);
}

}  // namespace

TEST_CASE("a collective gives every rank what plain loops give, over dtypes, ranks and shapes") {
  for_each_case([](const Collective& each, int ranks, const Shape& shape) {
    for (const DType dtype : all_dtypes) {
      if (!each.takes(dtype)) continue;
      INFO(each.name, ", ", ranks, " ranks, ", to_string(dtype), to_string(shape));
      Inputs inputs;
      for (int rank = 0; rank < ranks; ++rank) inputs.push_back(values(argument(shape, dtype, rank)));
      const auto found = on_ranks<Tensor>(
          ranks, [&](const Communicator& world) { return each.f(world, argument(shape, dtype, world.rank())); });
      for (std::size_t rank = 0; rank < found.size(); ++rank) {
        CHECK(found[rank].dtype() == dtype);
        const double tolerance = dtype == bfloat16 ? 0.01 : dtype == float16 ? 1e-3 : 1e-6;
        check_values(found[rank], each.reference(inputs, rank), tolerance);
      }
    }
  });
}

TEST_CASE("the shapes of results are those of the arguments, joined or divided along the first axis") {
  run_ranks(3, [](const Communicator& world) {
    CHECK(world.all_reduce(zeros({2, 5})).shape() == Shape{2, 5});
    CHECK(world.all_reduce(1.0).shape() == Shape{});
    CHECK(world.broadcast(zeros({2, 5})).shape() == Shape{2, 5});
    CHECK(world.all_gather(zeros({2, 5})).shape() == Shape{6, 5});
    CHECK(world.all_gather(zeros({0, 5})).shape() == Shape{0, 5});
    CHECK(world.all_gather(1.0).shape() == Shape{3});
    CHECK(world.reduce_scatter(zeros({6, 5})).shape() == Shape{2, 5});
    CHECK(world.reduce_scatter(zeros({3})).shape() == Shape{1});
  });
}

TEST_CASE("a NaN on one rank is the result of every reduction") {
  const auto found = on_ranks<std::vector<Tensor>>(3, [](const Communicator& world) {
    const Tensor x = tensor({world.rank() == 1 ? not_a_number : 1.0});
    std::vector<Tensor> results;
    for (const Reduce reduce : all_reduces) results.push_back(world.all_reduce(x, reduce));
    return results;
  });
  for (const auto& results : found)
    for (const Tensor& each : results) CHECK(std::isnan(each.to_vector<double>()[0]));
}

TEST_CASE("a sum is added up in the order of the ranks, so that it has the same bits in every run") {
  const Shape shape{4099};
  Tensor expected = numbers(shape, -1, 1, 0).cast(float32);
  for (unsigned rank = 1; rank < 4; ++rank) expected = expected + numbers(shape, -1, 1, rank).cast(float32);
  for (int run = 0; run < 5; ++run)
    for (const Tensor& each : on_ranks<Tensor>(4, [&](const Communicator& world) {
           return world.all_reduce(numbers(shape, -1, 1, static_cast<unsigned>(world.rank())).cast(float32));
         }))
      CHECK(same_bits(each, expected));
}

TEST_CASE("views are reduced as their elements are") {
  const auto found = on_ranks<Tensor>(2, [](const Communicator& world) {
    return world.all_reduce(transpose(reshape(arange(6.0), {2, 3})) * (world.rank() + 1.0));
  });
  for (const Tensor& each : found) check_values(each, {0, 9, 3, 12, 6, 15});
}

namespace {

/// The loss of a rank, which is not linear in x, and differs from rank to rank.
Tensor loss_of(const Collective& collective, const Communicator& world, const Tensor& x) {
  const Tensor y = collective.f(world, x);
  const Tensor weights = numbers(y.shape(), 0.5, 1.5, static_cast<unsigned>(20 + world.rank()));
  return reduce_sum(weights * y * y * y);
}

/// The derivative of a rank's loss along a direction, which differs from rank to rank.
Tensor slope_of(const Collective& collective, const Communicator& world, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  const Tensor slope = tape.gradient(loss_of(collective, world, x), x);
  return reduce_sum(slope * numbers(x.shape(), -1, 1, static_cast<unsigned>(30 + world.rank())));
}

using RankFunction = std::function<Tensor(const Communicator&, const Tensor&)>;

/// Checks the gradients of the sum of all ranks' results by central differences.
void check_gradients(const RankFunction& f, int ranks, const Shape& shape, double tolerance) {
  std::vector<Tensor> points;
  for (int rank = 0; rank < ranks; ++rank) points.push_back(numbers(shape, 0.5, 1.5, static_cast<unsigned>(rank)));
  const auto total = [&](const std::vector<Tensor>& at) {
    double sum = 0;
    for (const Tensor& each : on_ranks<Tensor>(
             ranks, [&](const Communicator& world) { return f(world, at[static_cast<std::size_t>(world.rank())]); }))
      sum += each.item<double>();
    return sum;
  };
  const auto gradients = on_ranks<Tensor>(ranks, [&](const Communicator& world) {
    const Tensor x = points[static_cast<std::size_t>(world.rank())];
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(f(world, x), x, {.unconnected = Unconnected::zero});
  });
  constexpr double step = 1e-4;
  for (std::size_t rank = 0; rank < points.size(); ++rank) {
    std::vector<double> expected;
    for (std::size_t i = 0; i < static_cast<std::size_t>(points[rank].size()); ++i) {
      const auto at = [&](double change) {
        std::vector<Tensor> moved = points;
        std::vector<double> elements = values(points[rank]);
        elements[i] += change;
        moved[rank] = reshape(tensor(elements), shape);
        return total(moved);
      };
      expected.push_back((at(step) - at(-step)) / (2 * step));
    }
    CHECK(gradients[rank].shape() == shape);
    check_values(gradients[rank], expected, tolerance);
  }
}

}  // namespace

TEST_CASE("gradients of the sum of all ranks' losses, of first and second order, by differences") {
  for (const Collective& each : collectives())
    for (int ranks = 1; ranks <= 3; ++ranks)
      for (const Shape& shape :
           each.scatters ? std::vector<Shape>{{ranks}, {2 * ranks, 2}} : std::vector<Shape>{{}, {3}, {2, 2}, {0}}) {
        INFO(each.name, ", ", ranks, " ranks, ", to_string(shape));
        check_gradients([&](const Communicator& world, const Tensor& x) { return loss_of(each, world, x); }, ranks,
                        shape, 1e-5);
        check_gradients([&](const Communicator& world, const Tensor& x) { return slope_of(each, world, x); }, ranks,
                        shape, 1e-5);
      }
}

TEST_CASE("ties share the gradient of an extreme, and zeros leave that of a product alone") {
  const auto found = on_ranks<std::vector<Tensor>>(2, [](const Communicator& world) {
    const Tensor x = tensor({2.0, world.rank() == 0 ? 0.0 : 3.0});
    std::vector<Tensor> gradients;
    for (const Reduce reduce : {Reduce::max, Reduce::product}) {
      GradientTape tape;
      tape.watch(x);
      gradients.push_back(tape.gradient(world.all_reduce(x, reduce), x));
    }
    return gradients;
  });
  check_values(found[0][0], {1, 0});
  check_values(found[1][0], {1, 2});
  check_values(found[0][1], {4, 6});
  check_values(found[1][1], {4, 0});
}

TEST_CASE("eager, traced, in sessions and with unknown sizes: the same bits, for values and gradients") {
  const auto modes = [](const Collective& each, const Communicator& world, const Shape& shape) {
    const auto both = [&](const Tensor& x) -> std::vector<Tensor> {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = each.f(world, x);
      return {y, tape.gradient(reduce_sum(y * y), x)};
    };
    const Tensor x = numbers(shape, -1, 1, static_cast<unsigned>(world.rank())).cast(float32);
    std::vector<Tensor> results = both(x);
    const auto append = [&](const std::vector<Tensor>& more) {
      results.insert(results.end(), more.begin(), more.end());
    };
    std::vector<std::int64_t> unknown(static_cast<std::size_t>(shape.rank()), -1);
    for (const Shape& declared : {shape, Shape(unknown)}) {
      const auto traced = trace(both, {spec(float32, declared)});
      for (int run = 0; run < 2; ++run) append(traced(x));
    }
    const Graph graph;
    const auto scope = graph.as_default();
    const Tensor input = placeholder(float32, shape);
    const Tensor y = each.f(world, input), dx = gradients(reduce_sum(y * y), {input})[0];
    append(Session(graph).run(std::vector<Tensor>{y, dx}, {{input, x}}));
    return results;
  };
  for (const Collective& each : collectives())
    for (const int ranks : {1, 3}) {
      const Shape shape{2 * ranks, 3};
      INFO(each.name, ", ", ranks, " ranks");
      for (const auto& results :
           on_ranks<std::vector<Tensor>>(ranks, [&](const Communicator& world) { return modes(each, world, shape); }))
        for (std::size_t i = 2; i < results.size(); ++i) CHECK(same_bits(results[i], results[i % 2]));
    }
}

TEST_CASE("in a trace, collectives are neither merged nor left out, and keep their order") {
  const auto found = on_ranks<Tensor>(2, [](const Communicator& world) {
    const auto traced = trace(
        [&](const Tensor& x) {
          world.all_reduce(x * 3.0);  // nothing needs it
          world.barrier();
          const Tensor a = world.all_reduce(x), b = world.all_reduce(x);
          return world.all_gather(a + b);
        },
        {spec(float32, {2})});
    std::vector<std::string> types;
    for (const Operation& each : traced.graph().operations())
      if (each.type() == "AllReduce" || each.type() == "Barrier" || each.type() == "AllGather")
        types.push_back(each.type());
    CHECK(types == std::vector<std::string>{"AllReduce", "Barrier", "AllReduce", "AllReduce", "AllGather"});
    // Beside the trace, the same in eager mode: ranks may differ in how they run a program.
    if (world.rank() == 0) return traced(tensor({1.0, 2.0}));
    const Tensor x = tensor({10.0, 20.0});
    world.all_reduce(x * 3.0);
    world.barrier();
    const Tensor a = world.all_reduce(x), b = world.all_reduce(x);
    return world.all_gather(a + b);
  });
  for (const Tensor& each : found) check_values(each, {22, 44, 22, 44});
}

TEST_CASE("collectives in branches and loops") {
  const auto found = on_ranks<Tensor>(3, [](const Communicator& world) {
    const auto traced = trace(
        [&](const Tensor& x) {
          const auto [steps, sum] = while_loop([](const Tensor& i, const Tensor&) { return less(i, 4.0); },
                                               [&](const Tensor& i, const Tensor& so_far) {
                                                 return std::tuple{i + 1.0, so_far + world.all_reduce(i * x)};
                                               },
                                               std::tuple{0.0 * x, 0.0 * x});
          const Tensor total = sum;
          return cond(
              greater(steps, 3.0), [&] { return world.all_reduce(total); }, [&] { return x; });
        },
        {spec(float32, {})});
    return traced(tensor(static_cast<float>(world.rank() + 1)));
  });
  for (const Tensor& each : found) CHECK(each.item<float>() == 3 * 6 * (0 + 1 + 2 + 3));
}

TEST_CASE("gradients of collectives in branches and loops are those of the eager loop") {
  const auto found = on_ranks<std::vector<Tensor>>(2, [](const Communicator& world) {
    const auto f = [&](const Tensor& x) -> std::vector<Tensor> {
      GradientTape tape;
      tape.watch(x);
      const auto [steps, product] = while_loop([](const Tensor& i, const Tensor&) { return less(i, 3.0); },
                                               [&](const Tensor& i, const Tensor& so_far) {
                                                 return std::tuple{i + 1.0, so_far * world.all_reduce(so_far + x)};
                                               },
                                               std::tuple{stop_gradient(0.0 * x), x});
      const Tensor total = product;
      const Tensor y = cond(
          greater(steps, 1.0), [&] { return world.all_reduce(total * total, Reduce::mean); }, [&] { return x; });
      return {y, tape.gradient(y, x)};
    };
    const Tensor x = tensor<double>(0.3 + 0.1 * world.rank());
    std::vector<Tensor> results = f(x);
    for (const Tensor& each : trace(f, {spec(float64, {})})(x)) results.push_back(each);
    return results;
  });
  for (const auto& each : found) {
    CHECK(same_bits(each[0], each[2]));
    CHECK(same_bits(each[1], each[3]));
    CHECK(each[1].item<double>() != 0);
  }
}

TEST_CASE("a graph with a collective is no file, and says so") {
  const Communicator alone;
  const auto traced = trace([&](const Tensor& x) { return alone.all_reduce(x); }, {spec(float32, {2})});
  const std::string text = message_of<UnimplementedError>([&] { static_cast<void>(traced.graph().as_graph_def()); });
  CHECK(text.find("AllReduce") != std::string::npos);
  CHECK(text.find("does not know the ranks") != std::string::npos);
}

TEST_CASE("recomputing a function makes its collectives once") {
  const auto found = on_ranks<Tensor>(2, [](const Communicator& world) {
    const auto traced = trace(
        [&](const Tensor& x) {
          GradientTape tape;
          tape.watch(x);
          const Tensor y = recompute([&](const Tensor& a) { return exp(world.all_reduce(a)); })(x);
          return tape.gradient(y, x);
        },
        {spec(float64, {})});
    return traced(tensor<double>(0.5));
  });
  for (const Tensor& each : found) CHECK(each.item<double>() == doctest::Approx(2 * std::exp(1.0)));
}

}  // namespace collectives_test

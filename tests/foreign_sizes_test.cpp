// Gradients of graphs of others whose sizes and shapes depend on values: a plan is cut where one becomes known, and the
// gradients flow through the cuts.

#include <functional>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "environment.hpp"
#include "expect.hpp"
#include "node_text.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::foreign_sizes_test {

namespace {

const std::string t_int = attr("T", "type: DT_INT32"), index_int = attr("Tidx", "type: DT_INT32"),
                  two = attr("N", "i: 2"),
                  gathered = attr("Tparams", "type: DT_FLOAT") + attr("Taxis", "type: DT_INT32");

/// A function of a vector, by nodes `name`/... of a file, and by this library. `n` is a placeholder, of the value 2.
struct Link {
  const char* kind;
  std::function<std::string(const std::string& name, const std::string& x)> nodes;
  std::function<Tensor(const Tensor& x)> f;
};

/// The nodes of a scalar `name`, the size of a vector.
std::string size_node(const std::string& name, const std::string& x) { return node(name, "Size", {x}, t_float); }
std::string vector_node(const std::string& name, const std::string& scalar) {
  return node(name, "Pack", {scalar}, t_int + attr("N", "i: 1"));
}

const std::vector<Link>& links() {
  static const std::vector<Link> list{
      {"sin", [](const auto& y, const auto& x) { return node(y, "Sin", {x}, t_float); },
       [](const Tensor& x) { return sin(x); }},
      {"mask",
       [](const auto& y, const auto& x) {
         return node(y + "/is", "Greater", {x, "low"}, t_float) +
                node(y + "/places", "Where", {y + "/is"}, attr("T", "type: DT_BOOL")) +
                node(y + "/flat", "Squeeze", {y + "/places"},
                     attr("T", "type: DT_INT64") + attr("squeeze_dims", "list { i: 1 }")) +
                node(y, "GatherV2", {x, y + "/flat", "zero"}, gathered + attr("Tindices", "type: DT_INT64"));
       },
       [](const Tensor& x) { return boolean_mask(x, x > -0.5F); }},
      {"reshape",
       [](const auto& y, const auto& x) {
         return size_node(y + "/size", x) + vector_node(y + "/shape", y + "/size") +
                node(y, "Reshape", {x, y + "/shape"}, t_float);
       },
       [](const Tensor& x) { return x * 1.F; }},
      {"tile",
       [](const auto& y, const auto& x) {
         return vector_node(y + "/times", "n") + node(y, "Tile", {x, y + "/times"}, t_float);
       },
       [](const Tensor& x) { return tile(x, {2}); }},
      {"broadcast",
       [](const auto& y, const auto& x) {
         return size_node(y + "/size", x) + node(y + "/shape", "Pack", {"n", y + "/size"}, t_int + two) +
                node(y + "/rows", "BroadcastTo", {x, y + "/shape"}, t_float + index_int) +
                node(y, "Reshape", {y + "/rows", "minus_ones"}, t_float);
       },
       [](const Tensor& x) { return tile(x, {2}); }},
      {"fill",
       [](const auto& y, const auto& x) {
         return node(y + "/shape", "Shape", {x}, t_float) + node(y + "/full", "Fill", {y + "/shape", "low"}, t_float) +
                node(y, "Mul", {x, y + "/full"}, t_float);
       },
       [](const Tensor& x) { return x * -0.5F; }},
      {"concat",
       [](const auto& y, const auto& x) {
         return node(y + "/sin", "Sin", {x}, t_float) +
                node(y, "ConcatV2", {x, y + "/sin", "zero"}, t_float + two + index_int);
       },
       [](const Tensor& x) {
         return concat({x, sin(x)}, 0);
       }},
      {"parts",
       [](const auto& y, const auto& x) {
         const std::string parts = attr("num_partitions", "i: 2");
         return node(y + "/is", "Greater", {x, "low"}, t_float) +
                node(y + "/of", "Cast", {y + "/is"}, attr("SrcT", "type: DT_BOOL") + attr("DstT", "type: DT_INT32")) +
                size_node(y + "/size", x) + node(y + "/all", "Range", {"zero", y + "/size", "one"}, index_int) +
                node(y + "/places", "DynamicPartition", {y + "/all", y + "/of"}, t_int + parts) +
                node(y + "/x", "DynamicPartition", {x, y + "/of"}, t_float + parts) +
                node(y + "/sin", "Sin", {y + "/x:1"}, t_float) +
                node(y, "ParallelDynamicStitch", {y + "/places", y + "/places:1", y + "/x", y + "/sin"}, t_float + two);
       },
       [](const Tensor& x) { return where(x > -0.5F, sin(x), x); }},
  };
  return list;
}

struct Chain {
  std::string names{};
  Graph graph{};
  std::function<Tensor(const Tensor& x)> f = [](const Tensor& x) { return x; };
};

Chain random_chain(std::mt19937& random) {
  Chain chain;
  std::string text = placeholder_node("x", "dim { size: -1 }") +
                     node("n", "Placeholder", {}, attr("dtype", "type: DT_INT32") + attr("shape", "shape { }")) +
                     float_node("low", "-0.5") + constant_node("zero", "DT_INT32", "tensor_shape { } int_val: 0") +
                     constant_node("one", "DT_INT32", "tensor_shape { } int_val: 1") + ints_node("minus_ones", {-1});
  std::string last = "x";
  const std::size_t length = 2 + random() % 6;
  for (std::size_t i = 0; i < length; ++i) {
    const Link& link = links()[random() % links().size()];
    const std::string name = detail::join("y", i);
    text += link.nodes(name, last);
    chain.names += std::string(" ") + link.kind;
    chain.f = [f = chain.f, &link](const Tensor& x) { return link.f(f(x)); };
    last = name;
  }
  chain.graph = read(text + node("last", "Identity", {last}, t_float));
  return chain;
}

}  // namespace

TEST_CASE("gradients of orders 1 and 2 flow through all sizes that depend on values") {
  std::mt19937 random(seed_of_cases(5));
  for (long k = number_of_cases(60); k > 0; --k) {
    const Chain chain = random_chain(random);
    CAPTURE(chain.names);
    const Tensor x = tensor<float>({0.7, -0.9, 0.3, -0.1, 1.2});
    GradientTape outer, tape;
    outer.watch(x);
    tape.watch(x);
    const Tensor y = chain.f(x);
    const Tensor slope = tape.gradient(reduce_sum(y * y), x), curve = outer.gradient(reduce_sum(slope * slope), x);

    const auto scope = chain.graph.as_default();
    const Tensor source = chain.graph.get_tensor_by_name("x:0"), last = chain.graph.get_tensor_by_name("last:0");
    const Tensor first = gradients({reduce_sum(last * last)}, {source})[0];
    const Tensor second = gradients({reduce_sum(first * first)}, {source})[0];
    const Session session(chain.graph);
    const Feeds feeds{{"x:0", x}, {"n:0", 2}};
    check_same(session.run(last, feeds), y, 1e-5);
    check_same(session.run(first, feeds), slope, 1e-5);
    check_same(session.run(second, feeds), curve, 1e-4);
  }
}

}  // namespace tapestry::test::foreign_sizes_test

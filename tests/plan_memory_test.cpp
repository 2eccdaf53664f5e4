// A plan takes no more memory while it is made than while it runs, a planned step allocates nothing, and a thread that
// ends leaves nothing.

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "same_bits.hpp"
#include "sanitizers.hpp"
#include "tapestry/tapestry.hpp"

namespace {

std::atomic<std::int64_t> allocations{0}, live{0};

void* counted(std::size_t bytes) noexcept {
  ++allocations;
  ++live;
  return std::malloc(bytes);
}
void* counted(std::size_t bytes, std::align_val_t alignment) noexcept {
  ++allocations;
  ++live;
  const auto step = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(step, (bytes + step - 1) / step * step);
}

void given_back(void* block) noexcept {
  if (block) --live;
  std::free(block);
}

void* required(void* block) {
  if (!block) throw std::bad_alloc();
  return block;
}

}  // namespace

// All forms: a sanitizer brings its own for those that are missing.
void* operator new(std::size_t bytes) { return required(counted(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return required(counted(bytes, alignment)); }
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted(bytes, alignment);
}
void operator delete(void* block) noexcept { given_back(block); }
void operator delete(void* block, std::size_t) noexcept { given_back(block); }
void operator delete(void* block, std::align_val_t) noexcept { given_back(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { given_back(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { given_back(block); }
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept { given_back(block); }

namespace tapestry::test::plan_memory_test {
namespace {

/// What one more run allocates, once the first have made the plan: on the heap, and as blocks for tensors.
template <class F>
std::pair<std::int64_t, std::int64_t> allocations_of(F run) {
  for (int i = 0; i < 3; ++i) run();
  const std::int64_t heap = allocations, blocks = memory_stats().allocations;
  for (int i = 0; i < 10; ++i) run();
  return {allocations - heap, memory_stats().allocations - blocks};
}

struct Network {
  std::vector<Variable> parameters;
  Network() {
    std::int64_t inputs = 20;
    for (const std::int64_t outputs : {64, 32, 10}) {
      parameters.emplace_back(random::normal({inputs, outputs}) * 0.1);
      parameters.emplace_back(zeros({outputs}));
      inputs = outputs;
    }
  }
  Tensor loss(const Tensor& x, const Tensor& target) const {
    return -reduce_mean(reduce_sum(target * log(softmax(logits(x))), 1));
  }
  Tensor logits(const Tensor& x) const {
    Tensor h = x;
    for (std::size_t i = 0; i < parameters.size(); i += 2) {
      h = matmul(h, parameters[i]) + parameters[i + 1];
      if (i + 2 < parameters.size()) h = relu(h);
    }
    return h;
  }
};

Tensor some_labels() { return (random::uniform({128}) * 10).cast(int32); }

using Allocations = std::pair<std::int64_t, std::int64_t>;

}  // namespace

TEST_CASE("the counter counts") {
  const auto [heap, blocks] = allocations_of([] { return std::vector<Tensor>{zeros({1000})}; });
  CHECK(heap >= 10);
  CHECK(blocks >= 10);
}

TEST_CASE("a traced training step allocates nothing") {
  const Network network;
  const auto x = random::normal({128, 20});
  const Tensor target = one_hot(some_labels(), 10);
  train::GradientDescentOptimizer descent(0.1);
  train::AdamOptimizer adam(0.001);
  for (train::Optimizer* optimizer : std::initializer_list<train::Optimizer*>{&descent, &adam}) {
    const auto step = trace(
        [&](const Tensor& points, const Tensor& wanted) {
          GradientTape tape;
          Tensor loss = network.loss(points, wanted);
          optimizer->apply_gradients(tape.gradient(loss, network.parameters), network.parameters);
          return loss;
        },
        {spec(float32, {-1, 20}), spec(float32, {-1, 10})});
    if (caching) CHECK(allocations_of([&] { step(x, target); }) == Allocations{0, 0});
  }
}

TEST_CASE("a callable of a graph built by hand allocates nothing") {
  const Tensor points = random::uniform({128, 20}), classes = one_hot(some_labels(), 10);
  Graph graph;
  const auto scope = graph.as_default();
  const Network network;
  const Tensor x = placeholder(float32, {-1, 20}), target = placeholder(float32, {-1, 10});
  const Tensor loss = network.loss(x, target);
  const Operation train_op = train::MomentumOptimizer(0.1, 0.9).minimize(loss);
  Session session;
  session.run(global_variables_initializer());
  const auto step = session.make_callable({loss, train_op}, {x, target});
  if (caching) CHECK(allocations_of([&] { step(points, classes); }) == Allocations{0, 0});
  // A result that is held when the next run comes keeps its memory, so the next one needs some of its own.
  Tensor held;
  const auto fetch = session.make_callable({loss * ones({1000})}, {x, target});
  CHECK(allocations_of([&] { held = fetch(points, classes)[0]; }).second == 10);
}

TEST_CASE("an iteration of a loop allocates the value that the loop carries, and nothing else") {
  const Tensor w = random::normal({32, 32}) * 0.1;
  const auto f = trace(
      [&](const Tensor& x, const Tensor& n) {
        const auto loop = while_loop([&](const Tensor& i, const Tensor&) { return i < n; },
                                     [&](const Tensor& i, const Tensor& y) {
                                       return std::tuple{i + 1, tanh(matmul(y, w)) + x};
                                     },
                                     std::tuple{0, x});
        return std::get<1>(loop);
      },
      {spec(float32, {32, 32}), spec(int32, {})});
  const Tensor x = ones({32, 32}), few = tensor(10), many = tensor(1000);
  const auto of_few = allocations_of([&] { f(x, few); }), of_many = allocations_of([&] { f(x, many); });
  CHECK(of_many.first == of_few.first);
  CHECK(of_many.second - of_few.second == 10 * (1000 - 10));
}

TEST_CASE("what kernels need for themselves comes from the cache") {
  const Network network;
  const Tensor x = random::normal({128, 20}), labels = some_labels();
  const auto loss = trace(
      [&](const Tensor& points, const Tensor& classes) {
        return reduce_mean(sparse_softmax_cross_entropy(classes, network.logits(points)));
      },
      {spec(float32, {-1, 20}), spec(int32, {-1})});
  loss(x, labels);
  const MemoryStats before = memory_stats();
  if (caching) CHECK(allocations_of([&] { loss(x, labels); }).first == 0);
  CHECK(memory_stats().in_use == before.in_use);
  CHECK(memory_stats().cached == before.cached);
}

TEST_CASE("plans of one graph share their memory, and give the results of fresh ones") {
  const Tensor weight = random::normal({256, 256});
  Graph graph;
  Tensor x, result;
  {
    const auto scope = graph.as_default();
    x = placeholder(float32, {-1, 256});
    Tensor y = x;
    for (int i = 0; i < 4; ++i) y = matmul(tanh(y), weight);
    result = reduce_sum(y, 1);
  }
  const auto batch = [](std::int64_t rows) { return ones({rows, 256}) * static_cast<double>(rows) / 1000; };
  Session shared(graph);
  const std::int64_t before = memory_stats().in_use;
  shared.run(result, {{x, batch(700)}});
  const std::int64_t of_largest = memory_stats().in_use - before;
  CHECK(of_largest >= 700 * 256 * 4);
  for (int round = 0; round < 2; ++round)
    for (std::int64_t rows = 10; rows <= 700; rows += 10) {
      CAPTURE(rows);
      CHECK(same_bits(shared.run(result, {{x, batch(rows)}}), Session(graph).run(result, {{x, batch(rows)}})));
    }
  CHECK(memory_stats().in_use - before < 2 * of_largest);

  // Runs that take place at the same time have memory of their own.
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (std::int64_t rows = 50; rows <= 200; rows += 50)
    threads.emplace_back([&, rows] {
      const Tensor expected = Session(graph).run(result, {{x, batch(rows)}});
      for (int i = 0; i < 50; ++i) wrong += same_bits(shared.run(result, {{x, batch(rows)}}), expected) ? 0 : 1;
    });
  for (std::thread& each : threads) each.join();
  CHECK(wrong == 0);
  shared.close();
  CHECK(memory_stats().in_use == before);
}

TEST_CASE("traces of one function share their memory") {
  const auto step = [](const Tensor& x) { return reduce_sum(matmul(tanh(matmul(x, transpose(x))), x)); };
  const auto f = function(step);
  const auto batch = [](std::int64_t rows) { return ones({rows, 8}) * (static_cast<double>(rows) / 1000); };
  const std::int64_t before = memory_stats().in_use;
  f(batch(300));
  const std::int64_t of_largest = memory_stats().in_use - before;
  CHECK(of_largest >= 300 * 300 * 4);
  for (std::int64_t rows = 5; rows <= 300; rows += 5) CHECK(same_bits(f(batch(rows)), function(step)(batch(rows))));
  CHECK(f.trace_count() == 60);
  CHECK(memory_stats().in_use - before < of_largest + of_largest / 10);
}

TEST_CASE("making a plan takes the memory of the plan, not that of all results") {
  const std::int64_t size = 1 << 18, bytes = size * 4;
  const Tensor value = ones({size});
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {size});
  Tensor y = x;
  for (int i = 0; i < 20; ++i) y = softmax(y);
  y = reduce_sum(reshape(transpose(reshape(y, {512, -1})), {-1}) * 2.0);
  Session session;
  const std::int64_t before = memory_stats().in_use;
  reset_peak_memory();
  const ExecutionPlan plan = session.explain(y, {{x, value}}).plan;
  CHECK(memory_stats().peak - before < 4 * bytes);
  CHECK(plan.arenas.at(0).bytes < 4 * bytes);
  CHECK(plan.arenas.at(0).bytes_without_reuse > 20 * bytes);
  reset_peak_memory();
  session.run(y, {{x, value}});
  CHECK(memory_stats().peak - before < 4 * bytes);
}

TEST_CASE("a thread that ends leaves nothing on the heap") {
  // Longer than what a string holds by itself.
  const std::string name = "a_name_of_forty_characters_or_thereabouts",
                    device_name = "/job:localhost/replica:0/task:0/cpu:0";
  nn::Dense layer(2, 3);
  const std::pair<std::string, std::function<void()>> uses[] = {
      {"scopes",
       [&] {
         const Graph graph;
         const auto open = graph.as_default();
         const auto named = name_scope(name);
         const auto placed = device(device_name);
         const Tensor p = placeholder(float32, {2}, name);
         const auto after = control_dependencies({p.op()});
         const auto beside = colocate_with(p.op());
         CHECK(tanh(p).name().starts_with(name));
       }},
      {"scopes within scopes",
       [&] {
         const auto outer = name_scope(name);
         const auto outside = device(device_name);
         const auto inner = name_scope(name);
         const auto inside = device("/cpu:0");
         tanh(placeholder(float32, {2}, name));
       }},
      {"the default graph",
       [] {
         Session().run(placeholder(float32, {2}) * 0.0 + 1.0, {{"Placeholder:0", {1, 2}}});
       }},
      {"the default session",
       [] {
         const Graph graph;
         const auto open = graph.as_default();
         const Session session(graph);
         const auto by_default = session.as_default();
         tanh(constant({1, 2})).eval();
       }},
      {"tapes",
       [] {
         std::vector<GradientTape> tapes(9);
         const Variable w(2.0);
         const Tensor y = w * w;
         tapes[8].gradient(y, w);
       }},
      {"a tape that another thread destroys",
       [] {
         auto tape = std::make_unique<GradientTape>();
         const Variable w(2.0);
         const Tensor y = w * w;
         std::thread([&] { tape.reset(); }).join();
       }},
      {"a tape that outlives its thread",
       [] {
         std::unique_ptr<GradientTape> tape;
         std::thread([&] {
           tape = std::make_unique<GradientTape>();
           const Variable w(2.0);
           const Tensor y = w * w;
         }).join();
       }},
      {"functions", [] { vmap(grad([](const Tensor& x) { return x * x * x; }))(ones({3})); }},
      {"a product that packs its operands",
       [] {
         matmul(ones({300, 300}), ones({300, 300}));
       }},
      {"an error that names its layer",
       [&] {
         CHECK_THROWS_AS(layer(ones({4, 5})), Error);
       }},
      {"ranks", [] { run_ranks(2, [](const Communicator& world) { world.all_reduce(ones({})); }); }},
  };
  for (const auto& each : uses) {
    CAPTURE(each.first);
    const auto in_a_thread = [&run = each.second] { std::thread(run).join(); };
    for (int i = 0; i < 3; ++i) in_a_thread();
    const std::int64_t before = live;
    for (int i = 0; i < 10; ++i) in_a_thread();
    CHECK(live <= before);
  }
}

TEST_CASE("the memory of small tensors that one thread makes and another frees serves again") {
  // A thread keeps some thousand blocks: more change hands while it runs, and the others at its end.
  for (const int count : {10, 1023, 1024, 1025, 2048, 5000}) {
    CAPTURE(count);
    std::vector<Tensor> made;
    bool intact = true;
    const auto pass_on = [&] {
      for (int i = 0; i < count; ++i) made.push_back(tensor(i));
      for (int i = 0; i < count; ++i) intact = intact && *made[static_cast<std::size_t>(i)].data<std::int32_t>() == i;
      std::thread([&] { made.clear(); }).join();
    };
    for (int i = 0; i < 3; ++i) pass_on();
    const std::int64_t before = live;
    for (int i = 0; i < 1000 && i * count < 200'000; ++i) pass_on();
    CHECK(live == before);
    CHECK(intact);
  }
}

TEST_CASE("a tape that another thread has destroyed keeps nothing") {
  const auto use = [] {
    Variable w(2.0);
    const auto change = [&] {
      for (int i = 0; i < 100; ++i) w.assign(square(w) * 0.5);
    };
    change();
    const std::int64_t before = live;
    auto tape = std::make_unique<GradientTape>();
    change();
    std::thread([&] { tape.reset(); }).join();
    change();
    CHECK(live - before < 20);  // the tape itself, and what its thread finds it by
  };
  for (int i = 0; i < 3; ++i) std::thread(use).join();
}

}  // namespace tapestry::test::plan_memory_test

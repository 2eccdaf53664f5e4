// Steps that a device records and replays: the same bits as without, whatever changes from run to run.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include <doctest/doctest.h>

#include "op_cases/op_cases.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::device_replay {
namespace {

using Inputs = std::vector<Tensor>;

const Device gpu = cuda(0);

struct Count {
  std::size_t steps = 0, replayed = 0;
  std::string reasons{};  ///< of the steps that were not, each once
};
/// Of the steps on the device.
Count count(const RunMetadata& metadata) {
  Count result;
  for (const ExecutionPlan::Step& step : metadata.plan.steps) {
    if (step.device != gpu) continue;
    CHECK(step.replayed == step.why_executed.empty());
    ++result.steps;
    result.replayed += step.replayed ? 1 : 0;
    if (result.reasons.find(step.why_executed) == std::string::npos) result.reasons += step.why_executed + "; ";
  }
  return result;
}

Tensor on_gpu(const std::function<Tensor()>& make) {
  const auto there = device(gpu);
  return make();
}

/// A graph of one placeholder "x" on the device, and a session of it.
struct Fixture {
  explicit Fixture(const Shape& shape, const std::function<Tensor(const Tensor&)>& f,
                   const SessionOptions& options = {})
      : session(graph, options) {
    const auto scope = graph.as_default();
    x = on_gpu([&] { return placeholder(float32, shape, "x"); });
    y = on_gpu([&] { return f(x); });
  }

  Tensor run(const Tensor& value, Count* counted = nullptr, const RunOptions& options = {}) {
    RunMetadata metadata;
    Tensor result = session.run(y, {{x, value}}, options, &metadata);
    if (counted) *counted = count(metadata);
    return result;
  }

  Graph graph;
  Session session;
  Tensor x, y;
};

Tensor data(int i) { return numbers({4, 3}, -1, 1, static_cast<unsigned>(i)).cast(float32); }

/// Whether the device is to wait after every kernel, and so records nothing.
bool is_synchronous() {
  const char* value = std::getenv("TAPESTRY_CUDA_SYNC");
  return value && *value != '\0' && std::string_view(value) != "0";
}

TEST_SUITE("replay on a CUDA device" * doctest::skip(is_synchronous())) {
  TEST_CASE("every op and its gradient give the eager bits in every run of a graph, recorded or not") {
    std::size_t steps = 0, replayed = 0;
    for (const OpCase& row : op_cases()) {
      if (row.inputs.empty()) continue;
      INFO(row.name);
      Inputs moved;
      std::vector<TensorSpec> specs;
      for (const Tensor& input : row.inputs) {
        moved.push_back(input.to(gpu));
        specs.push_back(spec(input.dtype(), input.shape()));
      }
      random::seed(5);
      const Inputs expected = value_and_gradients(row, moved);
      const auto traced = trace(
          [&](const Inputs& x) {
            const auto there = device(gpu);
            return value_and_gradients(row, x);
          },
          specs);
      const Session session(traced.graph()), without(traced.graph(), {.replay = false});
      Feeds feeds;
      for (std::size_t i = 0; i < moved.size(); ++i) feeds.add(traced.input(i), moved[i]);
      Inputs held;
      for (int run = 0; run < 6; ++run) {
        RunMetadata metadata;
        random::seed(5);
        Inputs found;
        REQUIRE_NOTHROW(found = (run == 5 ? without : session).run(traced.outputs(), feeds, {}, &metadata));
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
        for (std::size_t i = 0; i < held.size(); ++i) CHECK(same_bits(held[i], expected[i]));
        held = found;
        if (run == 0 || run == 5) CHECK(count(metadata).replayed == 0);
        if (run != 4) continue;
        steps += count(metadata).steps;
        replayed += count(metadata).replayed;
      }
    }
    MESSAGE(replayed, " of ", steps, " steps were replayed");
    CHECK(2 * replayed > steps);
  }

  TEST_CASE("steps whose buffers would be large are not recorded") {
    const auto replayed_steps = [](std::int64_t size) {
      Fixture graph({size}, [](const Tensor& x) { return tanh(x) * 2.0F; });
      const Tensor x = linspace(-1.0F, 1.0F, size).to(gpu), expected = tanh(x) * 2.0F;
      Count counted;
      for (int i = 0; i < 3; ++i) CHECK(same_bits(graph.run(x, &counted), expected));
      if (counted.replayed == 0) CHECK(counted.reasons.find("is one of few, and their buffers would be large") == 0);
      return counted.replayed;
    };
    CHECK(replayed_steps(1000) > 0);
    CHECK(replayed_steps(1 << 20) == 0);
  }

  TEST_CASE("what is fed and what comes out changes from run to run") {
    Fixture graph({-1, 3}, [](const Tensor& x) { return reduce_sum(square(tanh(x) * 2.0F), 1); });
    Inputs held;
    for (int i = 0; i < 8; ++i) {
      const Tensor value = data(i);
      Count counted;
      // From the host, from the device, as a view.
      const Tensor fed = i % 3 == 0 ? value : i % 3 == 1 ? value.to(gpu) : transpose(transpose(value.to(gpu)));
      held.push_back(graph.run(fed, &counted));
      CHECK(counted.replayed == (i == 0 ? 0 : counted.steps));
      CHECK(counted.steps > 0);
      for (int k = 0; k <= i; ++k)
        CHECK(same_bits(held[static_cast<std::size_t>(k)], reduce_sum(square(tanh(data(k).to(gpu)) * 2.0F), 1)));
    }
  }

  TEST_CASE("the options turn it off, the plan tells why, and a measured run executes") {
    const auto f = [](const Tensor& x) { return exp(x); };
    Count counted;
    {
      Fixture off({4, 3}, f, {.replay = false});
      for (int i = 0; i < 4; ++i) off.run(data(i), &counted);
      CHECK(counted.replayed == 0);
      CHECK(counted.reasons == "replay is off; ");
    }
    Fixture on({4, 3}, f);
    for (int i = 0; i < 4; ++i) on.run(data(i), &counted);
    CHECK(counted.replayed == counted.steps);
    on.run(data(1), &counted, {.trace_level = TraceLevel::full});
    CHECK(counted.replayed == 0);
    CHECK(same_bits(on.run(data(7), &counted, {.timeout_in_ms = 600000}), exp(data(7).to(gpu))));
    CHECK(counted.replayed == counted.steps);
    CHECK(on.session.explain(on.y, {{on.x, data(1)}}).plan.steps[0].why_executed != "");
  }

  TEST_CASE("random numbers and what waits for the device are executed between what is replayed") {
    Fixture graph({4, 3}, [](const Tensor& x) {
      const Tensor noisy = exp(x) + random::normal({4, 3});
      return tanh(matmul(noisy * 3.0F, inverse(matmul(transpose(noisy), noisy)))) + x;
    });
    const auto expected = [](const Tensor& value) {
      const Tensor x = value.to(gpu), noisy = exp(x) + random::normal({4, 3}, {.device = gpu});
      return tanh(matmul(noisy * 3.0F, inverse(matmul(transpose(noisy), noisy)))) + x;
    };
    Count counted;
    for (int i = 0; i < 8; ++i) {
      random::seed(static_cast<std::uint64_t>(i));
      const Tensor found = graph.run(data(i), &counted);
      random::seed(static_cast<std::uint64_t>(i));
      CHECK(same_bits(found, expected(data(i))));
    }
    CHECK(counted.replayed >= 3);
    CHECK(counted.replayed < counted.steps);
    CHECK(counted.reasons.find("draws random numbers; ") != std::string::npos);
    CHECK(counted.reasons.find("waits for the device, or copies from the host; ") != std::string::npos);
  }

  TEST_CASE("an error in the middle leaves the next runs as they are") {
    Fixture graph({4, 3},
                  [](const Tensor& x) { return exp(gather(x * 2.0F, cast(reduce_max(x, 1), int32), 0)) + 1.0F; });
    const auto expected = [](const Tensor& x) {
      return exp(gather(x * 2.0F, cast(reduce_max(x, 1), int32), 0)) + 1.0F;
    };
    const Tensor far = full({4, 3}, 9.0F);
    for (int i = 0; i < 9; ++i) {
      if (i % 4 == 3)
        CHECK_THROWS_WITH_AS(graph.run(far), doctest::Contains("indices[0] = 9 is not in [0, 4)"),
                             InvalidArgumentError);
      CHECK(same_bits(graph.run(data(i)), expected(data(i).to(gpu))));
    }
  }

  TEST_CASE("a replay goes on while integers are checked, and gives the error of a kernel that refuses one") {
    using F = std::function<Tensor(const Tensor& table, const Tensor& i)>;
    struct Row {
      const char* name;
      F f;
      int refused;
      const char* error;
    };
    const Tensor updates = ones({3, 4}, {.device = gpu});
    const Row rows[] = {
        {"gather", [](const Tensor& t, const Tensor& i) { return gather(t, i, 0); }, 5,
         "indices[1] = 5 is not in [0, 5)"},
        {"negative", [](const Tensor& t, const Tensor& i) { return gather(t, i, 1); }, -1,
         "indices[1] = -1 is not in [0, 4)"},
        {"gather_nd",
         [](const Tensor& t, const Tensor& i) {
           return gather_nd(t, reshape(i, {3, 1}));
         },
         7, "indices[1] = [7] does not index into param shape [5,4]"},
        {"take_along_axis",
         [](const Tensor& t, const Tensor& i) {
           return take_along_axis(t, broadcast_to(reshape(i, {1, 3}), {5, 3}), 1);
         },
         4, "indices[0,1] = 4 is not in [0, 4)"},
        {"tensor_scatter_nd_add",
         [&](const Tensor& t, const Tensor& i) {
           return tensor_scatter_nd_add(t, reshape(i, {3, 1}), updates * t(0));
         },
         9, "indices[1] = [9] does not index into shape [5,4]"},
        {"a quotient", [](const Tensor& t, const Tensor& i) { return t(0, 0) * cast(floor_divide(7, i + 1), float32); },
         -1, "Integer division by zero"},
        {"a loss", [](const Tensor& t, const Tensor& i) { return sparse_softmax_cross_entropy(i, t(range(0, 3))); }, 4,
         "Received a label value of 4 which is outside the valid range of [0, 4)"},
        {"a computed index", [](const Tensor& t, const Tensor& i) { return gather(tanh(t), i * i, 0); }, 3,
         "indices[1] = 9 is not in [0, 5)"},
    };
    for (const Row& row : rows)
      for (const DType dtype : {int32, int64})
        for (const bool trained : {false, true}) {
          INFO(row.name, ", ", to_string(dtype), trained ? ", trained" : "");
          Variable table(numbers({5, 4}, -1, 1, 21).cast(float32).to(gpu), {.name = "table"}), same(table.value());
          const auto value_of = [&](const Tensor& t, const Tensor& i) {
            // Much else follows, in whose memory that of the index would be, and an earlier change of a Variable.
            Tensor sum = reduce_sum(square(row.f(t, i)));
            for (int k = 0; k < 12; ++k) sum = reduce_sum(softmax(t * sum, 1) * sum) / 5.0F;
            return sum;
          };
          train::GradientDescentOptimizer optimizer(0.01), other(0.01);
          const Graph graph;
          Tensor i, y;
          Operation step;
          {
            const auto scope = graph.as_default();
            const auto there = device(gpu);
            i = placeholder(dtype, {3}, "i");
            y = value_of(table, i);
            if (trained) step = optimizer.minimize(y, std::vector<Variable>{table});
          }
          const Session session(graph);
          Count counted;
          const auto run = [&](const Tensor& index) {
            RunMetadata metadata;
            Tensor found = trained ? std::get<0>(session.run(std::tuple{y, step}, {{i, index}}, {}, &metadata))
                                   : session.run(y, {{i, index}}, {}, &metadata);
            counted = count(metadata);
            return found;
          };
          for (int k = 0; k < 10; ++k) {
            const auto indices = [&](int second) { return tensor({k % 3, second, 2}).cast(dtype); };
            const Tensor index = indices(1), bad = indices(row.refused);
            const Tensor before = table.value().to(cpu());
            if (k % 3 == 2)
              CHECK_THROWS_WITH_AS(run(k % 2 == 0 ? bad : bad.to(gpu)), doctest::Contains(row.error),
                                   InvalidArgumentError);
            CHECK(same_bits(table.value().to(cpu()), before));
            const Tensor found = run(k % 2 == 0 ? index.to(gpu) : index);
            Tensor expected;
            const auto loss = [&] { return expected = value_of(same, index.to(gpu)); };
            trained ? other.minimize(loss, {same}) : loss();
            CHECK(same_bits(found, expected));
            CHECK(same_bits(table.value(), same.value()));
          }
          INFO(counted.reasons);
          CHECK(counted.reasons.find("waits for the device") == std::string::npos);
          CHECK(counted.replayed * 2 > counted.steps);
        }
  }

  TEST_CASE("updates of some rows of a table are replayed, and change nothing where they refuse an index") {
    for (const bool looked_up : {true, false})
      for (const DType dtype : {int32, int64}) {
        INFO(looked_up, to_string(dtype));
        Variable table(numbers({5, 33}, -1, 1, 21).cast(float32).to(gpu), {.name = "table"}), same(table.value());
        Variable w(ones({33}, {.device = gpu})), same_w(w.value());
        train::AdamOptimizer optimizer(0.1), other(0.1);
        const auto loss_of = [](const Tensor& t, const Tensor& v, const Tensor& i) {
          return reduce_sum(square(gather(t, i, 0) * v - 0.3F));
        };
        const auto gradient_of = [](const Tensor& v, const Tensor& i, const Tensor& like) {
          return to_tensor({i, broadcast_to(v * 2.0F, {7, 33})}, like);
        };
        const Graph graph;
        Tensor i;
        Operation step;
        {
          const auto scope = graph.as_default();
          const auto there = device(gpu);
          i = placeholder(dtype, {7}, "i");
          step = looked_up ? optimizer.minimize(loss_of(table, w, i), std::vector<Variable>{table, w})
                           : optimizer.apply_gradients({{gradient_of(w, i, table), table}});
        }
        const Session session(graph);
        Count counted;
        for (int run = 0; run < 9; ++run) {
          const Tensor index = tensor({run % 5, 2, 0, 2, 2, run % 5, 4}).cast(dtype);
          const Tensor before = table.value().to(cpu());
          if (run % 3 == 2)
            CHECK_THROWS_WITH_AS(session.run(step, {{i, index + 1}}), doctest::Contains("= 5 is not in [0, 5)"),
                                 InvalidArgumentError);
          CHECK(same_bits(table.value().to(cpu()), before));
          RunMetadata metadata;
          session.run(step, {{i, index}}, {}, &metadata);
          counted = count(metadata);
          const Tensor there = index.to(gpu);
          if (looked_up)
            other.minimize([&] { return loss_of(same, same_w, there); }, {same, same_w});
          else
            other.apply_gradients({{gradient_of(same_w, there, same), same}});
          CHECK(same_bits(table.value(), same.value()));
          CHECK(same_bits(w.value(), same_w.value()));
        }
        INFO(counted.reasons);
        CHECK(counted.reasons.find("waits for the device") == std::string::npos);
        CHECK(counted.replayed >= 3);
      }
  }

  TEST_CASE("training steps give the bits of eager ones, whatever happens to the Variables in between") {
    enum class How { eager, executed, replayed };
    const auto history = [&](How how, train::Optimizer& optimizer) {
      Variable w(numbers({3, 5}, -1, 1, 21).cast(float32).to(gpu), {.name = "w"});
      Variable b(zeros({5}, {.device = gpu}), {.name = "b"});
      const auto loss_of = [&](const Tensor& x) { return reduce_mean(square(tanh(matmul(x, w) + b) - 0.3F)); };
      const Graph graph;
      Tensor x, loss;
      Operation step;
      if (how != How::eager) {
        const auto scope = graph.as_default();
        const auto there = device(gpu);
        x = placeholder(float32, {-1, 3}, "x");
        loss = loss_of(x);
        step = optimizer.minimize(loss, std::vector<Variable>{w, b});
      }
      const Session session(graph, {.replay = how == How::replayed});
      Inputs seen;
      Count counted;
      const auto run = [&](int i) {
        if (how == How::eager) {
          seen.push_back(optimizer.minimize([&] { return loss_of(data(i).to(gpu)); }, {w, b}));
        } else {
          RunMetadata metadata;
          seen.push_back(std::get<0>(session.run(std::tuple{loss, step}, {{x, data(i)}}, {}, &metadata)));
          counted = count(metadata);
        }
        seen.push_back(w.value().to(cpu()));
        seen.push_back(b.value().to(cpu()));
      };
      const auto check_all_replayed = [&] {
        INFO(counted.reasons);
        if (how == How::replayed) CHECK(counted.replayed + 3 >= counted.steps);  // but what meets the host
        if (how != How::replayed) CHECK(counted.replayed == 0);
      };
      for (int i = 0; i < 5; ++i) run(i);
      check_all_replayed();
      {
        const Tensor held = w.value(), copy = held.to(cpu());
        run(5);
        run(6);
        CHECK(same_bits(held, copy));  // the value that is held does not change
      }
      for (int i = 7; i < 10; ++i) run(i);
      check_all_replayed();
      w.assign(ones({3, 5}, {.device = gpu}) * 0.25F);
      for (int i = 10; i < 13; ++i) run(i);
      check_all_replayed();
      w.assign(transpose(numbers({5, 3}, -1, 1, 22).cast(float32).to(gpu)));
      for (int i = 13; i < 16; ++i) run(i);
      trim_memory(gpu);
      b.assign_add(ones({5}));
      for (int i = 16; i < 19; ++i) run(i);
      check_all_replayed();
      return seen;
    };
    const auto optimizers = [] {
      std::vector<std::unique_ptr<train::Optimizer>> list;
      list.push_back(std::make_unique<train::GradientDescentOptimizer>(0.1));
      list.push_back(std::make_unique<train::MomentumOptimizer>(0.1, 0.9));
      list.push_back(std::make_unique<train::AdamOptimizer>(0.1));
      list.push_back(std::make_unique<train::RMSPropOptimizer>(0.1));
      return list;
    };
    const auto eager = optimizers(), executed = optimizers(), replayed = optimizers();
    for (std::size_t i = 0; i < eager.size(); ++i) {
      INFO("optimizer ", i);
      const Inputs expected = history(How::eager, *eager[i]);
      for (const Inputs& found : {history(How::executed, *executed[i]), history(How::replayed, *replayed[i])}) {
        REQUIRE(found.size() == expected.size());
        for (std::size_t k = 0; k < found.size(); ++k) {
          INFO("value ", k);
          CHECK(same_bits(found[k], expected[k]));
        }
      }
    }
  }

  TEST_CASE("dropout: a Variable that is read in one segment is changed in another") {
    Variable w(numbers({3, 5}, -1, 1, 21).cast(float32).to(gpu));
    Variable same(w.value());
    const auto loss_of = [](const Tensor& x, const Tensor& weight) {
      return reduce_mean(square(matmul(dropout(tanh(matmul(x, weight)), 0.5), transpose(weight))));
    };
    train::MomentumOptimizer optimizer(0.1, 0.9), other(0.1, 0.9);
    const Graph graph;
    Tensor x;
    Operation step;
    {
      const auto scope = graph.as_default();
      const auto there = device(gpu);
      x = placeholder(float32, {4, 3}, "x");
      step = optimizer.minimize(loss_of(x, w), std::vector<Variable>{w});
    }
    const Session session(graph);
    Count counted;
    for (int i = 0; i < 8; ++i) {
      RunMetadata metadata;
      random::seed(static_cast<std::uint64_t>(i));
      session.run(step, {{x, data(i)}}, {}, &metadata);
      counted = count(metadata);
      random::seed(static_cast<std::uint64_t>(i));
      other.minimize([&] { return loss_of(data(i).to(gpu), same); }, {same});
      CHECK(same_bits(w.value(), same.value()));
    }
    CHECK(counted.replayed * 2 > counted.steps);
  }

  TEST_CASE("what an earlier segment has read of a Variable, the segment that changes it lets go of") {
    Variable w(zeros({3}, {.device = gpu}));
    const Graph graph;
    Tensor y;
    {
      const auto scope = graph.as_default();
      const auto there = device(gpu);
      const Tensor first = exp(w), noise = random::uniform({3});
      {
        const auto after = control_dependencies({first});
        y = first + (noise + first) * 0.0F + w;
      }
      const auto after = control_dependencies({y});
      w.assign_add(ones({3}));
      y = identity(y);
    }
    const Session session(graph);
    const Operation change = graph.get_operation_by_name("Variable/AssignAdd");
    for (int i = 0; i < 6; ++i) {
      RunMetadata metadata;
      const Tensor found = std::get<0>(session.run(std::tuple{y, change}, {}, {}, &metadata));
      CHECK(same_bits(found, exp(full({3}, i, {.dtype = float32, .device = gpu})) + static_cast<float>(i)));
      CHECK(w.value().to_vector<float>() == std::vector<float>(3, static_cast<float>(i + 1)));
      const Count counted = count(metadata);
      INFO(counted.reasons);
      CHECK(counted.replayed == (i == 0 ? 0 : counted.steps - 1));
    }
  }

  TEST_CASE("a value that is fetched beside its change stays the old one") {
    Variable w(zeros({3}, {.device = gpu}));
    const Graph graph;
    const auto scope = graph.as_default();
    const auto there = device(gpu);
    const Tensor before = identity(w), twice = before * 2.0F;
    Tensor after;
    {
      const auto then = control_dependencies({before, twice});
      after = w.assign_add(ones({3}));
    }
    const Session session(graph);
    Inputs held;
    for (int i = 0; i < 8; ++i) {
      const auto [old, both, now] = session.run(std::tuple{before, twice, after});
      held.push_back(old);
      CHECK(both.to_vector<float>() == std::vector<float>(3, 2 * static_cast<float>(i)));
      CHECK(now.to_vector<float>() == std::vector<float>(3, static_cast<float>(i + 1)));
      for (int k = 0; k <= i; ++k)
        CHECK(held[static_cast<std::size_t>(k)].to_vector<float>() == std::vector<float>(3, static_cast<float>(k)));
    }
  }

  TEST_CASE("several threads run one session, and others read the Variable that it changes") {
    Variable w(zeros({1000}, {.device = gpu}));
    const Graph graph;
    Tensor x, y;
    {
      const auto scope = graph.as_default();
      const auto there = device(gpu);
      x = placeholder(float32, {1000}, "x");
      const Tensor next = w.assign_add(ones({1000}));
      y = x * 2.0F + next * 0.0F;
    }
    const Session session(graph);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 15; ++i) {
          if (t == 3) {
            const std::vector<float> now = w.value().to_vector<float>();
            if (now != std::vector<float>(1000, now[0])) ++wrong;
            continue;
          }
          const auto value = static_cast<float>(100 * t + i);
          if (session.run(y, {{x, full({1000}, value)}}).to_vector<float>() != std::vector<float>(1000, 2 * value))
            ++wrong;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(w.value().to_vector<float>() == std::vector<float>(1000, 45));
  }

  TEST_CASE("plans come and go, the graph grows, runs come in parts; the memory of recordings is given back") {
    const std::int64_t before = memory_stats(gpu).in_use;
    {
      Fixture graph({-1, 3}, [](const Tensor& x) { return cumsum(softmax(sort(x)), 0); }, {.most_plans = 2});
      const auto expected = [](const Tensor& x) { return cumsum(softmax(sort(x)), 0); };
      for (int i = 0; i < 24; ++i) {
        const Tensor value = numbers({1 + i / 2 % 3, 3}, -1, 1, static_cast<unsigned>(i)).cast(float32);
        CHECK(same_bits(graph.run(value), expected(value.to(gpu))));
        if (i == 11) graph.y = on_gpu([&] { return identity(graph.y); });
      }
      const Tensor z = on_gpu([&] { return exp(graph.x) * graph.y; });
      for (int i = 0; i < 6; ++i) {
        auto run = graph.session.partial_run_setup({graph.y, z}, {graph.x});
        const Tensor x = data(i).to(gpu), y = run.run(graph.y, {{graph.x, x}});
        CHECK(same_bits(y, expected(x)));
        CHECK(same_bits(run.run(z), exp(x) * y));
      }
    }
    CHECK(memory_stats(gpu).in_use == before);
  }
}

}  // namespace
}  // namespace tapestry::test::device_replay

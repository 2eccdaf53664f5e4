#include <atomic>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "ranks.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/session.hpp"
#include "tapestry/trace.hpp"
#include "toy_backend.hpp"

namespace communicator_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// The text of the error of type E that each rank gets.
template <class E>
std::vector<std::string> errors_of(int ranks, const std::function<void(const Communicator&)>& f) {
  return on_ranks<std::string>(ranks, [&](const Communicator& world) -> std::string {
    try {
      f(world);
    } catch (const E& error) {
      return error.what();
    } catch (const std::exception& error) {
      return std::string("another error: ") + error.what();
    }
    return "no error";
  });
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a program that nothing has started is rank 0 of 1") {
  for (const Communicator& each : {Communicator(), Communicator::world()}) {
    CHECK(each.rank() == 0);
    CHECK(each.size() == 1);
    CHECK(each.local_rank() == 0);
    CHECK(each.shard().count == 1);
    check_values(each.all_reduce(tensor({1.0, 2.0}), Reduce::mean), {1, 2});
    each.barrier();
  }
}

TEST_CASE("run_ranks: every rank once, world() is that of the threads") {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](const Communicator& world) {
      ++seen[static_cast<std::size_t>(world.rank())];
      CHECK(world.size() == ranks);
      CHECK(Communicator::world().rank() == world.rank());
      CHECK(Communicator::world().size() == ranks);
      CHECK(world.shard().count == ranks);
      CHECK(world.shard().index == world.rank());
    });
    for (const auto& each : seen) CHECK(each == 1);
    CHECK(Communicator::world().size() == 1);
  }
  for (const int ranks : {0, -1})
    CHECK(message_of<InvalidArgumentError>([&] { run_ranks(ranks, [](const Communicator&) {}); }) ==
          detail::join("run_ranks needs at least 1 rank, got ", ranks));
}

TEST_CASE("different collectives are an error on every rank, which names what each calls, and no hang") {
  using Call = std::function<void(const Communicator&)>;
  const std::vector<std::pair<std::string, Call>> calls{
      {"AllReduce(sum) of float32[2]", [](const Communicator& world) { world.all_reduce(zeros({2})); }},
      {"AllReduce(max) of float32[2]", [](const Communicator& world) { world.all_reduce(zeros({2}), Reduce::max); }},
      {"AllReduce(sum) of float32[3]", [](const Communicator& world) { world.all_reduce(zeros({3})); }},
      {"AllReduce(sum) of float32[1,2]",
       [](const Communicator& world) {
         world.all_reduce(zeros({1, 2}));
       }},
      {"AllReduce(sum) of int32[2]", [](const Communicator& world) { world.all_reduce(zeros({2}, {.dtype = int32})); }},
      {"Broadcast(root 0) of float32[2]", [](const Communicator& world) { world.broadcast(zeros({2})); }},
      {"Broadcast(root 1) of float32[2]", [](const Communicator& world) { world.broadcast(zeros({2}), 1); }},
      {"AllGather of float32[2]", [](const Communicator& world) { world.all_gather(zeros({2})); }},
      {"ReduceScatter(sum) of float32[2]", [](const Communicator& world) { world.reduce_scatter(zeros({2})); }},
      {"Barrier", [](const Communicator& world) { world.barrier(); }},
      {"split", [](const Communicator& world) { world.split(0); }},
  };
  for (const auto& [name, first] : calls)
    for (const auto& [other_name, second] : calls) {
      const std::string one = name, other = other_name;  // clang does not let a lambda have a part of a pair
      INFO(one, " and ", other);
      const auto texts =
          errors_of<InvalidArgumentError>(2, [&, &first = first, &second = second](const Communicator& world) {
            (world.rank() == 0 ? first : second)(world);
          });
      for (const std::string& text : texts) {
        if (name == other_name) {
          CHECK(text == "no error");
          continue;
        }
        CHECK(says(text, "The ranks call different collectives: rank 0 " + name + " at communicator_test.cpp:"));
        CHECK(says(text, "rank 1 " + other_name + " at communicator_test.cpp:"));
      }
    }
}

TEST_CASE("lists that differ in what is empty, in order or in length are an error") {
  const Tensor a = zeros({2}), b = zeros({3});
  const std::vector<std::vector<Tensor>> lists{{a, b}, {b, a}, {a, Tensor(), b}, {a}, {a, b, a}, {Tensor(), a, b}};
  for (std::size_t i = 0; i < lists.size(); ++i)
    for (std::size_t k = 0; k < lists.size(); ++k) {
      CAPTURE(i);
      CAPTURE(k);
      const auto texts = errors_of<InvalidArgumentError>(
          2, [&](const Communicator& world) { world.all_reduce(lists[world.rank() == 0 ? i : k]); });
      for (const std::string& text : texts) CHECK((text == "no error") == (i == k));
    }
}

TEST_CASE("after an error that all ranks have seen, they can go on") {
  const auto found = on_ranks<Tensor>(3, [](const Communicator& world) {
    CHECK_THROWS_AS(world.all_reduce(zeros({world.rank() + 1})), InvalidArgumentError);
    CHECK_THROWS_AS(world.all_gather(zeros({world.rank() + 1})), InvalidArgumentError);
    return world.all_reduce(tensor({1.0}));
  });
  for (const Tensor& each : found) check_values(each, {3});
}

TEST_CASE("a rank that throws ends the collectives of the others, whatever they wait in") {
  const std::vector<std::function<void(const Communicator&)>> waits{
      [](const Communicator& world) { world.all_reduce(zeros({5})); },
      [](const Communicator& world) {
        world.all_reduce({zeros({5}), ones({2})});
      },
      [](const Communicator& world) { world.barrier(); },
      [](const Communicator& world) { world.split(world.rank()); },
      [](const Communicator& world) {
        const auto traced = trace([&](const Tensor& x) { return world.all_reduce(x); }, {spec(float32, {})});
        traced(1.0F);
      },
  };
  for (std::size_t i = 0; i < waits.size(); ++i)
    for (int failing = 0; failing < 3; ++failing) {
      CAPTURE(i);
      CAPTURE(failing);
      std::atomic<int> aborted = 0;
      const std::string message = message_of<OutOfRangeError>([&] {
        run_ranks(3, [&](const Communicator& world) {
          world.barrier();
          if (world.rank() == failing) {
            if (i % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the others wait already
            throw OutOfRangeError("no more data");
          }
          try {
            for (;;) waits[i](world);
          } catch (const AbortedError& error) {
            CHECK(says(error.message(), detail::join("Rank ", failing, " has failed: no more data")));
            ++aborted;
            CHECK_THROWS_AS(world.barrier(), AbortedError);
            throw;
          }
        });
      });
      CHECK(message == "no more data");
      CHECK(aborted == 2);
    }
}

TEST_CASE("a rank that returns early ends the collectives of the others, too") {
  const std::string message = message_of<AbortedError>([&] {
    run_ranks(2, [&](const Communicator& world) {
      for (int step = 0; step < (world.rank() == 0 ? 3 : 4); ++step) world.all_reduce(1.0);
    });
  });
  CHECK(message == "Rank 0 has returned from the function");
}

TEST_CASE("errors of arguments name the op and the line, and cost no rank its turn") {
  run_ranks(2, [](const Communicator& world) {
    const auto error = caught<InvalidArgumentError>([&] { world.all_reduce(tensor({true}), Reduce::sum); });
    CHECK(error.op() == "AllReduce");
    CHECK(place(error) == detail::join("communicator_test.cpp:", __LINE__ - 2));
    CHECK(says(error.message(), "Reduce::sum is for numbers, not for bool"));
    CHECK(says(message_of<InvalidArgumentError>([&] { world.all_reduce(tensor({1}), Reduce::mean); }),
               "Reduce::mean is for float types, not for int32"));
    CHECK(says(message_of<InvalidArgumentError>([&] { world.reduce_scatter(1.0); }), "no parts for the ranks"));
    CHECK(says(message_of<InvalidArgumentError>([&] { world.reduce_scatter(zeros({3})); }),
               "The first axis of [3] cannot be divided among 2 ranks"));
    for (const int root : {-1, 2})
      CHECK(message_of<InvalidArgumentError>([&] { world.broadcast(1.0, root); }) ==
            detail::join("There is no rank ", root, " among 2"));
    CHECK(says(message_of<InvalidArgumentError>([&] { world.split(-1); }), "color"));
    CHECK_THROWS_AS(world.all_reduce(Tensor()), FailedPreconditionError);
    check_values(world.all_reduce(tensor({1.0})), {2});
  });
}

TEST_CASE("a half type and float32 are unequal, though both travel as float32") {
  run_ranks(2, [](const Communicator& world) {
    const Tensor x = ones({3}), half = x.cast(float16);
    const auto message = message_of<InvalidArgumentError>([&] { world.all_reduce(world.rank() == 0 ? x : half); });
    CHECK(says(message, "rank 0 AllReduce(sum) of float32[3] at "));
    CHECK(says(message, "rank 1 AllReduce(sum) of float16[3] at "));
    check_values(world.all_reduce(half), {2, 2, 2});
  });
}

TEST_CASE("tensors on devices that cannot exchange them go over the host, and the reason is told") {
  for (const int host : {-1, 0, 2})
    run_ranks(3, [&](const Communicator& world) {
      CAPTURE(host);
      const Device device = world.rank() == host ? cpu() : toy_device(world.rank());
      const Tensor x = tensor({1.0, 2.0, 3.0}).to(device) * (world.rank() + 1.0);
      for (int i = 0; i < 2; ++i) {
        const std::vector<Tensor> list = world.all_reduce({x, x.cast(float64)}, Reduce::mean);
        check_values(list[0], {2, 4, 6});
        check_values(list[1], {2, 4, 6});
        check_values(world.all_reduce(transpose(stack({x, x})), Reduce::max), {3, 3, 6, 6, 9, 9});
        check_values(world.reduce_scatter(x.cast(bfloat16)), {6.0 * (world.rank() + 1)});
        check_values(world.all_gather(x(0)), {1, 2, 3});
        check_values(world.broadcast(x, 1), {2, 4, 6});
        for (const Tensor& each : {list[0], world.all_gather(x)}) CHECK(each.device() == device);
      }
      CHECK_THROWS_AS(world.rank() == 1 ? world.all_reduce(x) : world.all_gather(x), InvalidArgumentError);
      const std::string reason = host < 0 ? "rank 0: devices of the kind TOY exchange no tensors with other ranks'"
                                          : detail::join("the tensor of rank ", host, " is on the CPU, or on another ");
      if (world.rank() == host) CHECK(world.gpu_status() == "no collective of tensors on a GPU yet");
      if (world.rank() != host) CHECK(world.gpu_status().starts_with("collectives on the host: " + reason));
    });
  const Communicator alone;
  check_values(alone.all_gather(tensor({1.0, 2.0}).to(toy_device())), {1, 2});
  CHECK(alone.gpu_status() == "no collectives: this rank is alone");
}

TEST_CASE("broadcast sets Variables to the values of the root") {
  for (int root = 0; root < 3; ++root)
    run_ranks(3, [&](const Communicator& world) {
      const double number = world.rank();
      const std::vector<Variable> variables{Variable({number, 2 * number}), Variable(static_cast<int>(number)),
                                            Variable(true)};
      world.broadcast(variables, root);
      check_values(variables[0], {1.0 * root, 2.0 * root});
      check_values(variables[1], {1.0 * root});
      const Variable odd(zeros({world.rank() + 1}));
      CHECK_THROWS_AS(world.broadcast(std::vector{variables[0], odd}), InvalidArgumentError);
      check_values(variables[0], {1.0 * root, 2.0 * root});  // nothing is half-changed
    });
}

TEST_CASE("Variables in braces are broadcast") {
  run_ranks(2, [](const Communicator& world) {
    const Variable v(1.0 + world.rank()), w(3.0 + world.rank());
    world.broadcast({v}, 1);
    world.broadcast({v, w});
    check_values(v, {2});
    check_values(w, {3});
    check_values(world.broadcast({5.0 + world.rank(), 1.0}), {5, 1});
  });
}

TEST_CASE("two threads in one communicator are an error, not a crash") {
  std::atomic<bool> go_on = false;
  run_ranks(2, [&](const Communicator& world) {
    std::atomic<int> refused = 0;
    if (world.rank() == 0) {
      // One of them waits for rank 1, which comes when the other has been refused.
      std::vector<std::thread> threads;
      for (int i = 0; i < 2; ++i)
        threads.emplace_back([&] {
          try {
            check_values(world.all_reduce(1.0), {2});
          } catch (const FailedPreconditionError& error) {
            CHECK(std::string(error.what()).find("Two threads use one Communicator") != std::string::npos);
            if (++refused == 1) go_on = true;
          }
        });
      for (std::thread& each : threads) each.join();
      CHECK(refused == 1);
    } else {
      while (!go_on) std::this_thread::yield();
      check_values(world.all_reduce(1.0), {2});
    }
    check_values(world.all_reduce(1.0), {2});
  });
}

TEST_CASE("split: the ranks of a color are a communicator, beside which the others go on") {
  for (int ranks = 1; ranks <= 5; ++ranks)
    run_ranks(ranks, [&](const Communicator& world) {
      const int color = world.rank() % 2;
      const Communicator part = world.split(color);
      CHECK(part.size() == (ranks + 1 - color) / 2);
      CHECK(part.rank() == world.rank() / 2);
      double sum = 0;
      for (int rank = color; rank < ranks; rank += 2) sum += rank;
      for (int i = 0; i < 1 + 3 * color; ++i) CHECK(part.all_reduce(1.0 * world.rank()).item<double>() == sum);
      const Communicator again = part.split(0);
      CHECK(again.all_reduce(1.0).item<double>() == part.size());
      CHECK(world.all_reduce(1.0).item<double>() == ranks);
    });
}

TEST_CASE("shrink: the ranks that are left go on without those that have ended") {
  std::atomic<int> survivors = 0;
  CHECK_THROWS_AS(run_ranks(4,
                            [&](const Communicator& world) {
                              if (world.rank() == 1) throw DataLossError("a broken file");
                              if (world.rank() == 3) return;
                              CHECK_THROWS_AS(for (;;) world.barrier(), AbortedError);
                              const Communicator left = world.shrink();
                              CHECK(left.size() == 2);
                              CHECK(left.rank() == world.rank() / 2);
                              CHECK(left.all_reduce(10.0 + world.rank()).item<double>() == 22);
                              ++survivors;
                            }),
                  DataLossError);
  CHECK(survivors == 2);
}

TEST_CASE("many ranks, many collectives, no order of threads matters") {
  run_ranks(8, [](const Communicator& world) {
    double expected = 0;
    for (int i = 0; i < 8; ++i) expected += i;
    for (int step = 0; step < 300; ++step)
      REQUIRE(world.all_reduce(1.0 * world.rank() + step).item<double>() == expected + 8 * step);
  });
}

}  // namespace communicator_test

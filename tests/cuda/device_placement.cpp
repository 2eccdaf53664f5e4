// Where a program's ops run: scopes of devices, moved models, and what is written and said of it.

#include <iostream>
#include <sstream>

#include <doctest/doctest.h>

#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::device_placement {
namespace {

const Device gpu = cuda(0);
const std::string full = "/job:localhost/replica:0/task:0/device:";

/// What std::clog is told while `body` runs.
std::string logged(const std::function<void()>& body) {
  std::ostringstream log;
  std::streambuf* const usual = std::clog.rdbuf(log.rdbuf());
  body();
  std::clog.rdbuf(usual);
  return log.str();
}

/// While it lives, `set` is on.
class Switch {
 public:
  explicit Switch(void (*set)(bool)) : set_(set) { set_(true); }
  ~Switch() { set_(false); }
  Switch(const Switch&) = delete;
  Switch& operator=(const Switch&) = delete;

 private:
  void (*set_)(bool);
};

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const InvalidArgumentError& error) {
    return error.what();
  }
  return "";
}

struct Net : nn::Module {
  nn::Dense hidden{3, 4}, last{4, 1};
  TAPESTRY_FIELDS(hidden, last)
  Tensor operator()(const Tensor& x) const { return last(tanh(hidden(x))); }
};

TEST_SUITE("placement on a CUDA device") {
  TEST_CASE("in the scope of a device ops run there, and bring their inputs") {
    const Tensor x = tensor({1.0F, 2.0F, 3.0F}), y = ones({3}, {.device = gpu});
    {
      const auto scope = device("/gpu:0");
      CHECK(zeros({2}).device() == gpu);
      CHECK(random::normal({2}).device() == gpu);
      CHECK((x * x).device() == gpu);
      CHECK((x + y).to_vector<float>() == std::vector<float>{2, 3, 4});
      CHECK(y.to(cpu()).device() == cpu());
      const Variable w(x);
      CHECK(w.device() == gpu);
      {
        const auto inner = device("/cpu:0");
        CHECK((x * y).device() == cpu());
        CHECK(zeros({2}).device() == cpu());
      }
      {
        const auto job = device("/job:localhost");
        CHECK(zeros({2}).device() == gpu);
      }
    }
    CHECK(zeros({2}).device() == cpu());
    CHECK((x * x).device() == cpu());
  }

  TEST_CASE("a gradient flows back to where its source is") {
    const Variable w(tensor({1.0, 2.0, 3.0}));
    GradientTape tape;
    Tensor loss;
    {
      const auto scope = device(gpu);
      loss = reduce_sum(square(w));
    }
    CHECK(loss.device() == gpu);
    const Tensor dw = tape.gradient(loss, w);
    CHECK(dw.device() == cpu());
    CHECK(dw.to_vector<double>() == std::vector<double>{2, 4, 6});
  }

  TEST_CASE("in a scope an optimizer's slots stay with their Variable, and assignments with theirs") {
    Variable w(tensor({1.0, 2.0}));
    train::AdamOptimizer optimizer(0.1);
    const auto scope = device(gpu);
    for (int i = 0; i < 2; ++i) optimizer.minimize([&] { return reduce_sum(square(w)); }, {w});
    CHECK(w.device() == cpu());
    for (const Variable& slot : optimizer.variables()) CHECK(slot.value().device() == cpu());
    w.assign_add(tensor({1.0, 1.0}));
    CHECK(w.value().device() == cpu());
  }

  TEST_CASE("what is traced in a scope is in it, and traced anew in another one") {
    const auto square_of = [](const Tensor& x) { return square(x); };
    const auto traced = [&] {
      const auto scope = device("/gpu:0");
      return trace(square_of, {spec(float32, {-1}, "x")});
    }();
    CHECK(traced(tensor({1.0F, 2.0F})).device() == gpu);
    CHECK(traced.graph().placeholders()[0].op().device() == "/device:GPU:0");
    const auto called = function(square_of);
    CHECK(called(tensor({3.0F})).device() == cpu());
    {
      const auto scope = device("/gpu:0");
      CHECK(called(tensor({3.0F})).device() == gpu);
    }
    CHECK(called(tensor({3.0F})).device() == cpu());
  }

  TEST_CASE("a tensor on the wrong device is an error that names both") {
    const Tensor here = ones({2, 2}), there = here.to(gpu);
    CHECK_THROWS_WITH_AS(matmul(here, there),
                         doctest::Contains("Tensors on conflicting devices: input #0 is on /device:CPU:0 and input #1 "
                                           "on /device:GPU:0; move one with .to(device) [Op:MatMul]"),
                         InvalidArgumentError);
    Variable w(there);
    train::GradientDescentOptimizer optimizer(0.1);
    CHECK_THROWS_WITH_AS(optimizer.apply_gradients(train::GradientsAndVariables{{here, w}}),
                         doctest::Contains("on cpu; the variable is"), InvalidArgumentError);
  }

  TEST_CASE("log_device_placement of a session and of what is eager") {
    const Tensor a = ones({2, 2}), b = a.to(gpu);
    const Graph graph;
    {
      const auto scope = graph.as_default();
      const Tensor x = placeholder(float32, {2, 2}, "x");
      const auto place = device("/gpu:0");
      const Tensor z = matmul(x, x, {}, "MatMul");
      const Session session(graph, {.log_device_placement = true});
      CHECK(logged([&] {
              session.run(z, {{x, a}});
            }) == "x: (Placeholder): " + full + "CPU:0\nMatMul: (MatMul): " + full + "GPU:0\n");
    }
    const Switch on(set_log_device_placement);
    CHECK(logged([&] { matmul(b, b); }) == "Executing op MatMul in device " + full + "GPU:0\n");
    CHECK(logged([&] { matmul(a, a); }) == "Executing op MatMul in device " + full + "CPU:0\n");
    CHECK(logged([&] { a.to(gpu); }) == "Executing op DeviceCopy in device " + full + "GPU:0\n");
  }

  TEST_CASE("soft placement, and without it the error that names op, device and devices") {
    const Tensor x = ones({2});
    const auto far = [&] {
      const auto scope = device("/gpu:77");
      return square(x, "y");
    };
    const std::string eager = message_of([&] { far(); });
    const std::string expected =
        "Cannot assign a device for operation 'y': Could not satisfy explicit device specification '/device:GPU:77' "
        "because no devices matching that specification are registered in this process; available devices: " +
        full + "CPU:0, " + full + "GPU:0";
    CHECK(eager.starts_with(expected));
    {
      const Switch soft(set_soft_device_placement);
      CHECK(far().device() == cpu());
    }
    const Graph graph;
    const auto scope = graph.as_default();
    const Tensor in = placeholder(float32, {2}, "x");
    const Tensor y = [&] {
      const auto place = device("/gpu:77");
      return square(in, "y");
    }();
    CHECK(message_of([&] { Session(graph).run(y, {{in, x}}); }).starts_with(expected));
    CHECK(Session(graph, {.allow_soft_placement = true}).run(y, {{in, x}}).device() == cpu());
  }

  TEST_CASE("a model moved after its optimizer was made still trains, eagerly and traced") {
    const Tensor x = numbers({8, 3}, -1, 1, 1).cast(float32), y = numbers({8, 1}, -1, 1, 2).cast(float32);
    const auto train = [&](bool traces, const std::vector<Device>& places) {
      random::seed(7);
      Net net;
      train::AdamOptimizer optimizer(0.01);
      const auto loss = [&](const Tensor& in, const Tensor& out) { return reduce_mean(square(net(in) - out)); };
      const auto step = trace(
          [&](const Tensor& in, const Tensor& out) {
            GradientTape tape;
            Tensor value = loss(in, out);
            optimizer.apply_gradients(tape.gradient(value, net.parameters()), net.parameters());
            return value;
          },
          {spec(float32, {-1, 3}), spec(float32, {-1, 1})});
      std::vector<double> losses;
      for (const Device place : places) {
        net.to(place);
        for (int i = 0; i < 3; ++i) {
          const Tensor value =
              traces ? step(x.to(place), y.to(place))
                     : optimizer.minimize([&] { return loss(x.to(place), y.to(place)); }, net.parameters());
          losses.push_back(static_cast<double>(value.item<float>()));
        }
        for (const Variable& each : net.parameters()) {
          CHECK(each.value().device() == place);
          for (const std::string& slot : optimizer.get_slot_names())
            CHECK(optimizer.get_slot(each, slot).value().device() == place);
        }
      }
      return losses;
    };
    for (const bool traces : {false, true}) {
      const auto expected = train(traces, {cpu(), cpu(), cpu()}), found = train(traces, {cpu(), gpu, cpu()});
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-4));
    }
  }

  TEST_CASE("checkpoints move between devices") {
    const Tensor x = numbers({8, 3}, -1, 1, 1).cast(float32), y = numbers({8, 1}, -1, 1, 2).cast(float32);
    for (const auto& [from, to] : {std::pair(cpu(), gpu), std::pair(gpu, cpu())}) {
      const TemporaryFolder folder;
      Net first, second;
      first.to(from);
      second.to(to);
      train::AdamOptimizer before(0.01), after(0.01);
      const auto step = [&](Net& net, train::Optimizer& optimizer, Device place) {
        return optimizer.minimize([&] { return reduce_mean(square(net(x.to(place)) - y.to(place))); },
                                  net.parameters());
      };
      for (int i = 0; i < 3; ++i) step(first, before, from);
      Checkpoint{.model = &first, .optimizer = &before}.save(folder.path());
      Checkpoint{.model = &second, .optimizer = &after}.restore(folder.path());
      for (const Variable& each : second.parameters()) CHECK(each.value().device() == to);
      for (int i = 0; i < 3; ++i)
        CHECK(step(second, after, to).item<float>() ==
              doctest::Approx(step(first, before, from).item<float>()).epsilon(1e-4));
    }
  }
}

}  // namespace
}  // namespace tapestry::test::device_placement

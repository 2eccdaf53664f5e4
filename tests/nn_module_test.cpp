// Modules: names, states, copies, modes and places, for modules that a user might write.

#include "expect.hpp"
#include "tapestry/tapestry.hpp"
#include "toy_backend.hpp"

namespace nn_module_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

struct Affine : nn::Module {
  nn::Parameter weight, bias;
  TAPESTRY_FIELDS(weight, bias)

  Affine(std::int64_t in, std::int64_t out) : weight(full({out, in}, 0.5)), bias(zeros({out})) {}
  Tensor operator()(const Tensor& x) const { return matmul(x, weight, {.transpose_b = true}) + bias; }
};

/// Every kind of part.
struct Net : nn::Module {
  Affine first{2, 3};
  std::vector<Affine> layers{Affine(3, 3), Affine(3, 1)};
  std::optional<nn::Parameter> scale, absent;
  std::array<nn::Parameter, 2> pair{nn::Parameter(1.0), nn::Parameter(2.0)};
  nn::Buffer count{tensor(std::int64_t{0})};
  Tensor offset = tensor({1.0, 2.0}), nothing;
  // clang-format off
  TAPESTRY_FIELDS(first , layers,
                  scale, absent, pair,
                  count,offset, nothing)
  // clang-format on

  Net() : scale(nn::Parameter(tensor({3.0}))) {}
  Tensor operator()(const Tensor& x) const {
    Tensor y = first(x + offset);
    for (const Affine& layer : layers) y = layer(y);
    return y * *scale;
  }
};

const std::vector<std::string> parameter_names = {"first.weight",  "first.bias",      "layers.0.weight",
                                                  "layers.0.bias", "layers.1.weight", "layers.1.bias",
                                                  "scale",         "pair.0",          "pair.1"};

template <class Named>
std::vector<std::string> names_of(const Named& named) {
  std::vector<std::string> names;
  for (const auto& [name, value] : named) names.push_back(name);
  return names;
}

TEST_CASE("the names of a module's parts") {
  const Net net;
  CHECK(names_of(net.named_parameters()) == parameter_names);
  CHECK(names_of(net.named_buffers()) == std::vector<std::string>{"count", "offset"});
  CHECK(names_of(net.named_modules()) == std::vector<std::string>{"", "first", "layers.0", "layers.1"});
  CHECK(net.parameters().size() == parameter_names.size());
  CHECK(net.parameters()[1].is(net.first.bias));
  CHECK(net.parameters()[6].is(*net.scale));
  CHECK(net.parameter_count() == 6 + 3 + 9 + 3 + 3 + 1 + 1 + 1 + 1);
  std::vector<std::string> all = parameter_names;
  all.insert(all.end(), {"count", "offset"});
  std::sort(all.begin(), all.end());
  CHECK(names_of(net.state_dict()) == all);
}

/// Parts that are reached twice: a layer by a reference, and a parameter, a buffer and a constant of it.
struct Tied : nn::Module {
  Affine first{2, 2};
  nn::BatchNorm norm{2};
  Tensor offset = tensor({1.0, 2.0});
  Affine& second = first;
  nn::Parameter& weight = first.weight;
  nn::Buffer& mean = norm.running_mean;
  Tensor& shift = offset;
  TAPESTRY_FIELDS(first, norm, offset, second, weight, mean, shift)
};

TEST_CASE("what a module reaches twice is listed once, by its first name, and saved by all") {
  Tied net;
  CHECK(names_of(net.named_parameters()) ==
        std::vector<std::string>{"first.weight", "first.bias", "norm.weight", "norm.bias"});
  CHECK(net.parameters().size() == 4);
  CHECK(net.parameter_count() == 4 + 2 + 2 + 2);
  CHECK(names_of(net.named_buffers()) ==
        std::vector<std::string>{"norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "offset"});
  CHECK(names_of(net.named_modules()) == std::vector<std::string>{"", "first", "norm"});
  const StateDict state = net.state_dict();
  for (const char* name : {"first.weight", "second.weight", "weight", "norm.running_mean", "mean", "offset", "shift"})
    CHECK(state.contains(name));
  net.load_state_dict(state);

  // A step moves a shared parameter once.
  train::GradientDescentOptimizer optimizer(1.0);
  GradientTape tape;
  const Tensor loss = reduce_sum(net.second(ones({1, 2})));
  optimizer.apply_gradients(tape.gradient(loss, net.parameters()), net.parameters());
  check_values(net.first.weight, {-0.5, -0.5, -0.5, -0.5});
  net.freeze();
  CHECK(net.parameters().empty());
}

template <class T>
struct Holder : nn::Module {
  T part{2, 3};
  TAPESTRY_FIELDS(part)
};

template <class T>
std::string name_of_a_local_class() {
  struct Local : nn::Module {};
  return nn::type_name(Local());
}

TEST_CASE("the names of classes") {
  CHECK(nn::type_name(Net()) == "Net");
  CHECK(nn::type_name(nn::Dense(1, 1)) == "Dense");
  CHECK(nn::type_name(Holder<nn::Dense>()) == "Holder");
  CHECK(name_of_a_local_class<nn::Dense>() == "Local");
  CHECK(name_of_a_local_class<Holder<Holder<Affine>>>() == "Local");
}

TEST_CASE("a module of 40 parts") {
  struct Wide : nn::Module {
    nn::Parameter p00{0.0}, p01{1.0}, p02{2.0}, p03{3.0}, p04{4.0}, p05{5.0}, p06{6.0}, p07{7.0}, p08{8.0}, p09{9.0};
    nn::Parameter p10{0.0}, p11{1.0}, p12{2.0}, p13{3.0}, p14{4.0}, p15{5.0}, p16{6.0}, p17{7.0}, p18{8.0}, p19{9.0};
    nn::Parameter p20{0.0}, p21{1.0}, p22{2.0}, p23{3.0}, p24{4.0}, p25{5.0}, p26{6.0}, p27{7.0}, p28{8.0}, p29{9.0};
    nn::Parameter p30{0.0}, p31{1.0}, p32{2.0}, p33{3.0}, p34{4.0}, p35{5.0}, p36{6.0}, p37{7.0}, p38{8.0}, p39{9.0};
    TAPESTRY_FIELDS(p00, p01, p02, p03, p04, p05, p06, p07, p08, p09, p10, p11, p12, p13, p14, p15, p16, p17, p18, p19,
                    p20, p21, p22, p23, p24, p25, p26, p27, p28, p29, p30, p31, p32, p33, p34, p35, p36, p37, p38, p39)
  };
  const Wide wide;
  const auto named = wide.named_parameters();
  REQUIRE(named.size() == 40);
  for (std::size_t i = 0; i < 40; ++i) {
    CHECK(named[i].first == "p" + std::to_string(i / 10) + std::to_string(i % 10));
    CHECK(named[i].second.value().item<int>() == static_cast<int>(i % 10));
  }
}

TEST_CASE("a copy of a module has Variables of its own") {
  Net net;
  const StateDict before = net.state_dict();
  const auto trained_differently = [&](const Net& copy) {
    const auto ours = net.named_parameters(), theirs = copy.named_parameters();
    REQUIRE(ours.size() == theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      CHECK(ours[i].first == theirs[i].first);
      CHECK_FALSE(ours[i].second.is(theirs[i].second));
    }
    CHECK(same_bits(copy.state_dict(), before));
    const Tensor y = copy(ones({1, 2}));
    train::GradientDescentOptimizer optimizer(0.1);
    optimizer.minimize([&] { return reduce_sum(net(ones({1, 2}))); }, net.parameters());
    CHECK(same_bits(copy.state_dict(), before));
    CHECK_FALSE(same_bits(net.state_dict(), before));
    CHECK(same_bits(copy(ones({1, 2})), y));
  };

  SUBCASE("made by the copy constructor") { trained_differently(Net(net)); }
  SUBCASE("in a container that grows") {
    std::vector<Net> copies{net};
    const Variable kept = copies[0].first.weight;
    copies.resize(10, net);
    CHECK(copies[0].first.weight.is(kept));
    trained_differently(copies[9]);
  }
  SUBCASE("by assignment") {
    Net other;
    other = net;
    trained_differently(other);
  }
  SUBCASE("of a copy") { trained_differently(Net(Net(net))); }
}

TEST_CASE("a copy made while a tape records and a graph is open") {
  Net net;
  GradientTape tape;
  const Net copy = net;
  CHECK(tape.watched_variables().empty());
  const auto traced = trace([&](const Tensor& x) { return Net(net)(x); }, {spec(float32, {-1, 2})});
  check_same(traced(ones({4, 2})), copy(ones({4, 2})));
}

TEST_CASE("assigning a module keeps its Variables") {
  Net net, best;
  const Variable weight = net.first.weight;
  const auto traced = trace([&](const Tensor& x) { return net(x); }, {spec(float32, {-1, 2})});
  best.first.weight.assign(full({3, 2}, 7.0));
  net = best;
  CHECK(weight.is(net.first.weight));
  CHECK(same_bits(net.state_dict(), best.state_dict()));
  CHECK(same_bits(traced(ones({1, 2})), best(ones({1, 2}))));
  best.first.weight.assign_add(ones({3, 2}));
  check_values(net.first.weight, std::vector<double>(6, 7.0));

  net = *std::addressof(net);
  check_values(net.first.weight, std::vector<double>(6, 7.0));

  Affine small(1, 1);
  const Variable old = small.weight;
  small = Affine(2, 1);
  CHECK(small.weight.shape() == Shape{1, 2});
  const Affine large(3, 1);
  small = large;
  CHECK(small.weight.shape() == Shape{1, 3});
  CHECK(old.shape() == Shape{1, 1});
}

TEST_CASE("moving a module hands its Variables over") {
  Net net;
  const std::vector<Variable> before = net.parameters();
  const Net moved = std::move(net);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(moved.parameters()[i].is(before[i]));
  net = moved;  // a module that has been moved from can be assigned to
  CHECK(same_bits(net.state_dict(), moved.state_dict()));
}

TEST_CASE("a state does not change with the module, and can be loaded") {
  Net net;
  const StateDict state = net.state_dict();
  for (Variable& parameter : net.parameters()) parameter.assign_add(ones(parameter.shape()));
  net.count.assign(5);
  net.offset = tensor({7.0, 8.0});
  const StateDict later = net.state_dict();
  CHECK_FALSE(same_bits(later, state));
  const Variable weight = net.first.weight;
  net.load_state_dict(state);
  CHECK(same_bits(net.state_dict(), state));
  CHECK(weight.is(net.first.weight));
  Net other;
  other.load_state_dict(later);
  CHECK(same_bits(other.state_dict(), later));
}

TEST_CASE("loading converts numbers, but floats never to whole ones") {
  Net net;
  StateDict state = net.state_dict();
  state["first.bias"] = tensor<double>({1.0, 2.0, 3.0});
  state["scale"] = tensor({4});
  state["layers.0.weight"] = transpose(state["layers.0.weight"] + tensor({0.0, 1.0, 2.0}));
  net.load_state_dict(state);
  CHECK(net.first.bias.dtype() == float32);
  check_values(net.first.bias, {1, 2, 3});
  check_values(*net.scale, {4});
  CHECK(net.layers[0].weight.value().is_contiguous());
  check_values(net.layers[0].weight, {0.5, 0.5, 0.5, 1.5, 1.5, 1.5, 2.5, 2.5, 2.5});
  state["count"] = tensor(1.0);
  CHECK(message_of<InvalidArgumentError>([&] { net.load_state_dict(state); }) ==
        "The state does not fit the module Net:\n"
        "  'count' is float32[] in the state and int64[] in the module");
}

TEST_CASE("a state that does not fit is refused as a whole") {
  Net net;
  const StateDict before = net.state_dict();
  StateDict state = before;
  for (auto& [name, value] : state) value = value + 1;
  state.erase("first.bias");
  state.erase("scale");
  state["first.weight"] = zeros({2, 3});
  state["layers.0.bias"] = Tensor();
  state["layers.2.weight"] = zeros({1});
  const auto error = caught<InvalidArgumentError>([&] { net.load_state_dict(state); });
  CHECK(place(error) == line_before(Where{__FILE__, __LINE__}));
  CHECK(error.message() ==
        "The state does not fit the module Net:\n"
        "  'first.weight' is float32[2,3] in the state and float32[3,2] in the module\n"
        "  'first.bias' is not in the state\n"
        "  'layers.0.bias' has no value\n"
        "  'scale' is not in the state\n"
        "  'layers.2.weight' is not in the module");
  CHECK(same_bits(net.state_dict(), before));
}

TEST_CASE("modes reach all parts, and copies keep them") {
  Net net;
  CHECK(net.training());
  net.layers[1].eval();
  CHECK(net.training());
  CHECK_FALSE(net.layers[1].training());
  net.eval();
  for (const auto& [name, module] : net.named_modules()) CHECK_FALSE(module->training());
  const Net copy = net;
  CHECK_FALSE(copy.first.training());
  net.train();
  for (const auto& [name, module] : net.named_modules()) CHECK(module->training());
  CHECK_FALSE(copy.first.training());
}

TEST_CASE("moving to another device and back") {
  const Device toy = toy_device();
  Net net;
  const StateDict before = net.state_dict();
  const Variable weight = net.first.weight;
  net.to(toy);
  for (const auto& [name, value] : net.state_dict()) CHECK(value.device() == toy);
  CHECK(weight.is(net.first.weight));
  CHECK(weight.device() == toy);
  const Tensor y = net(ones({1, 2}).to(toy));
  CHECK(y.device() == toy);
  net.load_state_dict(before);  // from another device
  for (const auto& [name, value] : net.state_dict()) CHECK(value.device() == toy);
  net.to(cpu());
  CHECK(same_bits(net.state_dict(), before));
}

TEST_CASE("another element type") {
  Net net;
  net.to(float64);
  for (const auto& [name, value] : net.state_dict()) CHECK(value.dtype() == (name == "count" ? int64 : float64));
  CHECK(net(ones({1, 2}, {.dtype = float64})).dtype() == float64);
  CHECK(net.parameters().size() == parameter_names.size());
  CHECK(message_of<InvalidArgumentError>([&] { net.to(int32); }) ==
        "A module's numbers become a float type, not int32");
}

TEST_CASE("a module that is traced or mapped by its name stays itself") {
  Net net;
  const auto traced = trace(net, {spec(float32, {-1, 2})});
  const auto retraced = function(net);
  const auto mapped = vmap(net);
  const Tensor x = full({3, 2}, 0.5);
  static_cast<void>(retraced(ones({1, 2})));
  for (const Variable& each : net.parameters()) each.assign(each * 0.5F + 0.25F);
  const Tensor expected = net(x);
  check_same(traced(x), expected, 1e-6);
  check_same(retraced(x), expected, 1e-6);
  check_same(mapped(expand_dims(x, 0))(0), expected, 1e-6);
  GradientTape tape;
  const Tensor y = reduce_sum(mapped(expand_dims(x, 0))) + reduce_sum(traced(x));
  for (const Tensor& each : tape.gradient(y, net.first.parameters())) CHECK(each);
}

TEST_CASE("a module that is traced with its gradients and its step") {
  Net eager, traced_net;
  train::GradientDescentOptimizer optimizer(0.01), traced_optimizer(0.01);
  const auto step = [](Net& net, train::Optimizer& by, const Tensor& x) {
    GradientTape tape;
    Tensor loss = reduce_mean(square(net(x)));
    const std::vector<Variable> parameters = net.parameters();
    const std::vector<Tensor> gradients = tape.gradient(loss, parameters, {.unconnected = Unconnected::zero});
    by.apply_gradients(gradients, parameters);
    return loss;
  };
  const auto traced =
      trace([&](const Tensor& x) { return step(traced_net, traced_optimizer, x); }, {spec(float32, {-1, 2})});
  for (int i = 1; i < 5; ++i) {
    const Tensor x = full({i, 2}, 0.1 * i);
    CHECK(same_bits(traced(x), step(eager, optimizer, x)));
  }
  CHECK(same_bits(traced_net.state_dict(), eager.state_dict()));
}

/// A module that depends on its own mode and on that of a part.
struct Switched : nn::Module {
  Affine linear{2, 1};
  nn::BatchNorm norm{1};
  TAPESTRY_FIELDS(linear, norm)
  Tensor operator()(const Tensor& x) const { return norm(linear(x)) * (training() ? 1.0 : 10.0); }
};

TEST_CASE("a function is traced anew for another mode of its modules, and keeps a trace for each") {
  const Tensor x = tensor({{1, 2}, {3, 5}, {4, 4}});
  Switched net, eager;
  const auto f = function([&](const Tensor& t) { return net(t); });
  for (int i = 0; i < 3; ++i) {
    net.train(), eager.train();
    CHECK(same_bits(f(x), eager(x)));
    net.norm.eval(), eager.norm.eval();
    CHECK(same_bits(f(x), eager(x)));
    net.eval(), eager.eval();
    CHECK(same_bits(f(x), eager(x)));
  }
  CHECK(f.trace_count() == 3);
  CHECK(same_bits(net.state_dict(), eager.state_dict()));
}

TEST_CASE("a function that sets the mode itself is traced once") {
  const Tensor x = tensor({{1, 2}, {3, 5}});
  Switched net;
  const auto f = function([&](const Tensor& t) {
    net.eval();
    Tensor result = net(t);
    net.train();
    return result + net(t);
  });
  const Tensor first = f(x);
  CHECK(f(x).shape() == first.shape());
  net.eval();
  f(x);
  CHECK(f.trace_count() == 1);
}

TEST_CASE("a function that trains is traced anew when parameters are frozen") {
  const Tensor x = tensor({{1, 2}, {3, 5}});
  Net net, eager;
  train::MomentumOptimizer optimizer(0.001, 0.9), eager_optimizer(0.001, 0.9);
  const auto step = [&x](Net& trained, train::Optimizer& by) {
    return by.minimize([&] { return reduce_mean(square(trained(x))); });
  };
  const auto traced = function([&](const Tensor& scale) { return step(net, optimizer) * scale; });
  const auto check_step = [&] {
    CHECK(same_bits(traced(ones({})), step(eager, eager_optimizer)));
    CHECK(same_bits(net.state_dict(), eager.state_dict()));
  };
  for (int i = 0; i < 3; ++i) {
    check_step();
    net.first.freeze(), eager.first.freeze();
    check_step();
    net.layers[1].freeze(), eager.layers[1].freeze();
    check_step();
    net.unfreeze(), eager.unfreeze();
  }
  CHECK(traced.trace_count() == 3);
}

TEST_CASE("a function watches a module that was moved or assigned to") {
  const Tensor x = tensor({{1, 2}, {3, 5}});
  Switched net;
  const auto f = function([&](const Tensor& t) { return net(t); });
  f(x);
  Switched other;
  other.eval();
  net = other;
  CHECK(!net.training());
  CHECK(same_bits(f(x), net(x)));
  CHECK(f.trace_count() == 2);
}

TEST_CASE("a function uses the Variables that a module has now") {
  const auto check_after = [](const auto& change) {
    Affine net{2, 2};
    const auto f = function([&](const Tensor& t) { return net(t.cast(net.weight.dtype())); });
    const Tensor x = tensor({{1, 2}, {3, 5}});
    f(x);
    change(net);
    CHECK(same_bits(f(x), net(x.cast(net.weight.dtype()))));
    CHECK(f.trace_count() == 2);
  };
  check_after([](Affine& net) { net.to(float64); });
  check_after([](Affine& net) { net.weight = nn::Parameter(full({2, 2}, 3.0)); });
  check_after([](Affine& net) { net = Affine{2, 3}; });
  check_after([](Affine& net) {
    const Affine other{2, 1};
    net = other;
  });
}

TEST_CASE("a function uses the parameters that modules have exchanged, however often") {
  const Tensor x = tensor({{1, 2}, {3, 5}});
  const auto check = [&](const auto& exchange) {
    std::array<Affine, 2> net{Affine{2, 1}, Affine{2, 1}};
    net[0].weight.assign({{1, 2}});
    net[1].weight.assign({{10, 20}});
    const auto f = function([&](const Tensor& t) { return net[0](t) - 0.5 * net[1](t); });
    for (int i = 0; i < 4; ++i) {
      CHECK(same_bits(f(x), net[0](x) - 0.5 * net[1](x)));
      exchange(net[0], net[1]);
    }
  };
  check([](Affine& a, Affine& b) { std::swap(a.weight, b.weight); });
  check([](Affine& a, Affine& b) { std::swap(a, b); });
  check([](Affine& a, Affine& b) {
    nn::Parameter kept = a.weight;  // a copy
    a.weight = std::move(b.weight);
    b.weight = std::move(kept);
  });
}

struct Masked : nn::Module {
  explicit Masked(const Init& value) : mask(value.tensor()) {}
  Tensor mask;
  std::vector<Tensor> scales{tensor({1.0, 2.0}), tensor({2.0, 1.0})};
  TAPESTRY_FIELDS(mask, scales)
  Tensor operator()(const Tensor& x) const {
    return cond(
        reduce_any(greater(x, 0.0)), [&] { return x * mask; }, [&] { return x * scales[0]; });
  }
};

TEST_CASE("a function uses the constants that a module has now") {
  struct Outer : nn::Module {
    Masked inner{{1.0, 0.0}};
    TAPESTRY_FIELDS(inner)
  };
  const Tensor up = tensor({1.0, 2.0}), down = -up;
  const auto check_after = [&](const auto& change) {
    Outer net;
    const auto f = function([&](const Tensor& x) { return net.inner(x); });
    f(up), f(down);
    CHECK(f.trace_count() == 1);
    change(net);
    for (const Tensor& x : {up, down}) CHECK(same_bits(f(x), net.inner(x)));
    CHECK(f.trace_count() == 2);
  };
  check_after([](Outer& net) {
    StateDict state = net.state_dict();
    state["inner.mask"] = tensor({3.0, 4.0});
    net.load_state_dict(state);
  });
  check_after([](Outer& net) { net.inner.mask = tensor({3.0, 4.0}); });
  check_after([](Outer& net) { net.inner.scales = {tensor({7.0, 8.0})}; });
  check_after([](Outer& net) { std::swap(net.inner.scales[0], net.inner.scales[1]); });
  check_after([](Outer& net) { net.inner = Masked{{5.0, 6.0}}; });
  check_after([](Outer& net) { net = Outer{}, net.inner.mask = tensor({5.0, 6.0}); });
}

TEST_CASE("a function outlives the module of its constants") {
  auto net = std::make_unique<Masked>(tensor({3.0, 4.0}));
  const auto f = function([&](const Tensor& x) { return (*net)(x); });
  const Tensor x = tensor({1.0, 2.0}), y = f(x);
  const Masked taken = std::move(*net);
  CHECK(same_bits(f(x), y));
  net.reset();
  CHECK(same_bits(f(x), y));
}

TEST_CASE("a function is traced anew in another Autocast scope") {
  const Tensor x = tensor({{1.001, 2}, {3, 5}});
  const auto product = [](const Tensor& t) { return matmul(t, t); };
  const auto f = function(product);
  for (int i = 0; i < 2; ++i) {
    CHECK(same_bits(f(x), product(x)));
    const Autocast scope(bfloat16);
    CHECK(same_bits(f(x), product(x)));
  }
  CHECK(f.trace_count() == 2);
}

}  // namespace

}  // namespace nn_module_test

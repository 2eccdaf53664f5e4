// Wrong use of everything but ops: devices, tapes, Variables, optimizers, the registry, settings, data. Each is refused
// at the user's line and leaves the objects as they were.

#include <thread>

#include <tapestry/tapestry.hpp>

#include "refused.hpp"
#include "temporary_folder.hpp"
#include "toy_backend.hpp"

namespace tapestry::test::bad_use_test {
namespace {

#define TAPESTRY_INVALID(text, ...) TAPESTRY_REFUSED(InvalidArgumentError, text, __VA_ARGS__)
#define TAPESTRY_PRECONDITION(text, ...) TAPESTRY_REFUSED(FailedPreconditionError, text, __VA_ARGS__)

TEST_CASE("devices that do not exist, and tensors on two") {
  const Tensor x = ones({2}), toy = x.to(toy_device());
  TAPESTRY_INVALID("There is no device /device:GPU:0; available devices: /device:CPU:0", x.to(cuda(0)));
  TAPESTRY_INVALID("There is no device /device:CPU:5", x.to(Device(0, 5)));
  TAPESTRY_INVALID("There is no device /device:GPU:3", zeros({2}, {.device = cuda(3)}));
  TAPESTRY_INVALID("/device:UNKNOWN:0", zeros({2}, {.device = Device(15, 0)}));
  TAPESTRY_INVALID("\"abacus\" does not name a device", zeros({2}, {.device = "abacus"}));
  TAPESTRY_INVALID("\"gpu:x\" does not name a device", Device("gpu:x"));
  TAPESTRY_INVALID("input #0 is on /device:CPU:0 and input #1 on /device:TOY:0", x + toy);
  TAPESTRY_INVALID("[Op:ConcatV2]", concat({toy, x}));
  TAPESTRY_PRECONDITION("bring it to the CPU", toy.data<float>());
  Variable w(x);
  w.assign(toy);
  CHECK(w.device() == cpu());
}

TEST_CASE("tapes") {
  const Tensor x = tensor({1.0, 2.0});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  TAPESTRY_INVALID("must be floating (e.g. tf.float32), got int32", tape.watch(tensor({1})));
  TAPESTRY_INVALID("got bool", tape.watch(Variable(true)));
  TAPESTRY_PRECONDITION("An empty Tensor was used", tape.watch(Tensor()));
  TAPESTRY_PRECONDITION("An empty Tensor was used", tape.gradient(Tensor(), x));
  TAPESTRY_INVALID("float32[1] does not fit the target float32[2]",
                   tape.gradient(y, x, {.output_gradients = ones({1})}));
  TAPESTRY_INVALID("1 targets and 2 output gradients", tape.gradient(y, x, {.output_gradients = {y, y}}));
  TAPESTRY_INVALID("A jacobian has one target, not 2", tape.jacobian({y, y}, x));
  TAPESTRY_INVALID("the target [] and of the source [2]", tape.batch_jacobian(tensor(1.0), x));
  check_values(tape.gradient(y, x), {2, 4});
  TAPESTRY_PRECONDITION("can only be used to compute one set of gradients", tape.gradient(y, x));
  TAPESTRY_PRECONDITION("can only be used to compute one set of gradients", tape.jacobian(y, x));
  TAPESTRY_PRECONDITION("a tape which is not recording", tape.stop_recording());
}

TEST_CASE("a target of whole numbers, or one that was never watched, has no gradient") {
  const Tensor x = tensor({1.0, 2.0});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  CHECK_FALSE(tape.gradient((x * x).cast(int32), x));
  CHECK_FALSE(tape.gradient(tensor(1.0), x));
  CHECK_FALSE(tape.gradient(x * x, tensor(1.0)));
  CHECK(tape.gradient(x * x, std::vector<Tensor>{}).empty());
}

TEST_CASE("a tape on another thread") {
  const Tensor x = tensor({1.0, 2.0});
  {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x;
    std::thread([&] {
      const auto says = "A GradientTape records the thread that made it";
      TAPESTRY_PRECONDITION(says, tape.gradient(y, x));
      TAPESTRY_PRECONDITION(says, tape.jacobian(y, x));
      TAPESTRY_PRECONDITION(says, tape.stop_recording());
      TAPESTRY_PRECONDITION(says, tape.reset());
      TAPESTRY_PRECONDITION(says, tape.watch(x));
    }).join();
    check_values(tape.gradient(y, x), {2, 4});
  }
  auto tape = std::make_unique<GradientTape>();
  tape->watch(x);
  std::thread([&] { tape.reset(); }).join();
  check_values(x * x, {1, 4});
}

TEST_CASE("functional forms blame the line where they are made") {
  const Tensor x = tensor({1.0, 2.0});
  const auto square = [](const Tensor& t) { return t * t; };
  TAPESTRY_INVALID("got int32", grad(square)(tensor({1})));
  TAPESTRY_INVALID("got int32", hessian(square)(tensor({1})));
  TAPESTRY_PRECONDITION("An empty Tensor was used", grad([](const Tensor&) { return Tensor(); })(x));
  TAPESTRY_INVALID("float32[3] does not fit the target float32[2]", vjp(square, x, ones({3})));
  TAPESTRY_INVALID("direction float32[3] does not fit the argument float32[2]", jvp(square, x, ones({3})));
  TAPESTRY_PRECONDITION("An empty Tensor was used", jvp(square)(x, Tensor()));
}

TEST_CASE("errors of a layer that a function calls name the user's line") {
#define TAPESTRY_WRONG(...) TAPESTRY_REFUSED(InvalidArgumentError, "got [2,5]", __VA_ARGS__)
  const Tensor x = ones({2, 5});
  const TensorSpec like = spec(x);
  const auto try_all = [&](const auto& layer) {
    std::vector<Tensor> values;
    for (const Variable& each : layer.parameters()) values.push_back(each.value());
    TAPESTRY_WRONG(grad(layer)(x));
    TAPESTRY_WRONG(value_and_grad(layer)(x));
    TAPESTRY_WRONG(hessian(layer)(x));
    TAPESTRY_WRONG(vjp(layer, x));
    TAPESTRY_WRONG(vjp(layer, x, x));
    TAPESTRY_WRONG(jvp(layer, x, x));
    TAPESTRY_WRONG(recompute(layer)(x));
    TAPESTRY_WRONG(custom_gradient([&](const auto& in) { return CustomGradient{layer(in), {}}; })(x));
    TAPESTRY_WRONG(map(layer, ones({3, 2, 5})));
    TAPESTRY_WRONG(trace(layer, {like}));
    TAPESTRY_WRONG(function(layer)(x));
    TAPESTRY_WRONG(nn::summary(layer, like));
    TAPESTRY_WRONG(nn::functional_call(layer, values, x));
  };
  try_all(nn::Dense(8, 9));
  try_all(nn::MultiHeadAttention(8, 2));
#undef TAPESTRY_WRONG
}

TEST_CASE("functions that give nothing") {
  const Tensor x = tensor({1.0, 2.0});
  TAPESTRY_INVALID("there is no function that computes the gradient",
                   custom_gradient([](const Tensor& t) -> CustomGradient {
                     return {t * 2.0, {}};
                   })(x));
  TAPESTRY_INVALID("the value is an empty Tensor", custom_gradient([](const Tensor&) -> CustomGradient {
                     return {Tensor(), [](const Tensor& g) -> Tensors { return {g}; }};
                   })(x));
  TAPESTRY_INVALID("recompute: the function returns an empty Tensor",
                   recompute([](const Tensor&) { return Tensor(); })(x));
}

TEST_CASE("an argument or a result that a traced function does not have") {
  const auto twice = trace([](const Tensor& x) { return x * 2.0; }, {spec(float32, {})});
  for (const std::size_t i : {1, 2, 8, 100}) {
    const std::string rest = detail::join("puts, there is no number ", i);
    CHECK_THROWS_WITH_AS(twice.input(i), ("The traced function has 1 in" + rest).c_str(), InvalidArgumentError);
    CHECK_THROWS_WITH_AS(twice.output(i), ("The traced function has 1 out" + rest).c_str(), InvalidArgumentError);
  }
}

TEST_CASE("a Variable that no session has initialized") {
  const Graph graph;
  const auto v = [&] {
    const auto scope = graph.as_default();
    return Variable(constant({2.0, 3.0}), {.name = "v"});
  }();
#define TAPESTRY_UNINITIALIZED(...) \
  TAPESTRY_PRECONDITION("uninitialized value v: its initial value is symbolic, so that a session must run", __VA_ARGS__)
  TAPESTRY_UNINITIALIZED(v.value());
  TAPESTRY_UNINITIALIZED(v.read_value());
  TAPESTRY_UNINITIALIZED(v * 2.0);
  TAPESTRY_UNINITIALIZED(exp(v));
  TAPESTRY_UNINITIALIZED(nn::Dense(2, 3)(v));
  TAPESTRY_UNINITIALIZED([&]() -> Tensor { return v; }());
  TAPESTRY_UNINITIALIZED(Tensors{v});
  TAPESTRY_UNINITIALIZED(einsum("i,i->", constant({1.0, 2.0}), v));
#undef TAPESTRY_UNINITIALIZED
}

TEST_CASE("a custom gradient of another type") {
  const auto in = [](DType dtype) {
    return custom_gradient([dtype](const Tensor& t) -> CustomGradient {
      return {exp(t), [dtype](const Tensor& g) -> Tensors { return {g.cast(dtype)}; }};
    });
  };
  const Tensor x = ones({2, 3});
  CHECK(grad(in(float32))(x).dtype() == float32);
  for (const DType dtype : {float64, float16, int32}) {
    const auto f = in(dtype);
    const auto of_sum = grad([&](const Tensor& t) { return reduce_sum(f(t) + t); });
    const std::string expected = detail::join(
        "Incompatible types between op input and calculated input gradient. Forward operation: CustomGradient. Input "
        "index: 1. Original input type: float32.  Calculated input gradient type: ",
        to_string(dtype));
    CHECK(message_of<InvalidArgumentError>([&] { of_sum(x); }) == expected);
    CHECK(message_of<InvalidArgumentError>([&] { trace(of_sum, {spec(float32, {-1, 3})}); }) == expected);
  }
}

TEST_CASE("sizes that a sparse jacobian needs are asked for at the user's line") {
  const Tensor pattern = eye(2, {.dtype = boolean});
  const auto f = [&](const Tensor& x) {
    TAPESTRY_PRECONDITION("is known only when the graph runs",
                          sparse_jacobian([](const Tensor& t) { return t; }, pattern)(x));
    return x;
  };
  trace(f, {spec(float32, {-1})});
}

TEST_CASE("layers whose ops are composed blame the user's line") {
  const nn::LayerNorm norm(3);
  const nn::ConvTranspose2D up(3, 2, 3);
  const nn::EmbeddingBag bag(5, 2);
  const nn::Dense dense(3, 4);
  const Tensor x = ones({2, 7});
  TAPESTRY_INVALID("LayerNorm(3) got [2,7]", norm(x));
  TAPESTRY_INVALID("got [2,7]: input must be 4-dimensional", up(x));
  TAPESTRY_INVALID("The weights must have the shape of the ids", bag(tensor({{1, 2}}), ones({2})));
  TAPESTRY_INVALID("must be at least a vector", bag(tensor(1)));
  TAPESTRY_INVALID("Dense(3, 4) got [2,7]", nn::functional_call(dense, StateDict{}, x));
}

TEST_CASE("iterators past the end, and null pointers") {
  data::Stream<int> stream({1});
  auto element = stream.begin();
  ++element;
  CHECK_THROWS_AS(*element, OutOfRangeError);
  CHECK_THROWS_AS(++element, OutOfRangeError);
  data::Loader loader({ones({1}), ones({1})}, {.batch = 1});
  auto batch = loader.begin();
  ++batch;
  CHECK_THROWS_AS(++batch, OutOfRangeError);
  Variable* variable = nullptr;
  nn::Dense* layer = nullptr;
  double* number = nullptr;
  TAPESTRY_INVALID("A null pointer is given for a part of a checkpoint", Checkpoint{.model = variable});
  TAPESTRY_INVALID("A null pointer is given for a part of a checkpoint", Checkpoint{.model = layer});
  CHECK_THROWS_AS((void(Checkpoint{.more = {{"rate", number}}})), InvalidArgumentError);
}

TEST_CASE("Variables") {
  Variable w({1.0, 2.0}, {.name = "w"}), n({1, 2}, {.name = "n"});
  TAPESTRY_INVALID("assign: variable 'w' is float32[2], the value is float32[1]", w.assign({1.0}));
  TAPESTRY_INVALID("the value is a number; the shapes must be equal", w.assign(1.0));
  TAPESTRY_INVALID("assign_add: variable 'w' is float32[2], the value is float32[3]", w.assign_add(ones({3})));
  TAPESTRY_INVALID("assign_sub: variable 'w' is float32[2], the value is float32[2,2]", w.assign_sub(ones({2, 2})));
  TAPESTRY_PRECONDITION("assign: the value is an empty Tensor", w.assign(Tensor()));
  TAPESTRY_INVALID("variable 'n' is int32[2], the value is float32[2]; a float does not turn", n.assign({1.5, 2.5}));
  TAPESTRY_INVALID("initial_value must be specified.", Variable{Tensor()});
  TAPESTRY_INVALID("parts of shape [2] and of shape [1]", Variable({{1, 2}, {3}}));
  check_values(w, {1, 2});
  check_values(n, {1, 2});
}

TEST_CASE("optimizers and clipping") {
  Variable w({1.0, 2.0}, {.name = "w"}), n({1, 2}, {.name = "n"});
  const Tensor g = ones({2});
  train::GradientDescentOptimizer opt(0.1);
  TAPESTRY_INVALID("learning_rate must be a finite number >= 0, got -1", train::AdamOptimizer(-1));
  TAPESTRY_INVALID("beta1 must be in [0, 1), got 1.5", train::AdamOptimizer(0.1, {.beta1 = 1.5}));
  TAPESTRY_INVALID("momentum must be a finite number >= 0, got nan", train::MomentumOptimizer(0.1, not_a_number));
  TAPESTRY_INVALID("decay_steps must be positive, got 0", train::ExponentialDecay(0.1, 0, 0.5));
  TAPESTRY_INVALID("There are 1 gradients and 2 variables", opt.apply_gradients({g}, {w, n}));
  TAPESTRY_INVALID("There are 2 gradients and 1 variables", opt.apply_gradients({g, g}, {w}));
  TAPESTRY_INVALID("gradient of variable 'w' is float32[3] on cpu", opt.apply_gradients({ones({3})}, {w}));
  TAPESTRY_INVALID("Variable 'n' is int32[2]", opt.apply_gradients({g, g}, {w, n}));
  TAPESTRY_INVALID("No gradients provided for any variable: ['w']", opt.apply_gradients({Tensor()}, {w}));
  TAPESTRY_INVALID("returned an empty Tensor", opt.minimize([] { return Tensor(); }, {w}));
  TAPESTRY_INVALID("global_step must be a scalar", opt.apply_gradients({g}, {w}, {.global_step = w}));
  TAPESTRY_REFUSED(NotFoundError, "no slot named 'm' for variable 'w'", opt.get_slot(w, "m"));
  TAPESTRY_INVALID("clip_norm must be a positive, finite number, got 0", clip_by_global_norm({g}, 0));
  check_values(w, {1, 2});
  CHECK(opt.iterations() == 0);
}

TEST_CASE("the registry") {
  const Tensor x = tensor({1.0, 2.0});
  const auto nothing = [](const Call&) {};
  register_op({.name = "BadUse", .infer = same_shape, .cpu = nothing});
  TAPESTRY_INVALID("an op named 'BadUse' is registered already",
                   register_op({.name = "BadUse", .infer = same_shape, .cpu = nothing}));
  TAPESTRY_INVALID("an op needs a name", register_op({.name = "", .infer = same_shape, .cpu = nothing}));
  TAPESTRY_INVALID("op 'NoInfer' lacks infer", register_op({.name = "NoInfer", .cpu = nothing}));
  TAPESTRY_INVALID("exactly one of forward, view, cpu and evaluate",
                   register_op({.name = "NoCode", .infer = same_shape}));
  for (const char* name : {"my op", "my:0", "/op", "_op", "op\n"})
    TAPESTRY_INVALID("has a name that no operation may have",
                     register_op({.name = name, .infer = same_shape, .cpu = nothing}));
  TAPESTRY_INVALID("op 'TwoAttrs' has two attributes 'a'",
                   register_op({.name = "TwoAttrs", .attrs = {"a", "b", "a"}, .infer = same_shape, .cpu = nothing}));
  TAPESTRY_INVALID("op 'Fewer' has outputs = -2",
                   register_op({.name = "Fewer", .infer = same_shape, .cpu = nothing, .outputs = -2}));
  const auto of_one = [](const Call&, const Tensor& g) -> Tensors { return {g}; };
  for (const int outputs : {0, 2}) {
    const std::string name = detail::join("Gives", outputs);
    const std::string problem = detail::join("The gradient takes one Tensor, where the op has ", outputs, " outputs");
    TAPESTRY_INVALID(
        problem,
        register_op({.name = name, .infer = same_shape, .cpu = nothing, .gradient = of_one, .outputs = outputs}));
    register_op({.name = name, .infer = same_shape, .cpu = nothing, .outputs = outputs});
    TAPESTRY_INVALID(problem, register_gradient(name, of_one));
  }
  TAPESTRY_REFUSED(NotFoundError, "Unrecognized Op name Absent", register_gradient("Absent", no_gradient));
  register_gradient("BadUse", no_gradient);
  TAPESTRY_REFUSED(LookupError, "Registering two gradients with name 'BadUse'!",
                   register_gradient("BadUse", no_gradient));
  TAPESTRY_REFUSED(NotFoundError, "Unrecognized Op name Absent", apply_op("Absent", {x}));
  TAPESTRY_REFUSED(NotFoundError, "The attribute 'dtype' is missing, which is a dtype [Op:Cast]",
                   apply_op("Cast", {x}));
  TAPESTRY_REFUSED(NotFoundError, "The attribute 'axis' must be whole numbers, but is a text [Op:Sum]",
                   apply_op("Sum", {x}, {{"axis", std::string("0")}}));
  TAPESTRY_REFUSED(NotFoundError, "[Op:Transpose]", apply_op("Transpose", {x}, {{"perm", 1.0}}));
  TAPESTRY_REFUSED(NotFoundError, "[Op:Fill]", apply_op("Fill", {}, {{"device", 1.0}}));
  TAPESTRY_INVALID("Op Sum has no attribute 'axes'; it has axis, keep_dims",
                   apply_op("Sum", {x}, {{"keep_dims", true}, {"axes", Ints{0}}}));
  TAPESTRY_INVALID("Op Neg has no attribute 'axis'", apply_op("Neg", {x}, {{"axis", std::int64_t{0}}}));
  TAPESTRY_INVALID("Op BadUse has no attribute 'x'", apply_op("BadUse", {x}, {{"x", true}}));
  TAPESTRY_INVALID("AddV2 takes 2 inputs, but got 1 [Op:AddV2]", apply_op("AddV2", {x}));
  TAPESTRY_INVALID(
      "lists of the same size",
      apply_op("StridedSlice", {x}, {{"begin", Ints{0}}, {"end", Ints{1}}, {"strides", Ints{}}, {"masks", Ints(5)}}));
}

TEST_CASE("checkpoints of a module whose parts have no names") {
  struct Unnamed : nn::Module {
    nn::Dense layer{2, 2};
  } model;
  const TemporaryFolder folder;
  const Checkpoint checkpoint{.model = &model};
  TAPESTRY_PRECONDITION("has not named its parts", checkpoint.save(folder.path()));
  nn::Dense other(2, 2);
  Checkpoint{.model = &other}.save(folder.path());
  TAPESTRY_PRECONDITION("has not named its parts", checkpoint.restore(folder.path()));
}

TEST_CASE("settings") {
  const int threads = num_threads();
  TAPESTRY_INVALID("number of threads must be from 1 to 4096, but is -5", set_num_threads(-5));
  TAPESTRY_INVALID("number of threads must be from 1 to 4096, but is 100000", set_num_threads(100000));
  TAPESTRY_INVALID("There is no device /device:GPU:0", memory_stats(cuda(0)));
  TAPESTRY_INVALID("There is no device /device:GPU:0", reset_peak_memory(cuda(0)));
  TAPESTRY_INVALID("There is no device /device:GPU:0", synchronize(cuda(0)));
  TAPESTRY_INVALID("There is no device /device:GPU:0", trim_memory(cuda(0)));
  nn::Dense layer(2, 2);
  TAPESTRY_INVALID("There is no device /device:GPU:0", layer.to(cuda(0)));
  TAPESTRY_REFUSED(NotFoundError, "train-images-idx3-ubyte", data::mnist("", data::Split::train));
  CHECK(num_threads() == threads);
  TAPESTRY_INVALID("must be \"highest\", \"high\" or \"medium\", but is \"fast\"", set_matmul_precision("fast"));
  CHECK(matmul_precision() == "highest");
  TAPESTRY_INVALID("but got -1, 1000, 3 and 75", set_print_options({.precision = -1}));
  CHECK(print_options().precision == 8);
}

TEST_CASE("functions that are empty are refused where they are given, also where they would not be called") {
  using Function = std::function<Tensor(const Tensor&)>;
  const Tensor x = ones({2});
  const auto is_true = [] { return tensor(true); };
  Tensor (*const nothing)() = nullptr;
  Tensor (*const none_of_one)(const Tensor&) = nullptr;
  const std::function<Tensor()> loss;
  const Function f;
  const std::function<std::pair<Tensor, Tensor>(const Tensor&, const Tensor&)> step;
  const auto refused = "The function is empty: a std::function without a target, or a null pointer";
#define TAPESTRY_EMPTY(...) TAPESTRY_INVALID(refused, __VA_ARGS__)
  TAPESTRY_EMPTY(cond(true, is_true, nothing));
  TAPESTRY_EMPTY(cond(true, loss, loss));
  TAPESTRY_EMPTY(switch_case(0, std::vector<std::function<Tensor()>>{is_true, loss}));
  TAPESTRY_EMPTY(while_loop(
      f, [](const Tensor& each) { return each; }, x));
  TAPESTRY_EMPTY(while_loop([](const Tensor&) { return tensor(false); }, none_of_one, x));
  TAPESTRY_EMPTY(scan(step, x, zeros({0, 2})));
  TAPESTRY_EMPTY(map(f, zeros({0, 2})));
  TAPESTRY_EMPTY(vmap(f));
  TAPESTRY_EMPTY(jvp(f));
  TAPESTRY_EMPTY(jvp(f, x, x));
  TAPESTRY_EMPTY(vjp(f));
  TAPESTRY_EMPTY(vjp(f, x));
  TAPESTRY_EMPTY(vjp(f, x, x));
  TAPESTRY_EMPTY(jacobian(f));
  TAPESTRY_EMPTY(jacfwd(none_of_one));
  TAPESTRY_EMPTY(jacrev(f));
  TAPESTRY_EMPTY(hessian(f));
  TAPESTRY_EMPTY(sparse_jacobian(f, eye(2)));
  TAPESTRY_EMPTY(grad(f));
  TAPESTRY_EMPTY(value_and_grad(f));
  TAPESTRY_EMPTY(custom_gradient(std::function<CustomGradient(const Tensor&)>()));
  TAPESTRY_EMPTY(recompute(f));
  TAPESTRY_EMPTY(trace(f, {spec(x)}));
  TAPESTRY_EMPTY(function(f));
  TAPESTRY_EMPTY(nn::Lambda(f));
  TAPESTRY_EMPTY(nn::Sequential().add(none_of_one));
  CHECK(message_of<InvalidArgumentError>([&] { static_cast<void>(nn::Sequential{f}); }) == refused);
  TAPESTRY_EMPTY(Gradient(std::function<Tensors(const Call&, const Tensor&)>()));
  TAPESTRY_EMPTY(device(DeviceFunction()));

  const Variable w(1.0);
  train::GradientDescentOptimizer optimizer(0.1);
  TAPESTRY_EMPTY(optimizer.minimize(loss));
  TAPESTRY_EMPTY(optimizer.compute_gradients(loss, {w}));
  TAPESTRY_EMPTY(train::LBFGS({w}).minimize(loss));
  TAPESTRY_EMPTY(train::LossScale().minimize(optimizer, loss));
  TAPESTRY_EMPTY(train::GradientAccumulation(2).minimize(optimizer, loss));
  TAPESTRY_EMPTY(train::GradientDescentOptimizer(std::function<double(std::int64_t)>()));
  TAPESTRY_EMPTY(train::on_best("loss", {}));

  using Numbers = data::Stream<int>;
  Numbers numbers({1, 2});
  TAPESTRY_EMPTY(train::fit(numbers, std::function<double(int)>()));
  TAPESTRY_EMPTY(numbers.map(std::function<int(int)>()));
  TAPESTRY_EMPTY(numbers.filter(std::function<bool(int)>()));
  TAPESTRY_EMPTY(numbers.interleave(std::function<Numbers(int)>()));
  TAPESTRY_EMPTY(Numbers::generate(std::function<std::function<std::optional<int>()>(std::int64_t)>()));
  TAPESTRY_EMPTY(Numbers::generate([](std::int64_t) { return std::function<std::optional<int>()>(); }).collect());
  TAPESTRY_EMPTY(Numbers(data::Source<int>()));
#undef TAPESTRY_EMPTY
  Numbers no_cursor(data::Source<int>([](std::int64_t) { return std::unique_ptr<data::Cursor<int>>(); }));
  CHECK(message_of<InvalidArgumentError>([&] {
          no_cursor.repeat(2).batch(3).collect();
        }).find("returned a null pointer as the cursor of epoch 0") != std::string::npos);
}

TEST_CASE("data") {
  const TemporaryFolder folder;
  const Tensor x = ones({3, 2});
  const auto short_file = folder.write("short", {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1});
  const auto boast = folder.write("boast", {0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255});
  const auto packed = folder.write("packed.gz", {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1});
  TAPESTRY_REFUSED(DataLossError, "stops early: its shape [2,2] needs 4 bytes of data, but there are 1",
                   data::read_idx(short_file));
  TAPESTRY_REFUSED(DataLossError, "claims more than 2^63 bytes", data::read_idx(boast));
  TAPESTRY_REFUSED(DataLossError, "packed.gz", data::read_idx(packed));
  TAPESTRY_REFUSED(DataLossError, "is not an IDX file", data::read_idx(folder.write("empty", {})));
  TAPESTRY_REFUSED(NotFoundError, "There is no file", data::read_idx(folder.path()));
  TAPESTRY_REFUSED(NotFoundError, "train-images-idx3-ubyte", data::mnist(folder.path(), data::Split::train));
  TAPESTRY_INVALID("their shapes are [3,2] and [2]", data::Loader({x, ones({2})}));
  TAPESTRY_PRECONDITION("needs examples and their targets", data::Loader({x, Tensor()}));
  TAPESTRY_INVALID("at least 1 example, not 0", data::Loader({x, x}, {.batch = 0}));
  TAPESTRY_REFUSED(NotFoundError, "Cannot write",
                   write_png(folder / "absent" / "x.png", zeros({2, 2}, {.dtype = uint8})));
  TAPESTRY_INVALID("but got float32[3,2]", write_png(folder / "x.png", x));
  CHECK_FALSE(std::filesystem::exists(folder / "x.png"));
}

}  // namespace
}  // namespace tapestry::test::bad_use_test

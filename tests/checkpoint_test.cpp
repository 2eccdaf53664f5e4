// What is saved goes on as if nothing had happened: states of optimizers and generators, and whole checkpoints, also
// when the program that writes them is killed.

#include "tapestry/checkpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.hpp"
#include "refused.hpp"
#include "tapestry/data/loader.hpp"
#include "tapestry/nn.hpp"
#include "tapestry/numpy_legacy.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"
#include "tapestry/session.hpp"
#include "tapestry/train.hpp"
#include "temporary_folder.hpp"

namespace checkpoint_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

namespace fs = std::filesystem;

/// A layer of a user's own, with dropout in front of it.
struct Net {
  Variable w{random::normal({3, 2}), {.name = "w"}}, b{zeros({2}), {.name = "b"}};

  StateDict state_dict() const { return {{"w", w.value()}, {"b", b.value()}}; }
  void load_state_dict(const StateDict& state) const {
    w.assign(state.at("w"));
    b.assign(state.at("b"));
  }
  Tensor operator()(const Tensor& x) const { return matmul(dropout(x, 0.3), w) + b; }
};

/// Everything that a training needs, made anew by a program that starts.
struct Training {
  Net net;
  train::AdamOptimizer optimizer{train::CosineDecay(0.1, 100)};
  std::int64_t step = 0;
  data::Loader loader{examples(), {.batch = 4, .shuffle = true, .seed = 7, .prefetch = 2}};
  Checkpoint checkpoint{.model = &net, .optimizer = &optimizer, .step = &step, .loader = &loader};

  static data::Dataset examples() {
    const Tensor x = reshape(arange(0, 66).cast(float32), {22, 3}) / 66.0;
    return {x, reduce_sum(x, 1, {.keep_dims = true}) * tensor<float>({1, -1})};
  }

  void run(std::int64_t steps) {
    while (true)
      for (auto [x, y] : loader) {
        optimizer.minimize([&, x = x, y = y] { return reduce_mean(square(net(x) - y)); });  // clang 14 wants it so
        if (++step == steps) return;
      }
  }
};

/// Starts this program again, to run the test case of that name alone, with TAPESTRY_FOLDER in its environment.
/// Descriptor 3 is the end of a pipe to write into.
class Child {
 public:
  Child(const std::string& test_case, const fs::path& folder) {
    int pipe_ends[2];
    REQUIRE(::pipe2(pipe_ends, O_CLOEXEC) == 0);
    ::setenv("TAPESTRY_FOLDER", folder.c_str(), 1);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 3);
    std::string filter = "--test-case=" + test_case, all = "--no-skip", name = "child";
    char* arguments[] = {name.data(), filter.data(), all.data(), nullptr};
    REQUIRE(::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe_ends[1]);
    pipe_ = pipe_ends[0];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { ::close(pipe_); }

  /// Until the child has written a byte.
  void wait_for_news() const {
    char byte = 0;
    REQUIRE(::read(pipe_, &byte, 1) == 1);
  }
  void kill() const { ::kill(pid_, SIGKILL); }
  /// How it ended, as waitpid tells.
  int wait() const {
    int status = -1;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
};

fs::path childs_folder() {
  const char* folder = std::getenv("TAPESTRY_FOLDER");
  REQUIRE(folder);
  return folder;
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& each : fs::directory_iterator(folder)) names.push_back(each.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::unique_ptr<train::Optimizer>> optimizers() {
  std::vector<std::unique_ptr<train::Optimizer>> list;
  list.push_back(std::make_unique<train::GradientDescentOptimizer>(0.1));
  list.push_back(std::make_unique<train::MomentumOptimizer>(0.1, 0.9));
  list.push_back(std::make_unique<train::AdamOptimizer>(0.1));
  list.push_back(std::make_unique<train::AdamWOptimizer>(train::ExponentialDecay(0.1, 2, 0.5)));
  list.push_back(std::make_unique<train::RMSPropOptimizer>(0.1));
  list.push_back(std::make_unique<train::AdagradOptimizer>(0.1));
  return list;
}

}  // namespace

TEST_CASE("an optimizer goes on where another one was, whichever it is") {
  const auto all_optimizers = optimizers(), others = optimizers();
  for (std::size_t i = 0; i < all_optimizers.size(); ++i) {
    CAPTURE(all_optimizers[i]->name());
    // Two Variables have one name, as those do that nobody has given any.
    Variable a(tensor<float>({1, 2})), b(tensor<float>({3})), c(tensor<double>(4.0), {.name = "c", .dtype = float64});
    const std::vector<Variable> variables{a, b, c};
    const auto step = [&](train::Optimizer& optimizer) {
      optimizer.minimize([&] { return reduce_sum(square(a)) + reduce_sum(square(b)) + c * c; }, variables);
    };
    step(*all_optimizers[i]);
    step(*all_optimizers[i]);
    const StateDict state = all_optimizers[i]->state_dict();
    CHECK(state.size() == 1 + 3 * all_optimizers[i]->get_slot_names().size());
    const std::vector<Tensor> values{a.value(), b.value(), c.value()};
    const auto finish = [&](train::Optimizer& optimizer) {
      for (std::size_t k = 0; k < 3; ++k) Variable(variables[k]).assign(values[k]);
      step(optimizer);
      step(optimizer);
      return std::vector<Tensor>{a.value(), b.value(), c.value()};
    };
    const auto expected = finish(*all_optimizers[i]);

    // A new optimizer, whose slots do not exist yet; and the same one, whose slots are further on.
    for (train::Optimizer* optimizer : {others[i].get(), all_optimizers[i].get()}) {
      optimizer->load_state_dict(state);
      CHECK(optimizer->iterations() == 2);
      const StateDict again = optimizer->state_dict();
      CHECK(again.size() == state.size());
      for (const auto& each : state) CHECK(same_bits(again.at(each.first), each.second));
      const auto actual = finish(*optimizer);
      for (std::size_t k = 0; k < 3; ++k) CHECK(same_bits(actual[k], expected[k]));
    }
  }
}

TEST_CASE("the state of an optimizer: names, and slots that nobody has yet") {
  train::MomentumOptimizer optimizer(0.1, 0.5);
  CHECK(optimizer.state_dict().size() == 1);
  Variable first(tensor<float>({1}), {.name = "w"}), second(tensor<float>({1}), {.name = "w"});
  optimizer.apply_gradients({tensor<float>({1}), tensor<float>({2})}, {first, second});
  const StateDict state = optimizer.state_dict();
  check_values(state.at("w.momentum"), {1});
  check_values(state.at("w#2.momentum"), {2});
  CHECK(state.at("iterations").item<int>() == 1);

  // A state from before the first step takes the slots back to their beginnings.
  optimizer.load_state_dict({{"iterations", tensor(std::int64_t{0})}});
  check_values(optimizer.get_slot(first, "momentum"), {0});
  // A state that was taken is a value.
  check_values(state.at("w.momentum"), {1});

  train::MomentumOptimizer other(0.1, 0.5);
  other.load_state_dict(state);
  optimizer.load_state_dict(state);
  Variable wrong(tensor<float>({1, 2}), {.name = "w"});
  TAPESTRY_REFUSED(InvalidArgumentError, "'w.momentum' in the state of an optimizer is float32[1]; the variable 'w' is",
                   other.apply_gradients({tensor<float>({1, 1})}, {wrong}));
  check_values(wrong, {1, 2});
  other.apply_gradients({tensor<float>({1})}, {first});
  check_values(other.get_slot(first, "momentum"), {1.5});
  CHECK(other.state_dict().size() == 3);
}

TEST_CASE("states of optimizers that are refused change nothing") {
  train::AdamOptimizer optimizer(0.1);
  Variable w(tensor<float>({1}), {.name = "w"});
  optimizer.minimize([&] { return reduce_sum(square(w)); });
  const StateDict before = optimizer.state_dict();
  const auto with = [&](const std::string& key, const Tensor& value) {
    StateDict state = before;
    state[key] = value;
    return state;
  };
  const auto without = [&](const std::string& key) {
    StateDict state = before;
    state.erase(key);
    return state;
  };
  TAPESTRY_REFUSED(InvalidArgumentError, "needs the number of its steps", optimizer.load_state_dict({}));
  TAPESTRY_REFUSED(InvalidArgumentError, "needs the number of its steps",
                   optimizer.load_state_dict(with("iterations", tensor(1.0))));
  TAPESTRY_REFUSED(InvalidArgumentError, "'w.momentum' is no state of the optimizer Adam",
                   optimizer.load_state_dict(with("w.momentum", tensor<float>({1}))));
  TAPESTRY_REFUSED(InvalidArgumentError, "'w' is no state of the optimizer Adam",
                   optimizer.load_state_dict(with("w", tensor<float>({1}))));
  TAPESTRY_REFUSED(InvalidArgumentError, "has 'w.m' but no 'w.v'", optimizer.load_state_dict(without("w.v")));
  TAPESTRY_REFUSED(InvalidArgumentError, "'w.v' in the state of an optimizer is float32[2]",
                   optimizer.load_state_dict(with("w.v", tensor<float>({1, 2}))));
  TAPESTRY_REFUSED(InvalidArgumentError, "'w.v' in the state of an optimizer is float64[1]",
                   optimizer.load_state_dict(with("w.v", tensor<double>({1}))));
  for (const auto& each : before) CHECK(same_bits(optimizer.state_dict().at(each.first), each.second));
}

TEST_CASE("a step in a graph goes on where another optimizer was") {
  Variable w(tensor<float>({1, 2}), {.name = "w"});
  const auto loss = [&] { return reduce_sum(square(w)); };
  train::AdamOptimizer eager(0.1);
  for (int i = 0; i < 2; ++i) eager.minimize(loss);
  const StateDict state = eager.state_dict();
  const Tensor value = w.value();
  eager.minimize(loss);
  const Tensor expected = w.value();

  for (const bool before_the_graph : {true, false}) {
    Graph graph;
    const auto scope = graph.as_default();
    train::AdamOptimizer optimizer(0.1);
    if (before_the_graph) optimizer.load_state_dict(state);
    const Operation step = optimizer.minimize(loss(), {w});
    if (!before_the_graph) optimizer.load_state_dict(state);
    StateRef(&w).load_state_dict({{"", value}}, Where::here());
    Session(graph).run(step);
    CHECK(same_bits(StateRef(&w).state_dict().at(""), expected));
    CHECK(optimizer.iterations() == 3);
  }
}

TEST_CASE("NumpyLegacy goes on where it was") {
  random::NumpyLegacy one(3), other(4);
  one.randn({5});
  const StateDict state = one.state_dict();
  const Tensor normal = one.randn({1000}), uniform = one.rand({7});
  other.load_state_dict(state);
  CHECK(same_bits(other.randn({1000}), normal));
  CHECK(same_bits(other.rand({7}), uniform));

  const auto with = [&](const std::string& key, const Tensor& value) {
    StateDict changed = state;
    changed[key] = value;
    return changed;
  };
  const StateDict now = other.state_dict();
  const Tensor twister = state.at("twister");
  for (const StateDict& bad :
       {StateDict{}, with("more", tensor(1)), with("waiting", tensor<double>({1, 2})), with("waiting", tensor(1)),
        with("twister", tensor<std::int64_t>({1, 2, 3})), with("twister", twister - 5000000000),
        with("twister", slice_update(twister, tensor<std::int64_t>(625), -1))})
    TAPESTRY_REFUSED(InvalidArgumentError, "This is not the state of a NumpyLegacy generator",
                     other.load_state_dict(bad));
  CHECK(same_bits(other.state_dict().at("twister"), now.at("twister")));
}

TEST_CASE("Checkpoint: all kinds of parts") {
  const TemporaryFolder folder;
  const std::string dir = folder / "not yet there/run";
  Net net, other;
  Variable global_step(tensor<std::int64_t>(5), {.trainable = false}), average(tensor<float>({1, 2}));
  int epoch = 3;
  double best = 0.25;
  bool warm = true;
  CHECK_FALSE(Checkpoint::latest(dir));
  const Checkpoint checkpoint{.model = &net,
                              .step = &global_step,
                              .more = {{"average", &average}, {"epoch", &epoch}, {"best", &best}, {"warm", &warm}}};
  TAPESTRY_REFUSED(NotFoundError, "There is no checkpoint in", checkpoint.restore(dir));
  random::seed(11);
  const std::string path = checkpoint.save(dir);
  const Tensor drawn = random::normal({4});
  CHECK(path == dir + "/checkpoint-1.safetensors");
  CHECK(Checkpoint::latest(dir) == path);

  StateDict tensors;
  load(path, tensors);
  std::vector<std::string> names;
  for (const auto& each : tensors) names.push_back(each.first);
  CHECK(names == std::vector<std::string>{"average", "best", "epoch", "model.b", "model.w", "random.offset",
                                          "random.seed", "step", "warm"});
  CHECK(tensors.at("step").item<int>() == 5);

  const StateDict saved = net.state_dict();
  net.w.assign(zeros({3, 2}));
  global_step.assign(6);
  average.assign(zeros({2}));
  epoch = 0, best = 0, warm = false;
  CHECK(checkpoint.restore(dir) == path);
  CHECK(same_bits(net.w, saved.at("w")));
  CHECK(global_step.value().item<int>() == 5);
  check_values(average, {1, 2});
  CHECK(epoch == 3);
  CHECK(best == 0.25);
  CHECK(warm);
  CHECK(same_bits(random::normal({4}), drawn));

  // A part of it will do, such as the model alone.
  Checkpoint{.model = &other, .random = false}.restore(path);
  CHECK(same_bits(other.w, net.w));
}

TEST_CASE("Checkpoint: rotation, and the newest whole file") {
  const TemporaryFolder folder;
  const std::string dir = folder.path();
  std::int64_t step = 0;
  const Checkpoint checkpoint{.step = &step, .keep = 3};
  folder.write("checkpoint-notes.txt", {1});
  folder.write("checkpoint-99.safetensors.tmp-1-0", {1});
  for (step = 1; step <= 11; ++step) checkpoint.save(dir);
  CHECK(files_in(dir) == std::vector<std::string>{"checkpoint-10.safetensors", "checkpoint-11.safetensors",
                                                  "checkpoint-9.safetensors", "checkpoint-notes.txt"});
  // The number of a file is not the step: what is written last is the newest, also after going back.
  step = 5;
  CHECK(checkpoint.save(dir) == dir + "/checkpoint-12.safetensors");
  checkpoint.restore(dir);
  CHECK(step == 5);

  // A file that others have damaged is passed over.
  const Bytes whole = read_bytes(folder / "checkpoint-12.safetensors");
  folder.write("checkpoint-12.safetensors", Bytes(whole.begin(), whole.end() - 1));
  folder.write("checkpoint-13.safetensors", {});
  CHECK(checkpoint.restore(dir) == dir + "/checkpoint-11.safetensors");
  CHECK(step == 11);
  TAPESTRY_REFUSED(DataLossError, "bytes of data", checkpoint.restore(folder / "checkpoint-12.safetensors"));
  CHECK(checkpoint.save(dir) == dir + "/checkpoint-14.safetensors");

  const Checkpoint keeps_all{.step = &step, .keep = 0};
  const std::size_t before = files_in(dir).size();
  for (int i = 0; i < 10; ++i) keeps_all.save(dir);
  CHECK(files_in(dir).size() == before + 10);
}

TEST_CASE("Checkpoint: what is refused changes nothing") {
  const TemporaryFolder folder;
  Net net;
  train::AdamOptimizer optimizer(0.1);
  std::int64_t step = 1;
  Checkpoint{.model = &net, .step = &step}.save(folder.path());
  net.w.assign(ones({3, 2}));
  step = 2;
  const random::State random_state = random::state();

  const Checkpoint with_optimizer{.model = &net, .optimizer = &optimizer, .step = &step};
  TAPESTRY_REFUSED(InvalidArgumentError, "holds no state for 'optimizer'", with_optimizer.restore(folder.path()));

  // "step" is restored last, and refuses: its tensor has another dtype.
  float float_step = 2;
  const Checkpoint with_float{.model = &net, .step = &float_step};
  TAPESTRY_REFUSED(InvalidArgumentError, "A single tensor of float64 is wanted", with_float.restore(folder.path()));
  check_values(net.w, {1, 1, 1, 1, 1, 1});
  CHECK(float_step == 2);
  CHECK(random::state() == random_state);

  // Errors name the part, the file and the user's line, whichever the part is.
  Variable weight(zeros({3}), {.name = "w"}), wide(zeros({4}), {.name = "w"});
  nn::Dense dense(2, 3), narrow(2, 1);
  const TemporaryFolder other;
  const std::string path = Checkpoint{.model = &weight, .more = {{"head", &dense}}}.save(other.path());
  const auto error = caught<InvalidArgumentError>([&] { Checkpoint{.model = &wide}.restore(other.path()); });
  CHECK(place(error) == line_before());
  CHECK(error.message() == "The state of 'model' in " + path + ": It is float32[3], the variable 'w' is float32[4]");
  TAPESTRY_REFUSED(InvalidArgumentError, "The state of 'head' in " + path + ": The state does not fit the module Dense",
                   Checkpoint{.more = {{"head", &narrow}}}.restore(other.path()));
  check_values(wide, {0, 0, 0, 0});

  for (const std::string name : {"", "model", "random", "a.b"})
    TAPESTRY_REFUSED(InvalidArgumentError, "A part of a checkpoint cannot be called",
                     Checkpoint{.more = {{name, &step}}}.save(folder.path()));
  const auto file = folder.write("file", {1});
  TAPESTRY_REFUSED(FailedPreconditionError, "Cannot make the folder", Checkpoint{}.save(file / "run"));
}

// ---- Other processes -------------------------------------------------------------------------------------------------

constexpr int steps = 17;  // 22 examples in batches of 4 are 6 steps: both halves end within an epoch

TEST_CASE("child: trains the second half" * doctest::skip()) {
  random::seed(999);
  Training training;
  training.checkpoint.restore(childs_folder());
  training.run(2 * steps);
  training.checkpoint.save(childs_folder());
}

TEST_CASE("2N steps are N, a checkpoint, a new process, and N more, bit for bit") {
  const TemporaryFolder whole, halves;
  random::seed(1);
  Training one;
  one.run(2 * steps);
  const std::string expected = one.checkpoint.save(whole.path());

  random::seed(1);
  Training other;
  other.run(steps);
  other.checkpoint.save(halves.path());
  CHECK(Child("child: trains the second half", halves.path()).wait() == 0);
  CHECK(read_bytes(halves / "checkpoint-2.safetensors") == read_bytes(expected));
  CHECK(read_bytes(halves / "checkpoint-1.safetensors") != read_bytes(expected));
}

TEST_CASE("child: writes checkpoints until it is killed" * doctest::skip()) {
  std::int64_t step = 0;
  Variable large(zeros({20000}));
  const Checkpoint checkpoint{.model = &large, .step = &step, .keep = 3};
  if (Checkpoint::latest(childs_folder())) checkpoint.restore(childs_folder());
  while (true) {
    REQUIRE(::write(3, "!", 1) == 1);
    large.assign(full({20000}, static_cast<double>(++step)).cast(float32));
    checkpoint.save(childs_folder());
  }
}

TEST_CASE("a writer that is killed leaves whole checkpoints, and the newest is found") {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  std::int64_t newest = 0;
  int leftovers = 0;
  for (int round = 0; round < 100; ++round) {
    const Child child("child: writes checkpoints until it is killed", folder.path());
    // Some way into its first, second or third checkpoint, or further where the disk is fast.
    for (auto whole = random() % 3 + 1; whole > 0; --whole) child.wait_for_news();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    child.kill();
    CHECK(WTERMSIG(child.wait()) == SIGKILL);

    for (const std::string& name : files_in(folder.path())) {
      if (!name.ends_with(".safetensors")) {
        ++leftovers;
        continue;
      }
      StateDict tensors;
      load(folder / name, tensors);
      const auto step = tensors.at("step").item<double>();
      const auto values = tensors.at("model").to_vector<double>();
      CHECK(std::all_of(values.begin(), values.end(), [&](double value) { return value == step; }));
    }
    if (const auto path = Checkpoint::latest(folder.path())) {
      StateDict tensors;
      load(*path, tensors);
      CHECK(tensors.at("step").item<std::int64_t>() >= newest);
      newest = tensors.at("step").item<std::int64_t>();
    }
  }
  INFO("steps: ", newest, ", files that were being written: ", leftovers);
  CHECK(newest > 0);
  CHECK(leftovers > 0);
  CHECK(files_in(folder.path()).size() <= 3 + 2);
}

}  // namespace checkpoint_test

// Every program that the plans of the op table and of models contain, compiled by NVRTC to machine code. That needs
// neither driver nor GPU.

#include <chrono>
#include <mutex>
#include <set>

#include <doctest/doctest.h>

#include "backend/cuda/compiler.hpp"
#include "backend/cuda/libraries.hpp"
#include "backend/cuda/program_text.hpp"
#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "program_cases.hpp"
#include "tapestry/tapestry.hpp"
#include "toy_backend.hpp"

namespace tapestry::testing {
namespace {

using gpu::Compiled;
using test::OpCase;
using Texts = std::set<std::string>;

bool has_nvrtc() {
  try {
    gpu::nvrtc();
    return true;
  } catch (const NotFoundError& error) {
    MESSAGE("skipped: " << error.what());
    return false;
  }
}

void add_texts(Texts& texts, const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  gpu::for_each_piece(inputs, outputs, [&](const gpu::ProgramPiece& piece) {
    texts.insert(gpu::text_of({program, inputs, piece.form}));
  });
}

/// The texts of the programs that the toy device is given meanwhile.
template <class Body>
void collect(Texts& texts, const Body& body) {
  std::mutex mutex;  // parts of a plan run side by side
  test::toy_backend().on_program = [&](const Program& program, auto inputs, auto outputs) {
    const std::lock_guard lock(mutex);
    add_texts(texts, program, inputs, outputs);
  };
  body();
  test::toy_backend().on_program = nullptr;
}

/// A function of a row of the op table and its gradients, as a session runs them.
void run_row(const OpCase& row, const std::vector<Tensor>& inputs) {
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) specs.push_back(spec(input.dtype(), input.shape()));
  const auto traced = trace(
      [&](const std::vector<Tensor>& x) {
        const auto there = device(test::toy_device());
        return test::value_and_gradients(row, x);
      },
      specs);
  Session session(traced.graph());
  Feeds feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) feeds.add(traced.input(i), inputs[i]);
  session.run(traced.outputs(), feeds);
}

void run_rows() {
  for (const OpCase& row : test::op_cases())
    for (const DType dtype : float_dtypes) {
      std::vector<Tensor> inputs;
      for (const Tensor& input : row.inputs) inputs.push_back(is_floating(input.dtype()) ? input.cast(dtype) : input);
      try {
        run_row(row, inputs);
      } catch (const InvalidArgumentError&) {
        REQUIRE(dtype == float32);  // the row mixes its inputs with float64 numbers of its own
      }
    }
}

/// One step of training and one of evaluation.
void run_model(nn::Sequential net, train::Optimizer& optimizer, const Tensor& x, std::int64_t classes) {
  net.to(test::toy_device());
  const auto loss = [&](const Tensor& input, const Tensor& labels) {
    return losses::cross_entropy(labels, reshape(net(input), {-1, classes}));
  };
  const Tensor labels = random::randint(0, classes, {reshape(net(x.to(test::toy_device())), {-1, classes}).shape()[0]});
  const std::vector<TensorSpec> specs{spec(x.dtype(), x.shape()), spec(labels.dtype(), labels.shape())};
  const auto step = trace(
      [&](const Tensor& input, const Tensor& wanted) {
        const auto there = device(test::toy_device());
        return optimizer.minimize([&] { return loss(input, wanted); }, net.parameters());
      },
      specs);
  step(x, labels);
  net.eval();
  trace(loss, specs)(x, labels);
}

void run_models() {
  using namespace nn;  // NOLINT(google-build-using-namespace): a list of layers
  train::AdamOptimizer adam(train::CosineDecay(0.01, 100));
  train::MomentumOptimizer momentum(0.1, 0.9);
  const Tensor rows = random::normal({16, 8}), images = random::normal({4, 8, 8, 1}),
               series = random::normal({4, 6, 8}), words = random::randint(0, 7, {4, 6});
  const auto layers = [](auto... activation) { return Sequential(Dense(8, 12), activation..., Dense(12, 5)); };
  for (train::Optimizer* optimizer : std::initializer_list<train::Optimizer*>{&adam, &momentum}) {
    run_model(layers(ReLU()), *optimizer, rows, 5);
    run_model(layers(Tanh(), Dropout(0.3)), *optimizer, rows, 5);
    run_model(layers(GELU(), LayerNorm(12)), *optimizer, rows, 5);
    run_model(layers(SiLU(), BatchNorm(12), Sigmoid()), *optimizer, rows, 5);
    run_model(Sequential(Conv2D(1, 4, 3, {.padding = 1}), BatchNorm(4), ReLU(), MaxPool2D(2), Dropout(0.2), Flatten(),
                         Dense(64, 3)),
              *optimizer, images, 3);
    run_model(Sequential(TransformerBlock(8, 2, 12), Dense(8, 7)), *optimizer, series, 7);
    run_model(Sequential(Embedding(7, 8),
                         TransformerBlock(
                             8, 2, 16, {.causal = true, .norm_first = true, .activation = FeedForwardActivation::gelu}),
                         Dense(8, 7)),
              *optimizer, words, 7);
  }
}

/// What ptxas says about a kernel.
struct Report {
  int registers = 0, spilled = 0;
};
Report report_of(const std::string& log) {
  const auto number_before = [&](const char* words) {
    const std::size_t end = log.find(words);
    REQUIRE_MESSAGE(end != std::string::npos, log);
    return std::stoi(log.substr(log.find_last_not_of("0123456789", end - 1) + 1));
  };
  return {number_before(" registers"), number_before(" bytes spill stores")};
}

/// Compiles all; no kernel may spill or use so many registers that two blocks do not fit a multiprocessor.
void compile_all(const std::string& name, const Texts& texts) {
  std::size_t bytes = 0, largest = 0;
  int registers = 0, spilling = 0;
  const auto begin = std::chrono::steady_clock::now();
  constexpr const char* options[] = {"--ptxas-options=-v"};
  for (const std::string& text : texts)
    for (const int arch : {80, 90}) {
      const Compiled compiled = gpu::compile(text, gpu::target_for(arch), options);
      const Report report = report_of(compiled.log);
      INFO(text, compiled.log);
      CHECK(compiled.image.substr(1, 3) == "ELF");
      CHECK(report.registers <= 128);
      CHECK(report.spilled <= 128);
      bytes += compiled.image.size();
      largest = std::max(largest, compiled.image.size());
      registers = std::max(registers, report.registers);
      spilling += report.spilled > 0 ? 1 : 0;
    }
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
  const auto count = static_cast<double>(2 * texts.size());
  MESSAGE(name << ": " << texts.size() << " texts for two architectures, " << time.count() / count << " ms and "
               << static_cast<double>(bytes) / count << " bytes each, at most " << largest << " bytes and " << registers
               << " registers, " << spilling << " with spills");
}

TEST_SUITE("NVRTC") {
  TEST_CASE("the programs of the op table") {
    if (!has_nvrtc()) return;
    Texts texts;
    collect(texts, run_rows);
    CHECK(texts.size() > 100);
    compile_all("op table", texts);
  }

  TEST_CASE("the programs of models that train") {
    if (!has_nvrtc()) return;
    Texts texts;
    collect(texts, run_models);
    CHECK(texts.size() > 10);
    compile_all("models", texts);
  }

  TEST_CASE("programs of all sizes, types and layouts") {
    if (!has_nvrtc()) return;
    Texts texts;
    const auto add = [&](const Program& program, const List& inputs, const Shape& shape) {
      add_texts(texts, program, inputs, outputs_of(program, shape));
    };
    int number = 0;
    for_each_layout([&](const List& inputs, const Shape& shape) {
      if (++number % 10 == 0) add(sample(), inputs, shape);
    });
    for_each_random_program(15, add);
    compile_all("layouts and random programs", texts);
  }

  TEST_CASE("two instructions are rounded twice") {
    if (!has_nvrtc()) return;
    Program program{.instructions = {}, .inputs = 3, .outputs = 1, .registers = 1};
    program.instructions = {{Binary::multiply, {0, 1}, 4, float32, 0}, {Binary::add, {4, 2}, 3, float32, 0}};
    Texts texts;
    const List inputs(3, random_tensor(float32, {100}));
    add_texts(texts, program, inputs, outputs_of(program, {100}));
    const std::string ptx = gpu::compile(*texts.begin(), {90, false}).image;
    CHECK(ptx.find("mul.rn.f32") != std::string::npos);
    CHECK(ptx.find("add.rn.f32") != std::string::npos);
    CHECK(ptx.find("fma.") == std::string::npos);
    // And loads and stores go by vectors.
    CHECK(ptx.find("ld.global.v4") != std::string::npos);
    CHECK(ptx.find("st.global.v4") != std::string::npos);
  }

  TEST_CASE("a text that is wrong is an error with the messages and the text") {
    if (!has_nvrtc()) return;
    const auto error = test::caught<InternalError>([] { gpu::compile("int x = unheard_of;\n", gpu::target_for(90)); });
    CHECK(error.message().find("NVRTC_ERROR_COMPILATION") != std::string::npos);
    CHECK(error.message().find("identifier \"unheard_of\" is undefined") != std::string::npos);
    CHECK(error.message().find("The text is:\nint x = unheard_of;") != std::string::npos);
  }

  TEST_CASE("for a GPU that NVRTC does not know it makes PTX") {
    if (!has_nvrtc()) return;
    const gpu::Target target = gpu::target_for(999);
    CHECK_FALSE(target.machine_code);
    CHECK(target.arch >= 90);
    const std::string text = "extern \"C\" __global__ void program(int* x) { *x = 1; }\n";
    CHECK(gpu::compile(text, target).image.find(".visible .entry program") != std::string::npos);
    CHECK(gpu::compilation_key(text, target) != gpu::compilation_key(text, gpu::target_for(target.arch)));
  }
}

}  // namespace
}  // namespace tapestry::testing

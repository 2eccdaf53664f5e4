// Programs as one kernel each, by NVRTC's stand-in, against the same programs by one kernel after another: equal bits.
// That sessions compute the bits of eager ops is in ../device_shapes.cpp.

#include <array>
#include <cstdio>
#include <filesystem>
#include <thread>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "environment.hpp"
#include "program_cases.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry {

/// The shared library keeps its own for itself; but a tensor's memory knows where it is from.
Backend& backend_of(Device device) {
  const Tensor large = detail::make_tensor(float32, {1000}, device);  // a small one on the CPU has none
  return dynamic_cast<Backend&>(*large.impl().storage->allocator);
}

}  // namespace tapestry

namespace tapestry::testing {
namespace {

namespace fs = std::filesystem;
using test::Setting;

const Device gpu = cuda(0);

std::string library_folder() {
  const char* folder = std::getenv("TAPESTRY_CUDA_LIBRARIES");
  REQUIRE(folder);
  return folder;
}

/// How many texts NVRTC's stand-in has compiled in this process.
int compilations() {
  void* nvrtc = dlopen((library_folder() + "/libnvrtc.so.13").c_str(), RTLD_LAZY | RTLD_LOCAL);
  REQUIRE(nvrtc);
  return reinterpret_cast<int (*)()>(dlsym(nvrtc, "emulated_nvrtc_compilations"))();
}

/// The tensor on the GPU in the layout that it has here.
Tensor moved(const Tensor& x) {
  if (x.size() == 0) return x.to(gpu);
  std::int64_t low = 0, high = 0;
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t far = (x.shape()[i] - 1) * x.strides()[static_cast<std::size_t>(i)];
    (far < 0 ? low : high) += far;
  }
  const Tensor all = empty(x.dtype(), {high - low + 1});
  const std::size_t bytes = size_of(x.dtype());
  std::memcpy(all.impl().data, static_cast<const std::byte*>(x.impl().data) + low * static_cast<std::int64_t>(bytes),
              static_cast<std::size_t>(all.size()) * bytes);
  return detail::make_view(all.to(gpu), x.shape(), x.strides(), -low);
}

/// Whether the program as one kernel gives the bits of its functions' own kernels.
bool agrees(const Program& program, const List& inputs, const Shape& shape) {
  List there;
  for (const Tensor& input : inputs) there.push_back(moved(input));
  const List expected = outputs_of(program, shape, gpu), found = outputs_of(program, shape, gpu);
  backend_of(gpu).Backend::program(program, there, expected);
  backend_of(gpu).program(program, there, found);
  bool all = true;
  for (std::size_t i = 0; i < found.size(); ++i) all = all && same_bits(found[i], expected[i]);
  return all;
}

/// y0 = f(x...), y1 = g(x...), ... for all functions of as many operands, of a type.
Program all_functions(int operands, DType dtype) {
  std::vector<ElementFunction> all;
  for (const Unary f : functions<Unary>()) all.emplace_back(f);
  for (const Binary f : functions<Binary>()) all.emplace_back(f);
  for (const Ternary f : functions<Ternary>()) all.emplace_back(f);
  Program program{.instructions = {}, .inputs = operands, .outputs = 0};
  const auto add = [&](const ElementFunction& f, DType result) {
    program.instructions.push_back(single(f, result).instructions[0]);
    program.instructions.back().result = static_cast<std::uint8_t>(operands + program.outputs++);
  };
  for (const ElementFunction& f : all) {
    const bool selects = f == ElementFunction(Ternary::select) && dtype != boolean;  // its first operand is bool
    if (operands_of(f) == operands && result_of(f, dtype) != DType::unknown && !selects) add(f, result_of(f, dtype));
  }
  for (const DType to : all_dtypes)
    if (operands == 1) add(Convert{}, to);
  return program;
}

/// y0 = leaky_relu(x0; slope); y1 = leaky_relu(y0; slope)
Program slopes(double slope) {
  Program program{.instructions = {}, .inputs = 1, .outputs = 2};
  program.instructions = {{Unary::leaky_relu, {0}, 1, float32, slope}, {Unary::leaky_relu, {1}, 2, float32, slope}};
  return program;
}

/// Runs a test case of this file in a process of its own; returns its output.
std::string run_alone(const std::string& name) {
  const std::string command =
      fs::read_symlink("/proc/self/exe").string() + " --no-skip --test-case='" + name + "' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string output;
  std::array<char, 1024> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe)) output += buffer.data();
  INFO(output);
  CHECK(pclose(pipe) == 0);
  return output;
}
int compilations_of(const std::string& output) {
  const std::string word = "compilations: ";
  REQUIRE(output.find(word) != std::string::npos);
  return std::stoi(output.substr(output.find(word) + word.size()));
}

TEST_SUITE("programs on an emulated GPU") {
  TEST_CASE("every function and conversion gives in a program the bits that it gives alone") {
    const int before = compilations();
    int programs = 0;
    for (const DType dtype : all_dtypes)
      for (int operands = 1; operands <= 3; ++operands) {
        const Program program = all_functions(operands, dtype);
        if (program.instructions.size() < 2) continue;
        List inputs = operands_for(Binary::add, dtype, {1003});  // the second one may be a divisor
        inputs.resize(static_cast<std::size_t>(operands), inputs[0]);
        INFO(to_string(dtype), ", ", operands, " operands");
        CHECK(agrees(program, inputs, {1003}));
        ++programs;
      }
    CHECK(compilations() == before + programs);
    CHECK(programs >= 12);
  }

  TEST_CASE("operands are broadcast and may have any layout, with vectors and without") {
    for_each_layout([](const List& inputs, const Shape& shape) {
      INFO(to_string(shape));
      CHECK(agrees(sample(), inputs, shape));
    });
  }

  TEST_CASE("programs of all sizes, types and registers") {
    for_each_random_program(30, [](const Program& program, const List& inputs, const Shape& shape) {
      INFO(program.instructions.size(), " instructions");
      CHECK(agrees(program, inputs, shape));
    });
  }

  TEST_CASE("sizes and numbers are no part of a text") {
    const auto inputs = [](std::int64_t n) { return List{random_tensor(float32, {n})}; };
    CHECK(agrees(slopes(0.25), inputs(1000), {1000}));
    const int before = compilations();
    CHECK(agrees(slopes(0.125), inputs(1000), {1000}));
    CHECK(agrees(slopes(-3), inputs(70001), {70001}));
    CHECK(agrees(slopes(0.5), {random_tensor(float32, {10, 64})}, {10, 64}));
    CHECK(compilations() == before);
    // But 0 is, whose sign counts.
    CHECK(agrees(slopes(0), inputs(1000), {1000}));
    CHECK(agrees(slopes(-0.0), inputs(1000), {1000}));
    CHECK(compilations() == before + 1);
  }

  TEST_CASE("an output may be where an input was") {
    Program program{.instructions = {}, .inputs = 2, .outputs = 2};
    program.instructions = {{Binary::add, {0, 1}, 2, float32, 0}, {Binary::multiply, {0, 2}, 3, float32, 0}};
    const Tensor a = random_tensor(float32, {30, 64}, 1), b = random_tensor(float32, {64}, 2);
    const List inputs{a.to(gpu), b.to(gpu)}, expected = outputs_of(program, a.shape(), gpu);
    backend_of(gpu).Backend::program(program, inputs, expected);
    const Tensor other = empty(float32, a.shape()).to(gpu);
    backend_of(gpu).program(program, inputs, List{inputs[0], other});
    CHECK(same_bits(inputs[0], expected[0]));
    CHECK(same_bits(other, expected[1]));
  }

  TEST_CASE("threads that ask for one program wait for one compilation") {
    const int before = compilations();
    Program program{.instructions = {}, .inputs = 1, .outputs = 1, .registers = 1};
    program.instructions = {{Unary::atan, {0}, 2, float64, 0}, {Unary::cosh, {2}, 1, float64, 0}};
    const Tensor x = random_tensor(float64, {500}).to(gpu), expected = cosh(atan(x));
    std::vector<List> results;
    for (int i = 0; i < 6; ++i) results.push_back(outputs_of(program, {500}, gpu));
    std::vector<std::thread> threads;
    for (const List& result : results) threads.emplace_back([&] { backend_of(gpu).program(program, List{x}, result); });
    for (std::thread& thread : threads) thread.join();
    for (const List& result : results) CHECK(same_bits(result[0], expected));
    CHECK(compilations() == before + 1);
  }

  TEST_CASE("a program in a process of its own" * doctest::skip()) {
    const Tensor x = random_tensor(float32, {1000});
    CHECK(agrees(slopes(0.25), {x}, {1000}));
    CHECK(cuda_status().find("programs") == std::string::npos);
    std::printf("compilations: %d\n", compilations());
  }

  TEST_CASE("what one process has compiled another one loads") {
    const std::string child = "a program in a process of its own";
    const TemporaryFolder folder;
    const Setting cache("TAPESTRY_CACHE", folder.path().string());
    CHECK(compilations_of(run_alone(child)) == 1);
    CHECK(compilations_of(run_alone(child)) == 0);
    REQUIRE(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
    const fs::path file = fs::directory_iterator(folder.path())->path();
    const Bytes whole = read_bytes(file);
    fs::resize_file(file, whole.size() / 2);
    CHECK(compilations_of(run_alone(child)) == 1);
    CHECK(read_bytes(file).size() == whole.size());
    const Setting off("TAPESTRY_CACHE", "0");
    CHECK(compilations_of(run_alone(child)) == 1);
    const Setting unwritable("TAPESTRY_CACHE", "/proc/no/such/folder");
    CHECK(compilations_of(run_alone(child)) == 1);
  }

  TEST_CASE("without NVRTC programs run one kernel after another") {
    const TemporaryFolder folder;
    // A library of its name without its functions: one that is not there might be found elsewhere.
    for (const char* name : {"libnvrtc.so.13", "libcublasLt.so.13"})
      fs::create_symlink(fs::path(library_folder()) / "libcublasLt.so.13", folder / name);
    const Setting libraries("TAPESTRY_CUDA_LIBRARIES", folder.path().string());
    run_alone("a program where NVRTC is missing");
  }
  TEST_CASE("a program where NVRTC is missing" * doctest::skip()) {
    const Tensor x = random_tensor(float32, {1000});
    const std::string before = cuda_status();
    CHECK(agrees(slopes(0.25), {x}, {1000}));
    CHECK(cuda_status() ==
          before + "; programs run one kernel after another: CUDA's library has no function nvrtcVersion");
  }
}

}  // namespace
}  // namespace tapestry::testing

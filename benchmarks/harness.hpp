#pragma once

// What the programs of the suite share: one per library, with the same workloads under the same names. This header is
// C++17, which is what libtorch is built for, and names neither library.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

using Numbers = std::vector<float>;

/// Evenly distributed numbers in [low, high), the same in every program.
Numbers numbers(std::size_t count, unsigned seed, float low = -1, float high = 1);
/// Whole numbers in [0, end), the same in every program.
std::vector<std::int64_t> labels(std::size_t count, unsigned seed, std::int64_t end);

/// A dense layer: weights [inputs, outputs] and bias [outputs].
struct Layer {
  std::int64_t inputs, outputs;
  Numbers weights, bias;
};
/// The layers of a network of these widths, from its input to its output.
std::vector<Layer> layers(const std::vector<std::int64_t>& widths);

/// Larger than usual: otherwise Adam makes a whole step of what is nothing but rounding in a gradient near 0, and
/// results could not be compared.
inline constexpr double adam_epsilon = 1e-4;

/// Something to time, with its inputs.
struct Workload {
  std::function<void()> run;
  /// What the last run computed, to be compared between the programs: values, gradients, parameters.
  std::function<std::vector<Numbers>()> results;
  /// Around each run, and not timed.
  std::function<void()> before = [] {};
  std::function<void()> after = [] {};
  /// The reported time is that of one of so many equal operations in a run.
  int operations = 1;
};

struct Benchmark {
  std::string name;
  std::function<Workload()> make;
};

/// A workload whose peak memory is of interest. The small one is the same code on little data: it runs first, so that
/// what the code itself occupies is not counted.
struct MemoryBenchmark {
  std::string name;
  std::function<Workload()> make;
  std::function<Workload()> make_small;
};

struct Library {
  /// Facts about the library and how it is set up, for the report.
  std::function<std::vector<std::pair<std::string, std::string>>()> facts;
  std::function<void(int)> set_threads;
  std::vector<Benchmark> benchmarks;
  std::vector<MemoryBenchmark> memory_benchmarks;
  /// For a library that counts the bytes of its tensors: starts to count, and the most there were at one time since.
  std::function<void()> start_counting = nullptr;
  std::function<std::int64_t()> peak_bytes = nullptr;
  /// For a library with GPUs: makes workloads from now on for a device, and waits until it has done everything.
  std::function<void(const std::string& device)> use_device = nullptr;
  std::function<void()> synchronize = nullptr;
};

/// The program: without options of its own it times the workloads by Google Benchmark, whose options it takes.
///
///     --threads=N      the library's threads
///     --device=NAME    workloads on that device instead of the processor; runs are timed many at once, with the wait
///                      for the device at their end
///     --check=FILE     times nothing, but runs each workload three times and writes what it computed to FILE
///     --memory=NAME    times nothing, but prints the peak memory of three runs of that workload, as one line of JSON
int run_suite(int argc, char** argv, const Library& library);

}  // namespace bench

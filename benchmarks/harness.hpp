#pragma once

// The common code of the programs of the suite: one per library, with the same workloads under the same names. This
// header is C++17, for which libtorch is built, and names neither library.
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

/// A product of matrices [m, k] and [k, n], or as many of them as `batch` says; the second one may be stored as [n, k].
struct Product {
  std::string name;
  std::int64_t m, k, n;
  std::int64_t batch = 1;
  bool transposed = false;
};
/// Products of all kinds: large, small, of a few rows or columns, in batches.
const std::vector<Product>& products();

/// Larger than usual: otherwise Adam would make a whole step of the rounding error of a gradient near 0, and results
/// could not be compared.
inline constexpr double adam_epsilon = 1e-4;

/// The rate of dropout in the workloads. It is 0 while results are compared, because each library draws its own
/// numbers.
double dropout_rate();

/// Something to time, with its inputs.
struct Workload {
  std::function<void()> run;
  /// The results of the last run, for comparison between the programs: values, gradients, parameters.
  std::function<std::vector<Numbers>()> results;
  /// Called around each run, and not timed.
  std::function<void()> before = [] {};
  std::function<void()> after = [] {};
  /// The number of equal operations in a run; the reported time is that of one.
  int operations = 1;
};

struct Benchmark {
  std::string name;
  std::function<Workload()> make;
};

/// A workload whose peak memory is measured. The small one is the same code on little data: it runs first, so that the
/// memory of the code itself is not counted.
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
  /// For a library that counts the bytes of its tensors: starts counting, and returns the peak since then.
  std::function<void()> start_counting = nullptr;
  std::function<std::int64_t()> peak_bytes = nullptr;
  /// For a library with GPUs: selects the device of the workloads that are made next, and waits until the device is
  /// done.
  std::function<void(const std::string& device)> use_device = nullptr;
  std::function<void()> synchronize = nullptr;
};

/// The program: it times the workloads by Google Benchmark, whose options it takes. Its own options are:
///
///     --threads=N      the library's threads
///     --device=NAME    workloads on that device instead of the processor; runs are timed many at once, with the wait
///                      for the device at their end
///     --clock=cpu      times the processor's work in all threads, for machines on which others work too
///     --check=FILE     times nothing, but runs each workload three times and writes what it computed to FILE
///     --only=REGEX     of all workloads, --check runs those whose name the expression finds
///     --first=NAME     times the first run of that workload, and prints it as one line of JSON
///     --memory=NAME    times nothing, but prints the peak memory of three runs of that workload, as one line of JSON
int run_suite(int argc, char** argv, const Library& library);

}  // namespace bench

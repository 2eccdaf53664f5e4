#include "harness.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <limits>
#include <optional>
#include <stdexcept>

#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <malloc.h>
#include <regex.h>

namespace bench {
namespace {

/// Knuth's MMIX generator; its upper bits are good enough for test data.
class Generator {
 public:
  explicit Generator(unsigned seed) : state_(seed) { next(); }
  /// In [0, 2^24), so that a float holds it exactly.
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 40);
  }

 private:
  std::uint64_t state_;
};

}  // namespace

Numbers numbers(std::size_t count, unsigned seed, float low, float high) {
  Generator generator(seed);
  Numbers result(count);
  for (float& x : result) x = low + (high - low) * static_cast<float>(generator.next()) * 0x1p-24F;
  return result;
}

std::vector<std::int64_t> labels(std::size_t count, unsigned seed, std::int64_t end) {
  Generator generator(seed);
  std::vector<std::int64_t> result(count);
  for (std::int64_t& x : result) x = generator.next() % end;
  return result;
}

const std::vector<Product>& products() {
  static const std::vector<Product> list{{"m/product_1024", 1024, 1024, 1024},
                                         {"m/product_2048", 2048, 2048, 2048},
                                         {"m/product_4096", 4096, 4096, 4096},
                                         {"m/product_64", 64, 64, 64},
                                         {"m/product_64x784x512", 64, 784, 512},
                                         {"m/product_32x256x1024", 32, 256, 1024},
                                         {"m/product_row", 1, 1024, 1024},
                                         {"m/product_row_transposed", 1, 1024, 1024, 1, true},
                                         {"m/product_column", 1024, 1024, 1},
                                         {"m/product_10_columns", 1024, 1024, 10},
                                         {"m/product_batch_scores", 128, 64, 128, 32, true},
                                         {"m/product_batch_values", 128, 128, 64, 32}};
  return list;
}

std::vector<Layer> layers(const std::vector<std::int64_t>& widths) {
  std::vector<Layer> result;
  for (std::size_t i = 1; i < widths.size(); ++i) {
    const auto inputs = static_cast<std::size_t>(widths[i - 1]), outputs = static_cast<std::size_t>(widths[i]);
    const float limit = 1 / std::sqrt(static_cast<float>(inputs));
    const auto seed = static_cast<unsigned>(2 * i);
    result.push_back({widths[i - 1], widths[i], numbers(inputs * outputs, seed, -limit, limit),
                      numbers(outputs, seed + 1, -limit, limit)});
  }
  return result;
}

namespace {

bool is_checking = false, counts_processor_time = false;

/// Seconds of the clock that was chosen.
double now() {
  timespec time{};
  clock_gettime(counts_processor_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void run_once(const Workload& workload) {
  workload.before();
  workload.run();
  workload.after();
}

// ---- Time

/// Several runs and one wait for the device, as a single run: a program that trains does not wait after each step.
Workload queued(const Workload& workload, const std::function<void()>& synchronize) {
  constexpr int runs = 20;
  Workload all = workload;
  all.before = all.after = [] {};
  all.run = [workload, synchronize] {
    for (int i = 0; i < runs; ++i) run_once(workload);
    synchronize();
  };
  all.operations = runs * workload.operations;
  return all;
}

/// Google Benchmark calls this several times to find the number of iterations; the workload is kept between the calls.
void time(benchmark::State& state, const Library& library, bool on_device, const Benchmark& benchmark) {
  static std::string current;
  static Workload workload;
  if (current != benchmark.name) {
    workload = {};
    workload = on_device ? queued(benchmark.make(), library.synchronize) : benchmark.make();
    current = benchmark.name;
    for (int i = 0; i < 2; ++i) run_once(workload);
  }
  for ([[maybe_unused]] auto iteration : state) {
    workload.before();
    const double start = now();
    workload.run();
    const double end = now();
    workload.after();
    state.SetIterationTime(end - start);
  }
  state.counters["operations"] = workload.operations;
}

// ---- Results

/// Every n-th number of a large result, and the sum of the absolute values of all numbers; a small result as it is.
std::vector<Numbers> digest(const Numbers& values) {
  constexpr std::size_t most = 4096;
  if (values.size() <= most) return {values};
  Numbers some;
  const std::size_t step = values.size() / most | 1;  // odd, so that it does not stay in one column
  for (std::size_t i = 0; i < values.size(); i += step) some.push_back(values[i]);
  double sum = 0;
  for (float value : values) sum += std::abs(static_cast<double>(value));
  return {some, {static_cast<float>(sum)}};
}

void write_results(const Library& library, const std::string& path, const std::string& only) {
  regex_t pattern;  // as Google Benchmark reads it; <regex> would take most of this file's compilation
  if (regcomp(&pattern, only.c_str(), REG_EXTENDED | REG_NOSUB)) throw std::runtime_error("no expression: " + only);
  std::ofstream out(path);
  out.precision(std::numeric_limits<float>::max_digits10);
  out << '{';
  const char* comma = "";
  for (const Benchmark& benchmark : library.benchmarks) {
    if (regexec(&pattern, benchmark.name.c_str(), 0, nullptr, 0)) continue;
    out << comma << "\n\"" << benchmark.name << "\": [";
    comma = ",";
    const Workload workload = benchmark.make();
    for (int i = 0; i < 3; ++i) run_once(workload);
    const char* inner_comma = "";
    for (const Numbers& values : workload.results()) {
      for (const Numbers& shown : digest(values)) {
        out << inner_comma << '[';
        inner_comma = ",";
        for (std::size_t i = 0; i < shown.size(); ++i) out << (i ? "," : "") << shown[i];
        out << ']';
      }
    }
    out << ']';
  }
  regfree(&pattern);
  out << "\n}\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

// ---- Memory

/// A line of /proc/self/status, in bytes: VmRSS is the memory of the process now, VmHWM its peak.
std::int64_t memory(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ':', 0) == 0) return std::atoll(line.c_str() + field.size() + 1) * 1024;
  }
  throw std::runtime_error("/proc/self/status has no " + field);
}

void print_memory(const Library& library, const std::string& name) {
  for (const MemoryBenchmark& benchmark : library.memory_benchmarks) {
    if (benchmark.name != name) continue;
    {
      const Workload small = benchmark.make_small();
      for (int i = 0; i < 3; ++i) run_once(small);
    }
    const Workload workload = benchmark.make();
    malloc_trim(0);
    const std::int64_t before = memory("VmRSS");
    std::ofstream("/proc/self/clear_refs") << "5";  // sets VmHWM to VmRSS
    if (library.start_counting) library.start_counting();
    for (int i = 0; i < 3; ++i) run_once(workload);
    std::cout << "{\"name\": \"" << name << "\", \"bytes\": " << memory("VmHWM") - before;
    if (library.peak_bytes) std::cout << ", \"counted_bytes\": " << library.peak_bytes();
    std::cout << "}\n";
    return;
  }
  throw std::runtime_error("there is no memory benchmark " + name);
}

/// The time of the first run of a workload, in which a traced function is traced and planned.
void print_first(const Library& library, const std::string& name) {
  for (const Benchmark& benchmark : library.benchmarks) {
    if (benchmark.name != name) continue;
    const Workload workload = benchmark.make();
    const double start = now();
    run_once(workload);
    std::cout << "{\"name\": \"" << name << "\", \"seconds\": " << now() - start << "}\n";
    return;
  }
  throw std::runtime_error("there is no benchmark " + name);
}

// ---- The program

/// The value of `--name=value`, which is removed from the arguments.
std::optional<std::string> take_option(int& argc, char** argv, const std::string& name) {
  const std::string prefix = "--" + name + '=';
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], prefix.c_str(), prefix.size()) != 0) continue;
    std::string value = argv[i] + prefix.size();
    for (int j = i; j < argc; ++j) argv[j] = argv[j + 1];
    --argc;
    return value;
  }
  return std::nullopt;
}

/// The processor whose kernels OpenBLAS uses; "none" if the program does not contain OpenBLAS.
std::string openblas_kernels() {
  void* symbol = dlsym(RTLD_DEFAULT, "openblas_get_corename");
  return symbol ? reinterpret_cast<const char* (*)()>(symbol)() : "none";
}

}  // namespace

double dropout_rate() { return is_checking ? 0 : 0.25; }

int run_suite(int argc, char** argv, const Library& library) try {
  const std::optional<std::string> threads = take_option(argc, argv, "threads");
  const std::optional<std::string> check = take_option(argc, argv, "check");
  const std::optional<std::string> memory = take_option(argc, argv, "memory");
  const std::optional<std::string> first = take_option(argc, argv, "first");
  const std::optional<std::string> device = take_option(argc, argv, "device");
  const std::optional<std::string> only = take_option(argc, argv, "only");
  const std::optional<std::string> clock = take_option(argc, argv, "clock");
  if (clock && *clock != "cpu") throw std::runtime_error("there is no clock " + *clock);
  counts_processor_time = clock.has_value();
  is_checking = check.has_value();
  if (threads) library.set_threads(std::stoi(*threads));
  if (device && !library.use_device) throw std::runtime_error("this program has no devices");
  if (device) library.use_device(*device);
  if (check) {
    write_results(library, *check, only.value_or(""));
    return 0;
  }
  if (memory) {
    print_memory(library, *memory);
    return 0;
  }
  if (first) {
    print_first(library, *first);
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  for (const auto& [name, value] : library.facts()) benchmark::AddCustomContext(name, value);
  benchmark::AddCustomContext("openblas_kernels", openblas_kernels());
  for (const Benchmark& entry : library.benchmarks) {
    benchmark::RegisterBenchmark(entry.name.c_str(),
                                 [&](benchmark::State& state) { time(state, library, device.has_value(), entry); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
} catch (const std::exception& error) {
  std::cerr << argv[0] << ": " << error.what() << '\n';
  return 1;
}

}  // namespace bench

// How fast tf.Examples are read: bench_records.py compares it with tf.data on the same file.
//
// usage: bench_records write FILE RECORDS     writes examples such as a recommender's: numbers, categories, lists
//        bench_records read FILE THREADS REPETITIONS     prints the records per second of the fastest pass, and a sum

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>

#include <tapestry/tapestry.hpp>

namespace {

using tp::data::Feature;

/// Knuth's MMIX generator.
struct Generator {
  std::uint64_t state = 1;
  std::int64_t below(std::int64_t end) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::int64_t>(state >> 40) % end;
  }
};

void write(const std::string& path, std::int64_t count) {
  Generator random;
  tp::data::RecordWriter writer(path);
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<float> numbers(16);
    for (float& each : numbers) each = static_cast<float>(random.below(1000)) / 8;
    std::vector<std::int64_t> clicks(static_cast<std::size_t>(random.below(10)));
    for (std::int64_t& each : clicks) each = random.below(1'000'000);
    writer.write(tp::data::encode({{"age", static_cast<float>(random.below(80))},
                                   {"clicks", clicks},
                                   {"country", "country " + std::to_string(random.below(200))},
                                   {"job", "occupation " + std::to_string(random.below(50))},
                                   {"label", random.below(2)},
                                   {"numbers", numbers},
                                   {"user", random.below(10'000'000)}}));
  }
  writer.close();
}

void read(const std::string& path, std::int64_t threads, int repetitions) {
  const tp::data::ExampleParser parser({{"age", Feature::floats()},
                                        {"clicks", Feature::integers({.shape = {-1}})},
                                        {"country", Feature::hashed(1000)},
                                        {"job", Feature::hashed(1000)},
                                        {"label", Feature::integers()},
                                        {"numbers", Feature::floats({.shape = {16}})},
                                        {"user", Feature::integers()}});
  auto batches = tp::data::records(path).batch(256).map(parser, {.threads = threads});
  double fastest = std::numeric_limits<double>::infinity();
  std::int64_t records = 0, sum = 0;
  for (int i = 0; i < repetitions; ++i) {
    records = sum = 0;
    const auto start = std::chrono::steady_clock::now();
    for (const tp::data::Features& batch : batches) {
      records += batch["label"].size();
      sum += batch["country"].data<std::int64_t>()[0] + batch["user"].data<std::int64_t>()[0] +
             batch.lengths.at("clicks").data<std::int64_t>()[0];
    }
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("%.0f %lld\n", static_cast<double>(records) / fastest, static_cast<long long>(sum));
}

}  // namespace

int main(int count, char** arguments) {
  const std::string command = count > 1 ? arguments[1] : "";
  if (command == "write" && count == 4) {
    write(arguments[2], std::atoll(arguments[3]));
  } else if (command == "read" && count == 5) {
    read(arguments[2], std::atoll(arguments[3]), std::atoi(arguments[4]));
  } else {
    std::cerr << "usage: bench_records write FILE RECORDS | bench_records read FILE THREADS REPETITIONS\n";
    return 2;
  }
}

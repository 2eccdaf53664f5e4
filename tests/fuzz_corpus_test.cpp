// What fuzzing has found, and what it started from, read once more.

#include <filesystem>
#include <map>

#include <doctest/doctest.h>

#include "fuzz/readers.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::fuzz_corpus_test {

TEST_CASE("the readers survive the corpus of the fuzzer") {
  const std::map<std::string, bool (*)(Fuzzed)> readers{{"read_graph", read_graph},
                                                        {"read_graph_text", read_graph_text},
                                                        {"run_graph", run_graph},
                                                        {"read_idx", read_idx},
                                                        {"read_npy", read_npy},
                                                        {"read_npz", read_npz},
                                                        {"read_safetensors", read_safetensors},
                                                        {"read_bundle", read_bundle},
                                                        {"read_csv", read_csv},
                                                        {"read_events", read_events},
                                                        {"read_records", read_records}};
  for (const auto& [name, read] : readers) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(FUZZ_CORPUS) / name)) {
      CAPTURE(entry.path().string());
      const Bytes bytes = read_bytes(entry.path());
      CHECK_NOTHROW(read(std::as_bytes(std::span(bytes))));
      ++count;
    }
    CHECK(count > 0);
  }
}

}  // namespace tapestry::test::fuzz_corpus_test

// What programs were compiled to, on the disk: whatever happens to the folder, wrong bytes never come back.

#include "backend/cuda/disk_cache.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "environment.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test {
namespace {

namespace fs = std::filesystem;
using gpu::DiskCache;

constexpr std::uintmax_t plenty = 1 << 20;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}
void overwrite(const fs::path& file, const Bytes& bytes) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

TEST_SUITE("disk cache") {
  TEST_CASE("what was kept is found, by another process, too") {
    const TemporaryFolder folder;
    const std::string binary(
        "\0\x7f"
        "ELF\n",
        6);
    const DiskCache cache(folder / "new/folders", plenty);
    CHECK_FALSE(cache.find("a"));
    cache.keep("a", binary);
    cache.keep("b", "");
    cache.keep("", "no key");
    const DiskCache again(folder / "new/folders", plenty);
    CHECK(again.find("a") == binary);
    CHECK(again.find("b") == "");
    CHECK(again.find("") == "no key");
    CHECK_FALSE(again.find("c"));
    cache.keep("a", "other");
    CHECK(again.find("a") == "other");
    CHECK(files_in(folder / "new/folders").size() == 3);  // and nothing that is half written
  }

  TEST_CASE("a damaged file is no file, and is written anew") {
    const TemporaryFolder folder;
    const DiskCache cache(folder.path(), plenty);
    cache.keep("key", "value");
    const fs::path file = files_in(folder.path()).at(0);
    const Bytes whole = read_bytes(file);
    for (std::size_t n = 0; n < whole.size(); ++n) {
      overwrite(file, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)));
      CHECK_FALSE(cache.find("key"));
      Bytes flipped = whole;
      flipped[n] ^= 0x10;
      overwrite(file, flipped);
      CHECK_FALSE(cache.find("key"));
      Bytes longer = whole;
      longer.insert(longer.begin() + static_cast<std::ptrdiff_t>(n), 'x');
      overwrite(file, longer);
      CHECK_FALSE(cache.find("key"));
    }
    cache.keep("key", "value");
    CHECK(cache.find("key") == "value");
  }

  TEST_CASE("a file that lies about its key, its size or its kind") {
    const TemporaryFolder folder;
    const DiskCache cache(folder.path(), plenty);
    cache.keep("key", "value");
    const fs::path file = files_in(folder.path()).at(0);
    cache.keep("another", "thing");
    fs::path other;
    for (const fs::path& each : files_in(folder.path()))
      if (each != file) other = each;
    fs::copy_file(other, file, fs::copy_options::overwrite_existing);
    CHECK_FALSE(cache.find("key"));
    fs::resize_file(file, std::uintmax_t{1} << 40);  // a hole, larger than memory
    CHECK_FALSE(cache.find("key"));
    fs::remove(file);
    REQUIRE(mkfifo(file.c_str(), 0600) == 0);  // whoever opens it waits for ever
    CHECK_FALSE(cache.find("key"));
    cache.keep("key", "value");
    CHECK(cache.find("key") == "value");
    fs::remove(file);
    fs::create_directories(file / "in the way");
    cache.keep("key", "value");
    CHECK_FALSE(cache.find("key"));
  }

  TEST_CASE("a folder that cannot be made, or none") {
    const TemporaryFolder folder;
    const DiskCache below_a_file(folder.write("file", {1}) / "folder", plenty), none("", plenty),
        nowhere("/proc/no/such/folder", plenty);
    for (const DiskCache* cache : {&below_a_file, &none, &nowhere}) {
      cache->keep("key", "value");
      CHECK_FALSE(cache->find("key"));
    }
    CHECK(files_in(folder.path()).size() == 1);
  }

  TEST_CASE("the oldest go when there are too many bytes") {
    const TemporaryFolder folder;
    const std::string large(1000, 'x');
    const DiskCache cache(folder.path(), 4500);  // four of them
    folder.write("somebody's", Bytes(10000));
    const auto used = [&](const std::string& key, int hours_ago) {
      const auto before = files_in(folder.path());
      cache.keep(key, large);
      for (const fs::path& file : files_in(folder.path()))
        if (std::find(before.begin(), before.end(), file) == before.end())
          fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(hours_ago));
    };
    used("first", 4);
    used("second", 3);
    used("third", 2);
    used("fourth", 1);
    CHECK(cache.find("first") == large);  // and now it was used last
    cache.keep("fifth", large);
    CHECK_FALSE(cache.find("second"));
    for (const char* key : {"first", "third", "fourth", "fifth"}) CHECK(cache.find(key) == large);
    CHECK(fs::exists(folder / "somebody's"));
    cache.keep("sixth", std::string(5000, 'x'));  // larger than all
    CHECK_FALSE(cache.find("sixth"));
    CHECK(cache.find("fifth") == large);
  }

  TEST_CASE("threads write and read the same files") {
    const TemporaryFolder folder;
    const DiskCache cache(folder.path(), 40000);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 200; ++i) {
          const int number = (i * 7 + t) % 50;
          const std::string key = "key " + std::to_string(number),
                            value(static_cast<std::size_t>(100 * number + 1), static_cast<char>('a' + number % 26));
          if (const auto found = cache.find(key); found && *found != value) ++wrong;
          cache.keep(key, value);
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    for (const fs::path& file : files_in(folder.path())) CHECK(file.extension().empty());
  }

  TEST_CASE("the environment names the folder") {
    const Setting home("HOME", "/home/me"), all("XDG_CACHE_HOME", "/caches"), ours("TAPESTRY_CACHE", "/mine");
    CHECK(gpu::cache_folder() == "/mine");
    const Setting off("TAPESTRY_CACHE", "0");
    CHECK(gpu::cache_folder().empty());
    const Setting unset("TAPESTRY_CACHE", "");
    CHECK(gpu::cache_folder() == "/caches/tapestry");
    const Setting relative("XDG_CACHE_HOME", "caches");  // which its specification says to ignore
    CHECK(gpu::cache_folder() == "/home/me/.cache/tapestry");
    const Setting homeless("HOME", "");
    CHECK(gpu::cache_folder().empty());
  }
}

}  // namespace
}  // namespace tapestry::test

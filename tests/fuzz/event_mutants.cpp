#include <cstring>
#include <filesystem>

#include "fuzz/mutants.hpp"
#include "fuzz/readers.hpp"
#include "fuzz/wire_damage.hpp"
#include "io/crc32c.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test {
namespace {

/// The events of TensorFlow's files, as bytes.
const std::vector<std::vector<std::string>>& seeds() {
  static const auto& all_seeds = *new std::vector<std::vector<std::string>>([] {
    std::vector<std::vector<std::string>> made;
    for (const char* name :
         {"tensorflow.tfevents", "tensorflow07.tfevents", "tensorflow1.tfevents", "tensorflow2.tfevents"}) {
      const std::string file = read_text(std::filesystem::path(GOLDEN_FILES) / name);
      std::vector<std::string> events;
      for (std::size_t at = 0; at + 16 <= file.size();) {
        std::uint64_t length = 0;
        std::memcpy(&length, file.data() + at, sizeof length);
        events.push_back(file.substr(at + 12, length));
        at += length + 16;
      }
      made.push_back(std::move(events));
    }
    return made;
  }());
  return all_seeds;
}

/// A record of a TFRecord file. One in a hundred or so has a wrong length, or a wrong checksum.
std::string framed(const std::string& event, Dice& dice) {
  const auto checked = [&](const std::string& data) {
    const std::uint32_t crc = io::masked(io::crc32c(data)) ^ (dice.one_in(128) ? 1U : 0U);
    return data + std::string(reinterpret_cast<const char*>(&crc), sizeof crc);
  };
  const std::uint64_t size = dice.one_in(64) ? static_cast<std::uint64_t>(dice.number()) : event.size();
  return checked(std::string(reinterpret_cast<const char*>(&size), sizeof size)) + checked(event);
}

std::string make_event_mutant(Dice& dice) {
  std::vector<std::string> events = dice.of(seeds());
  for (std::size_t i = dice.below(4); i > 0; --i) {
    // The first event tells that it is such a file.
    std::string& event = events[dice.one_in(16) ? 0 : dice.below(events.size())];
    event = damage_event_field(event, dice);
  }
  if (dice.one_in(4)) events.push_back(dice.of(dice.of(seeds())));
  if (dice.one_in(8)) std::swap(dice.of(events), dice.of(events));
  std::string file;
  for (const std::string& each : events) file += framed(each, dice);
  return dice.one_in(32) ? dice.damaged(file) : file;
}

}  // namespace

Mutants event_mutants() {
  return {.name = "mutate_events", .make = make_event_mutant, .use = [](const std::string& bytes, Dice&) {
            return read_events(std::as_bytes(std::span(bytes)));
          }};
}

}  // namespace tapestry::test

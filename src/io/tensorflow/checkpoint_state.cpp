/// TensorFlow's checkpoint_state.proto, as text. The numbers of the fields are TensorFlow's.

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "io/file.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "io/tensorflow/tensor_bundle.hpp"
#include "io/wire.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/tensor_bundle.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

fs::path state_file(const std::string& folder) { return fs::path(folder) / "checkpoint"; }

/// The prefix as the file has it: relative to the folder if it lies in there.
std::string prefix_in(const fs::path& folder, const std::string& prefix) {
  const fs::path relative = fs::path(prefix).lexically_relative(folder);
  std::error_code error;  // for an empty prefix
  return relative.empty() || *relative.begin() == ".." ? fs::absolute(prefix, error).string() : relative.string();
}

CheckpointState read_state(const std::string& folder, std::string_view text) {
  const auto whole = [&](std::string_view prefix) {
    return prefix.empty() ? std::string() : (fs::path(folder) / prefix).string();  // an absolute prefix stays
  };
  const std::string bytes = io::from_text(text, io::TextMessage::checkpoint_state);
  CheckpointState state;
  io::WireReader reader(bytes.data(), bytes.size());
  while (reader.next()) {
    if (reader.tag() == 1) {
      state.latest = whole(reader.get_text());
    } else if (reader.tag() == 2) {
      state.all.push_back(whole(reader.get_text()));
    } else {
      reader.skip();
    }
  }
  return state;
}

}  // namespace

std::optional<CheckpointState> get_checkpoint_state(const std::string& folder, Where where) {
  return detail::locating({}, where, [&]() -> std::optional<CheckpointState> {
    const fs::path path = state_file(folder);
    std::error_code error;
    if (!fs::exists(path, error)) return {};
    constexpr std::int64_t most_bytes = 1 << 26;  // a few names
    const std::string text = io::bytes_of_file(path, most_bytes, where);
    try {
      return read_state(folder, text);
    } catch (const DataLossError& damage) {
      throw DataLossError(detail::join(path.string(), ": ", damage.message()));
    }
  });
}

std::optional<std::string> latest_checkpoint(const std::string& folder, Where where) {
  const auto state = get_checkpoint_state(folder, where);
  std::error_code error;
  if (!state || state->latest.empty() || !fs::exists(io::bundle_index(state->latest), error)) return {};
  return state->latest;
}

void update_checkpoint_state(const std::string& folder, const CheckpointState& state, Where where) {
  detail::locating({}, where, [&] {
    std::vector<std::string> prefixes = state.all;
    if (std::find(prefixes.begin(), prefixes.end(), state.latest) == prefixes.end()) prefixes.push_back(state.latest);
    if (std::find(prefixes.begin(), prefixes.end(), "") != prefixes.end())
      throw InvalidArgumentError("The prefix of a checkpoint is empty");
    std::string bytes;
    protozero::pbf_writer writer(bytes);
    writer.add_string(1, prefix_in(folder, state.latest));
    for (const std::string& each : prefixes) writer.add_string(2, prefix_in(folder, each));
    const std::string text = io::to_text(bytes, io::TextMessage::checkpoint_state);
    std::error_code error;  // if there is no folder, writing into it says so
    fs::create_directories(folder, error);
    io::write_file(state_file(folder), std::as_bytes(std::span(text)), where);
  });
}

}  // namespace tapestry

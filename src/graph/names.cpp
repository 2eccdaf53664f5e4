#include "graph/names.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "dispatch/declaration.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/error.hpp"

namespace tapestry::detail {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

}  // namespace

std::pair<NameTable::Used&, bool> NameTable::try_take(std::string_view name) {
  std::string key = lower(name);
  const std::uint32_t hash = HashIndex::hash(key);
  const auto is_key = [&](std::uint32_t i) { return used_[i].name == key; };
  if (const std::uint32_t found = index_.find(hash, is_key); found != HashIndex::none) return {used_[found], false};
  auto position = static_cast<std::uint32_t>(used_.size());
  if (free_.empty()) {
    used_.push_back({std::move(key)});
  } else {
    position = free_.back();
    free_.pop_back();
    used_[position] = {std::move(key)};
  }
  index_.add(hash, position);
  return {used_[position], true};
}

std::string NameTable::unique(std::string_view name) {
  const auto [first, is_new] = try_take(name);
  if (is_new) return std::string(name);
  for (int& number = first.next;; ++number) {
    std::string candidate = join(name, "_", number);
    if (try_take(candidate).second) {
      // `number` is still valid: a deque that grows does not move its elements.
      ++number;
      return candidate;
    }
  }
}

void NameTable::take(std::string_view name) { try_take(name); }

void NameTable::release(std::string_view name) {
  const std::string key = lower(name);
  const std::uint32_t hash = HashIndex::hash(key);
  const auto is_key = [&](std::uint32_t i) { return used_[i].name == key; };
  const std::uint32_t found = index_.find(hash, is_key);
  if (found == HashIndex::none) return;
  index_.erase(hash, is_key);
  free_.push_back(found);
}

bool is_valid_scope_name(std::string_view name, bool at_root) {
  return is_valid_node_name(at_root ? std::string(name) : join(".", name));
}

namespace {

/// job, replica, task and device, each as it is written in a full name; "" where it is missing.
using DeviceParts = std::array<std::string, 4>;

DeviceParts parse_device(std::string_view name) {
  const auto refuse = [&] { throw InvalidArgumentError(join("Malformed device specification '", name, "'")); };
  DeviceParts parts;
  std::string_view rest = name;
  while (!rest.empty()) {
    if (rest[0] != '/') refuse();
    rest.remove_prefix(1);
    const std::string_view part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(part.size());
    const std::size_t colon = part.find(':');
    if (colon == std::string_view::npos || colon + 1 == part.size()) refuse();
    const std::string key = lower(part.substr(0, colon));
    std::string_view value = part.substr(colon + 1);
    const auto is_number = [](std::string_view text) {
      return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    if (key == "job") {
      parts[0] = std::string(value);
    } else if (key == "replica" || key == "task") {
      if (!is_number(value)) refuse();
      parts[key == "replica" ? 1 : 2] = std::string(value);
    } else {
      std::string kind = key;
      if (key == "device") {
        kind = value.substr(0, value.find(':'));
        value = value.size() > kind.size() ? value.substr(kind.size() + 1) : "0";
      }
      if (value != "*" && !is_number(value)) refuse();
      std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return std::toupper(c); });
      if (kind == "CUDA") kind = "GPU";
      parts[3] = join(kind, ":", value);
    }
  }
  return parts;
}

}  // namespace

std::string merge_device_names(std::string_view outer, std::string_view inner) {
  DeviceParts parts = parse_device(outer);
  const DeviceParts own = parse_device(inner);
  constexpr std::string_view keys[] = {"/job:", "/replica:", "/task:", "/device:"};
  std::string merged;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!own[i].empty()) parts[i] = own[i];
    if (!parts[i].empty()) merged += std::string(keys[i]) + parts[i];
  }
  return merged;
}

bool is_device_asked_for(std::string_view asked, std::string_view full_name) {
  const DeviceParts wanted = parse_device(asked), found = parse_device(full_name);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    std::string_view part = wanted[i];
    if (part.ends_with(":*")) {
      part.remove_suffix(1);
      if (!found[i].starts_with(part)) return false;
    } else if (!part.empty() && part != found[i]) {
      return false;
    }
  }
  return true;
}

std::optional<Device> device_asked_for(const std::string& asked, bool soft, std::string_view operation) {
  if (asked.empty()) return std::nullopt;
  // The CPU comes first, because listing all devices looks for GPUs.
  if (is_device_asked_for(asked, full_name(cpu())))
    return asked.find("/device:") != std::string::npos ? std::optional(cpu()) : std::nullopt;
  std::string there;
  for (const Device& device : devices()) {
    if (is_device_asked_for(asked, full_name(device))) return device;
    there += (there.empty() ? "" : ", ") + full_name(device);
  }
  if (soft) return cpu();
  throw InvalidArgumentError(join("Cannot assign a device for operation '", operation,
                                  "': Could not satisfy explicit device specification '", asked,
                                  "' because no devices matching that specification are registered in this process; "
                                  "available devices: ",
                                  there));
}

}  // namespace tapestry::detail

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <charconv>
#include <mutex>
#include <ostream>

#include "backend/backend.hpp"
#include "backend/cuda_loader.hpp"
#include "core/make_tensor.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/device.hpp"

namespace tapestry {
namespace {

constexpr int max_kinds = 16;
constexpr int gpu_kind = 1;

/// The kinds of devices. Backends live for ever: tensors in static variables outlive every destructor here.
struct Kinds {
  std::mutex mutex;
  std::array<std::atomic<Backend*>, max_kinds> backends{};
  int count = gpu_kind + 1;

  Kinds() { backends[0] = make_cpu_backend().release(); }
};

Kinds& kinds() {
  static Kinds& instance = *new Kinds;
  return instance;
}

/// The backend of a kind other than the GPU, or nullptr. Each GPU has a backend of its own (see cuda_devices).
Backend* backend_or_null(int kind) {
  return kind >= 0 && kind < max_kinds ? kinds().backends[kind].load(std::memory_order_acquire) : nullptr;
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

std::string kind_name(int kind) {
  if (kind == gpu_kind) return "GPU";
  const Backend* backend = backend_or_null(kind);
  return backend ? std::string(backend->name()) : "UNKNOWN";
}

int kind_of(std::string_view name) {
  const std::string wanted = upper(name) == "CUDA" ? "GPU" : upper(name);
  for (int kind = 0; kind < max_kinds; ++kind)
    if ((kind == gpu_kind || backend_or_null(kind)) && upper(kind_name(kind)) == wanted) return kind;
  return -1;
}

}  // namespace

// Accepts "cpu", "cuda:1", "/cpu:0" and "/device:GPU:0". Of "/job:ps/task:0/device:CPU:0" it reads the last component.
Device::Device(std::string_view name, Where where) {
  std::string_view text = name;
  text.remove_prefix(std::min(text.size(), text.find_last_of('/') + 1));
  constexpr std::string_view prefix = "device:";
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  const std::size_t colon = text.find(':');
  const int kind = kind_of(text.substr(0, colon));
  int number = 0;
  bool valid = kind >= 0;
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    valid = valid && error == std::errc() && end == digits.data() + digits.size() && number >= 0 && number < 32768;
  }
  if (!valid)
    throw InvalidArgumentError(detail::join("\"", name, "\" does not name a device; devices are written as \"cpu\", ",
                                            "\"cuda:0\" or \"/device:GPU:0\""),
                               where);
  *this = Device(kind, number);
}

std::string to_string(Device device) {
  if (device.is_cpu()) return "cpu";
  std::string name = device.kind() == gpu_kind ? "cuda" : kind_name(device.kind());
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name + ":" + std::to_string(device.index());
}

std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

std::string tensorflow_name(Device device) {
  return "/device:" + kind_name(device.kind()) + ":" + std::to_string(device.index());
}

namespace {

int device_count(int kind) {
  if (kind == gpu_kind) return static_cast<int>(cuda_devices().backends.size());
  Backend* backend = backend_or_null(kind);
  return backend ? backend->device_count() : 0;
}

}  // namespace

std::vector<Device> devices() {
  std::vector<Device> found;
  for (int kind = 0; kind < max_kinds; ++kind)
    for (int index = 0; index < device_count(kind); ++index) found.emplace_back(kind, index);
  return found;
}

std::string cuda_status() {
  const CudaDevices& found = cuda_devices();
  return found.details ? found.status + "; " + found.details() : found.status;
}

namespace {

[[gnu::noinline]] Backend& backend_of_any(Device device) {
  if (device.index() >= 0 && device.index() < device_count(device.kind()))
    return device.kind() == gpu_kind ? *cuda_devices().backends[device.index()] : *backend_or_null(device.kind());
  std::string available;
  for (const Device each : devices()) available += (available.empty() ? "" : ", ") + tensorflow_name(each);
  throw InvalidArgumentError(detail::join("There is no device ", tensorflow_name(device), "; available devices: ",
                                          available, device.kind() == gpu_kind ? ". " + cuda_status() : std::string()));
}

}  // namespace

Backend& backend_of(Device device) {
  static Backend& cpu_backend = *backend_or_null(0);  // the common case, without asking how many devices there are
  return device == cpu() ? cpu_backend : backend_of_any(device);
}

int register_backend(std::unique_ptr<Backend> backend) {
  const std::lock_guard lock(kinds().mutex);
  if (kinds().count == max_kinds) throw InvalidArgumentError("Too many kinds of devices");
  const int kind = kinds().count++;
  kinds().backends[kind].store(backend.release(), std::memory_order_release);
  return kind;
}

namespace {

Backend& asked_backend(Device device, Where where) {
  return detail::locating({}, where, [&]() -> Backend& { return backend_of(device); });
}

}  // namespace

MemoryStats memory_stats(Device device, Where where) { return asked_backend(device, where).memory_stats(); }
void reset_peak_memory(Device device, Where where) { asked_backend(device, where).reset_peak_memory(); }
void synchronize(Device device, Where where) { asked_backend(device, where).synchronize(); }
std::int64_t trim_memory(Device device, Where where) { return asked_backend(device, where).trim_memory(); }

namespace detail {
Allocator& allocator_of(Device device) { return backend_of(device); }
}  // namespace detail

}  // namespace tapestry

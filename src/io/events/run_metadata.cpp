#include "io/events/run_metadata.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <protozero/pbf_writer.hpp>

#include "io/file.hpp"
#include "io/tensorflow/graph_export.hpp"

namespace tapestry {
namespace io {
namespace {

using protozero::pbf_writer;
using Buffer = ExecutionPlan::Buffer;

bool is_result_of(const Buffer& buffer, const std::string& step) {
  return buffer.tensor.size() > step.size() && buffer.tensor.starts_with(step) && buffer.tensor[step.size()] == ':';
}

/// NodeOutput: which output, its dtype and shape, and its bytes.
void write_output(pbf_writer& node, const Buffer& buffer, const std::string& step) {
  pbf_writer output(node, 7);
  int slot = 0;
  std::from_chars(buffer.tensor.data() + step.size() + 1, buffer.tensor.data() + buffer.tensor.size(), slot);
  output.add_int32(1, slot);
  pbf_writer description(output, 3);
  description.add_enum(1, code_of(buffer.spec.dtype).value);
  {
    pbf_writer shape(description, 2);
    for (const std::int64_t size : buffer.spec.shape.sizes()) pbf_writer(shape, 2).add_int64(1, size);
  }
  pbf_writer allocation(description, 4);
  allocation.add_int64(1, buffer.bytes);
  allocation.add_int64(2, buffer.bytes);
  allocation.add_string(3, to_string(buffer.device));
}

/// NodeExecStats of a step. `start`: of the run; `prefix`: of the name of a function's step.
void write_step(pbf_writer& device, const ExecutionPlan& plan, std::size_t index, const RunMetadata::Time& time,
                std::int64_t start, const std::string& prefix) {
  const ExecutionPlan::Step& step = plan.steps[index];
  // With a duration of 0, a step of less than a microsecond would look as if it had not run.
  const std::int64_t micros = std::max<std::int64_t>(1, (time.duration + 500) / 1000);
  pbf_writer node(device, 2);
  node.add_string(1, prefix + step.name);
  node.add_int64(2, start + time.start / 1000);
  node.add_int64(3, 0);
  node.add_int64(4, micros);
  node.add_int64(5, micros);
  std::int64_t bytes = 0;
  for (const Buffer& buffer : plan.buffers)
    if (is_result_of(buffer, step.name)) bytes += buffer.bytes;
  if (bytes > 0) {
    pbf_writer memory(node, 6);
    memory.add_string(1, to_string(step.device));
    memory.add_int64(2, bytes);
    memory.add_int64(3, bytes);
  }
  for (const Buffer& buffer : plan.buffers)
    if (is_result_of(buffer, step.name)) write_output(node, buffer, step.name);
  node.add_string(8, detail::join(prefix, step.name, " = ", step.type));
  node.add_uint32(10, time.thread);
}

std::vector<Device> devices_of(const ExecutionPlan& plan) {
  std::vector<Device> devices;
  for (const ExecutionPlan::Step& step : plan.steps)
    if (std::find(devices.begin(), devices.end(), step.device) == devices.end()) devices.push_back(step.device);
  return devices;
}

// ---- Chrome's trace events --------------------------------------------------------------------------------------------

std::string json_string(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (code < 0x20 || code >= 0x7f) {
      result += {'\\', 'u', '0', '0', digits[code >> 4], digits[code & 15]};
    } else {
      result += c;
    }
  }
  return result + "\"";
}

/// Nanoseconds as the format's microseconds.
std::string micros(std::int64_t nanoseconds) {
  std::string digits = std::to_string(nanoseconds % 1000);
  return std::to_string(nanoseconds / 1000) + "." + std::string(3 - digits.size(), '0') + digits;
}

class TraceWriter {
 public:
  explicit TraceWriter(const RunMetadata& metadata) : metadata_(metadata), devices_(devices_of(metadata.plan)) {}

  std::string run() {
    const ExecutionPlan& plan = metadata_.plan;
    for (std::size_t i = 0; i < devices_.size(); ++i)
      add(detail::join("\"ph\":\"M\",\"name\":\"process_name\",\"pid\":", i,
                       ",\"args\":{\"name\":", json_string(tensorflow_name(devices_[i])), "}"));
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      add_step(plan.steps[i], metadata_.times[i], process_of(plan.steps[i].device), detail::join("\"step\":", i));
      for (const ExecutionPlan::Arena& arena : plan.arenas) add_memory(i, arena.device);
    }
    add_functions();
    return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n" + events_ + "\n]}\n";
  }

 private:
  void add(const std::string& event) { events_ += (events_.empty() ? "{" : ",\n{") + event + "}"; }

  std::size_t process_of(Device device) const {
    return std::find(devices_.begin(), devices_.end(), device) - devices_.begin();
  }

  void add_step(const ExecutionPlan::Step& step, const RunMetadata::Time& time, std::size_t process,
                const std::string& detail) {
    add(detail::join("\"ph\":\"X\",\"cat\":\"op\",\"name\":", json_string(step.type), ",\"pid\":", process,
                     ",\"tid\":", time.thread, ",\"ts\":", micros(time.start), ",\"dur\":", micros(time.duration),
                     ",\"args\":{\"name\":", json_string(step.name), ",", detail, "}"));
  }

  /// Each function has a row of its own, in which the durations of its steps, of all runs together, follow each other.
  void add_functions() {
    const std::size_t process = devices_.size();
    if (!metadata_.functions.empty())
      add(detail::join("\"ph\":\"M\",\"name\":\"process_name\",\"pid\":", process,
                       ",\"args\":{\"name\":\"functions, all runs together\"}"));
    for (std::size_t k = 0; k < metadata_.functions.size(); ++k) {
      const RunMetadata::Function& function = metadata_.functions[k];
      add(detail::join("\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":", process, ",\"tid\":", k,
                       ",\"args\":{\"name\":", json_string(function.name), "}"));
      RunMetadata::Time time{.thread = static_cast<int>(k)};
      for (std::size_t i = 0; i < function.times.size(); ++i) {
        time.start = i == 0 ? function.times[0].start : time.start + time.duration;
        time.duration = function.times[i].duration;
        add_step(function.plan.steps[i], time, process, detail::join("\"runs\":", function.runs));
      }
    }
  }

  /// Adds how many bytes of the device's arena are in use while a step runs.
  void add_memory(std::size_t i, Device device) {
    std::int64_t bytes = 0;
    for (const Buffer& buffer : metadata_.plan.buffers)
      if (buffer.memory == ExecutionPlan::Memory::arena && buffer.device == device && buffer.first_step <= i &&
          i <= buffer.last_step)
        bytes += buffer.bytes;
    add(detail::join("\"ph\":\"C\",\"name\":\"arena\",\"pid\":", process_of(device),
                     ",\"ts\":", micros(metadata_.times[i].start), ",\"args\":{\"bytes\":", bytes, "}"));
  }

  const RunMetadata& metadata_;
  std::vector<Device> devices_;
  std::string events_;
};

}  // namespace

std::string encode(const RunMetadata& metadata) {
  std::string bytes;
  pbf_writer writer(bytes);
  {
    pbf_writer stats(writer, 1);
    for (const Device device : devices_of(metadata.plan)) {
      pbf_writer each(stats, 1);
      each.add_string(1, "/job:localhost/replica:0/task:0" + tensorflow_name(device));
      const auto write = [&](const ExecutionPlan& plan, const std::vector<RunMetadata::Time>& times,
                             const std::string& prefix) {
        for (std::size_t i = 0; i < times.size(); ++i)
          if (plan.steps[i].device == device) write_step(each, plan, i, times[i], metadata.start, prefix);
      };
      write(metadata.plan, metadata.times, {});
      for (const RunMetadata::Function& function : metadata.functions)
        write(function.plan, function.times, function.name + "/");
    }
  }
  writer.add_message(3, encode(describe_graph(*metadata.graph.state())));
  return bytes;
}

}  // namespace io

void RunMetadata::write_chrome_trace(const std::string& path, Where where) const {
  if (times.empty() && !plan.steps.empty())
    throw FailedPreconditionError("There are no times: run with {.trace_level = tp::TraceLevel::full}", where);
  const std::string text = io::TraceWriter(*this).run();
  io::write_file(path, std::as_bytes(std::span(text)), where);
}

}  // namespace tapestry

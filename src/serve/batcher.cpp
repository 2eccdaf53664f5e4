#include "serve/batcher.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "tapestry/ops.hpp"

namespace tapestry::serve {
namespace {

/// The common first size of the inputs; nothing if they cannot be joined with those of other requests.
std::optional<std::int64_t> rows_of(const NamedTensors& inputs) {
  std::optional<std::int64_t> rows;
  for (const auto& [name, tensor] : inputs) {
    if (tensor.rank() == 0) return std::nullopt;
    const std::int64_t size = tensor.shape().sizes()[0];
    if (rows.value_or(size) != size || size == 0) return std::nullopt;
    rows = size;
  }
  return rows;
}

/// Requests with equal keys can be joined.
std::string key_of(const std::string& signature, const NamedTensors& inputs) {
  std::string key = signature;
  for (const auto& [name, tensor] : inputs) {
    key += '\n' + name + ' ' + to_string(tensor.dtype());
    for (int axis = 1; axis < tensor.rank(); ++axis) key += ' ' + std::to_string(tensor.shape().sizes()[axis]);
  }
  return key;
}

Tensor rows_from(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> begin(static_cast<std::size_t>(tensor.rank()), 0), size(begin.size(), -1);
  begin[0] = first;
  size[0] = count;
  return slice(tensor, begin, size).contiguous();
}

std::vector<std::int64_t> sizes_of(const BatchingOptions& options) {
  if (!options.allowed_batch_sizes.empty()) return options.allowed_batch_sizes;
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size < options.max_batch_size && size <= std::numeric_limits<std::int64_t>::max() / 2;
       size *= 2)
    sizes.push_back(size);
  sizes.push_back(options.max_batch_size);
  return sizes;
}

}  // namespace

struct Batcher::Task {
  NamedTensors inputs;
  std::int64_t rows;
  Deadline deadline;
  NamedTensors outputs{};
  std::exception_ptr error{};
};

struct Batcher::Batch {
  std::string signature{}, key{};
  Deadline start{};  ///< when it no longer waits for more
  std::vector<std::shared_ptr<Task>> tasks{};
  std::int64_t rows = 0;
  bool is_done = false;
  std::condition_variable done{};
};

void check(const BatchingOptions& options) {
  const std::vector<std::int64_t>& sizes = options.allowed_batch_sizes;
  if (options.max_batch_size < 1) throw InvalidArgumentError("max_batch_size must be at least 1");
  if (options.batch_timeout_micros < 0) throw InvalidArgumentError("batch_timeout_micros must not be negative");
  if (options.max_enqueued_batches < 1) throw InvalidArgumentError("max_enqueued_batches must be at least 1");
  if (options.num_batch_threads < 1) throw InvalidArgumentError("num_batch_threads must be at least 1");
  if (!sizes.empty() && (sizes.front() < 1 || !std::is_sorted(sizes.begin(), sizes.end(), std::less_equal<>()) ||
                         sizes.back() != options.max_batch_size))
    throw InvalidArgumentError("allowed_batch_sizes must increase, and end with max_batch_size");
}

Batcher::Batcher(BatchingOptions options, Run run)
    : options_(std::move(options)), sizes_(sizes_of(options_)), run_(std::move(run)) {
  check(options_);
}

std::size_t Batcher::waiting() {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

/// The number of rows that run. A model that looks across rows sees no others unless the operator has allowed that.
std::int64_t Batcher::size_of(const Batch& batch) const {
  if (batch.tasks.size() == 1 && options_.allowed_batch_sizes.empty()) return batch.rows;
  return *std::lower_bound(sizes_.begin(), sizes_.end(), batch.rows);
}

NamedTensors Batcher::run(const std::string& signature, const NamedTensors& inputs, Deadline deadline) {
  const std::optional<std::int64_t> rows = rows_of(inputs);
  if (!rows || *rows > options_.max_batch_size) return run_(signature, inputs, deadline);
  const auto task = std::make_shared<Task>(Task{.inputs = inputs, .rows = *rows, .deadline = deadline});
  const std::string key = key_of(signature, inputs);
  std::unique_lock lock(mutex_);
  const auto open = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& each) {
    return each->key == key && each->rows + *rows <= options_.max_batch_size;
  });
  if (open != waiting_.end()) {
    const std::shared_ptr<Batch> batch = *open;
    batch->tasks.push_back(task);
    batch->rows += *rows;
    if (batch->rows == options_.max_batch_size) changed_.notify_all();
    if (!batch->done.wait_until(lock, deadline, [&] { return batch->is_done; })) require_time(deadline);
  } else {
    if (static_cast<std::int64_t>(waiting_.size()) >= options_.max_enqueued_batches)
      throw UnavailableError("The batch scheduling queue to which this task was submitted is full");
    const auto wait = std::chrono::microseconds(options_.batch_timeout_micros);
    const auto batch = std::make_shared<Batch>();
    batch->signature = signature;
    batch->key = key;
    batch->start = std::chrono::steady_clock::now() + wait;
    batch->tasks = {task};
    batch->rows = *rows;
    waiting_.push_back(batch);
    lead(batch, lock);
  }
  if (task->error) std::rethrow_exception(task->error);
  return std::move(task->outputs);
}

void Batcher::lead(const std::shared_ptr<Batch>& batch, std::unique_lock<std::mutex>& lock) {
  changed_.wait_until(lock, batch->start, [&] { return batch->rows == options_.max_batch_size; });
  changed_.wait(lock, [&] { return running_ < options_.num_batch_threads; });
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), batch));
  ++running_;
  lock.unlock();
  execute(*batch);
  lock.lock();
  --running_;
  batch->is_done = true;
  batch->done.notify_all();
  changed_.notify_all();
}

void Batcher::execute(Batch& batch) const {
  // Nobody waits for the answers of requests whose deadlines have passed.
  std::erase_if(batch.tasks, [&](const std::shared_ptr<Task>& task) {
    const bool is_late = task->deadline <= std::chrono::steady_clock::now();
    if (is_late) {
      task->error = std::make_exception_ptr(DeadlineExceededError("Timed out before the request was answered"));
      batch.rows -= task->rows;
    }
    return is_late;
  });
  if (batch.tasks.empty()) return;
  try {
    return run_joined(batch);
  } catch (const std::exception&) {
    // One of the requests may be wrong. Below, each runs alone, so that only that one gets the error.
  }
  for (const auto& task : batch.tasks) {
    try {
      task->outputs = run_(batch.signature, task->inputs, task->deadline);
    } catch (...) {
      task->error = std::current_exception();
    }
  }
}

void Batcher::run_joined(Batch& batch) const {
  Deadline last = batch.tasks.front()->deadline;
  for (const auto& task : batch.tasks) last = std::max(last, task->deadline);
  const std::int64_t size = size_of(batch);
  NamedTensors joined;
  for (const auto& [name, input] : batch.tasks.front()->inputs) {
    std::vector<Tensor> parts;
    for (const auto& task : batch.tasks) parts.push_back(task->inputs.at(name));
    Tensor whole = parts.size() == 1 ? parts[0] : concat(parts, 0);
    // Rows of the requests fill up the batch, since they are valid inputs of the model.
    for (std::int64_t rows = batch.rows; rows < size; rows = whole.shape().sizes()[0])
      whole = concat({whole, rows_from(whole, 0, std::min(rows, size - rows))}, 0);
    joined.emplace(name, whole);
  }
  const NamedTensors outputs = run_(batch.signature, joined, last);
  for (const auto& [name, tensor] : outputs)
    if (tensor.rank() == 0 || tensor.shape().sizes()[0] != size)
      throw InvalidArgumentError("The output " + name + " does not have a row for each row of the inputs");
  std::int64_t first = 0;
  for (const auto& task : batch.tasks) {
    for (const auto& [name, tensor] : outputs) task->outputs.emplace(name, rows_from(tensor, first, task->rows));
    first += task->rows;
  }
}

}  // namespace tapestry::serve

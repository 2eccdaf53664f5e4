#include "serve/batcher.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <list>
#include <map>
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
std::string key_of(const std::string& signature, const NamedTensors& inputs, bool of_any_sizes) {
  std::string key = signature;
  for (const auto& [name, tensor] : inputs) {
    key += '\n' + name + ' ' + to_string(tensor.dtype()) + ' ' + std::to_string(tensor.rank());
    if (of_any_sizes && tensor.size() > 0) continue;  // without elements there is nothing to fill up with
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

/// Fills tensors up to the same sizes behind the first, each with its first element.
void fill_up(std::vector<Tensor>& parts) {
  for (int axis = 1; axis < parts[0].rank(); ++axis) {
    std::int64_t most = 0;
    for (const Tensor& each : parts) most = std::max(most, each.shape().sizes()[axis]);
    for (Tensor& each : parts) {
      std::vector<std::int64_t> sizes = each.shape().to_vector();
      const auto place = static_cast<std::size_t>(axis);
      if (sizes[place] == most) continue;
      sizes[place] = most - sizes[place];
      const std::vector<std::int64_t> begin(sizes.size(), 0), one(sizes.size(), 1);
      each = concat({each, broadcast_to(slice(each, begin, one), Shape(sizes))}, axis);
    }
  }
}

std::vector<std::int64_t> sizes_of(const BatchingOptions& options) {
  if (!options.allowed_batch_sizes.empty()) return options.allowed_batch_sizes;
  std::vector<std::int64_t> sizes;
  const std::int64_t most = options.most_rows();
  for (std::int64_t size = 1; size < most && size <= std::numeric_limits<std::int64_t>::max() / 2; size *= 2)
    sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

}  // namespace

struct Batcher::Task {
  NamedTensors inputs;
  std::int64_t rows;
  Deadline deadline;
  std::shared_ptr<Batch> batch{};
  NamedTensors outputs{};
  std::exception_ptr error{};
};

struct Batcher::Batch {
  std::string signature{}, key{};
  std::chrono::steady_clock::time_point start{};  ///< when it no longer waits for more
  std::vector<std::shared_ptr<Task>> tasks{};
  std::int64_t rows = 0;
  bool has_leader = false, is_running = false, is_done = false;
  std::condition_variable changed{};
};

namespace {

/// Requests a stop when the clients of all tasks have gone.
class AllGone {
 public:
  template <class Tasks>
  explicit AllGone(const Tasks& tasks) : left_(tasks.size()) {
    for (const auto& each : tasks)
      gone_.emplace_back(each->deadline.gone(), [this] {
        if (--left_ == 0) all_.request_stop();
      });
  }
  AllGone(const AllGone&) = delete;
  AllGone& operator=(const AllGone&) = delete;
  std::stop_token token() const { return all_.get_token(); }

 private:
  std::atomic<std::size_t> left_;
  std::stop_source all_;
  std::list<std::stop_callback<std::function<void()>>> gone_;  ///< the last member: they use the others
};

}  // namespace

void check(const BatchingOptions& options) {
  const std::vector<std::int64_t>& sizes = options.allowed_batch_sizes;
  if (options.max_batch_size < 1) throw InvalidArgumentError("max_batch_size must be at least 1");
  if (options.batch_timeout_micros < 0) throw InvalidArgumentError("batch_timeout_micros must not be negative");
  if (options.max_enqueued_batches < 1) throw InvalidArgumentError("max_enqueued_batches must be at least 1");
  if (options.max_execution_batch_size < 0 || options.max_execution_batch_size > options.max_batch_size)
    throw InvalidArgumentError("max_execution_batch_size must be from 1 to max_batch_size, or 0 for that");
  if (options.num_batch_threads < 1) throw InvalidArgumentError("num_batch_threads must be at least 1");
  if (!sizes.empty() && (sizes.front() < 1 || !std::is_sorted(sizes.begin(), sizes.end(), std::less_equal<>()) ||
                         sizes.back() != options.most_rows()))
    throw InvalidArgumentError(detail::join("allowed_batch_sizes must increase, and end with ",
                                            options.most_rows() == options.max_batch_size
                                                ? "max_batch_size"
                                                : "max_execution_batch_size, as large requests are split"));
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
  if (rows && *rows <= options_.most_rows()) return run_in_batch(signature, inputs, *rows, deadline);
  if (rows && options_.enable_large_batch_splitting) return run_in_pieces(signature, inputs, *rows, deadline);
  return run_(signature, inputs, deadline);
}

NamedTensors Batcher::run_in_pieces(const std::string& signature, const NamedTensors& inputs, std::int64_t rows,
                                    const Deadline& deadline) {
  std::map<std::string, std::vector<Tensor>> outputs;
  for (std::int64_t first = 0; first < rows; first += options_.most_rows()) {
    const std::int64_t count = std::min(rows - first, options_.most_rows());
    NamedTensors piece;
    for (const auto& [name, tensor] : inputs) piece.emplace(name, rows_from(tensor, first, count));
    for (const auto& [name, tensor] : run_in_batch(signature, piece, count, deadline)) {
      // A model whose outputs have no rows needs the whole request.
      if (tensor.rank() == 0 || tensor.shape().sizes()[0] != count) return run_(signature, inputs, deadline);
      outputs[name].push_back(tensor);
    }
  }
  NamedTensors whole;
  for (const auto& [name, parts] : outputs) whole.emplace(name, concat(parts, 0));
  return whole;
}

NamedTensors Batcher::run_in_batch(const std::string& signature, const NamedTensors& inputs, std::int64_t rows,
                                   const Deadline& deadline) {
  require_time(deadline);
  const auto task = std::make_shared<Task>(Task{.inputs = inputs, .rows = rows, .deadline = deadline});
  const std::string key = key_of(signature, inputs, options_.pad_variable_length_inputs);
  const std::stop_callback wake(deadline.gone(), [&] {
    const std::lock_guard lock(mutex_);
    if (task->batch) task->batch->changed.notify_all();
    changed_.notify_all();
  });
  Lock lock(mutex_);
  enqueue(task, signature, key);
  const std::shared_ptr<Batch> batch = task->batch;
  while (!batch->is_done && !deadline.is_over()) {
    if (batch->has_leader) {
      follow(task, lock);
    } else {
      batch->has_leader = true;
      lead(task, lock);
    }
  }
  if (!batch->is_done) {
    leave(*task);
    require_time(deadline);
  }
  if (task->error) std::rethrow_exception(task->error);
  return std::move(task->outputs);
}

void Batcher::enqueue(const std::shared_ptr<Task>& task, const std::string& signature, const std::string& key) {
  const auto open = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& each) {
    return each->key == key && each->rows + task->rows <= options_.most_rows();
  });
  if (open != waiting_.end()) {
    task->batch = *open;
  } else {
    if (static_cast<std::int64_t>(waiting_.size()) >= options_.max_enqueued_batches)
      throw UnavailableError("The batch scheduling queue to which this task was submitted is full");
    task->batch = std::make_shared<Batch>();
    task->batch->signature = signature;
    task->batch->key = key;
    task->batch->start = std::chrono::steady_clock::now() + std::chrono::microseconds(options_.batch_timeout_micros);
    waiting_.push_back(task->batch);
  }
  task->batch->tasks.push_back(task);
  task->batch->rows += task->rows;
  if (task->batch->rows == options_.most_rows()) changed_.notify_all();
}

void Batcher::leave(const Task& task) {
  Batch& batch = *task.batch;
  if (batch.is_running) return;
  std::erase_if(batch.tasks, [&](const auto& each) { return each.get() == &task; });
  batch.rows -= task.rows;
  if (batch.tasks.empty())
    std::erase_if(waiting_, [&](const auto& each) { return each.get() == &batch; });
  else
    batch.changed.notify_all();  // one of the others may have to lead
}

void Batcher::follow(const std::shared_ptr<Task>& task, Lock& lock) {
  const Batch& batch = *task->batch;
  task->batch->changed.wait_until(lock, task->deadline, [&] {
    return batch.is_done || !batch.has_leader || task->deadline.gone().stop_requested();
  });
}

void Batcher::lead(const std::shared_ptr<Task>& task, Lock& lock) {
  const std::shared_ptr<Batch> batch = task->batch;
  const auto is_gone = [&] { return task->deadline.gone().stop_requested(); };
  changed_.wait_until(lock, std::min<std::chrono::steady_clock::time_point>(batch->start, task->deadline),
                      [&] { return batch->rows == options_.most_rows() || is_gone(); });
  changed_.wait_until(lock, task->deadline, [&] { return running_ < options_.num_batch_threads || is_gone(); });
  if (task->deadline.is_over() || running_ >= options_.num_batch_threads) {
    batch->has_leader = false;
    return;
  }
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), batch));
  batch->is_running = true;
  ++running_;
  lock.unlock();
  execute(*batch);
  lock.lock();
  --running_;
  batch->is_done = true;
  batch->changed.notify_all();
  changed_.notify_all();
}

void Batcher::execute(Batch& batch) const {
  // Nobody waits for the answers of requests whose deadlines have passed, or whose clients have gone.
  std::erase_if(batch.tasks, [&](const std::shared_ptr<Task>& task) {
    try {
      require_time(task->deadline);
      return false;
    } catch (const Error&) {
      task->error = std::current_exception();
      batch.rows -= task->rows;
      return true;
    }
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
  std::chrono::steady_clock::time_point last;
  for (const auto& task : batch.tasks) last = std::max<std::chrono::steady_clock::time_point>(last, task->deadline);
  const AllGone all_gone(batch.tasks);
  const std::int64_t size = size_of(batch);
  NamedTensors joined;
  for (const auto& [name, input] : batch.tasks.front()->inputs) {
    std::vector<Tensor> parts;
    for (const auto& task : batch.tasks) parts.push_back(task->inputs.at(name));
    if (options_.pad_variable_length_inputs) fill_up(parts);
    Tensor whole = parts.size() == 1 ? parts[0] : concat(parts, 0);
    // Rows of the requests fill up the batch, since they are valid inputs of the model.
    for (std::int64_t rows = batch.rows; rows < size; rows = whole.shape().sizes()[0])
      whole = concat({whole, rows_from(whole, 0, std::min(rows, size - rows))}, 0);
    joined.emplace(name, whole);
  }
  const NamedTensors outputs = run_(batch.signature, joined, {last, all_gone.token()});
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

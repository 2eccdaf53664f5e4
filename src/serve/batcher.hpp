#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/named_tensors.hpp"

namespace tapestry::serve {

/// How requests are run together. The names are those of TensorFlow Serving's parameters.
struct BatchingOptions {
  std::int64_t max_batch_size = 1000;       ///< rows that run together at most
  std::int64_t batch_timeout_micros = 0;    ///< how long a batch that is not full waits for more
  std::int64_t max_enqueued_batches = 100;  ///< more that wait: the request is refused
  std::int64_t num_batch_threads = 1;       ///< batches that run at the same time
  /// A batch is filled up to the next of these sizes, so that few plans are made. The largest is the maximal size. By
  /// default the powers of two, and a request that runs alone stays as it is.
  std::vector<std::int64_t> allowed_batch_sizes{};
  /// A request of more rows than a batch may have is run piece by piece; otherwise it runs alone.
  bool enable_large_batch_splitting = false;
  std::int64_t max_execution_batch_size = 0;  ///< rows of a batch, with such splitting; 0: max_batch_size
  /// Requests whose inputs differ in other sizes than the first are joined, too: the smaller ones are filled up with
  /// their first elements, as TensorFlow Serving does. A model must be made for that.
  bool pad_variable_length_inputs = false;

  /// The rows that run together at most.
  std::int64_t most_rows() const {
    return enable_large_batch_splitting && max_execution_batch_size > 0 ? max_execution_batch_size : max_batch_size;
  }
};

/// Throws InvalidArgumentError for options that make no sense.
void check(const BatchingOptions& options);

/// Runs requests together that come at about the same time, one below the other along the first axis. There is no
/// thread of its own: the thread of a batch's first request runs the batch.
class Batcher {
 public:
  using Run = std::function<NamedTensors(const std::string& signature, const NamedTensors& inputs, Deadline deadline)>;

  /// Throws InvalidArgumentError for options that make no sense.
  Batcher(BatchingOptions options, Run run);

  /// The outputs of one request. One that cannot be joined with others runs alone. Throws UnavailableError when too
  /// many wait, DeadlineExceededError and CancelledError, also while the request waits, and the errors of `run`; an
  /// error of a batch concerns only the requests that also fail alone. A batch that runs is stopped when nobody waits
  /// for it any more.
  NamedTensors run(const std::string& signature, const NamedTensors& inputs, Deadline deadline);
  /// The number of batches that wait to be run.
  std::size_t waiting();

 private:
  struct Task;
  struct Batch;
  using Lock = std::unique_lock<std::mutex>;
  NamedTensors run_in_batch(const std::string& signature, const NamedTensors& inputs, std::int64_t rows,
                            const Deadline& deadline);
  NamedTensors run_in_pieces(const std::string& signature, const NamedTensors& inputs, std::int64_t rows,
                             const Deadline& deadline);
  /// Puts a task into a batch that waits, or into a new one.
  void enqueue(const std::shared_ptr<Task>& task, const std::string& signature, const std::string& key);
  /// Waits until the batch is full or old enough, and until it is its turn; then runs it. Returns early when nobody
  /// waits for the task any more.
  void lead(const std::shared_ptr<Task>& task, Lock& lock);
  /// Waits for the thread that leads the batch, until it is done, has no leader, or nobody waits for the task any more.
  static void follow(const std::shared_ptr<Task>& task, Lock& lock);
  /// Takes a task out of a batch that does not run yet.
  void leave(const Task& task);
  void execute(Batch& batch) const;
  void run_joined(Batch& batch) const;
  std::int64_t size_of(const Batch& batch) const;

  const BatchingOptions options_;
  const std::vector<std::int64_t> sizes_;
  Run run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Batch>> waiting_;  ///< oldest first
  std::int64_t running_ = 0;
};

}  // namespace tapestry::serve

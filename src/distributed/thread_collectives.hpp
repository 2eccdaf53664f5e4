#pragma once

#include <condition_variable>
#include <functional>
#include <vector>

#include "distributed/collectives.hpp"

namespace tapestry::detail {

/// Threads of this process that are started together as ranks. All communicators that are split off share it.
struct ThreadJob {
  explicit ThreadJob(std::size_t ranks) : ended(ranks) {}

  /// A rank takes part in nothing more.
  void end(std::size_t rank, std::string how) {
    const std::lock_guard lock(mutex);
    ended[rank] = std::move(how);
    changed.notify_all();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> ended;  ///< by rank of the job: how it has ended; "" while it runs
};

/// What the ranks of one communicator share.
class ThreadGroup {
 public:
  /// `members`: the ranks of the job, in the order of the ranks of this group.
  ThreadGroup(std::shared_ptr<ThreadJob> job, std::vector<int> members);

  /// Takes part in a collective: waits for the others, does this rank's share of the work, and waits until all have
  /// done theirs.
  void run(int rank, const Exchange& exchange);
  /// The number of a rank that is not `by_device`, -1 if all are.
  int agree(int rank, const Exchange& exchange);
  /// The group of those that give the same color, and this rank's number in it.
  std::pair<std::shared_ptr<ThreadGroup>, int> split(int rank, int color, Where where);
  /// The group of those that are left, and this rank's number in it.
  std::pair<std::shared_ptr<ThreadGroup>, int> shrink(int rank);
  /// This rank takes part in nothing more.
  void leave(int rank);

  int size() const { return static_cast<int>(members_.size()); }

 private:
  using Lock = std::unique_lock<std::mutex>;
  /// A rank's call, while it lives; made and destroyed under the lock. Throws FailedPreconditionError if another thread
  /// makes a call of the same rank: the two would take each other's place among the ranks.
  class OneCall {
   public:
    OneCall(ThreadGroup& group, int rank, std::string_view name, Where where);
    ~OneCall() { is_calling_ = 0; }
    OneCall(const OneCall&) = delete;
    OneCall& operator=(const OneCall&) = delete;

   private:
    char& is_calling_;
  };
  void meet(Lock& lock, const std::function<void()>& when_all_are_there, bool may_abort);
  void require_all_there() const;
  const std::string& end_of(std::size_t rank) const;
  void meet_calls(Lock& lock, int rank, const Exchange& exchange);
  void compare_calls();
  void require_agreement() const;
  void work(int rank, const Exchange& exchange) const;
  std::pair<std::shared_ptr<ThreadGroup>, int> place_of(const std::shared_ptr<ThreadGroup>& group, int rank) const;

  std::shared_ptr<ThreadJob> job_;
  std::vector<int> members_;
  std::vector<char> left_;        ///< by rank
  std::vector<char> is_calling_;  ///< by rank
  // The collective that is going on.
  std::vector<const Exchange*> posts_;  ///< by rank
  int waiting_ = 0;
  std::uint64_t meetings_ = 0;
  std::string refusal_;      ///< what all ranks throw; "" if their calls fit together
  int by_device_ = 0;        ///< how many ranks are
  int not_by_device_ = -1;   ///< the first that is not
  std::string failure_;      ///< what a rank has met in its share of the work; "" if nothing
  std::vector<int> colors_;  ///< of `split`, by rank; and the new groups
  std::vector<std::shared_ptr<ThreadGroup>> parts_;
  int shrinking_ = 0;
  std::shared_ptr<ThreadGroup> survivors_;
};

/// One rank of a group of threads.
class ThreadCollectives final : public Collectives {
 public:
  ThreadCollectives(std::shared_ptr<ThreadGroup> group, int its_rank, int its_local_rank);
  ~ThreadCollectives() override { leave(); }

  void run(const Exchange& exchange) override { group_->run(rank, exchange); }
  int agree(const Exchange& exchange) override { return group_->agree(rank, exchange); }
  CommunicatorRef split(int color, Where where) override;
  CommunicatorRef shrink(Where where) override;
  bool leave() override;

 private:
  std::shared_ptr<ThreadGroup> group_;
};

}  // namespace tapestry::detail

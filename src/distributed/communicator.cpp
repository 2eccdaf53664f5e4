#include "tapestry/distributed/communicator.hpp"

#include <exception>
#include <numeric>
#include <system_error>
#include <thread>

#include "distributed/carrier.hpp"
#include "distributed/collectives.hpp"
#include "distributed/mpi_loader.hpp"
#include "distributed/thread_collectives.hpp"
#include "tapestry/detail/function.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry {

using namespace detail;

namespace {

/// The ranks of the job that the thread is one of; nullptr on other threads.
constinit thread_local const CommunicatorRef* world_of_thread = nullptr;

CommunicatorRef alone() {
  return std::make_shared<ThreadCollectives>(
      std::make_shared<ThreadGroup>(std::make_shared<ThreadJob>(1), std::vector<int>{0}), 0, 0);
}

/// How a rank has ended, for the others.
std::string reason_of(const std::exception_ptr& error) {
  if (!error) return "has returned from the function";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return std::string("has failed: ") + known.what();
  } catch (...) {
    return "has failed";
  }
}

bool is_abortion(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const AbortedError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

Communicator::Communicator() : collectives_(alone()) {}
Communicator::Communicator(CommunicatorRef collectives) : collectives_(std::move(collectives)) {}

Communicator Communicator::world(Where where) {
  if (world_of_thread) return Communicator(*world_of_thread);
  // Never destroyed: MPI is in use until the process ends.
  static const CommunicatorRef& of_process = *new CommunicatorRef(detail::locating({}, where, [] {
    const int launched = launched_processes();
    return launched == 1 ? alone() : open_mpi(launched);
  }));
  return Communicator(of_process);
}

int Communicator::rank() const { return collectives_->rank; }
int Communicator::size() const { return collectives_->size; }
int Communicator::local_rank() const { return collectives_->local_rank; }
std::string Communicator::gpu_status() const { return collectives_->carrier().status(); }

Communicator Communicator::split(int color, Where where) const {
  if (color < 0) throw InvalidArgumentError(join("A color is a number from 0 on, not ", color), where);
  return detail::locating({}, where, [&] { return Communicator(collectives_->split(color, where)); });
}

Communicator Communicator::shrink(Where where) const {
  return detail::locating({}, where, [&] { return Communicator(collectives_->shrink(where)); });
}

void run_ranks(int ranks, const std::function<void(const Communicator&)>& function, Where where) {
  tapestry::detail::require_function(function, "run_ranks", where);
  if (ranks < 1) throw InvalidArgumentError(join("run_ranks needs at least 1 rank, got ", ranks), where);
  const auto job = std::make_shared<ThreadJob>(static_cast<std::size_t>(ranks));
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  const auto group = std::make_shared<ThreadGroup>(job, members);
  std::vector<std::exception_ptr> errors(members.size());
  const auto run = [&](int rank) {
    const auto number = static_cast<std::size_t>(rank);
    const CommunicatorRef own = std::make_shared<ThreadCollectives>(group, rank, rank);
    world_of_thread = &own;
    try {
      function(Communicator(own));
    } catch (...) {
      errors[number] = std::current_exception();
    }
    world_of_thread = nullptr;
    job->end(number, reason_of(errors[number]));
  };
  std::vector<std::thread> threads;
  try {
    for (const int rank : members) threads.emplace_back(run, rank);
  } catch (const std::system_error&) {
    for (std::size_t i = threads.size(); i < members.size(); ++i) job->end(i, "could not be started");
  }
  for (std::thread& each : threads) each.join();
  if (threads.size() < members.size())
    throw ResourceExhaustedError(join("Only ", threads.size(), " of ", ranks, " threads can be started"), where);
  std::exception_ptr first;
  for (const std::exception_ptr& each : errors)
    if (each && (!first || (is_abortion(first) && !is_abortion(each)))) first = each;
  if (first) std::rethrow_exception(first);
}

}  // namespace tapestry

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tapestry/distributed/communicator.hpp"

namespace tapestry::detail {

class Background;
class Carrier;

/// One call of a collective by one rank.
struct TAPESTRY_API Exchange {
  /// The kinds of collectives, which all ranks must call alike.
  enum class Kind : std::uint8_t { all_reduce, broadcast, all_gather, reduce_scatter, barrier, split, end };

  Kind kind;
  std::string_view name;         ///< of the op, for messages
  Tensor input{}, output{};      ///< on one device, without gaps, in memory of their own
  DType given = DType::unknown;  ///< the caller's dtype, where the elements travel as another
  Reduce reduce = Reduce::sum;   ///< never `mean`, which is a sum for those who communicate
  int root = 0;
  std::uint64_t layout = 0;  ///< what else must be equal on all ranks, such as the tensors in a bucket
  std::string settings{};    ///< of the program that must be equal on all ranks, for messages, too
  Where where{};             ///< the call site, for messages
  bool by_device = false;    ///< whether this rank's device can exchange the tensors with the other ranks'

  /// Equal on all ranks whose calls fit together; differs otherwise, but for one case in 2^63.
  std::uint64_t signature() const;
};
/// "AllReduce(sum) of float32[2,3] at train.cpp:7".
TAPESTRY_API std::string to_string(const Exchange& exchange);

/// What connects the ranks of a communicator: threads (thread_collectives.hpp) or MPI (mpi/). A rank has an object of
/// its own, which one thread uses at a time.
class TAPESTRY_API Collectives {
 public:
  Collectives(int its_rank, int ranks, int its_local_rank);
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  virtual ~Collectives();

  /// Takes part in a collective of tensors on the host. Throws InvalidArgumentError when the others make another one,
  /// and AbortedError when one of them has ended. float16 and bfloat16 are not reduced.
  virtual void run(const Exchange& exchange) = 0;
  /// Meets the others before a collective of tensors on any device: gives the number of a rank that is not `by_device`,
  /// -1 if all are. A rank on the host may call `run` at once, and goes on there when the others call that, too. Throws
  /// what `run` throws.
  virtual int agree(const Exchange& exchange) = 0;
  /// The ranks that give the same color. Throws what `run` throws.
  virtual CommunicatorRef split(int color, Where where) = 0;
  /// The ranks that are left.
  virtual CommunicatorRef shrink(Where where) = 0;
  /// This rank takes part in nothing more: calls that wait for it throw AbortedError. Returns false where a call of
  /// this rank that is waiting for others cannot be woken.
  virtual bool leave() = 0;

  /// A thread that makes collectives of its own beside this rank's calls. The first call makes it, on all ranks.
  Background& background(Where where);
  /// How this rank's tensors travel.
  Carrier& carrier() { return *carrier_; }

  const int rank, size, local_rank;

 private:
  std::mutex mutex_;
  std::unique_ptr<Background> background_;
  std::unique_ptr<Carrier> carrier_;
};

/// The message where the collectives of the ranks do not fit together. `calls` says what each rank calls.
TAPESTRY_API std::string unequal(const std::vector<std::string>& calls);

}  // namespace tapestry::detail

#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/data/shard.hpp"
#include "tapestry/detail/handle.hpp"
#include "tapestry/op.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

/// @addtogroup distributed
/// @{

/// How the tensors of all ranks become one, element by element.
enum class Reduce : std::uint8_t {
  sum,      ///< for numbers
  mean,     ///< the sum divided by the number of ranks, for float types
  min,      ///< the smallest, for numbers and bools
  max,      ///< the largest, for numbers and bools
  product,  ///< for numbers and bools
};
/// The name, such as "sum".
TAPESTRY_API std::string to_string(Reduce reduce);

/// The ranks that work together, which are processes or threads, and this rank's place among them. Copies are handles
/// to the same communicator.
///
///     auto world = tp::Communicator::world();
///     auto total = world.all_reduce(x, tp::Reduce::sum);
///
/// A collective is a call that all ranks make: it returns when the others have made it, too. All ranks must make the
/// same collectives of a communicator in the same order, with equal dtypes and shapes. Otherwise each of them throws
/// InvalidArgumentError, which says what the others do. If a rank ends or fails meanwhile, the others throw
/// AbortedError.
///
/// Collectives are ops: they can be differentiated, traced, and run in sessions. A gradient is that of the sum of all
/// ranks' losses, and is itself computed by collectives: all ranks must take the same gradients. In a trace, they run
/// in the order of the program, even if nothing needs their results.
///
/// Tensors on GPUs are exchanged by NCCL, and a collective returns when it is queued, if the tensors of all ranks are
/// on GPUs, no two of them on the same, and all ranks can open NCCL. Otherwise they are copied to the host and back.
/// The ranks agree on that; `gpu_status` tells the reason. A rank keeps to the first GPU that it has used in a
/// communicator.
///
/// The sum of ranks that are threads is added up in the order of the ranks. That of processes is in an order which the
/// MPI library chooses, that on GPUs in NCCL's; all ranks get the same bits. float16 and bfloat16 are reduced in
/// float32.
class TAPESTRY_API Communicator {
 public:
  /// A communicator of this rank alone, which is rank 0 of 1.
  Communicator();

  /// All ranks: in a function that `run_ranks` runs, its threads; in a program that mpirun or srun has started, its
  /// processes; otherwise this process alone, which is rank 0 of 1. The first call in a process of several opens MPI.
  /// Throws UnavailableError if there is no MPI for the processes that were started, or if it does not know them.
  static Communicator world(Where where = Where::here());

  /// The number of this rank, from 0.
  int rank() const;
  /// The number of ranks.
  int size() const;
  /// The number of this rank among those on this machine, from 0: for example, the GPU that it uses.
  int local_rank() const;
  /// How tensors on a GPU have travelled in this communicator: "collectives by NCCL 2.28.9", or "collectives on the
  /// host: " and the reason.
  std::string gpu_status() const;
  /// The part of a data set that this rank reads, for Loaders and Streams.
  data::Shard shard() const { return {size(), rank()}; }

  /// The tensors of all ranks, reduced to one. Throws InvalidArgumentError for bools and Reduce::sum, and for
  /// Reduce::mean of a type that is not a float type.
  Tensor all_reduce(In x, Reduce reduce = Reduce::sum, std::string_view name = {}) const;
  /// The same for several tensors, which travel together. Empty tensors stay empty, and must be so on all ranks.
  /// @{
  std::vector<Tensor> all_reduce(const std::vector<Tensor>& tensors, Reduce reduce = Reduce::sum,
                                 std::string_view name = {}, Where where = Where::here()) const;
  std::vector<Tensor> all_reduce(std::initializer_list<Tensor> tensors, Reduce reduce = Reduce::sum,
                                 std::string_view name = {}, Where where = Where::here()) const {
    return all_reduce(std::vector<Tensor>(tensors), reduce, name, where);
  }
  /// @}
  /// The tensor of the rank `root`. The others give a tensor of its dtype and shape.
  Tensor broadcast(In x, int root = 0, std::string_view name = {}) const;
  /// Sets the Variables of all ranks, such as `model.parameters()`, to the values that they have on the rank `root`.
  /// @{
  void broadcast(const std::vector<Variable>& variables, int root = 0, Where where = Where::here()) const;
  template <std::derived_from<Variable> V>
  void broadcast(std::initializer_list<V> variables, int root = 0, Where where = Where::here()) const {
    broadcast(std::vector<Variable>(variables.begin(), variables.end()), root, where);
  }
  /// @}
  /// The tensors of all ranks in the order of the ranks, joined along the first axis: [n, ...] becomes [size * n, ...],
  /// and a scalar [size].
  Tensor all_gather(In x, std::string_view name = {}) const;
  /// This rank's part of the tensors reduced to one: [size * n, ...] becomes [n, ...]. Throws InvalidArgumentError for
  /// a scalar and a first axis that cannot be divided among the ranks.
  Tensor reduce_scatter(In x, Reduce reduce = Reduce::sum, std::string_view name = {}) const;
  /// Waits for all ranks.
  void barrier(Where where = Where::here()) const;

  /// The ranks that give the same color, in their order, as a communicator of their own. All ranks must call this.
  /// Throws InvalidArgumentError for a negative color.
  Communicator split(int color, Where where = Where::here()) const;
  /// The ranks that are left, in their order, after an AbortedError. All of them must call this. Throws
  /// UnimplementedError where the ranks are processes whose MPI library cannot do this: it must have MPIX_Comm_shrink,
  /// and the job must go on when a process has ended, as with `mpirun --with-ft ulfm`.
  Communicator shrink(Where where = Where::here()) const;

  /// For the library: what connects the ranks.
  /// @{
  explicit Communicator(CommunicatorRef collectives);
  const CommunicatorRef& collectives() const { return collectives_; }
  /// @}

 private:
  detail::Handle<detail::Collectives> collectives_;
};

/// Runs a function on several ranks, each a thread of this process, and returns when all have ended. In the function,
/// `Communicator::world()` is that of these threads, which is also the argument.
///
///     tp::run_ranks(4, [](const tp::Communicator& world) { train(world); });
///
/// If the function throws on a rank, the collectives of the others throw AbortedError. At the end, the error of the
/// first rank that failed for a reason of its own is thrown. Throws InvalidArgumentError for a number below 1.
///
/// Each rank needs a model, optimizer and loader of its own, made in the function. All ranks draw random numbers from
/// the one stream of the process, in an order that changes from run to run.
TAPESTRY_API void run_ranks(int ranks, const std::function<void(const Communicator& world)>& function,
                            Where where = Where::here());

/// @}

}  // namespace tapestry

#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/plan.hpp"
#include "graph/rendezvous.hpp"

namespace tapestry::detail {

/// A plan that can run: every tensor has its place in memory and every call its tensors before the first run, so that a
/// run is a loop over kernels.
///
/// The memory of a tensor begins at a root: its own, or, of a view, that of what it is a view of. Roots of results lie
/// in one arena for each device; what is fed, read from a Variable or fetched has memory that changes from run to run,
/// to which the tensors are bound.
class Executable {
 public:
  /// The feeds are those of the first run, which must have the shapes of all later ones. A part of a plan on several
  /// devices meets the others at the rendezvous.
  Executable(PlanGraph plan, const Tensors& feeds, Rendezvous* rendezvous);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  /// Computes the fetches. One run at a time; others wait.
  Tensors run(const Tensors& feeds);

 private:
  enum class Memory : std::uint8_t { arena, bound, fixed };
  struct Root {
    Memory memory = Memory::arena;
    bool fetched = false;
    Device device;
    std::size_t bytes = 0, offset = 0;  ///< in the arena
    std::size_t first_step = 0, last_step = 0;
    SmallVector<std::pair<Tensor, std::size_t>, 1> tensors;  ///< those with memory here, and their distances in bytes
  };
  struct Step {
    enum class Kind : std::uint8_t { kernel, host, made, read, send, receive };
    Kind kind;
    Call call;
    Backend* backend;
    std::int32_t root;                         ///< of what is read, received, or made by its op itself
    SmallVector<std::int32_t, 2> bound_until;  ///< the bound roots that no later step uses
  };

  void add(const Node& node);
  void add_result(const Node& node, Call call);
  void add_kernel(const Node& node, Call call);
  std::int32_t new_root(const Tensor& tensor, Memory memory, const Tensor& value);
  void use(const Tensor& input);
  void lay_out();

  static void bind(Root& root, const Tensor& value);
  static void unbind(Root& root);
  void bind_outputs();
  void run_step(Step& step);
  void forget() noexcept;

  PlanGraph plan_;
  Rendezvous* rendezvous_;
  std::vector<Root> roots_;
  std::vector<Step> steps_;
  std::unordered_map<std::int64_t, std::pair<Tensor, std::int32_t>> values_;  ///< by id: what stands for it, its root
  std::vector<std::int32_t> feed_roots_;
  std::vector<Tensor> feed_values_;
  Tensors fetched_;
  std::vector<std::int32_t> output_roots_;
  std::vector<Tensor> arenas_;
  std::mutex mutex_;
};

}  // namespace tapestry::detail

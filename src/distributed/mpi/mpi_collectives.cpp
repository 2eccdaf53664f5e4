// The ranks that MPI has started. Only MPI's C interface is used, so that a plugin compiled with one version of Open
// MPI runs with the others.

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>

#include <mpi.h>
#include <unistd.h>

#include "core/make_tensor.hpp"
#include "distributed/mpi_plugin.hpp"

// Of Open MPI 5 and of MPICH: after a process has ended, the others go on.
extern "C" {
// NOLINTBEGIN(readability-identifier-naming): the names are theirs
__attribute__((weak)) int MPIX_Comm_shrink(MPI_Comm, MPI_Comm*);
__attribute__((weak)) int MPIX_Comm_revoke(MPI_Comm);
// NOLINTEND(readability-identifier-naming)
}

namespace tapestry::detail {
namespace {

/// So many elements or bytes at a time: counts of MPI are ints.
constexpr std::int64_t most_at_once = 1 << 30;

/// Calls `part(begin, count)` for all parts of that size.
void in_parts(std::int64_t count, auto part) {
  for (std::int64_t begin = 0; begin < count; begin += most_at_once)
    part(begin, static_cast<int>(std::min(most_at_once, count - begin)));
}

std::byte* bytes_at(const Tensor& tensor, std::int64_t element) {
  return static_cast<std::byte*>(tensor.impl().data) + static_cast<std::size_t>(element) * size_of(tensor.dtype());
}

MPI_Datatype type_of(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return MPI_C_BOOL;
    case DType::uint8:
      return MPI_UINT8_T;
    case DType::int32:
      return MPI_INT32_T;
    case DType::int64:
      return MPI_INT64_T;
    case DType::float32:
      return MPI_FLOAT;
    default:
      return MPI_DOUBLE;
  }
}

// MPI leaves open what the extreme of a NaN and a number is; here it is the NaN, as everywhere in the library.

template <class T, bool is_max>
void extreme_of(const void* from, void* to, int count) {
  const T* a = static_cast<const T*>(from);
  T* b = static_cast<T*>(to);
  for (int i = 0; i < count; ++i) {
    const bool first = (is_max ? a[i] > b[i] : a[i] < b[i]) || a[i] != a[i];
    if (first) b[i] = a[i];
  }
}

template <bool is_max>
void float_extreme(void* from, void* to, int* count, MPI_Datatype* type) {
  *type == MPI_FLOAT ? extreme_of<float, is_max>(from, to, *count) : extreme_of<double, is_max>(from, to, *count);
}

template <bool is_max>
MPI_Op float_extreme_op() {
  static MPI_Op op = [] {
    MPI_Op made;
    MPI_Op_create(float_extreme<is_max>, 1, &made);
    return made;
  }();
  return op;
}

MPI_Op op_of(Reduce reduce, DType dtype) {
  const bool is_bool = dtype == boolean, is_float = is_floating(dtype);
  switch (reduce) {
    case Reduce::min:
      return is_bool ? MPI_LAND : is_float ? float_extreme_op<false>() : MPI_MIN;
    case Reduce::max:
      return is_bool ? MPI_LOR : is_float ? float_extreme_op<true>() : MPI_MAX;
    case Reduce::product:
      return is_bool ? MPI_LAND : MPI_PROD;
    default:
      return MPI_SUM;
  }
}

int rank_of(MPI_Comm ranks) {
  int rank = 0;
  MPI_Comm_rank(ranks, &rank);
  return rank;
}

int size_of(MPI_Comm ranks) {
  int size = 0;
  MPI_Comm_size(ranks, &size);
  return size;
}

using detail::join;
using tapestry::size_of;

const Exchange end_of_program{.kind = Exchange::Kind::end, .name = "the end of the program"};

class MpiCollectives final : public Collectives {
 public:
  /// Takes over the MPI communicator.
  MpiCollectives(MPI_Comm ranks, int its_local_rank)
      : Collectives(rank_of(ranks), size_of(ranks), its_local_rank), ranks_(ranks) {
    MPI_Comm_set_errhandler(ranks_, MPI_ERRORS_RETURN);
  }
  ~MpiCollectives() override {
    int ended = 0;
    MPI_Finalized(&ended);
    if (!ended && !failed_) MPI_Comm_free(&ranks_);
  }

  int agree(const Exchange& exchange) override { return meet(exchange).not_by_device; }

  void run(const Exchange& exchange) override {
    while (meet(exchange).any_by_device) {
    }
    switch (exchange.kind) {
      case Exchange::Kind::all_reduce:
        return all_reduce(exchange);
      case Exchange::Kind::broadcast:
        return broadcast(exchange);
      case Exchange::Kind::all_gather:
        return all_gather(exchange);
      case Exchange::Kind::reduce_scatter:
        return reduce_scatter(exchange);
      default:
        return;  // nothing is exchanged: the ranks had only to agree
    }
  }

  CommunicatorRef split(int color, Where where) override {
    meet({.kind = Exchange::Kind::split, .name = "split", .where = where});
    MPI_Comm part = MPI_COMM_NULL;
    check(MPI_Comm_split(ranks_, color, rank, &part));
    return made_of(part);
  }

  CommunicatorRef shrink(Where) override {
    if (!MPIX_Comm_shrink)
      throw UnimplementedError(
          "This MPI library cannot go on without a process that has ended: it has no "
          "MPIX_Comm_shrink");
    MPI_Comm left = MPI_COMM_NULL;
    check(MPIX_Comm_shrink(ranks_, &left));
    return made_of(left);
  }

  bool leave() override { return false; }

  /// Ends MPI once all processes have come here. Others that still call a collective get an error meanwhile.
  void finish() {
    for (bool all = false; !all;) {
      try {
        run(end_of_program);
        all = true;
      } catch (const AbortedError&) {
        if (failed_) return;
      }
    }
    MPI_Finalize();
  }

  static CommunicatorRef made_of(MPI_Comm ranks) {
    MPI_Comm near = MPI_COMM_NULL;
    MPI_Comm_split_type(ranks, MPI_COMM_TYPE_SHARED, rank_of(ranks), MPI_INFO_NULL, &near);
    const int local_rank = rank_of(near);
    MPI_Comm_free(&near);
    return std::make_shared<MpiCollectives>(ranks, local_rank);
  }

 private:
  void check(int code) {
    if (code == MPI_SUCCESS) return;
    failed_ = true;
    if (MPIX_Comm_revoke) MPIX_Comm_revoke(ranks_);  // wakes those who wait for a process that has ended
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    throw AbortedError(join("MPI: ", std::string(text.data(), static_cast<std::size_t>(length))));
  }

  struct Meeting {
    int not_by_device;  ///< a rank that is not, -1 if all are
    bool any_by_device;
  };

  /// Throws on all ranks unless all call the same.
  Meeting meet(const Exchange& exchange) {
    const std::uint64_t own = exchange.signature();
    const bool by_device = exchange.by_device;
    const std::array<std::uint64_t, 4> numbers{own, ~own, by_device ? 0 : static_cast<std::uint64_t>(rank) + 1,
                                               by_device};
    std::array<std::uint64_t, 4> largest{};
    check(MPI_Allreduce(numbers.data(), largest.data(), 4, MPI_UINT64_T, MPI_MAX, ranks_));
    if (largest[0] == ~largest[1]) return {static_cast<int>(largest[2]) - 1, largest[3] != 0};
    constexpr std::size_t room = 400;
    std::array<char, room> text{};
    const std::string call = to_string(exchange);
    std::memcpy(text.data(), call.data(), std::min(call.size(), room - 1));
    std::vector<char> texts(room * static_cast<std::size_t>(size));
    check(MPI_Allgather(text.data(), room, MPI_CHAR, texts.data(), room, MPI_CHAR, ranks_));
    std::vector<std::string> calls;
    for (std::size_t i = 0; i < texts.size(); i += room) calls.emplace_back(&texts[i]);
    const std::string end = to_string(end_of_program);
    const auto ended = std::find(calls.begin(), calls.end(), end);
    if (ended != calls.end()) throw AbortedError(join("Rank ", ended - calls.begin(), " has ended its program"));
    throw InvalidArgumentError(unequal(calls));
  }

  void all_reduce(const Exchange& exchange) {
    const DType dtype = exchange.input.dtype();
    in_parts(exchange.input.size(), [&](std::int64_t begin, int count) {
      check(MPI_Allreduce(bytes_at(exchange.input, begin), bytes_at(exchange.output, begin), count, type_of(dtype),
                          op_of(exchange.reduce, dtype), ranks_));
    });
  }

  /// Sends the elements of the root to all.
  void send_from(int root, std::byte* elements, std::int64_t bytes) {
    in_parts(bytes,
             [&](std::int64_t begin, int count) { check(MPI_Bcast(elements + begin, count, MPI_BYTE, root, ranks_)); });
  }

  void broadcast(const Exchange& exchange) {
    const std::size_t bytes = nbytes(exchange.input);
    if (rank == exchange.root && bytes > 0) std::memcpy(exchange.output.impl().data, exchange.input.impl().data, bytes);
    send_from(exchange.root, bytes_at(exchange.output, 0), static_cast<std::int64_t>(bytes));
  }

  void all_gather(const Exchange& exchange) {
    const auto count = static_cast<std::int64_t>(exchange.input.size());
    const std::int64_t bytes = count * static_cast<std::int64_t>(size_of(exchange.input.dtype()));
    if (bytes == 0) return;
    if (bytes <= INT_MAX) {
      const auto length = static_cast<int>(bytes);
      check(MPI_Allgather(bytes_at(exchange.input, 0), length, MPI_BYTE, bytes_at(exchange.output, 0), length, MPI_BYTE,
                          ranks_));
      return;
    }
    std::memcpy(bytes_at(exchange.output, rank * count), exchange.input.impl().data, static_cast<std::size_t>(bytes));
    for (int root = 0; root < size; ++root) send_from(root, bytes_at(exchange.output, root * count), bytes);
  }

  void reduce_scatter(const Exchange& exchange) {
    const auto count = static_cast<std::int64_t>(exchange.output.size());
    if (count == 0) return;
    const DType dtype = exchange.input.dtype();
    MPI_Datatype type = type_of(dtype);
    MPI_Op op = op_of(exchange.reduce, dtype);
    if (count <= INT_MAX) {
      check(MPI_Reduce_scatter_block(bytes_at(exchange.input, 0), bytes_at(exchange.output, 0), static_cast<int>(count),
                                     type, op, ranks_));
      return;
    }
    for (int root = 0; root < size; ++root)
      in_parts(count, [&](std::int64_t begin, int part) {
        check(MPI_Reduce(bytes_at(exchange.input, root * count + begin), bytes_at(exchange.output, begin), part, type,
                         op, root, ranks_));
      });
  }

  MPI_Comm ranks_;
  bool failed_ = false;
};

/// Makes sure that the process ends together with the others. One that ends with an error does not end MPI: mpirun sees
/// that, and ends the others.
void finish_at_exit(int status, void* world) {
  int ended = 0;
  MPI_Finalized(&ended);
  if (status == 0 && !ended) static_cast<MpiCollectives*>(world)->finish();
}

CommunicatorRef open_world() {
  int is_open = 0, provided = 0;
  MPI_Initialized(&is_open);
  if (is_open)
    MPI_Query_thread(&provided);
  else if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
    throw UnavailableError("MPI cannot be initialized");
  if (provided < MPI_THREAD_MULTIPLE)
    throw UnavailableError("MPI was opened without MPI_THREAD_MULTIPLE, which the thread that reduces gradients needs");
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  CommunicatorRef world = MpiCollectives::made_of(own);
  if (!is_open) on_exit(finish_at_exit, world.get());
  return world;
}

}  // namespace
}  // namespace tapestry::detail

extern "C" {
TAPESTRY_API extern const tapestry::detail::MpiPlugin tapestry_mpi_plugin;
const tapestry::detail::MpiPlugin tapestry_mpi_plugin{
    .bytes = sizeof(tapestry::detail::MpiPlugin),
    .layout = tapestry::detail::mpi_layout,
    .version = TAPESTRY_VERSION,
    .library = &tapestry::library_mark,
    .world = tapestry::detail::open_world,
};
}

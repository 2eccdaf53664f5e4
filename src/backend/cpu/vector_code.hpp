#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <vector>

namespace tapestry::host {

/// What the lanes of a vector hold: numbers of 32 or 64 bits, which are floats or whole numbers as the operations take
/// them, or truth values. A mask belongs to lanes of its width; AVX-512 keeps it in a register of its own, AVX2 in a
/// vector whose lanes are all ones or all zeros.
enum class Lane : std::uint8_t { bits32, bits64, mask32, mask64 };
constexpr bool is_mask(Lane lane) { return lane == Lane::mask32 || lane == Lane::mask64; }
constexpr Lane mask_of(Lane lane) { return lane == Lane::bits64 || lane == Lane::mask64 ? Lane::mask64 : Lane::mask32; }

/// How the lanes of a vector lie in memory: as they are (a truth value is a byte), as 16-bit floats, or as bytes.
enum class Stored : std::uint8_t { plain, float16, bfloat16, byte };

/// The operations on vectors that the code of a program consists of. Each stands for one or two instructions.
enum class VectorOp : std::uint8_t {
  constant,  ///< `bits` in every lane
  input,     ///< operand number `bits` of the program, which is `Stored` as `detail` says
  add,
  subtract,
  multiply,
  divide,
  multiply_add,      ///< a b + c, rounded once
  subtract_product,  ///< c - a b, rounded once
  square_root,
  round,  ///< by `detail`: 0 to the nearest even, 1 down, 2 up
  bit_and,
  bit_or,
  bit_xor,
  invert,    ///< of a mask; AVX-512 only
  add_bits,  ///< as whole numbers, which wrap
  subtract_bits,
  multiply_bits,    ///< the low half of the product; of 64 bits with AVX-512 only
  multiply_halves,  ///< the product of the low halves of 64 bits
  shift_left,       ///< by `detail`
  shift_right,
  compare,        ///< by the predicate `detail` of vcmpps
  compare_bits,   ///< as signed numbers, by the predicate `detail` of vpcmpd; AVX2 has `equal_bits` and `greater_bits`
  select,         ///< where the mask a is set b, elsewhere c
  widen,          ///< float32 to float64
  narrow,         ///< float64 to float32
  widen_bits,     ///< a signed number of 32 bits to 64
  narrow_bits,    ///< the low half of 64 bits
  whole_to_real,  ///< a signed number to a float, between lanes of any width; AVX2 takes 32 bits only
  real_to_whole,  ///< towards zero, likewise; out of range the result has the highest bit only
  round_to_float16,  ///< float32 to the nearest float16, which is a float32 again
  resize_mask,       ///< to lanes of the other width
  limit,             ///< a, or b where its magnitude is smaller or a is NaN; AVX-512 only
  scale,             ///< a 2^b for a whole b, rounded once; AVX-512 only
  copy_sign,         ///< a with the sign of b, where c has the sign bit only; AVX-512 only
  copy,              ///< a, in a register of its own
  look_up,           ///< element a of the table that is operand `bits` of a loop, `Stored` as `detail` says
  element,           ///< the lane `bits` of a, in all lanes, in loops only; `detail` as that of an input
  call,              ///< what the kernel number `bits` of the code computes, in loops only
};

/// The loop over contiguous elements of a function that has no vector code. The code of loops calls it, for the few
/// elements of a value in memory.
struct KernelCall {
  void (*kernel)() = nullptr;  ///< a BinaryRow if there are two operands; otherwise a UnaryRow, or one without number
  int operands = 1;
  bool reduces = false;          ///< whether there is one result for all elements
  std::array<Stored, 2> from{};  ///< how operands lie in memory
  Stored to = Stored::plain;     ///< and the result
  double number = 0;
};

/// Predicates of `compare_bits`.
/// @{
constexpr std::uint8_t equal_bits = 0, less_bits = 1, less_equal_bits = 2, unequal_bits = 4, greater_equal_bits = 5,
                       greater_bits = 6;
/// @}

/// Straight-line code on vectors, in single assignment: each node is computed from nodes before it. An operation that
/// is there already is not added a second time.
class VectorCode {
 public:
  struct Node {
    VectorOp op;
    Lane lane;
    std::uint8_t detail = 0;
    std::array<int, 3> operands{-1, -1, -1};
    std::uint64_t bits = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 in the operator that it makes for a pointer
    friend auto operator<=>(const Node&, const Node&) = default;
  };

  explicit VectorCode(bool avx512) : avx512_(avx512) {}
  /// Whether the code is for AVX-512, or for AVX2.
  bool avx512() const { return avx512_; }

  int add(const Node& node);
  const std::vector<Node>& nodes() const { return nodes_; }
  Lane lane(int node) const { return nodes_[node].lane; }

  /// Says that a function has no vector code, so that there is none for the program, unless a kernel is called for it.
  void give_up() { complete_ = false; }
  bool is_complete() const { return complete_; }
  /// Adds a call of a kernel, in place of the function for which the code gave up.
  int add(const KernelCall& call, Lane lane, const std::array<int, 3>& operands) {
    complete_ = true;
    calls_.push_back(call);
    return add({VectorOp::call, lane, static_cast<std::uint8_t>(call.to), operands, calls_.size() - 1});
  }
  const std::vector<KernelCall>& calls() const { return calls_; }

 private:
  bool avx512_, complete_ = true;
  std::vector<Node> nodes_;
  std::vector<KernelCall> calls_;
  std::map<Node, int> known_;
};

}  // namespace tapestry::host

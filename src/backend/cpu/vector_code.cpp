#include "backend/cpu/vector_code.hpp"

namespace tapestry::host {
namespace {

constexpr std::uint64_t sign_bit(Lane lane) { return lane == Lane::bits64 ? std::uint64_t{1} << 63 : 0x80000000U; }

}  // namespace

int VectorCode::add(const Node& node) {
  const auto at = [this](int i) -> const Node& { return nodes_[i]; };
  if (node.op == VectorOp::multiply_add) {
    // The sign of a factor costs nothing in an instruction that subtracts the product.
    const Node& factor = at(node.operands[0]);
    if (factor.op == VectorOp::bit_xor && at(factor.operands[1]).op == VectorOp::constant &&
        at(factor.operands[1]).bits == sign_bit(node.lane)) {
      Node other = node;
      other.op = VectorOp::subtract_product;
      other.operands[0] = factor.operands[0];
      return add(other);
    }
  }
  const auto [found, is_new] = known_.try_emplace(node, static_cast<int>(nodes_.size()));
  if (is_new) nodes_.push_back(node);
  return found->second;
}

}  // namespace tapestry::host

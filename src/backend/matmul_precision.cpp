#include "backend/matmul_precision.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>

#include "tapestry/device.hpp"

namespace tapestry {
namespace {

constexpr std::string_view words[] = {"highest", "high", "medium"};

MatmulPrecision precision_of(std::string_view word, std::string_view name, Where where) {
  const auto* const found = std::find(std::begin(words), std::end(words), word);
  if (found == std::end(words))
    throw InvalidArgumentError(
        detail::join(name, " must be \"highest\", \"high\" or \"medium\", but is \"", word, "\""), where);
  return static_cast<MatmulPrecision>(found - std::begin(words));
}

std::atomic<MatmulPrecision>& setting() {
  static std::atomic<MatmulPrecision> current = [] {
    const char* word = std::getenv("TAPESTRY_MATMUL_PRECISION");
    return precision_of(word ? word : words[0], "The environment variable TAPESTRY_MATMUL_PRECISION", {});
  }();
  return current;
}

}  // namespace

MatmulPrecision current_matmul_precision() { return setting().load(std::memory_order_relaxed); }

void set_matmul_precision(std::string_view precision, Where where) {
  setting() = precision_of(precision, "The precision of products", where);
}
std::string matmul_precision() { return std::string(words[static_cast<std::size_t>(current_matmul_precision())]); }

}  // namespace tapestry

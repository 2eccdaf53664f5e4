#include "distributed/collectives.hpp"

#include "distributed/background.hpp"
#include "distributed/carrier.hpp"

namespace tapestry {

std::string to_string(Reduce reduce) {
  constexpr const char* names[] = {"sum", "mean", "min", "max", "product"};
  return names[static_cast<std::size_t>(reduce)];
}

namespace detail {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15U + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdU;
  return hash ^ hash >> 33;
}

DType dtype_of(const Exchange& exchange) {
  return exchange.given == DType::unknown ? exchange.input.dtype() : exchange.given;
}

}  // namespace

std::uint64_t Exchange::signature() const {
  std::uint64_t hash = mix(layout, static_cast<std::uint64_t>(kind));
  hash = mix(hash, static_cast<std::uint64_t>(reduce));
  hash = mix(hash, static_cast<std::uint64_t>(root));
  for (const char each : settings) hash = mix(hash, static_cast<unsigned char>(each));
  if (!input) return hash;
  hash = mix(hash, static_cast<std::uint64_t>(dtype_of(*this)));
  for (const std::int64_t each : input.shape().sizes()) hash = mix(hash, static_cast<std::uint64_t>(each));
  return mix(hash, static_cast<std::uint64_t>(input.rank()));
}

std::string to_string(const Exchange& exchange) {
  std::string text(exchange.name);
  if (exchange.kind == Exchange::Kind::all_reduce || exchange.kind == Exchange::Kind::reduce_scatter)
    text += "(" + to_string(exchange.reduce) + ")";
  if (exchange.kind == Exchange::Kind::broadcast) text += "(root " + std::to_string(exchange.root) + ")";
  if (exchange.input) text += join(" of ", to_string(dtype_of(exchange)), exchange.input.shape());
  if (exchange.layout != 0) text += join(" in layout ", exchange.layout % 10000);
  if (!exchange.settings.empty()) text += " for " + exchange.settings;
  if (exchange.where) text += " at " + to_string(exchange.where);
  return text;
}

Collectives::Collectives(int its_rank, int ranks, int its_local_rank)
    : rank(its_rank), size(ranks), local_rank(its_local_rank), carrier_(std::make_unique<Carrier>(*this)) {}
Collectives::~Collectives() = default;

Background& Collectives::background(Where where) {
  const std::lock_guard lock(mutex_);
  if (!background_) background_ = std::make_unique<Background>(split(0, where));
  return *background_;
}

std::string unequal(const std::vector<std::string>& calls) {
  std::string text = "The ranks call different collectives:";
  for (std::size_t i = 0; i < calls.size(); ++i) text += join(i == 0 ? " rank " : ", rank ", i, " ", calls[i]);
  return text;
}

}  // namespace detail
}  // namespace tapestry

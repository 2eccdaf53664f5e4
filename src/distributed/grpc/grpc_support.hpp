#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#ifdef TAPESTRY_HAS_ABSL
#include <absl/synchronization/mutex.h>
#endif
#include <grpcpp/grpcpp.h>
#if __has_include(<grpc/support/log.h>)
#include <grpc/support/log.h>
#endif

#include "core/make_tensor.hpp"
#include "distributed/rpc/transport.hpp"
#include "tapestry/error.hpp"

/// What gRPC's two sides share.

namespace tapestry::detail {

/// The pieces as gRPC's own. Short ones are copied, which costs less than to keep them; the others are not, and live as
/// long as gRPC needs them.
inline grpc::ByteBuffer buffer_of(Pieces pieces) {
  constexpr std::size_t most_copied = 16384;
  if (pieces.list().size() == 1 && pieces.size() <= most_copied) {
    const grpc::Slice copy(pieces.list().front().view().data(), pieces.size());
    return {&copy, 1};
  }
  using Owner = std::shared_ptr<const Pieces>;
  const Owner owner = std::make_shared<Pieces>(std::move(pieces));
  std::vector<grpc::Slice> slices;
  for (const Pieces::Piece& each : owner->list()) {
    const std::string_view bytes = each.view();
    slices.emplace_back(
        const_cast<char*>(bytes.data()), bytes.size(), [](void* user) { delete static_cast<Owner*>(user); },
        new Owner(owner));
  }
  return {slices.data(), slices.size()};
}

/// The bytes of a message that has arrived. Those of several slices are copied to memory of the pool, which the system
/// need not map anew for each large tensor.
inline Reply reply_of(const grpc::ByteBuffer& buffer) {
  const auto text_of = [](const auto* bytes, std::size_t size) {
    return std::string_view(reinterpret_cast<const char*>(bytes), size);
  };
  const auto slice = std::make_shared<grpc::Slice>();
  if (buffer.TrySingleSlice(slice.get()).ok()) return {text_of(slice->begin(), slice->size()), slice};
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) throw DataLossError("A message cannot be read");
  const auto memory = std::make_shared<Tensor>(make_tensor(uint8, {static_cast<std::int64_t>(buffer.Length())}, cpu()));
  auto* next = mutable_data<std::uint8_t>(*memory);
  for (const grpc::Slice& each : slices) next = std::copy(each.begin(), each.end(), next);
  return {text_of(memory->impl().data, buffer.Length()), memory};
}

/// After how many milliseconds without an answer one side asks whether the other is there; half as many later it is
/// taken for gone. TAPESTRY_KEEPALIVE_MS sets it, for networks in which half a minute is too long. Throws
/// InvalidArgumentError unless that is a number from 1 on.
inline int keepalive_ms() {
  constexpr int usual = 20'000, least = 100;
  const char* given = std::getenv("TAPESTRY_KEEPALIVE_MS");
  if (!given || !*given) return usual;
  const std::string_view text = given;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1)
    throw InvalidArgumentError(
        join("The environment variable TAPESTRY_KEEPALIVE_MS must be a number from 1 on, but is \"", text, "\""));
  return std::max(number, least);
}

/// Errors are thrown, not written to the terminal, unless the user asks for gRPC's log. And gRPC's locks do not look
/// for cycles of those who wait, which Debian's do at each lock: that takes a tenth of a call's time.
inline void prepare_grpc() {
  static const bool is_prepared = [] {
#if __has_include(<grpc/support/log.h>)
    if (!std::getenv("GRPC_VERBOSITY")) gpr_set_log_function([](gpr_log_func_args*) {});
#endif
#ifdef TAPESTRY_HAS_ABSL
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
#endif
    return true;
  }();
  static_cast<void>(is_prepared);
}

}  // namespace tapestry::detail

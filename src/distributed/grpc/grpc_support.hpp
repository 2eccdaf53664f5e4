#pragma once

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <grpcpp/grpcpp.h>
#if __has_include(<grpc/support/log.h>)
#include <grpc/support/log.h>
#endif

#include "distributed/rpc/transport.hpp"
#include "tapestry/error.hpp"

/// What gRPC's two sides share.

namespace tapestry::detail {

/// The pieces as gRPC's own, without a copy. They live as long as gRPC needs them.
inline grpc::ByteBuffer buffer_of(Pieces pieces) {
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

inline Reply reply_of(const grpc::ByteBuffer& buffer) {
  const auto slice = std::make_shared<grpc::Slice>();
  if (!buffer.DumpToSingleSlice(slice.get()).ok()) throw DataLossError("A message cannot be read");
  return {{reinterpret_cast<const char*>(slice->begin()), slice->size()}, slice};
}

/// After how many milliseconds without an answer one side asks whether the other is there; half as many later it is
/// taken for gone. TAPESTRY_KEEPALIVE_MS sets it, for networks in which half a minute is too long.
inline int keepalive_ms() {
  constexpr int usual = 20'000, least = 100;
  const char* text = std::getenv("TAPESTRY_KEEPALIVE_MS");
  return text ? std::max(std::atoi(text), least) : usual;
}

/// Errors are thrown, not written to the terminal, unless the user asks for gRPC's log.
inline void silence_grpc() {
#if __has_include(<grpc/support/log.h>)
  static const bool is_silent = [] {
    if (!std::getenv("GRPC_VERBOSITY")) gpr_set_log_function([](gpr_log_func_args*) {});
    return true;
  }();
  static_cast<void>(is_silent);
#endif
}

}  // namespace tapestry::detail

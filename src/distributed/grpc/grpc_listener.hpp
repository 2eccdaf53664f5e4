#pragma once

#include <chrono>

#include "distributed/rpc/transport.hpp"
#include "tapestry/error.hpp"

/// A server for gRPC's calls of one request and one reply. Messages are bytes here: gRPC's generic interface needs
/// neither protobuf nor generated code.

namespace tapestry::detail {

/// A request, with what gRPC tells of it.
struct GrpcCall {
  std::string_view method;                         ///< "/tensorflow.MasterService/RunStep"
  std::string_view request;                        ///< the bytes of the message
  std::chrono::system_clock::time_point deadline;  ///< of the client; far in the future if it has none
  std::stop_token stop;                            ///< as that of a RequestHandler
};

/// Returns the reply, or throws the error that the client gets.
using GrpcHandler = std::function<Pieces(const GrpcCall& call)>;

/// What a side of an encrypted connection shows, and what it asks for; texts in PEM. All are empty where nothing is
/// encrypted.
struct TlsKeys {
  std::string certificate{}, key{};  ///< its own; a client may have none
  std::string authority{};           ///< who signs the other side's certificates; "": a server asks for none

  explicit operator bool() const { return !certificate.empty() || !key.empty() || !authority.empty(); }
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 in the operator that it makes for a pointer
  friend auto operator<=>(const TlsKeys&, const TlsKeys&) = default;
};

/// Throws InvalidArgumentError unless the text has something of that kind in PEM, "CERTIFICATE" or "PRIVATE KEY". gRPC
/// takes an empty text for a setting that was not made: it would ask nobody for a certificate.
inline void require_pem(std::string_view text, std::string_view kind, std::string_view name) {
  const std::size_t begin = text.find("-----BEGIN ");
  if (begin == std::string_view::npos || text.find(join(kind, "-----"), begin) == std::string_view::npos)
    throw InvalidArgumentError(join(name, " has no ", kind, " in PEM"));
}

struct GrpcListenOptions {
  ListenOptions address{};
  TlsKeys tls{};
  std::int64_t calls_at_once = 0;      ///< further ones are refused with ResourceExhausted; 0: any number
  std::chrono::milliseconds grace{0};  ///< how long `stop` lets running calls go on before it cancels them
  /// Whether who sends this value of the header "authorization" may call the method; others are refused as
  /// Unauthenticated, and their messages are not read. Empty: anyone may.
  std::function<bool(std::string_view method, std::string_view authorization)> is_allowed{};
};

/// Throws UnavailableError if the port is in use, or if the certificate cannot be used.
std::unique_ptr<Listener> listen_by_grpc(const GrpcListenOptions& options, GrpcHandler handler);

}  // namespace tapestry::detail

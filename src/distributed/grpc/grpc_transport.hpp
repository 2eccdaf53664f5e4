#pragma once

#include "distributed/grpc/grpc_listener.hpp"
#include "distributed/rpc/transport.hpp"
#include "tapestry/distributed/tls.hpp"

namespace tapestry::detail {

/// Over TCP, by gRPC; with keys, encrypted, where both sides have certificates.
Transport& grpc_transport(const TlsKeys& keys = {});

/// Reads the files. Throws InvalidArgumentError where one is not named or has nothing of what it is for, and
/// NotFoundError for one that cannot be read.
TlsKeys read_keys(const Tls& files);

}  // namespace tapestry::detail

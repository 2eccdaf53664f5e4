#pragma once

#include "distributed/rpc/transport.hpp"

namespace tapestry::detail {

/// Over TCP, by gRPC.
Transport& grpc_transport();

}  // namespace tapestry::detail

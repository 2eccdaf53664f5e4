// In place of grpc_server.cpp where gRPC was not found.

#include "serve/grpc_server.hpp"

namespace tapestry::serve {

class GrpcServer::Impl {};

GrpcServer::GrpcServer(ModelStore& /*models*/, Metrics& /*metrics*/, const GrpcOptions& /*options*/) {
  throw UnavailableError("This program was built without gRPC, so that it cannot listen at --port");
}
GrpcServer::~GrpcServer() = default;

int GrpcServer::port() const { return 0; }
void GrpcServer::stop() {}

}  // namespace tapestry::serve

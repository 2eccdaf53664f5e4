#include "distributed/rpc/transport.hpp"
#include "tapestry/error.hpp"

namespace tapestry::detail {

void throw_status(std::int64_t code, const std::string& message) {
  switch (static_cast<Code>(code)) {
#define TAPESTRY_STATUS(name, Class) \
  case Code::name:                   \
    throw Class(message)
    TAPESTRY_STATUS(cancelled, CancelledError);
    TAPESTRY_STATUS(invalid_argument, InvalidArgumentError);
    TAPESTRY_STATUS(deadline_exceeded, DeadlineExceededError);
    TAPESTRY_STATUS(not_found, NotFoundError);
    TAPESTRY_STATUS(resource_exhausted, ResourceExhaustedError);
    TAPESTRY_STATUS(failed_precondition, FailedPreconditionError);
    TAPESTRY_STATUS(aborted, AbortedError);
    TAPESTRY_STATUS(out_of_range, OutOfRangeError);
    TAPESTRY_STATUS(unimplemented, UnimplementedError);
    TAPESTRY_STATUS(internal, InternalError);
    TAPESTRY_STATUS(unavailable, UnavailableError);
    TAPESTRY_STATUS(data_loss, DataLossError);
#undef TAPESTRY_STATUS
    case Code::lookup:
      break;
  }
  // The library has no classes for these, nor reasons to throw them.
  constexpr std::int64_t already_exists = 6, permission_denied = 7, unauthenticated = 16;
  if (code == already_exists) throw InvalidArgumentError("Already exists: " + message);
  if (code == permission_denied) throw FailedPreconditionError("Permission denied: " + message);
  if (code == unauthenticated) throw FailedPreconditionError("Not authenticated: " + message);
  throw InternalError(join("Status ", code, ": ", message));
}

}  // namespace tapestry::detail

#pragma once

#include "tapestry/distributed/cluster.hpp"

namespace tapestry::detail {

/// `ClusterSpec::from_environment` and `from_arguments`. The errors lack the call site.
ClusterSpec cluster_of_environment();
ClusterSpec cluster_of_arguments(int argc, const char* const* argv);

}  // namespace tapestry::detail

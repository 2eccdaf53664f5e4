#pragma once

#include "tapestry/distributed/communicator.hpp"

namespace tapestry::detail {

/// How many processes mpirun or srun has started together with this one, by the environment: 1 if none has, -1 if one
/// has, but does not tell how many.
int launched_processes();

/// All of these processes. Throws UnavailableError if there is no MPI, or if it finds another number of processes.
CommunicatorRef open_mpi(int launched);

}  // namespace tapestry::detail

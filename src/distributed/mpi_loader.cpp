#include "distributed/mpi_loader.hpp"

#include <charconv>

#include "distributed/mpi_plugin.hpp"

namespace tapestry::detail {
namespace {

/// The number in an environment variable; 0 if there is none.
int number_in(const char* variable) {
  const std::string text = environment(variable);
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

[[noreturn]] void refuse(int launched, const std::string& reason) {
  throw UnavailableError(join("This process is one of ", launched > 0 ? std::to_string(launched) : "several",
                              " that were started together, but cannot reach the others: ", reason));
}

}  // namespace

int launched_processes() {
  // Open MPI's mpirun, MPICH's, and srun. A batch script of SLURM has variables of srun, too, but is no step.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const int size = number_in(variable); size > 0) return size;
  if (const int tasks = number_in("SLURM_STEP_NUM_TASKS"); tasks > 0 && !environment("SLURM_STEP_ID").empty())
    return tasks;
  return environment("PMIX_RANK").empty() ? 1 : -1;
}

CommunicatorRef open_mpi(int launched) {
  const auto [plugin, reason] = find_plugin<MpiPlugin>({.file = "libtapestry_mpi.so",
                                                        .what = "MPI",
                                                        .variable = "TAPESTRY_MPI_PLUGIN",
                                                        .path = environment("TAPESTRY_MPI_PLUGIN")},
                                                       mpi_plugin_symbol, mpi_layout, TAPESTRY_VERSION);
  if (!plugin) refuse(launched, reason);
  CommunicatorRef world = plugin->world();
  if (launched > 0 && world->size != launched)
    refuse(launched, join("MPI finds ", world->size,
                          " (was the program started by another MPI's mpirun, or by srun without --mpi=pmix?)"));
  return world;
}

}  // namespace tapestry::detail

// Ranks that do not end together, each in the way that the argument names:
//   throws   rank 1 ends with an error, while the others wait for it
//   returns  rank 1 returns from main early
//   caught   the same, and the others catch their errors and return from main, too
// The others must not hang.

#include <iostream>
#include <string>

#include "tapestry/tapestry.hpp"

int main(int, char** arguments) {
  const std::string way = arguments[1];
  const auto world = tp::Communicator::world();
  world.barrier();
  if (world.rank() == 1) return way == "throws" ? 3 : 0;
  try {
    for (;;) world.all_reduce(tp::zeros({3}));
  } catch (const tp::AbortedError& error) {
    std::cout << "rank " << world.rank() << ": " << error.message() << std::endl;
    return way == "caught" ? 0 : 4;
  }
}

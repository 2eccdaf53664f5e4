#include "fuzz/mutants.hpp"

namespace tapestry::test {

std::vector<std::pair<Mutants, std::uint64_t>> all_mutants() {
  return {{graph_mutants(), 600},        {checkpoint_mutants(), 200}, {npz_mutants(), 2000},
          {safetensors_mutants(), 2000}, {bundle_mutants(), 2000},    {record_mutants(), 2000},
          {saved_model_mutants(), 200},  {event_mutants(), 1000},     {graph_text_mutants(), 500},
          {onnx_mutants(), 600},         {pytorch_mutants(), 2000}};
}

}  // namespace tapestry::test

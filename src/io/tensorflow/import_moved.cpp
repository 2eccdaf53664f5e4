// Nodes of the file that are in a branch now, by their names: what they compute becomes an output of the branch.

#include <cstdlib>
#include <optional>

#include "dispatch/recorder.hpp"
#include "graph/flow/flow_ops.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/importer.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::io {
namespace {

/// Throws UnimplementedError if the tensors need a node that was not read: as outputs of their function they would keep
/// it from running.
void require_readable(detail::GraphFunction function, const Tensors& tensors) {
  function.outputs = tensors;
  function.operations.clear();
  Specs inputs;
  for (const Tensor& each : function.inputs) inputs.push_back(each ? each.spec() : Spec());
  const PauseRecording pause;
  const ExecuteNow now;
  detail::specialize(*function.graph, detail::request_for(function, inputs));
}

/// The number of the output that is this tensor if the function runs, and nothing if another one does.
std::optional<std::size_t> output_of(const std::vector<detail::GraphFunction>& functions, std::size_t function,
                                     const Tensor& tensor) {
  for (std::size_t k = 0; k < functions[function].outputs.size(); ++k) {
    std::size_t given = 0;
    for (const detail::GraphFunction& each : functions) given += each.outputs[k] ? 1 : 0;
    const Tensor& own = functions[function].outputs[k];
    if (bool(own) && own.is(tensor) && given == 1) return k;
  }
  return {};
}

}  // namespace

bool Importer::is_moved(std::string_view name) const { return moved_ && moved_->contains(std::string(name)); }

Entry* Importer::entry_around(const std::string& name) {
  auto outer = moved_->find(name);
  for (; outer != moved_->end(); outer = moved_->find(outer->second)) {
    if (outer->second.empty())
      throw UnimplementedError(detail::join("'", name,
                                            "' only passes on a tensor to a branch; fetch or feed that tensor, or what "
                                            "the branch makes of it"));
    Entry* entry = file_.find(outer->second);
    if (!entry) continue;
    if (!entry->def->flow || entry->def->flow->is_loop)
      throw UnimplementedError(detail::join("'", name, "' is in the loop '", outer->second,
                                            "', each of whose iterations has another value of it; fetch what the loop "
                                            "gives"));
    return entry;
  }
  return nullptr;
}

const Importer::Moved* Importer::find_passed_on(const std::string& name, std::size_t output) {
  auto same = moved_->find(detail::join(name, ":", output));
  if (same == moved_->end()) return nullptr;
  std::string tensor;
  for (std::size_t steps = 0; same != moved_->end() && steps <= moved_->size(); ++steps) {
    tensor = same->second.find(':') == std::string::npos ? same->second + ":0" : same->second;
    same = moved_->find(tensor);
  }
  const std::size_t colon = tensor.rfind(':');
  const auto number = static_cast<std::size_t>(std::atoll(&tensor[colon + 1]));
  const Tensors* found = outputs(std::string_view(tensor).substr(0, colon), number);
  if (!found || number >= found->size()) return nullptr;
  Moved& passed_on = passed_on_[name];
  if (passed_on.outputs.size() <= output) passed_on.outputs.resize(output + 1);
  passed_on.outputs[output] = (*found)[number];
  passed_on.node = &detail::producer_of(passed_on.outputs[output]);
  return &passed_on;
}

const Importer::Moved* Importer::find_moved(std::string_view name, std::size_t wanted) {
  if (!is_moved(name)) return nullptr;
  const std::string key(name);
  if (const Moved* passed_on = find_passed_on(key, wanted)) return passed_on;
  const auto known = known_moved_.find(key);
  if (known != known_moved_.end() && wanted < known->second.outputs.size()) return &known->second;
  Entry* around = entry_around(key);
  if (!around) return nullptr;
  add_missing(*around);
  if (!around->node || !detail::is_flow(around->node->op())) return nullptr;
  const FunctionsRef functions = around->node->attr<FunctionsRef>("functions");
  for (std::size_t b = 0; b < functions->size(); ++b) {
    const detail::GraphFunction& function = (*functions)[b];
    const std::lock_guard lock(function.graph->mutex());
    const Tensors* inside = function.graph->file ? function.graph->file->outputs(name, wanted) : nullptr;
    if (!inside) continue;
    if (known != known_moved_.end() && inside->size() <= known->second.outputs.size()) return &known->second;
    return &known_moved_.insert_or_assign(key, give_out(key, *around->node, b, *inside)).first->second;
  }
  return nullptr;
}

/// Makes these tensors of a function outputs of its node. One that is alone gets a node of its name.
Importer::Moved Importer::give_out(const std::string& name, Node& node, std::size_t function, const Tensors& inside) {
  const std::vector<detail::GraphFunction>& functions = detail::functions_of(node);
  require_readable(functions[function], inside);
  const bool finalized = state().finalized();
  state().finalize(false);
  std::vector<Tensors> more(functions.size());
  std::vector<std::size_t> numbers;
  for (const Tensor& each : inside) {
    const std::optional<std::size_t> known = output_of(functions, function, each);
    numbers.push_back(known ? *known : functions[0].outputs.size() + more[0].size());
    for (std::size_t b = 0; !known && b < more.size(); ++b) more[b].push_back(b == function ? each : Tensor());
  }
  if (!more[0].empty()) detail::add_outputs(node, more);
  Moved moved{&node, {}};
  for (const std::size_t i : numbers) moved.outputs.push_back(node.output(i));
  if (moved.outputs.size() == 1 && !arguments_) {
    const detail::OptionsScope open(state().shared_from_this(), {});
    state().names().release(name);
    moved.outputs[0] = identity(In(moved.outputs[0], where_), name);
    moved.node = &detail::producer_of(moved.outputs[0]);
  }
  for (const Tensor& each : moved.outputs) state().absorbed.insert(each.id());
  state().finalize(finalized);
  return moved;
}

}  // namespace tapestry::io

#include "distributed/rpc/graph_part.hpp"

#include <algorithm>
#include <condition_variable>

namespace tapestry::detail {

using io::rpc::Islands;

GraphPart::GraphPart(io::GraphDef part, const std::shared_ptr<io::VariableTable>& variables,
                     const ServerOptions& options) {
  plan_ = io::rpc::find_islands(
      std::move(part),
      {.most_bytes = options.graph.bytes,
       .make =
           [&](std::size_t, io::GraphDef graph) {
             sessions_.push_back(
                 graph.nodes.empty() ? nullptr : std::make_unique<ServedSession>(std::move(graph), variables, options));
           },
       .spec_of = [&](std::size_t island, const std::string& tensor) { return sessions_[island]->spec_of(tensor); }});
}

/// What a run has got so far. Tensors that arrive late, after the run has failed, still find it.
struct GraphPart::Run {
  explicit Run(std::size_t places, std::size_t islands)
      : values(places), has_begun(islands), has_run(islands), left(islands) {}

  std::mutex mutex{};
  std::condition_variable_any changed{};
  std::vector<Tensor> values;
  std::vector<char> has_begun, has_run;  ///< by island
  std::size_t left;                      ///< how many islands have not run
  std::size_t arrived = 0;               ///< how many calls of the Exchange have ended
  std::exception_ptr error{};
  io::rpc::StepStats stats{};

  /// Called with the lock held.
  bool has(const Islands::Waits& waits) const {
    const auto& [tensors, islands] = waits;
    return std::all_of(tensors.begin(), tensors.end(), [&](std::size_t i) { return bool(values[i]); }) &&
           std::all_of(islands.begin(), islands.end(), [&](std::size_t i) { return has_run[i] != 0; });
  }
};

io::rpc::StepStats GraphPart::run(const Exchange& exchange, bool trace, const std::stop_token& stop) const {
  const auto run = std::make_shared<Run>(plan_.places, plan_.islands.size());
  for (const Islands::Receive& each : plan_.receives)
    exchange.receive(each.transfer, [run, place = each.place](Tensor value, std::exception_ptr error) {
      const std::lock_guard lock(run->mutex);
      run->values[place] = std::move(value);
      if (error && !run->error) run->error = std::move(error);
      ++run->arrived;
      run->changed.notify_all();
    });

  std::vector<char> is_sent(plan_.sends.size());
  std::size_t unsent = plan_.sends.size();
  std::unique_lock lock(run->mutex);
  while (run->left + unsent > 0) {
    if (run->error) std::rethrow_exception(run->error);
    if (stop.stop_requested()) throw CancelledError("The step was cancelled");
    const std::size_t seen = run->arrived;
    bool progress = false;
    // Sends come first, as other tasks wait for them.
    for (std::size_t i = 0; i < plan_.sends.size(); ++i) {
      const Islands::Send& send = plan_.sends[i];
      if (is_sent[i] || !run->values[send.place] || !run->has(send)) continue;
      is_sent[i] = 1, --unsent, progress = true;
      const Tensor value = run->values[send.place];
      lock.unlock();
      exchange.send(send.transfer, value);
      lock.lock();
    }
    for (std::size_t i = 0; i < plan_.islands.size() && !progress; ++i) {
      const Islands::Island& island = plan_.islands[i];
      const auto is_there = [&](const auto& feed) { return bool(run->values[feed.second]); };
      if (run->has_begun[i] || !run->has(island) || !std::all_of(island.feeds.begin(), island.feeds.end(), is_there))
        continue;
      run->has_begun[i] = 1, progress = true;
      lock.unlock();
      island.use ? begin_use(run, i, exchange) : run_island(*run, i, trace, stop);
      lock.lock();
    }
    if (!progress && run->left + unsent > 0) run->changed.wait(lock, stop, [&] { return run->arrived > seen; });
  }
  if (run->error) std::rethrow_exception(run->error);
  return std::move(run->stats);
}

void GraphPart::run_island(Run& run, std::size_t number, bool trace, const std::stop_token& stop) const {
  const Islands::Island& island = plan_.islands[number];
  io::rpc::RunStepRequest step;
  {
    const std::lock_guard lock(run.mutex);
    for (const auto& [name, place] : island.feeds) {
      const Tensor& value = run.values[place];
      step.feed.push_back({name, {io::code_of(value.dtype()), value}});
    }
  }
  for (const auto& [name, place] : island.fetches) step.fetch.push_back(name);
  step.target = island.targets;
  step.options.trace_level = trace ? io::rpc::full_trace : 0;
  const io::rpc::RunStepResponse results = sessions_[number]->run(step, stop);
  const std::lock_guard lock(run.mutex);
  for (std::size_t i = 0; i < island.fetches.size(); ++i)
    run.values[island.fetches[i].second] = results.tensor[i].tensor.value;
  run.has_run[number] = 1, --run.left;
  if (trace)
    for (io::rpc::DeviceStats& each : io::rpc::decode<io::rpc::StepMetadata>(results.metadata).step_stats.dev_stats)
      run.stats.dev_stats.push_back(std::move(each));
}

void GraphPart::begin_use(const std::shared_ptr<Run>& run, std::size_t number, const Exchange& exchange) const {
  const Islands::Island& island = plan_.islands[number];
  Tensors inputs;
  {
    const std::lock_guard lock(run->mutex);
    for (const auto& [name, place] : island.feeds) inputs.push_back(run->values[place]);
  }
  exchange.use(*island.use, std::move(inputs),
               [run, number, fetches = island.fetches](const Tensors& outputs, std::exception_ptr error) {
                 const std::lock_guard lock(run->mutex);
                 for (const auto& [name, place] : fetches) {
                   const auto output = static_cast<std::size_t>(io::rpc::edge_of(name).output);
                   if (output < outputs.size()) run->values[place] = outputs[output];
                 }
                 if (error && !run->error) run->error = std::move(error);
                 run->has_run[number] = 1, --run->left, ++run->arrived;
                 run->changed.notify_all();
               });
}

}  // namespace tapestry::detail

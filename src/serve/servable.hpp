#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/batcher.hpp"
#include "serve/runner_pool.hpp"
#include "serve/text_model.hpp"

namespace tapestry::serve {

struct ServableOptions {
  std::optional<BatchingOptions> batching{};      ///< requests run alone by default
  std::chrono::milliseconds run_timeout{30'000};  ///< a run that takes longer is ended
  std::size_t most_runs = 0;                      ///< of the model at the same time; 0: twice the processors
};

/// The text of an error for clients: without the name of the limit in Tapestry's C++ interface.
std::string for_clients(std::string text);

/// One version of a model in memory. Its functions may be called from several threads.
class Servable {
 public:
  /// Reads the SavedModel. Throws what `saved_model::load` throws.
  Servable(std::string name, std::int64_t version, const std::filesystem::path& folder,
           const ServableOptions& options = {});

  const std::string& name() const { return name_; }
  std::int64_t version() const { return version_; }
  const std::map<std::string, SignatureInfo>& signatures() const { return model_.infos(); }
  /// The part of the graph that a signature runs, as a picture: of the whole graph, where that part cannot be planned
  /// for a single example. Throws InvalidArgumentError for an unknown signature.
  std::string svg(const std::string& signature) const;

  /// The outputs of a signature that the model has, for all of its inputs. Throws InvalidArgumentError for tensors that
  /// do not fit, UnimplementedError for what Tapestry lacks, and DeadlineExceededError.
  NamedValues run(const std::string& signature, NamedValues inputs, Deadline deadline) const;

 private:
  NamedTensors run_alone(const std::string& signature, const NamedTensors& inputs, Deadline deadline) const;

  std::string name_;
  std::int64_t version_;
  TextModel model_;
  mutable RunnerPool runners_;
  std::unique_ptr<Batcher> batcher_;  ///< nullptr: requests run alone
};

}  // namespace tapestry::serve

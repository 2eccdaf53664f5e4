#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/batcher.hpp"
#include "serve/servable.hpp"
#include "serve/warm_up.hpp"
#include "tapestry/error.hpp"

namespace tapestry::serve {

/// Which of the versions in a model's folder are served.
struct VersionPolicy {
  enum class Kind { latest, all, specific };
  Kind kind = Kind::latest;
  std::int64_t latest = 1;            ///< how many of the newest
  std::set<std::int64_t> specific{};  ///< these

  friend bool operator==(const VersionPolicy&, const VersionPolicy&) = default;
};

/// Where the requests of a model are written, and how many.
struct LoggingConfig {
  std::string filename_prefix{};
  double sampling_rate = 0;  ///< the part of the requests that is written

  friend bool operator==(const LoggingConfig&, const LoggingConfig&) = default;
};

/// A model that is to be served.
struct ModelConfig {
  std::string name;
  std::filesystem::path base_path;  ///< has a folder for each version: BASE/1, BASE/2
  VersionPolicy policy{};
  std::map<std::string, std::int64_t> labels{};  ///< the versions of labels, such as "stable"
  std::optional<LoggingConfig> logging{};

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// Which version a request asks for; by default the newest one.
struct VersionChoice {
  std::optional<std::int64_t> version{};
  std::optional<std::string> label{};
};

/// How far a version has come. The numbers are those of TensorFlow Serving.
enum class VersionState { start = 10, loading = 20, available = 30, unloading = 40, end = 50 };

struct VersionStatus {
  std::int64_t version = 0;
  VersionState state = VersionState::start;
  std::optional<Code> error{};  ///< why it could not be loaded
  std::string message{};
};

struct StoreOptions {
  ServableOptions models{};
  WarmUpOptions warm_up{};
  std::function<void(const std::string&)> log{};     ///< gets a line for each version that comes or goes
  bool labels_of_absent_versions = false;            ///< a label may name a version that is not served
  std::chrono::milliseconds retry_interval{60'000};  ///< a version that could not be loaded is tried again after this
  int most_retries = 5;                              ///< so often, and when its files change
};

class RequestLog;

/// The models that are served. A look at the folders loads new versions, and then lets go of those that are no longer
/// wanted: who has one in use keeps it until he is done.
class ModelStore {
 public:
  explicit ModelStore(StoreOptions options = {}) : options_(std::move(options)) {}
  ModelStore(const ModelStore&) = delete;
  ModelStore& operator=(const ModelStore&) = delete;
  ~ModelStore();

  /// From the next look on these models are served, and no others. Throws InvalidArgumentError for two of one name, and
  /// NotFoundError where requests cannot be logged.
  void configure(std::vector<ModelConfig> models);
  /// The same for a client, who cannot have the server write files: a model has the log that the last `configure` gave
  /// it. Throws InvalidArgumentError for another one.
  void configure_by_client(std::vector<ModelConfig> models);
  /// Looks at the folders once. Other threads are served meanwhile.
  void look();
  /// Looks again and again, on a thread of its own. `before` is called before each look.
  void keep_looking(std::chrono::milliseconds interval, std::function<void()> before = {});

  /// The version that is meant. Throws NotFoundError if it is not loaded, InvalidArgumentError for an unknown label.
  std::shared_ptr<const Servable> find(const std::string& model, const VersionChoice& choice = {}) const;
  /// What is known of the versions that are meant, the newest first; all versions by default. Throws NotFoundError if
  /// there is none, InvalidArgumentError for an unknown label.
  std::vector<VersionStatus> status(const std::string& model, const VersionChoice& choice = {}) const;
  /// The same for all versions of a model, of which there may be none.
  std::vector<VersionStatus> known(const std::string& model) const;
  /// The names of the models.
  std::vector<std::string> names() const;
  /// Whether there is a model of that name, loaded or not.
  bool contains(const std::string& model) const;
  /// The log of a model's requests; nullptr if it has none.
  std::shared_ptr<RequestLog> request_log(const std::string& model) const;
  /// Whether each model has a version that is served.
  bool is_ready() const;
  /// Throws FailedPreconditionError for a label that was refused at the last look, as its version is not served. The
  /// labels that the model had before stay.
  void require_labels() const;

 private:
  /// What tells whether the files of a version have changed.
  struct Stamp {
    std::filesystem::file_time_type newest{};
    std::uintmax_t files = 0, bytes = 0;

    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  struct Version {
    VersionStatus status{};
    std::shared_ptr<const Servable> servable{};
    // What was tried the last time.
    std::filesystem::path folder{};
    Stamp stamp{};
    std::chrono::steady_clock::time_point tried{};
    int retries = 0;
  };
  struct Model {
    ModelConfig config;
    std::map<std::int64_t, Version> versions{};
    std::map<std::string, std::int64_t> labels{};  ///< those of the config, unless they were refused
    std::string refused_label{};                   ///< why; "": they were not
    std::string trouble{};                         ///< why it has no versions
  };

  static Stamp stamp_of(const std::filesystem::path& folder);
  std::int64_t version_of(const Model& model, const std::string& label) const;
  void set_models(std::vector<ModelConfig> models);
  void look_at(const ModelConfig& config);
  bool is_due(const Version& version, const std::filesystem::path& folder) const;
  void load(const ModelConfig& config, std::int64_t number, const std::filesystem::path& folder);
  void tell_trouble(const std::string& model, const std::string& trouble);
  void assign_labels(Model& model) const;
  /// Lets go of the versions that are not among these.
  void unload_others(const std::string& model, const std::set<std::int64_t>& wanted);
  /// Forgets the versions that could not be loaded and have no folder any more.
  void forget_failed(const std::string& model, const std::map<std::int64_t, std::filesystem::path>& folders);
  void log(const std::string& line) const;

  StoreOptions options_;
  std::mutex looking_;               ///< held during a look
  mutable std::shared_mutex mutex_;  ///< of what follows
  std::vector<ModelConfig> wanted_;
  std::map<std::string, std::shared_ptr<RequestLog>> request_logs_;  ///< by model
  std::map<std::string, LoggingConfig> logging_;                     ///< of the server's own configuration
  std::map<std::string, Model> models_;

  std::mutex waiting_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  std::thread looker_;
};

}  // namespace tapestry::serve

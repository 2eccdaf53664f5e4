#include "serve/model_store.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "serve/request_log.hpp"

namespace tapestry::serve {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_folder(const fs::path& folder, const std::error_code& error) {
  throw UnavailableError(folder.string() + ": " + error.message());
}

/// The folders of versions, by their numbers. A file or a folder of another name is none. Throws UnavailableError when
/// not all of them can be seen.
std::map<std::int64_t, fs::path> version_folders(const fs::path& base) {
  std::map<std::int64_t, fs::path> folders;
  std::error_code error;
  for (auto entry = fs::directory_iterator(base, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    std::int64_t number = 0;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (bad != std::errc() || end != name.data() + name.size() || number < 0) continue;
    std::error_code unseen;
    if (entry->is_directory(unseen)) folders.emplace(number, entry->path());
    if (unseen && unseen != std::errc::no_such_file_or_directory) refuse_folder(entry->path(), unseen);
  }
  if (error) refuse_folder(base, error);
  return folders;
}

std::set<std::int64_t> wanted_versions(const VersionPolicy& policy, const std::map<std::int64_t, fs::path>& folders) {
  std::set<std::int64_t> wanted;
  for (auto each = folders.rbegin(); each != folders.rend(); ++each) {
    const bool is_wanted =
        policy.kind == VersionPolicy::Kind::all ||
        (policy.kind == VersionPolicy::Kind::specific && policy.specific.contains(each->first)) ||
        (policy.kind == VersionPolicy::Kind::latest && static_cast<std::int64_t>(wanted.size()) < policy.latest);
    if (is_wanted) wanted.insert(each->first);
  }
  return wanted;
}

[[noreturn]] void refuse_choice(const std::string& model, const VersionChoice& choice) {
  throw NotFoundError(choice.version
                          ? detail::join("Servable not found for request: Specific(", model, ", ", *choice.version, ")")
                          : detail::join("Servable not found for request: Latest(", model, ")"));
}

}  // namespace

ModelStore::~ModelStore() {
  {
    const std::lock_guard lock(waiting_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  if (looker_.joinable()) looker_.join();
}

void ModelStore::configure(std::vector<ModelConfig> models) {
  std::map<std::string, LoggingConfig> logging;
  for (const ModelConfig& each : models)
    if (each.logging) logging.emplace(each.name, *each.logging);
  set_models(std::move(models));
  const std::lock_guard lock(mutex_);
  logging_ = std::move(logging);
}

void ModelStore::configure_by_client(std::vector<ModelConfig> models) {
  std::map<std::string, LoggingConfig> logging;
  {
    const std::lock_guard lock(mutex_);
    logging = logging_;
  }
  for (ModelConfig& each : models) {
    const auto own = logging.find(each.name);
    if (each.logging && (own == logging.end() || own->second != *each.logging))
      throw InvalidArgumentError("The requests of " + each.name +
                                 " cannot be logged as a client says, who would write files on the server: "
                                 "logging_config belongs into the server's --model_config_file");
    if (own != logging.end()) each.logging = own->second;
  }
  set_models(std::move(models));
}

void ModelStore::set_models(std::vector<ModelConfig> models) {
  std::set<std::string> names;
  for (const ModelConfig& each : models) {
    if (each.name.empty()) throw InvalidArgumentError("A model has no name");
    if (!names.insert(each.name).second) throw InvalidArgumentError("Two models have the name " + each.name);
  }
  std::map<std::string, std::shared_ptr<RequestLog>> logs;
  for (const ModelConfig& each : models) {
    if (!each.logging) continue;
    std::shared_ptr<RequestLog> log = request_log(each.name);
    if (!log || log->config() != *each.logging)
      log = std::make_shared<RequestLog>(each.name, *each.logging, options_.log);
    logs.emplace(each.name, std::move(log));
  }
  const std::lock_guard lock(mutex_);
  wanted_ = std::move(models);
  request_logs_.swap(logs);  // those that are no longer wanted end when the lock is released
}

void ModelStore::look() {
  const std::lock_guard looking(looking_);
  std::vector<ModelConfig> wanted;
  std::map<std::string, std::shared_ptr<RequestLog>> logs;
  {
    const std::lock_guard lock(mutex_);
    wanted = wanted_;
    logs = request_logs_;
    // Labels and policies may have changed.
    for (const ModelConfig& each : wanted) models_[each.name].config = each;
  }
  for (const auto& [model, log] : logs) log->complete(std::chrono::minutes(1));
  for (const ModelConfig& each : wanted) look_at(each);
  std::vector<Model> dropped;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  for (const ModelConfig& each : wanted) assign_labels(models_[each.name]);
  for (auto each = models_.begin(); each != models_.end();) {
    const bool is_wanted = std::any_of(wanted.begin(), wanted.end(),
                                       [&](const ModelConfig& config) { return config.name == each->first; });
    if (is_wanted) {
      ++each;
      continue;
    }
    log("No longer serving " + each->first);
    dropped.push_back(std::move(each->second));
    each = models_.erase(each);
  }
}

void ModelStore::look_at(const ModelConfig& config) {
  std::map<std::int64_t, fs::path> folders;
  try {
    folders = version_folders(config.base_path);
  } catch (const UnavailableError& error) {
    // A disk may be away for a moment: what is served stays.
    return tell_trouble(config.name, "Cannot look for versions of " + config.name + " in " + error.message());
  }
  const auto wanted = wanted_versions(config.policy, folders);
  for (const std::int64_t number : wanted) {
    const fs::path& folder = folders.at(number);
    {
      const std::lock_guard lock(mutex_);
      Version& version = models_[config.name].versions[number];
      if (!is_due(version, folder)) continue;
      version.status = {.version = number, .state = VersionState::loading};
    }
    load(config, number, folder);
  }
  tell_trouble(config.name, !wanted.empty()
                                ? ""
                                : detail::join("No versions of ", config.name, " found under ",
                                               config.base_path.string(), folders.empty() ? "" : " are wanted",
                                               ": each is a folder whose name is a number, such as ",
                                               (config.base_path / "1").string()));
  const std::lock_guard lock(mutex_);
  const auto& versions = models_[config.name].versions;
  // A newer version that cannot be loaded does not end an older one.
  const bool replaced = std::any_of(wanted.begin(), wanted.end(),
                                    [&](std::int64_t number) { return versions.at(number).servable != nullptr; });
  if (replaced || wanted.empty()) unload_others(config.name, wanted);
  forget_failed(config.name, folders);
}

/// Of all files below the folder. They may be written while they are looked at.
ModelStore::Stamp ModelStore::stamp_of(const fs::path& folder) {
  Stamp stamp;
  std::error_code error;
  stamp.newest = fs::last_write_time(folder, error);
  for (auto entry = fs::recursive_directory_iterator(folder, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code gone;
    stamp.newest = std::max(stamp.newest, entry->last_write_time(gone));
    ++stamp.files;
    if (const std::uintmax_t size = entry->is_regular_file(gone) ? entry->file_size(gone) : 0; !gone)
      stamp.bytes += size;
  }
  return stamp;
}

/// Whether the version in the folder is to be loaded.
bool ModelStore::is_due(const Version& version, const fs::path& folder) const {
  if (version.folder != folder) return true;
  if (version.servable) return false;
  const bool again = version.retries < options_.most_retries &&
                     std::chrono::steady_clock::now() - version.tried >= options_.retry_interval;
  return !version.status.error || again || version.stamp != stamp_of(folder);
}

void ModelStore::load(const ModelConfig& config, std::int64_t number, const fs::path& folder) {
  Version version{.status = {.version = number, .state = VersionState::available},
                  .folder = folder,
                  .stamp = stamp_of(folder),
                  .tried = std::chrono::steady_clock::now()};
  const auto failed = [&](Code code, const std::string& message) {
    version.status = {.version = number, .state = VersionState::end, .error = code, .message = message};
    log(detail::join("Cannot load version ", number, " of ", config.name, ": ", message));
  };
  try {
    auto servable = std::make_shared<Servable>(config.name, number, folder, options_.models);
    warm_up(*servable, folder, options_.warm_up);
    version.servable = std::move(servable);
    log(detail::join("Serving version ", number, " of ", config.name));
  } catch (const Error& error) {
    failed(error.code(), for_clients(error.message()));
  } catch (const std::exception& error) {
    failed(Code::internal, error.what());
  }
  const std::lock_guard lock(mutex_);
  Version& before = models_[config.name].versions[number];
  if (before.folder == folder && before.stamp == version.stamp) version.retries = before.retries + 1;
  std::swap(before, version);  // the older one is destroyed after the lock is released
}

/// Logs why a model has no versions, but not at each look.
void ModelStore::tell_trouble(const std::string& model, const std::string& trouble) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(models_[model].trouble, trouble) != trouble && !trouble.empty()) log(trouble);
}

void ModelStore::assign_labels(Model& model) const {
  const std::string before = std::exchange(model.refused_label, "");
  if (model.labels == model.config.labels) return;
  for (const auto& [label, number] : model.config.labels) {
    const auto version = model.versions.find(number);
    if (options_.labels_of_absent_versions || (version != model.versions.end() && version->second.servable)) continue;
    model.refused_label = detail::join("Request to assign label to version ", number, " of model ", model.config.name,
                                       ", which is not currently available for inference");
    if (model.refused_label != before) log(model.refused_label + " (" + label + ")");
    return;
  }
  model.labels = model.config.labels;
}

void ModelStore::require_labels() const {
  const std::shared_lock lock(mutex_);
  for (const auto& [name, model] : models_)
    if (!model.refused_label.empty()) throw FailedPreconditionError(model.refused_label);
}

void ModelStore::unload_others(const std::string& model, const std::set<std::int64_t>& wanted) {
  std::map<std::int64_t, Version>& versions = models_[model].versions;
  for (auto& [number, version] : versions) {
    if (wanted.contains(number) || version.status.state == VersionState::end) continue;
    version = {.status = {.version = number, .state = VersionState::end}};
    log(detail::join("No longer serving version ", number, " of ", model));
  }
  // A server that gets new versions for years does not tell of all of them.
  const auto has_ended = [&](const auto& each) {
    return !wanted.contains(each.first) && each.second.status.state == VersionState::end && !each.second.status.error;
  };
  constexpr std::ptrdiff_t most_ended = 100;
  std::ptrdiff_t extra = std::count_if(versions.begin(), versions.end(), has_ended) - most_ended;
  std::erase_if(versions, [&](const auto& each) { return has_ended(each) && extra-- > 0; });
}

void ModelStore::forget_failed(const std::string& model, const std::map<std::int64_t, fs::path>& folders) {
  std::erase_if(models_[model].versions,
                [&](const auto& each) { return each.second.status.error && !folders.contains(each.first); });
}

void ModelStore::keep_looking(std::chrono::milliseconds interval, std::function<void()> before) {
  looker_ = std::thread([this, interval, before = std::move(before)] {
    std::unique_lock lock(waiting_);
    while (!stop_changed_.wait_for(lock, interval, [this] { return stop_; })) {
      lock.unlock();
      try {
        if (before) before();
        look();
      } catch (const std::exception& error) {
        log(std::string("Cannot look for models: ") + error.what());
      }
      lock.lock();
    }
  });
}

std::int64_t ModelStore::version_of(const Model& model, const std::string& label) const {
  const auto found = model.labels.find(label);
  if (found == model.labels.end()) throw InvalidArgumentError("Unrecognized servable version label: " + label);
  return found->second;
}

std::shared_ptr<const Servable> ModelStore::find(const std::string& model, const VersionChoice& choice) const {
  const std::shared_lock lock(mutex_);
  const auto found = models_.find(model);
  if (found == models_.end()) {
    if (choice.label) throw InvalidArgumentError("Unrecognized servable version label: " + *choice.label);
    refuse_choice(model, choice);
  }
  VersionChoice meant = choice;
  if (choice.label) meant.version = version_of(found->second, *choice.label);
  const auto& versions = found->second.versions;
  for (auto each = versions.rbegin(); each != versions.rend(); ++each)
    if (each->second.servable && (!meant.version || each->first == *meant.version)) return each->second.servable;
  refuse_choice(model, meant);
}

std::vector<VersionStatus> ModelStore::status(const std::string& model, const VersionChoice& choice) const {
  const std::shared_lock lock(mutex_);
  const auto found = models_.find(model);
  std::optional<std::int64_t> meant = choice.version;
  if (choice.label) {
    if (found == models_.end()) throw InvalidArgumentError("Unrecognized servable version label: " + *choice.label);
    meant = version_of(found->second, *choice.label);
  }
  std::vector<VersionStatus> list;
  if (found != models_.end())
    for (auto each = found->second.versions.rbegin(); each != found->second.versions.rend(); ++each)
      if (!meant || each->first == *meant) list.push_back(each->second.status);
  if (list.empty())
    throw NotFoundError(meant ? detail::join("Could not find version ", *meant, " of model ", model)
                              : "Could not find any versions of model " + model);
  return list;
}

std::vector<VersionStatus> ModelStore::known(const std::string& model) const {
  const std::shared_lock lock(mutex_);
  std::vector<VersionStatus> list;
  if (const auto found = models_.find(model); found != models_.end())
    for (auto each = found->second.versions.rbegin(); each != found->second.versions.rend(); ++each)
      list.push_back(each->second.status);
  return list;
}

std::vector<std::string> ModelStore::names() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, model] : models_) names.push_back(name);
  return names;
}

bool ModelStore::contains(const std::string& model) const {
  const std::shared_lock lock(mutex_);
  return models_.contains(model);
}

std::shared_ptr<RequestLog> ModelStore::request_log(const std::string& model) const {
  const std::shared_lock lock(mutex_);
  const auto found = request_logs_.find(model);
  return found == request_logs_.end() ? nullptr : found->second;
}

bool ModelStore::is_ready() const {
  const std::shared_lock lock(mutex_);
  return std::all_of(wanted_.begin(), wanted_.end(), [&](const ModelConfig& config) {
    const auto found = models_.find(config.name);
    return found != models_.end() && std::any_of(found->second.versions.begin(), found->second.versions.end(),
                                                 [](const auto& each) { return each.second.servable != nullptr; });
  });
}

void ModelStore::log(const std::string& line) const {
  if (options_.log) options_.log(line);
}

}  // namespace tapestry::serve

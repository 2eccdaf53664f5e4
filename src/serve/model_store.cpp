#include "serve/model_store.hpp"

#include <algorithm>
#include <charconv>

namespace tapestry::serve {
namespace {

namespace fs = std::filesystem;

/// The folders of versions, by their numbers. A file or a folder of another name is none.
std::map<std::int64_t, fs::path> version_folders(const fs::path& base) {
  std::map<std::int64_t, fs::path> folders;
  std::error_code error;
  for (auto entry = fs::directory_iterator(base, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    std::int64_t number = 0;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), number);
    std::error_code no_folder;
    if (bad == std::errc() && end == name.data() + name.size() && number >= 0 && entry->is_directory(no_folder))
      folders.emplace(number, entry->path());
  }
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

/// When the folder, or the model in it, was written; the earliest time if there is none.
fs::file_time_type time_of(const fs::path& folder) {
  std::error_code error;
  const auto of_folder = fs::last_write_time(folder, error),
             of_file = fs::last_write_time(folder / "saved_model.pb", error);
  return std::max(of_folder, of_file);
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
  std::set<std::string> names;
  for (const ModelConfig& each : models) {
    if (each.name.empty()) throw InvalidArgumentError("A model has no name");
    if (!names.insert(each.name).second) throw InvalidArgumentError("Two models have the name " + each.name);
  }
  const std::lock_guard lock(mutex_);
  wanted_ = std::move(models);
}

void ModelStore::look() {
  const std::lock_guard looking(looking_);
  std::vector<ModelConfig> wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted = wanted_;
    // Labels and policies may have changed.
    for (const ModelConfig& each : wanted) models_[each.name].config = each;
  }
  for (const ModelConfig& each : wanted) look_at(each);
  std::vector<Model> dropped;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
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
  const auto folders = version_folders(config.base_path);
  const auto wanted = wanted_versions(config.policy, folders);
  for (const std::int64_t number : wanted) {
    const fs::path& folder = folders.at(number);
    {
      const std::lock_guard lock(mutex_);
      Version& version = models_[config.name].versions[number];
      const bool has_failed = version.status.error && version.changed == time_of(folder);
      if (version.servable || has_failed) continue;
      version.status = {.version = number, .state = VersionState::loading};
    }
    load(config, number, folder);
  }
  const std::lock_guard lock(mutex_);
  const auto& versions = models_[config.name].versions;
  // A newer version that cannot be loaded does not end an older one.
  const bool replaced = std::any_of(wanted.begin(), wanted.end(),
                                    [&](std::int64_t number) { return versions.at(number).servable != nullptr; });
  if (replaced || wanted.empty()) unload_others(config.name, wanted);
}

void ModelStore::load(const ModelConfig& config, std::int64_t number, const fs::path& folder) {
  Version version{.status = {.version = number, .state = VersionState::available}, .changed = time_of(folder)};
  const auto failed = [&](Code code, const std::string& message) {
    version.status = {.version = number, .state = VersionState::end, .error = code, .message = message};
    log(detail::join("Cannot load version ", number, " of ", config.name, ": ", message));
  };
  try {
    version.servable = std::make_shared<Servable>(config.name, number, folder, options_.models);
    log(detail::join("Serving version ", number, " of ", config.name));
  } catch (const Error& error) {
    failed(error.code(), for_clients(error.message()));
  } catch (const std::exception& error) {
    failed(Code::internal, error.what());
  }
  const std::lock_guard lock(mutex_);
  models_[config.name].versions[number] = std::move(version);
}

void ModelStore::unload_others(const std::string& model, const std::set<std::int64_t>& wanted) {
  for (auto& [number, version] : models_[model].versions) {
    if (wanted.contains(number) || version.status.state == VersionState::end) continue;
    version = {.status = {.version = number, .state = VersionState::end}};
    log(detail::join("No longer serving version ", number, " of ", model));
  }
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
  const auto found = model.config.labels.find(label);
  if (found == model.config.labels.end()) throw InvalidArgumentError("Unrecognized servable version label: " + label);
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

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <type_traits>
#include <utility>

#include "io/events/event_decoder.hpp"
#include "io/file.hpp"
#include "io/records.hpp"
#include "tapestry/summary.hpp"

namespace tapestry::summary {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code error;  // is ignored: opening the path as a file fails for the same reason
  return fs::is_directory(path, error);
}

/// The event files of a folder, in the order of their names.
std::vector<fs::path> event_files_in(const fs::path& folder, Where where) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    std::error_code no_file;
    const bool is_named_so = each->path().filename().string().find("tfevents") != std::string::npos;
    if (is_named_so && each->is_regular_file(no_file)) files.push_back(each->path());
  }
  if (error)
    throw FailedPreconditionError(detail::join("Cannot read the folder ", folder.string(), ": ", error.message()),
                                  where);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

// ---- Opening, and reading on ----------------------------------------------------------------------------------------

struct FileReader::State {
  /// A file, as far as it has been read.
  struct Part {
    fs::path path;
    std::int64_t end = 0;   ///< the offset behind its last event
    std::string damage{};   ///< why no further event follows; "" at the end of the file
    bool is_other = false;  ///< whether the damage says what the file is instead
    bool may_grow = true;   ///< whether it may become sound when more is written
  };

  State(const std::string& path, Where call_site) : name(path), where(call_site) {
    const bool one_file = !is_folder(name);
    read_on(where);
    if (parts.empty())
      throw NotFoundError(detail::join("There is no event file, with 'tfevents' in its name, in ", name), where);
    if (one_file && parts[0].end == 0 && !parts[0].may_grow)
      throw DataLossError(parts[0].is_other ? damage : damage + "; is it an event file?", where);
  }

  /// Reads what is new in the files, and new files. Returns the number of events.
  std::int64_t read_on(Where call_site) {
    std::vector<fs::path> paths{name};
    if (is_folder(name)) paths = event_files_in(name, call_site);
    for (const fs::path& path : paths)
      if (known.insert(path).second) parts.push_back({path});
    std::int64_t count = 0;
    for (Part& part : parts) count += read_on(part, call_site);
    damage.clear();
    for (const Part& part : parts)
      if (!part.damage.empty()) damage += (damage.empty() ? "" : "\n") + part.damage;
    return count;
  }

  std::int64_t read_on(Part& part, Where call_site) {
    const io::SourceFile file(part.path, call_site);
    if (file.size() < part.end) throw DataLossError(file.name() + " has changed: it is shorter than it was", call_site);
    io::FileRange rest(file, file.name(), part.end, file.size());
    io::RecordReader records(rest, part.end);
    std::int64_t count = 0;
    while (const auto record = records.next()) {
      try {
        for (const Value& value : decode_event(*record, tags).values) {
          std::string& plugin = tags[value.tag];
          if (plugin.empty()) plugin = value.plugin;
        }
      } catch (const Error& error) {
        part.damage = detail::join(file.name(), " is damaged: the record at byte ", part.end,
                                   " is not an event: ", error.message());
        part.may_grow = false;
        return count;
      }
      part.end = records.place();
      ++count;
    }
    part.damage = file.size() == 0 ? file.name() + " is empty" : records.damage();
    const auto fault = records.fault();
    part.is_other = fault == io::RecordReader::Fault::other;
    part.may_grow = fault == io::RecordReader::Fault::none || fault == io::RecordReader::Fault::cut;
    return count;
  }

  /// Throws, with the tags that there are.
  [[noreturn]] void refuse_tag(std::string_view plugin, std::string_view tag, Where call_site) const {
    constexpr int most_tags = 8;
    std::string others;
    int count = 0;
    for (const auto& [each, its_plugin] : tags)
      if (its_plugin == plugin && ++count <= most_tags) others += detail::join(count == 1 ? "'" : ", '", each, "'");
    if (count > most_tags) others += ", ...";
    refuse(detail::join(plugin, " '", tag, "', but ", count == 0 ? "none at all" : others), call_site);
  }
  [[noreturn]] void refuse(std::string_view missing, Where call_site) const {
    throw NotFoundError(detail::join(name, " has no ", missing, damage.empty() ? "" : "; ", damage), call_site);
  }

  std::string name;
  Where where;
  std::vector<Part> parts;
  std::set<fs::path> known;  ///< the paths of the parts
  std::string damage;        ///< of all parts
  std::map<std::string, std::string> tags;
};

FileReader::FileReader(const std::string& path, Where where) : state_(std::make_shared<State>(path, where)) {}

std::int64_t FileReader::reload(Where where) { return state_->read_on(where); }
const std::string& FileReader::damage() const { return state_->damage; }
const std::map<std::string, std::string>& FileReader::tags() const { return state_->tags; }

// ---- Events ---------------------------------------------------------------------------------------------------------

/// Goes through the events of all parts, and on when the parts become longer.
class FileReader::Pass {
 public:
  explicit Pass(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  /// Reads the next event; false behind the last one.
  bool next() {
    has_event_ = false;
    while (open_ || open_next()) {
      if (const auto record = open_->records.next()) {
        event_ = decoded(*record);
        places_[open_->part] = open_->records.place();
        return has_event_ = true;
      }
      if (!open_->records.damage().empty()) refuse_changed();
      open_.reset();
    }
    return false;
  }
  bool has_event() const { return has_event_; }
  Event& event() { return event_; }

 private:
  struct Open {
    Open(const State& state, std::size_t number, std::int64_t place)
        : part(number),
          file(state.parts[number].path, state.where),
          range(file, file.name(), place, state.parts[number].end),
          records(range, place) {}
    std::size_t part;
    io::SourceFile file;
    io::FileRange range;
    io::RecordReader records;
  };

  /// Opens the first part of which events are left; false if there is none.
  bool open_next() {
    places_.resize(state_->parts.size());
    for (std::size_t i = 0; i < places_.size() && !open_; ++i)
      if (places_[i] < state_->parts[i].end) open_.emplace(*state_, i, places_[i]);
    return open_.has_value();
  }

  Event decoded(std::string_view record) const {
    try {
      return decode_event(record, state_->tags);
    } catch (const Error&) {
      refuse_changed();  // it could be decoded when the file was opened
    }
  }
  [[noreturn]] void refuse_changed() const {
    throw DataLossError(open_->file.name() + " has changed since it was opened", state_->where);
  }

  std::shared_ptr<const State> state_;
  std::vector<std::int64_t> places_;  ///< in each part: the offset of the next event
  std::optional<Open> open_;          ///< the part that is read
  Event event_;
  bool has_event_ = false;
};

FileReader::Iterator FileReader::begin() const { return Iterator(std::make_shared<Pass>(state_)); }

bool FileReader::Iterator::at_end() const { return !pass_->has_event() && !pass_->next(); }
const Event& FileReader::Iterator::operator*() const {
  if (at_end()) throw OutOfRangeError("There is no further event");
  return pass_->event();
}
FileReader::Iterator& FileReader::Iterator::operator++() {
  if (!at_end()) pass_->next();
  return *this;
}

// ---- By tags --------------------------------------------------------------------------------------------------------

template <class T, class Data>
std::vector<Entry<T>> FileReader::entries(std::string_view plugin, std::string_view tag, Where where) const {
  std::vector<Entry<T>> found;
  for (Pass pass(state_); pass.next();) {
    Event& event = pass.event();
    const auto add = [&](T& value) { found.push_back({event.step, event.wall_time, std::move(value)}); };
    for (Value& value : event.values) {
      Data* data = value.tag == tag && value.plugin == plugin ? std::get_if<Data>(&value.data) : nullptr;
      if (!data) continue;
      if constexpr (std::is_same_v<T, Data>) {
        add(*data);
      } else {
        for (T& each : *data) add(each);
      }
    }
  }
  if (found.empty()) state_->refuse_tag(plugin, tag, where);
  return found;
}

std::vector<Entry<double>> FileReader::scalars(std::string_view tag, Where where) const {
  return entries<double, double>("scalars", tag, where);
}
std::vector<Entry<Histogram>> FileReader::histograms(std::string_view tag, Where where) const {
  return entries<Histogram, Histogram>("histograms", tag, where);
}
std::vector<Entry<Image>> FileReader::images(std::string_view tag, Where where) const {
  return entries<Image, std::vector<Image>>("images", tag, where);
}
std::vector<Entry<std::string>> FileReader::texts(std::string_view tag, Where where) const {
  return entries<std::string, std::vector<std::string>>("text", tag, where);
}

Graph FileReader::graph(const GraphLimits& limits, Where where) const {
  std::string found;
  bool is_own = false;  // whether the graph has an event of its own, rather than a part of a MetaGraphDef
  for (Pass pass(state_); pass.next();) {
    Event& event = pass.event();
    const bool next_is_own = event.meta_graph_def.empty();
    if (event.graph_def.empty() || (is_own && !next_is_own)) continue;
    found = std::exchange(event.graph_def, {});
    is_own = next_is_own;
  }
  if (found.empty()) state_->refuse("graph", where);
  return Graph::from_graph_def(found, limits, where);
}

}  // namespace tapestry::summary

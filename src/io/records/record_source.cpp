#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include <glob.h>

#include "io/deflate.hpp"
#include "io/file.hpp"
#include "io/records.hpp"
#include "tapestry/data/records.hpp"

namespace tapestry::data {
namespace {

/// A file that is being read.
class OpenFile {
 public:
  OpenFile(const std::string& path, Compression compression, Where where)
      : file_(path, where), path_(std::make_shared<const std::string>(path)) {
    if (compression == Compression::none) {
      stream_ = std::make_unique<io::FileRange>(file_, path, 0, file_.size());
    } else {
      const auto wrapping = compression == Compression::gzip ? io::Wrapping::gzip : io::Wrapping::zlib;
      stream_ = std::make_unique<io::InflatedFile>(file_, wrapping);
    }
    reader_.emplace(*stream_);
  }

  /// The next record, as a view and as a Record's other members.
  std::optional<std::string_view> next() {
    try {
      begin_ = reader_->place();
      return reader_->next();
    } catch (const DataLossError& error) {  // of packed data
      throw DataLossError(detail::join(error.message(), ", in or behind the record at byte ", begin_), error.where());
    }
  }
  const std::shared_ptr<const std::string>& path() const { return path_; }
  std::int64_t begin() const { return begin_; }
  io::RecordReader& reader() { return *reader_; }

  /// What is wrong, if something is. A file that is compressed otherwise than said looks damaged from its start.
  std::optional<DataLossError> damage() const {
    if (reader_->fault() == io::RecordReader::Fault::none) return {};
    std::string text = reader_->damage();
    if (begin_ == 0 && reader_->fault() != io::RecordReader::Fault::data &&
        reader_->fault() != io::RecordReader::Fault::other)
      text += "; is it a TFRecord file of this compression?";
    return DataLossError(text, file_.where());
  }

 private:
  io::SourceFile file_;
  std::shared_ptr<const std::string> path_;
  std::unique_ptr<io::ByteStream> stream_;
  std::optional<io::RecordReader> reader_;
  std::int64_t begin_ = 0;
};

class RecordCursor final : public Cursor<Record> {
 public:
  RecordCursor(std::shared_ptr<const std::vector<std::string>> paths, const RecordOptions& options, Where where)
      : paths_(std::move(paths)), options_(options), where_(where) {}

  std::optional<Record> next() override {
    const auto bytes = view();
    if (!bytes) return {};
    return Record{std::string(*bytes), file_->path(), file_->begin()};
  }
  std::int64_t skip(std::int64_t count) override {
    std::int64_t skipped = 0;
    while (skipped < count && view()) ++skipped;
    return skipped;
  }

 private:
  std::optional<std::string_view> view() {
    while (file_ || next_ < paths_->size()) {
      if (!file_) file_.emplace((*paths_)[next_++], options_.compression, where_);
      try {
        if (const auto bytes = file_->next()) return bytes;
        if (const auto damage = file_->damage()) throw DataLossError(*damage);
        file_.reset();
      } catch (const DataLossError& damage) {
        if (!options_.on_damage) throw;
        stages::call("records", where_, options_.on_damage, damage);
        if (file_->reader().fault() == io::RecordReader::Fault::data) {
          file_->reader().pass_damaged();
        } else {
          file_.reset();
        }
      }
    }
    return {};
  }

  std::shared_ptr<const std::vector<std::string>> paths_;
  RecordOptions options_;
  Where where_;
  std::size_t next_ = 0;
  std::optional<OpenFile> file_;
};

}  // namespace

namespace {

/// Whether a writer that was killed has left this file, or one that still writes will rename it.
bool is_unfinished(const std::string& path) {
  const std::size_t ending = path.rfind(io::temporary_ending);
  return ending != std::string::npos &&
         path.find_first_not_of("0123456789-", ending + io::temporary_ending.size()) == std::string::npos;
}

}  // namespace

std::vector<std::string> glob(const std::string& pattern, Where where) {
  std::error_code error;
  if (std::filesystem::is_regular_file(pattern, error)) return {pattern};  // also one with a '*' in its name
  ::glob_t found{};
  // GLOB_NOSORT: the standard library would sort by the user's language.
  const int result = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> paths;
  if (result == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::erase_if(paths, is_unfinished);
  if (paths.empty()) throw NotFoundError(detail::join("No file matches ", pattern), where);
  std::sort(paths.begin(), paths.end());
  return paths;
}

namespace {

/// Throws NotFoundError where a name tells of how many files it is one, "train-00003-of-00010", and one of the others
/// does not exist: whoever names files by a pattern means all.
void require_all_shards(const std::vector<std::string>& found, Where where) {
  std::string last;  // the first of the set that was looked at last
  for (const std::string& path : found) {
    const std::size_t of = path.rfind("-of-");
    const std::size_t dash = of == std::string::npos || of == 0 ? of : path.rfind('-', of - 1);
    if (dash == std::string::npos) continue;
    std::int64_t index = 0, count = 0;
    const char* const end = path.data() + path.size();
    const auto told = std::from_chars(path.data() + of + 4, end, count);
    std::from_chars(path.data() + dash + 1, path.data() + of, index);
    if (index < 0 || index >= count) continue;
    const auto member = [&](std::int64_t i) {
      return shard_name(path.substr(0, dash), i, count).append(told.ptr, end);
    };
    if (member(index) != path || member(0) == last) continue;
    last = member(0);
    std::error_code error;
    for (std::int64_t i = 0; i < count; ++i)
      if (!std::filesystem::exists(member(i), error))
        throw NotFoundError(detail::join("There is ", path, ", but no ", member(i)), where);
  }
}

}  // namespace

Stream<Record> records(const Patterns& patterns, const RecordOptions& options, Where where) {
  auto paths = std::make_shared<std::vector<std::string>>();
  for (const std::string& each : patterns.list()) {
    const std::vector<std::string> found = glob(each, where);
    if (found != std::vector{each}) require_all_shards(found, where);
    paths->insert(paths->end(), found.begin(), found.end());
  }
  return Stream<Record>(
      Source<Record>([paths = std::shared_ptr<const std::vector<std::string>>(std::move(paths)), options,
                      where](std::int64_t) { return std::make_unique<RecordCursor>(paths, options, where); }));
}

}  // namespace tapestry::data

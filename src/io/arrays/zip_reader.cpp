#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include <zlib.h>

#include "io/arrays/zip.hpp"
#include "io/deflate.hpp"
#include "io/known_format.hpp"

namespace tapestry::io {
namespace {

constexpr std::int64_t end_size = 22, long_end_size = 56, locator_size = 20, entry_size = 46, header_size = 30;
constexpr std::int64_t longest_comment = 65535;

/// The little-endian number of `size` bytes at an offset. One of 8 bytes with the top bit set becomes negative, which
/// callers refuse: no file is that large.
std::int64_t number(std::span<const std::byte> bytes, std::size_t offset, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = size; i > 0; --i) value = value << 8 | std::to_integer<std::uint64_t>(bytes[offset + i - 1]);
  return static_cast<std::int64_t>(value);
}

bool starts_with(std::span<const std::byte> bytes, std::int64_t signature) {
  return bytes.size() >= 4 && number(bytes, 0, 4) == signature;
}

std::string text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The unpacked bytes of a member.
class MemberStream final : public ByteStream {
 public:
  MemberStream(const SourceFile& file, const ZipReader::Member& member)
      : packed_(file, detail::join(file.name(), ", member ", member.name), member.begin, member.end),
        size_(member.size),
        left_(member.size),
        expected_(member.checksum) {
    if (member.deflated) inflater_.emplace(packed_, Wrapping::bare);
  }

  std::string name() const override { return packed_.name(); }
  Where where() const override { return packed_.where(); }
  std::int64_t most_bytes() const override { return size_; }

  std::size_t read(std::span<std::byte> bytes) override {
    bytes = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(left_)));
    std::size_t count = inflater_ ? inflater_->read(bytes) : packed_.read(bytes);
    // The bytes before a damage come first, then the reason.
    if (inflater_ && count < bytes.size()) count += inflater_->read(bytes.subspan(count));
    if (count < bytes.size()) refuse("its packed data stop early");
    checksum_ = crc32_z(checksum_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    left_ -= static_cast<std::int64_t>(count);
    if (left_ == 0) check_end();
    return count;
  }

 private:
  [[noreturn]] void refuse(std::string_view reason) const {
    throw DataLossError(detail::join(name(), " is damaged: ", reason), where());
  }

  void check_end() {
    std::byte more{};
    if (inflater_ && (inflater_->read({&more, 1}) > 0 || !inflater_->ended()))
      refuse("its packed data go on behind its size");
    if (checksum_ != expected_) refuse("its checksum is wrong");
  }

  FileRange packed_;
  std::int64_t size_, left_;
  uLong checksum_ = 0, expected_;
  std::optional<Inflater> inflater_;  ///< of a deflated member
};

}  // namespace

struct ZipReader::Directory {
  std::int64_t offset = 0, size = 0, members = 0;
  std::int64_t end = 0;  ///< the offset of the record that follows it
};

template <class... Parts>
void ZipReader::refuse(const Parts&... parts) const {
  throw DataLossError(detail::join(file_.name(), parts...), file_.where());
}

ZipReader::Directory ZipReader::find_directory() const {
  // The last record of an archive ends with a comment of unknown length, so it is searched for from the file's end.
  const std::int64_t tail = std::min(file_.size(), end_size + longest_comment), first = file_.size() - tail;
  std::vector<std::byte> bytes(static_cast<std::size_t>(tail));
  file_.read(first, bytes);
  std::int64_t at = tail - end_size;
  const auto is_end = [&](std::int64_t place) {
    const auto record = std::span<const std::byte>(bytes).subspan(static_cast<std::size_t>(place));
    return starts_with(record, 0x06054b50) && end_size + number(record, 20, 2) == tail - place;
  };
  while (at >= 0 && !is_end(at)) --at;
  if (at < 0)
    refuse(" is not a ZIP archive, or it stops early: its directory is missing", known_as(Format::zip, file_.name()));

  const auto record = std::span<const std::byte>(bytes).subspan(static_cast<std::size_t>(at));
  Directory found{number(record, 16, 4), number(record, 12, 4), number(record, 10, 2), first + at};
  // Numbers that do not fit are in a longer record (ZIP64). Its offset is in a locator directly before this record.
  std::array<std::byte, locator_size> locator;
  if (found.end >= locator_size) {
    file_.read(found.end - locator_size, locator);
    if (starts_with(locator, 0x07064b50)) {
      const std::int64_t place = number(locator, 8, 8);
      std::array<std::byte, long_end_size> longer;
      if (place < 0 || place > found.end - locator_size - long_end_size) refuse(" has its directory outside of it");
      file_.read(place, longer);
      if (!starts_with(longer, 0x06064b50)) refuse(" has no directory where it says");
      found = {number(longer, 48, 8), number(longer, 40, 8), number(longer, 32, 8), place};
    }
  }
  if (found.offset < 0 || found.size < 0 || found.offset > found.end || found.size > found.end - found.offset)
    refuse(" has its directory outside of it");
  if (found.members < 0 || found.members > found.size / entry_size)
    refuse(" claims ", found.members, " members in a directory of ", found.size, " bytes");
  return found;
}

ZipReader::Member ZipReader::read_member(std::span<const std::byte> entry, std::int64_t directory) const {
  const auto name_size = static_cast<std::size_t>(number(entry, 28, 2));
  Member member{.name = text(entry.subspan(entry_size, name_size))};
  const std::int64_t flags = number(entry, 8, 2), method = number(entry, 10, 2);
  if ((flags & 1) != 0 || (method != 0 && method != 8))
    throw UnimplementedError(detail::join(file_.name(), ", member ", member.name, " is ",
                                          (flags & 1) != 0 ? "encrypted" : detail::join("packed by method ", method),
                                          "; only plain and deflated members are read"),
                             file_.where());
  member.deflated = method == 8;
  member.checksum = static_cast<std::uint32_t>(number(entry, 16, 4));
  std::int64_t packed = number(entry, 20, 4);
  member.size = number(entry, 24, 4);
  member.header = number(entry, 42, 4);

  // A number that is all ones is replaced by one in an extra field (ZIP64), where they are in this order.
  auto extra = entry.subspan(entry_size + name_size, static_cast<std::size_t>(number(entry, 30, 2)));
  while (extra.size() >= 4) {
    const auto size = static_cast<std::size_t>(number(extra, 2, 2));
    if (size > extra.size() - 4) break;
    auto field = extra.subspan(4, size);
    for (std::int64_t* value : {&member.size, &packed, &member.header})
      if (number(extra, 0, 2) == 1 && *value == 0xFFFFFFFF && field.size() >= 8) {
        *value = number(field, 0, 8);
        field = field.subspan(8);
      }
    extra = extra.subspan(4 + size);
  }

  const bool inside =
      member.header >= 0 && member.header <= directory - header_size && packed >= 0 && packed <= directory;
  if (!inside) refuse(", member ", member.name, " lies outside of the archive");
  if (member.size < 0 || (member.deflated ? member.size / most_unpacked > packed : member.size != packed))
    refuse(", member ", member.name, " claims ", member.size, " bytes, packed into ", packed);
  member.end = packed;  // relative to `begin`, which is not known yet
  return member;
}

/// Finds the packed bytes, which follow the local headers, and checks that no two members overlap.
void ZipReader::place_members(std::int64_t directory) {
  for (Member& member : members_) {
    std::array<std::byte, header_size> header;
    file_.read(member.header, header);
    member.begin = member.header + header_size + number(header, 26, 2) + number(header, 28, 2);
    member.end += member.begin;
    if (!starts_with(header, 0x04034b50) || member.end > directory)
      refuse(", member ", member.name, " is not where the directory says");
    std::string name(static_cast<std::size_t>(number(header, 26, 2)), '\0');
    file_.read(member.header + header_size, std::as_writable_bytes(std::span(name)));
    if (name != member.name) refuse(", member ", member.name, " is called ", name, " elsewhere");
  }
  std::vector<const Member*> order;
  for (const Member& member : members_) order.push_back(&member);
  std::sort(order.begin(), order.end(), [](const Member* a, const Member* b) { return a->header < b->header; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->header < order[i - 1]->end)
      refuse(", members ", order[i - 1]->name, " and ", order[i]->name, " overlap");
}

ZipReader::ZipReader(const std::filesystem::path& path, Where where) : file_(path, where) {
  const Directory directory = find_directory();
  std::vector<std::byte> bytes(static_cast<std::size_t>(directory.size));
  file_.read(directory.offset, bytes);
  std::span<const std::byte> rest = bytes;
  std::set<std::string> names;
  for (std::int64_t i = 0; i < directory.members; ++i) {
    if (!starts_with(rest, 0x02014b50) || rest.size() < entry_size) refuse(" has a damaged directory");
    const std::int64_t size = entry_size + number(rest, 28, 2) + number(rest, 30, 2) + number(rest, 32, 2);
    if (size > static_cast<std::int64_t>(rest.size())) refuse(" has a damaged directory");
    members_.push_back(read_member(rest.first(static_cast<std::size_t>(size)), directory.offset));
    rest = rest.subspan(static_cast<std::size_t>(size));
    if (!names.insert(members_.back().name).second) refuse(" has two members called ", members_.back().name);
  }
  place_members(directory.offset);
}

std::unique_ptr<ByteStream> ZipReader::open(const Member& member) const {
  return std::make_unique<MemberStream>(file_, member);
}

}  // namespace tapestry::io

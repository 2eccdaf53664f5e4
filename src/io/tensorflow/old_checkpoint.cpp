#include "io/tensorflow/old_checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/make_tensor.hpp"
#include "io/arrays/elements.hpp"
#include "io/file.hpp"
#include "io/known_format.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "io/tensorflow/leveldb_table.hpp"
#include "io/tensorflow/slice_assembly.hpp"
#include "io/wire.hpp"
#include "tapestry/data/records.hpp"

namespace tapestry::io {
namespace {

/// A tensor of the list, and the slices of it that have been read.
struct OldTensor {
  TypeCode type;
  std::vector<std::int64_t> sizes;
  std::vector<std::pair<SliceExtents, Tensor>> slices = {};
  std::int64_t elements = 0;  ///< of the slices
};

/// A SavedSlice.
struct OldSlice {
  std::string name;
  SliceExtents extents;
  std::string_view data;  ///< a TensorProto without type and shape
};

class OldCheckpoint {
 public:
  /// `path`: that of the file, or the prefix of several, for errors.
  OldCheckpoint(const std::filesystem::path& path, const std::vector<std::filesystem::path>& files, Where where)
      : path_(path), where_(where) {
    for (const std::filesystem::path& file : files) {
      path_ = file;
      listed_.clear();
      read_table(SourceFile(file, where), [&](std::string_view key, std::string_view value) {
        for (WireReader reader(value.data(), value.size()); reader.next();) {
          if (key.empty() && reader.tag() == 1) {
            read_list(reader.get_message());
          } else if (!key.empty() && reader.tag() == 2) {
            add(read_slice(reader.get_message()));
          } else {
            reader.skip();
          }
        }
      });
    }
    path_ = path;
  }

  StateDict tensors() const {
    StateDict made;
    const std::string* left_out = nullptr;
    for (const auto& [name, tensor] : tensors_) {
      if (is_lacking(tensor))
        left_out = &name;
      else
        made.emplace(name, whole(name, tensor));
    }
    if (made.empty() && left_out)
      throw UnimplementedError(
          detail::join(path_.string(), ", tensor ", *left_out, " has the type ", type_name(tensors_.at(*left_out).type),
                       " and ", tensors_.at(*left_out).sizes.size(), " dimensions, which no tensor has"),
          where_);
    return made;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw DataLossError(detail::join(path_.string(), parts...), where_);
  }

  /// Of texts, complex numbers and the like.
  static bool is_lacking(const OldTensor& tensor) {
    constexpr TypeCode wider[] = {{5}, {6}, {17}, {22}};  // DT_INT16, INT8, UINT16, UINT32
    const bool is_wider = std::find(std::begin(wider), std::end(wider), tensor.type) != std::end(wider);
    return (!is_wider && size_of(dtype_of(tensor.type)) == 0) || tensor.sizes.size() > Shape::max_rank;
  }

  void read_list(WireReader list) {
    while (list.next()) {
      if (list.tag() != 1) {
        list.skip();
        continue;
      }
      std::string name;
      OldTensor tensor{};
      for (WireReader each = list.get_message(); each.next();) {
        if (each.tag() == 1) {
          name = each.get_text();
        } else if (each.tag() == 2) {
          tensor.sizes = read_sizes(each.get_message());
        } else if (each.tag() == 3) {
          tensor.type.value = each.get_enum();
        } else {
          each.skip();
        }
      }
      if (claimed_bytes(tensor.sizes, 1) < 0) refuse(", tensor ", name, " has a shape that no tensor has");
      if (!listed_.insert(name).second) refuse(" has two tensors ", name);
      // Each file lists the tensors of which it has slices.
      const auto [known, is_new] = tensors_.try_emplace(name, tensor);
      if (!is_new && (known->second.type != tensor.type || known->second.sizes != tensor.sizes))
        refuse(", tensor ", name, " has another type or shape than in another file of the same checkpoint");
    }
  }

  static OldSlice read_slice(WireReader reader) {
    OldSlice slice;
    while (reader.next()) {
      if (reader.tag() == 1) {
        slice.name = reader.get_text();
      } else if (reader.tag() == 2) {
        slice.extents = read_extents(reader.get_message());
      } else if (reader.tag() == 3) {
        slice.data = reader.get_text();
      } else {
        reader.skip();
      }
    }
    return slice;
  }

  void add(OldSlice slice) {
    const auto found = tensors_.find(slice.name);
    if (found == tensors_.end()) refuse(" has elements of a tensor ", slice.name, ", which it does not list");
    OldTensor& tensor = found->second;
    if (is_lacking(tensor)) return;
    if (slice.extents.size() != tensor.sizes.size()) refuse(", tensor ", slice.name, " has a slice of another rank");
    std::vector<std::int64_t> lengths;
    for (std::size_t axis = 0; axis < slice.extents.size(); ++axis) {
      auto& [start, length] = slice.extents[axis];
      if (length == -1) length = tensor.sizes[axis];
      if (start < 0 || length < 0 || length > tensor.sizes[axis] || start > tensor.sizes[axis] - length)
        refuse(", tensor ", slice.name, " has a slice that reaches beyond it");
      lengths.push_back(length);
    }
    // Each element takes a byte at least, so that a small file makes no large tensor.
    const std::int64_t count = claimed_bytes(lengths, 1);
    if (count > static_cast<std::int64_t>(slice.data.size()))
      refuse(", tensor ", slice.name, " has ", slice.data.size(), " bytes of data for ", count, " elements");
    if (count > claimed_bytes(tensor.sizes, 1) - tensor.elements)
      refuse(", tensor ", slice.name, " has slices that overlap");
    tensor.elements += count;
    tensor.slices.emplace_back(std::move(slice.extents), elements(tensor.type, lengths, slice.data));
  }

  /// The message of a tensor consists of its type, its shape, and the data.
  static Tensor elements(TypeCode type, const std::vector<std::int64_t>& lengths, std::string_view data) {
    std::string tensor;
    protozero::pbf_writer writer(tensor);
    writer.add_enum(1, type.value);
    add_message(writer, 2, [&](protozero::pbf_writer& shape) { write_sizes(shape, lengths); });
    tensor += data;
    RawAttr attr;
    protozero::pbf_writer(attr.bytes).add_message(8, tensor);
    return decode_parts(attr).first.value;
  }

  Tensor whole(const std::string& name, const OldTensor& tensor) const {
    if (tensor.elements != claimed_bytes(tensor.sizes, 1) || tensor.slices.empty())
      refuse(", tensor ", name, " lacks elements: they may be in another file of the same checkpoint");
    if (tensor.slices.size() == 1 && tensor.slices[0].second.shape() == Shape(tensor.sizes))
      return tensor.slices[0].second;
    Tensor made = detail::make_tensor(tensor.slices[0].second.dtype(), Shape(tensor.sizes), cpu());
    SliceAssembly assembly(made);
    for (const auto& [extents, slice] : tensor.slices) assembly.add(extents, slice);
    if (!assembly.is_whole()) refuse(", tensor ", name, " has slices that overlap");
    return made;
  }

  std::filesystem::path path_;
  Where where_;
  std::set<std::string> listed_;  ///< in the file that is being read
  std::map<std::string, OldTensor> tensors_;
};

// ---- Several files --------------------------------------------------------------------------------------------------

/// The places of a name's numbers, which have 5 digits at least, as in "model.ckpt-00000-of-00002": of the file, and of
/// how many there are.
struct Part {
  std::string stem, number;
  std::int64_t count = 0;
};
std::optional<Part> part_of(std::string_view name) {
  constexpr std::string_view between = "-of-";
  const std::size_t of = name.rfind(between);
  if (of == std::string_view::npos || of == 0) return {};
  const std::size_t dash = name.rfind('-', of - 1);
  if (dash == std::string_view::npos) return {};
  const std::string_view digits = name.substr(of + between.size());
  Part part{std::string(name.substr(0, dash)), std::string(name.substr(dash + 1, of - dash - 1)), 0};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), part.count);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.size() < 5 || part.count < 1) return {};
  return part;
}

/// The prefix of a checkpoint's files, and how many there are; 0 for one that has none. A Saver names the checkpoint
/// "model.ckpt-?????-of-00002".
std::pair<std::filesystem::path, std::int64_t> parts_of(const std::filesystem::path& path) {
  const auto asked = part_of(path.filename().string());
  if (asked && asked->number == "?????") return {path.parent_path() / asked->stem, asked->count};
  std::int64_t count = 0;
  std::error_code error;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (const auto& each : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = each.path().filename().string();
    const auto part = part_of(name);
    if (part && part->stem == path.filename().string() && part->number.find_first_not_of('0') == std::string::npos)
      count = std::max(count, part->count);
  }
  return {path, count};
}

/// The files of a checkpoint V1; none if there is no such checkpoint.
std::vector<std::filesystem::path> files_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto is_old = [&](const std::filesystem::path& file) {
    return std::filesystem::is_regular_file(file, error) && format_of_file(file) == Format::old_checkpoint;
  };
  if (is_old(path)) return {path};
  const auto [prefix, count] = parts_of(path);
  if (count == 0 || !is_old(data::shard_name(prefix, 0, count))) return {};
  std::vector<std::filesystem::path> files;
  for (std::int64_t i = 0; i < count; ++i) {
    files.emplace_back(data::shard_name(prefix, i, count));
    if (!std::filesystem::is_regular_file(files.back(), error)) break;  // opening it says so
  }
  return files;
}

}  // namespace

bool is_old_checkpoint(const std::filesystem::path& path) { return !files_of(path).empty(); }

StateDict read_old_checkpoint(const std::filesystem::path& path, Where where) {
  return OldCheckpoint(path, files_of(path), where).tensors();
}

}  // namespace tapestry::io

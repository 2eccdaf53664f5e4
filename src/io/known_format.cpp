#include "io/known_format.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <span>
#include <utility>

#include "io/crc32c.hpp"
#include "io/file.hpp"
#include "io/wire.hpp"

namespace tapestry::io {
namespace {

using namespace std::string_view_literals;

/// The fields of a message of protobuf, as bits.
struct MessageFields {
  std::uint32_t messages = 0, numbers = 0;
  std::string_view first;  ///< what the first field 1 that is a message holds

  bool has_message(std::uint32_t tag) const { return (messages >> tag & 1) != 0; }
  bool has_number(std::uint32_t tag) const { return (numbers >> tag & 1) != 0; }
};

/// None for bytes that are no message, not even the beginning of one where they are not whole.
MessageFields message_fields(std::string_view bytes, bool is_whole) {
  MessageFields fields;
  try {
    WireReader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      const bool is_message = reader.wire_type() == protozero::pbf_wire_type::length_delimited;
      const std::uint32_t bit = reader.tag() < 32 ? 1U << reader.tag() : 0;
      // Of a message that is cut off here, the number is known; but what begins so may be anything.
      if (is_message && (fields.messages | fields.numbers) != 0) fields.messages |= bit;
      if (is_message && reader.tag() == 1 && fields.first.empty()) {
        fields.first = reader.get_text();
      } else {
        reader.skip();
      }
      if (is_message) fields.messages |= bit;
      if (reader.wire_type() == protozero::pbf_wire_type::varint) fields.numbers |= bit;
    }
  } catch (const protozero::end_of_buffer_exception&) {
    if (is_whole) return {};
  } catch (const protozero::exception&) {
    return {};
  }
  return fields;
}

Format message_format(std::string_view bytes, bool is_whole) {
  const MessageFields fields = message_fields(bytes, is_whole);
  if (fields.has_number(1) && fields.has_message(7)) return Format::onnx;
  if (fields.has_number(1) && fields.has_message(2)) return Format::saved_model;
  const MessageFields first = message_fields(fields.first, true);
  // Both begin with a message: a graph with a node, which has a name and an op; a MetaGraphDef with what has a list of
  // ops, that is to say a message, in place of the op, or the number of a version of TensorFlow in place of an
  // attribute.
  for (const std::uint32_t tag : {2U, 5U}) {
    std::string_view value;
    for (WireReader each(fields.first.data(), fields.first.size()); first.has_message(tag) && each.next();)
      if (each.tag() == tag && each.wire_type() == protozero::pbf_wire_type::length_delimited)
        value = each.get_text();
      else
        each.skip();
    if (tag == 2 ? value.starts_with('\n') : !value.empty() && value[0] >= '0' && value[0] <= '9')
      return Format::meta_graph;
  }
  return first.has_message(1) && first.has_message(2) ? Format::graph : Format::unknown;
}

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

/// Whether no byte is one that UTF-8 never has, or a control character.
bool is_all_text(std::string_view bytes) {
  return std::none_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0xf5 || (std::iscntrl(byte) != 0 && !is_blank(c));
  });
}

/// What a text is by its first word: protobuf's texts begin with the name of a field.
Format text_format(std::string_view head) {
  const auto skip_space = [&] {
    head.remove_prefix(std::find_if_not(head.begin(), head.end(), is_blank) - head.begin());
  };
  skip_space();
  if (head.starts_with("version https://git-lfs")) return Format::pointer;
  if (head.starts_with('{') || head.starts_with('[')) return Format::json;
  constexpr std::array pages{"<!doctype html"sv, "<html"sv, "<?xml"sv};
  const auto is_same = [](char a, char given) { return std::tolower(static_cast<unsigned char>(given)) == a; };
  for (const std::string_view each : pages)
    if (head.size() >= each.size() && std::equal(each.begin(), each.end(), head.begin(), is_same)) return Format::page;
  while (head.starts_with('#')) {
    head.remove_prefix(std::min(head.find('\n'), head.size()));
    skip_space();
  }
  const std::string_view word = head.substr(0, head.find_first_of(" \t\r\n:{<"));
  head.remove_prefix(word.size());
  skip_space();
  if (head.empty() || ":{<"sv.find(head.front()) == std::string_view::npos) return Format::text;
  if (word == "node" || word == "versions" || word == "library") return Format::graph_text;
  if (word == "meta_info_def" || word == "graph_def") return Format::meta_graph_text;
  if (word == "saved_model_schema_version" || word == "meta_graphs") return Format::saved_model_text;
  return word == "model_checkpoint_path" ? Format::checkpoint_list : Format::text;
}

/// Whether the bytes begin with a number of eight bytes and its masked CRC.
bool is_records(std::string_view bytes) {
  constexpr std::size_t size = sizeof(std::uint64_t);
  std::uint32_t crc = 0;
  if (bytes.size() < size + sizeof crc) return false;
  std::memcpy(&crc, bytes.data() + size, sizeof crc);
  return crc == masked(crc32c(bytes.substr(0, size)));
}

constexpr std::size_t table_end_size = 8;
constexpr auto table_end = "\x57\xfb\x80\x8b\x24\x75\x47\xdb"sv;

/// What a table of a checkpoint is, by its first entry, whose key is empty: that of an index begins with a number, that
/// of a checkpoint V1 with a message.
Format table_format(std::string_view bytes) {
  constexpr auto begin = "\0\0"sv;  // the lengths of the key
  if (!bytes.starts_with(begin)) return Format::checkpoint_index;
  std::size_t at = begin.size();
  while (at < bytes.size() && (bytes[at] & '\x80') != 0) ++at;
  return at + 1 < bytes.size() && bytes[at + 1] == '\n' ? Format::old_checkpoint : Format::checkpoint_index;
}

/// Whether it is "model.data-00000-of-00001" beside "model.index": the bytes of a shard are just elements.
bool is_shard(const std::filesystem::path& path) {
  const std::string name = path.string();
  const std::size_t end = name.rfind(".data-");
  std::error_code error;
  return end != std::string::npos && std::filesystem::is_regular_file(name.substr(0, end) + ".index", error);
}

}  // namespace

Format format_of(std::string_view bytes, bool is_whole) {
  if (bytes.empty()) return is_whole ? Format::empty : Format::unknown;
  constexpr auto starts = std::to_array<std::pair<std::string_view, Format>>({{"PK\3\4", Format::zip},
                                                                              {"PK\5\6", Format::zip},
                                                                              {"\x89HDF\r\n", Format::hdf5},
                                                                              {"GGUF", Format::gguf},
                                                                              {"\x1f\x8b", Format::gzip},
                                                                              {"\x93NUMPY", Format::npy},
                                                                              {"\x89PNG\r\n", Format::image},
                                                                              {"\xff\xd8\xff", Format::image},
                                                                              {"GIF8", Format::image}});
  for (const auto& [start, format] : starts)
    if (bytes.starts_with(start)) return format;
  if (bytes.size() >= 8 && bytes.substr(4, 4) == "TFL3") return Format::tflite;  // a FlatBuffer's identifier
  if (is_records(bytes)) return Format::records;
  if (is_whole && bytes.ends_with(table_end)) return table_format(bytes);
  if (bytes.size() > 9 && bytes.substr(5, 4) == "\0\0\0{"sv) return Format::safetensors;
  if (bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5) return Format::pickle;
  if (const std::string_view head = bytes.substr(0, 512); is_all_text(head)) return text_format(head);
  return message_format(bytes, is_whole);
}

Format format_of_file(const std::filesystem::path& path) {
  try {
    constexpr std::int64_t most = 1 << 20;
    const SourceFile file(path, Where());
    std::string bytes(static_cast<std::size_t>(std::min(file.size(), most)), '\0'), end(table_end_size, '\0');
    file.read(0, std::as_writable_bytes(std::span(bytes)));
    if (file.size() >= static_cast<std::int64_t>(end.size())) {
      file.read(file.size() - static_cast<std::int64_t>(end.size()), std::as_writable_bytes(std::span(end)));
      if (end == table_end) return table_format(bytes);
    }
    if (is_shard(path)) return Format::checkpoint_shard;
    return format_of(bytes, file.size() <= most);
  } catch (const Error&) {
    return Format::unknown;
  }
}

std::string_view name_of(Format format) {
  switch (format) {
    case Format::unknown:
      return {};
    case Format::empty:
      return "empty";
    case Format::graph:
      return "a GraphDef; read it with tp::Graph::load";
    case Format::graph_text:
      return "a text of a GraphDef; tp::Graph::load reads one from a file whose name ends in .pbtxt";
    case Format::meta_graph:
    case Format::meta_graph_text:
      return "a MetaGraphDef (.meta), which is not read: save its graph as a GraphDef, or as a SavedModel";
    case Format::saved_model:
      return "a SavedModel; read its folder with tp::saved_model::load";
    case Format::saved_model_text:
      return "a text of a SavedModel, which is not read: save it as saved_model.pb";
    case Format::onnx:
      return "an ONNX model; read it with tp::onnx::load";
    case Format::safetensors:
      return "a safetensors file; read it with tp::load_weights";
    case Format::npy:
      return "an array of NumPy (.npy); read it with tp::data::read_npy";
    case Format::zip:
      return "a zip archive, such as NumPy's .npz and PyTorch's .pt, which tp::load_weights reads, or Keras's .keras";
    case Format::gzip:
      return "compressed by gzip";
    case Format::hdf5:
      return "an HDF5 file, such as Keras's .h5, which is not read";
    case Format::tflite:
      return "a model of TensorFlow Lite (.tflite), which is not read: read the SavedModel of which it was made";
    case Format::gguf:
      return "a GGUF file, as llama.cpp has them, which is not read";
    case Format::records:
      return "a TFRecord or event file; read it with tp::data::records or tp::summary::FileReader";
    case Format::checkpoint_index:
      return "the index of a checkpoint; give tp::load_weights its prefix, the path without .index";
    case Format::old_checkpoint:
      return "a checkpoint V1 of TensorFlow; read it with tp::load_weights";
    case Format::checkpoint_shard:
      return "a part of a checkpoint; give tp::load_weights its prefix, the path without .data-...";
    case Format::checkpoint_list:
      return "a list of checkpoints; tp::latest_checkpoint reads that of a folder";
    case Format::pickle:
      return "a pickle of Python; tp::load_weights reads PyTorch's";
    case Format::image:
      return "an image";
    case Format::json:
      return "JSON";
    case Format::page:
      return "a page of HTML or XML, such as a server sends in place of a file";
    case Format::pointer:
      return "a pointer of git-lfs, which stands for the file: get that with `git lfs pull`";
    case Format::text:
      return "a text";
  }
  return {};
}

std::string known_as(Format wanted, const std::filesystem::path& path) {
  const Format found = format_of_file(path);
  return found == wanted || found == Format::unknown ? "" : detail::join("; it is ", name_of(found));
}

void refuse_all_but(Format wanted, std::string_view bytes, const std::string& what, Where where) {
  Format found = format_of(bytes);
  const bool is_data = what == "The data";
  if (found == Format::unknown && !is_data && is_shard(what)) found = Format::checkpoint_shard;
  constexpr std::array texts{Format::empty,           Format::graph_text,
                             Format::meta_graph_text, Format::saved_model_text,
                             Format::checkpoint_list, Format::json};
  const bool is_wanted = found == wanted || found == Format::unknown ||
                         (wanted == Format::graph_text && found == Format::text) ||
                         (wanted == Format::text && std::find(texts.begin(), texts.end(), found) != texts.end());
  if (is_wanted) return;
  const bool is_misnamed = wanted == Format::graph_text && found == Format::graph;
  throw InvalidArgumentError(detail::join(what, is_data ? " are " : " is ", name_of(found),
                                          is_misnamed ? ", by a name that does not end in .pbtxt" : ""),
                             where);
}

}  // namespace tapestry::io

#include <array>
#include <set>

#include <nlohmann/json.hpp>

#include "io/arrays/safetensors.hpp"

namespace tapestry::io {
namespace {

using nlohmann::json;

constexpr const char* metadata_key = "__metadata__";

struct Type {
  std::string_view name;
  char kind;
  std::size_t size;
};
constexpr std::array<Type, 12> types{{{"BOOL", 'b', 1},
                                      {"U8", 'u', 1},
                                      {"I8", 'i', 1},
                                      {"U16", 'u', 2},
                                      {"I16", 'i', 2},
                                      {"U32", 'u', 4},
                                      {"I32", 'i', 4},
                                      {"I64", 'i', 8},
                                      {"F16", 'f', 2},
                                      {"BF16", 'B', 2},
                                      {"F32", 'f', 4},
                                      {"F64", 'f', 8}}};

/// The callback of the JSON parser. It stores each tensor as soon as its description is complete, and makes the parser
/// discard that. So a hostile header costs no more memory than an honest one, and a name that occurs twice is noticed.
class HeaderReader {
 public:
  HeaderReader(const std::string& file, Where where) : file_(file), where_(where) {}

  bool operator()(int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    // The header is an object (depth 0) of objects (1), whose members (2) are texts, numbers, or lists of numbers (3).
    const int deepest = event == Event::object_start ? 1 : event == Event::array_start ? 2 : 3;
    const int flattest = event == Event::object_start || event == Event::object_end ? 0 : event == Event::key ? 1 : 2;
    if (depth > deepest || depth < flattest) refuse(" has a header that is no table of tensors");
    if (event == Event::key && depth == 1) begin_entry(value.get<std::string>());
    if (event == Event::key && depth == 2) ++members_;
    if (event == Event::array_start) numbers_ = 0;
    if (event == Event::value && depth == 3 && ++numbers_ > Shape::max_rank)
      throw UnimplementedError(
          detail::join(file_, ", tensor ", name_, " has more than ", Shape::max_rank, " dimensions"), where_);
    if (event != Event::object_end || depth != 1) return true;
    end_entry(value);
    return false;
  }

  SafetensorsHeader take() { return std::move(header_); }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw DataLossError(detail::join(file_, parts...), where_);
  }
  [[noreturn]] void refuse_entry() const { refuse(", tensor ", name_, " is not described as it must be"); }

  void begin_entry(std::string name) {
    name_ = std::move(name);
    if (!names_.insert(name_).second) refuse(" has two tensors called ", name_);
    members_ = 0;
  }

  void end_entry(const json& entry) {
    if (entry.size() != members_) refuse_entry();  // a member that came twice
    if (name_ == metadata_key) {
      for (const auto& [key, text] : entry.items()) {
        if (!text.is_string()) refuse(" has metadata that are not texts");
        header_.metadata.emplace(key, text.get<std::string>());
      }
      return;
    }
    if (members_ != 3) refuse_entry();
    const std::vector<std::int64_t> offsets = numbers(entry, "data_offsets");
    const Shape shape = numbers(entry, "shape");
    if (offsets.size() != 2) refuse_entry();
    header_.entries.push_back({name_, elements(entry), shape, offsets[0], offsets[1]});
  }

  std::vector<std::int64_t> numbers(const json& entry, const char* key) const {
    const auto found = entry.find(key);
    if (found == entry.end() || !found->is_array()) refuse_entry();
    std::vector<std::int64_t> numbers;
    for (const json& each : *found) {
      if (!each.is_number_unsigned() || each.get<std::uint64_t>() > INT64_MAX) refuse_entry();
      numbers.push_back(each.get<std::int64_t>());
    }
    if (claimed_bytes(numbers, 8) < 0) refuse(", tensor ", name_, " claims more than 2^63 bytes of data");
    return numbers;
  }

  FileElements elements(const json& entry) const {
    const auto found = entry.find("dtype");
    if (found == entry.end() || !found->is_string()) refuse_entry();
    const auto& name = found->get_ref<const std::string&>();
    for (const Type& type : types)
      if (type.name == name) return file_elements(type.kind, type.size);
    throw UnimplementedError(
        detail::join(file_, ", tensor ", name_, " has elements of type '", name, "', which no dtype can hold"), where_);
  }

  const std::string& file_;
  Where where_;
  SafetensorsHeader header_;
  std::set<std::string> names_;
  std::string name_;         ///< of the tensor that is being read
  std::size_t members_ = 0;  ///< of its description so far
  int numbers_ = 0;          ///< in the list that is being read
};

std::string_view type_name(DType dtype) {
  constexpr std::string_view names[] = {"", "BOOL", "U8", "I32", "I64", "F16", "BF16", "F32", "F64"};
  return names[static_cast<std::size_t>(dtype)];
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& file, Where where) {
  HeaderReader reader(file, where);
  try {
    const json rest = json::parse(text, std::ref(reader));
    if (!rest.is_object()) throw DataLossError(file + " has a header that is no table of tensors", where);
  } catch (const json::parse_error& error) {
    throw DataLossError(detail::join(file, " has a header that is not JSON, from its byte ", error.byte, " on"), where);
  } catch (const json::exception&) {
    throw DataLossError(file + " has a header that is not JSON", where);
  }
  return reader.take();
}

std::string safetensors_header(const std::vector<std::pair<std::string, Tensor>>& tensors,
                               const std::map<std::string, std::string>& metadata, Where where) {
  json header = json::object();
  if (!metadata.empty()) header[metadata_key] = metadata;
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (name == metadata_key)
      throw InvalidArgumentError(detail::join("No tensor can be called ", name, " in a safetensors file"), where);
    const std::int64_t end = offset + bytes_of(tensor).size();
    json& entry = header[name];
    entry["dtype"] = type_name(tensor.dtype());
    entry["shape"] = tensor.shape().to_vector();
    entry["data_offsets"] = {offset, end};
    offset = end;
  }
  try {
    return header.dump();
  } catch (const json::exception&) {
    throw InvalidArgumentError("The names and metadata of a safetensors file must be UTF-8", where);
  }
}

}  // namespace tapestry::io

#include "io/arrays/pytorch.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/make_tensor.hpp"
#include "io/arrays/elements.hpp"
#include "io/arrays/pickle.hpp"
#include "io/arrays/zip.hpp"

namespace tapestry::io {
namespace {

using namespace std::string_view_literals;

/// The elements of tensors, which may share them.
struct TorchStorage {
  std::string key;
  FileElements elements;
  std::int64_t count = 0;
};

/// Finds the tensors in a pickle of torch.save.
class TorchTensors {
 public:
  using Kind = PickleValue::Kind;
  using Read = std::function<Tensor(const TorchStorage&)>;

  TorchTensors(const Pickle& pickle, std::string file, Where where, std::endian order)
      : pickle_(pickle), file_(std::move(file)), where_(where), order_(order) {}

  /// All tensors. `read` reads a storage's elements as a vector.
  StateDict find(const Read& read) {
    read_ = read;
    collect(pickle_.result(), "", 0);
    return std::move(found_);
  }

  /// What a persistent value of the pickle is.
  TorchStorage storage(std::uint32_t value) const {
    const PickleValue& v = pickle_[value];
    if (v.kind != Kind::persistent) damaged("a tensor without a storage");
    const std::vector<std::uint32_t>& parts = items(v.items[0], Kind::sequence);
    if (parts.size() < 5 || text(parts[0]) != "storage") damaged("an unknown reference");
    if (parts.size() > 5 && pickle_[parts[5]].kind != Kind::other) lacks("a storage that is a part of another one");
    const PickleValue& type = pickle_[parts[1]];
    if (type.kind != Kind::global) damaged("a storage without a type");
    TorchStorage storage{text(parts[2]), elements_of(type.text), integer(parts[4])};
    if (storage.count < 0) damaged("a storage of negative size");
    return storage;
  }

  // ---- Values -------------------------------------------------------------------------------------------------------

  const std::string& text(std::uint32_t value) const {
    if (pickle_[value].kind != Kind::text) damaged("no text where one is due");
    return pickle_[value].text;
  }
  std::int64_t integer(std::uint32_t value) const {
    if (pickle_[value].kind != Kind::integer) damaged("no integer where one is due");
    return pickle_[value].integer;
  }
  const std::vector<std::uint32_t>& items(std::uint32_t value, Kind kind) const {
    if (pickle_[value].kind != kind) damaged("no list where one is due");
    return pickle_[value].items;
  }

  template <class... Parts>
  [[noreturn]] void damaged(const Parts&... parts) const {
    throw DataLossError(detail::join(file_, " is damaged: it has ", parts...), where_);
  }
  template <class... Parts>
  [[noreturn]] void lacks(const Parts&... parts) const {
    throw UnimplementedError(detail::join(file_, " has ", parts..., ", which is not read"), where_);
  }

 private:
  static constexpr int deepest = 64;
  /// Bytes of all names together.
  static constexpr std::size_t most_names = 1 << 28;

  // ---- Names --------------------------------------------------------------------------------------------------------

  static std::string below(const std::string& name, const std::string& key) {
    return name.empty() ? key : name + "." + key;
  }

  void collect(std::uint32_t value, const std::string& name, int depth) {
    // A file can claim that a dict is in itself, or very often in others.
    if (depth > deepest || ++visits_ > Pickle::most_values) damaged("too many dicts in dicts");
    names_ += name.size();
    if (names_ > most_names) damaged("names of more than ", most_names, " bytes");
    const PickleValue& v = pickle_[value];
    if (v.kind == Kind::mapping) return collect_values(v.items, name, depth);
    if (v.kind == Kind::sequence) {
      for (std::size_t i = 0; i < v.items.size(); ++i) collect(v.items[i], below(name, std::to_string(i)), depth + 1);
    } else if (is_dict(v)) {
      collect_values(v.contents, name, depth);
      // Python 2 gives the pairs as an argument.
      for (const std::uint32_t list : items(v.items[1], Kind::sequence))
        if (pickle_[list].kind == Kind::sequence)
          for (const std::uint32_t pair : pickle_[list].items) collect_values(items(pair, Kind::sequence), name, depth);
    } else if (is_tensor(v)) {
      add(name.empty() ? "tensor" : name, tensor(value));
    } else if (v.kind == Kind::object || v.kind == Kind::persistent) {
      if (holds_storage(value))
        throw UnimplementedError(detail::join(file_, " has tensors in an object of Python's class '", class_of(v),
                                              "', which is not read: save its state_dict() by torch.save"),
                                 where_);
    }
  }

  void collect_values(const std::vector<std::uint32_t>& keys_and_values, const std::string& name, int depth) {
    if (keys_and_values.size() % 2 != 0) damaged("a dict with a key that has no value");
    for (std::size_t i = 0; i < keys_and_values.size(); i += 2) {
      const PickleValue& key = pickle_[keys_and_values[i]];
      const bool is_number = key.kind == Kind::integer;
      if (!is_number && key.kind != Kind::text) {
        if (holds_storage(keys_and_values[i + 1])) lacks("a tensor with a key that is neither a text nor a number");
        continue;
      }
      collect(keys_and_values[i + 1], below(name, is_number ? std::to_string(key.integer) : key.text), depth + 1);
    }
  }

  void add(const std::string& name, Tensor tensor) {
    if (!found_.emplace(name, std::move(tensor)).second) damaged("two tensors of the name ", name);
  }

  // ---- Objects ------------------------------------------------------------------------------------------------------

  /// The name of what makes an object; "" for what is none.
  std::string_view class_of(const PickleValue& v) const {
    if (v.kind == Kind::persistent) return "torch.Storage";
    if (v.kind != Kind::object || pickle_[v.items[0]].kind != Kind::global) return "";
    return pickle_[v.items[0]].text;
  }
  bool is_dict(const PickleValue& v) const {
    const std::string_view type = class_of(v);
    return type == "collections.OrderedDict" || type == "collections.defaultdict";
  }
  bool is_parameter(const PickleValue& v) const { return class_of(v).starts_with("torch._utils._rebuild_parameter"); }
  bool is_tensor(const PickleValue& v) const {
    const std::string_view type = class_of(v);
    return is_parameter(v) || type == "torch._utils._rebuild_tensor" || type == "torch._utils._rebuild_tensor_v2" ||
           has_own_type(v);
  }
  /// Whether a tensor tells its type itself, and its storage is mere bytes: so are types as young as uint16.
  bool has_own_type(const PickleValue& v) const { return class_of(v) == "torch._utils._rebuild_tensor_v3"; }

  /// Whether a value refers to a storage, on any way. All values that were asked about are searched once.
  bool holds_storage(std::uint32_t value) {
    without_storage_.resize(pickle_.size());
    std::vector<std::uint32_t> waiting{value};
    while (!waiting.empty()) {
      const std::uint32_t next = waiting.back();
      waiting.pop_back();
      const PickleValue& v = pickle_[next];
      if (v.kind == Kind::persistent) return true;
      if (std::exchange(without_storage_[next], 1) != 0) continue;
      waiting.insert(waiting.end(), v.items.begin(), v.items.end());
      waiting.insert(waiting.end(), v.contents.begin(), v.contents.end());
    }
    return false;
  }

  // ---- Tensors ------------------------------------------------------------------------------------------------------

  Tensor tensor(std::uint32_t value) {
    for (int depth = 0; is_parameter(pickle_[value]); ++depth) {
      const std::vector<std::uint32_t>& arguments = items(pickle_[value].items[1], Kind::sequence);
      if (arguments.empty() || depth == deepest) damaged("a parameter without a tensor");
      value = arguments[0];
    }
    if (!is_tensor(pickle_[value])) lacks("a parameter of another class of tensors");
    if (const auto known = tensors_.find(value); known != tensors_.end()) return known->second;
    const std::vector<std::uint32_t>& arguments = items(pickle_[value].items[1], Kind::sequence);
    if (arguments.size() < 4) damaged("a tensor without strides");
    TorchStorage of = storage(arguments[0]);
    if (has_own_type(pickle_[value])) {
      if (arguments.size() < 7 || pickle_[arguments[6]].kind != Kind::global) damaged("a tensor without a type");
      const std::string& type = pickle_[arguments[6]].text;
      of.elements = elements_of(type);
      const auto size = static_cast<std::int64_t>(of.elements.size);
      if (of.count % size != 0) lacks("a storage of ", of.count, " bytes for elements of the type ", type);
      of.count /= size;
    }
    const auto integers = [&](std::uint32_t list) {
      std::vector<std::int64_t> all;
      for (const std::uint32_t each : items(list, Kind::sequence)) all.push_back(integer(each));
      return all;
    };
    return tensors_[value] = view(of, integer(arguments[1]), integers(arguments[2]), integers(arguments[3]));
  }

  /// The part of a storage that is a tensor.
  Tensor view(const TorchStorage& of, std::int64_t offset, const std::vector<std::int64_t>& sizes,
              const std::vector<std::int64_t>& strides) {
    if (sizes.size() > Shape::max_rank) lacks("a tensor of ", sizes.size(), " dimensions, more than ", Shape::max_rank);
    if (sizes.size() != strides.size() || offset < 0 || claimed_bytes(sizes, of.elements.size) < 0)
      damaged("a tensor of impossible sizes");
    const Tensor all = elements_of(of);
    const Shape shape(sizes);
    if (shape.size() == 0) return detail::make_tensor(of.elements.dtype, shape, cpu());
    std::int64_t last = offset;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::int64_t along = 0;
      if (strides[i] < 0 || __builtin_mul_overflow(sizes[i] - 1, strides[i], &along) ||
          __builtin_add_overflow(last, along, &last))
        damaged("a tensor of impossible strides");
    }
    if (last >= of.count) damaged("a tensor beyond its storage ", of.key, " of ", of.count, " elements");
    return detail::make_view(all, shape, strides, offset);
  }

  /// The elements of a storage as a vector, read once.
  Tensor elements_of(const TorchStorage& storage) {
    const auto [known, is_new] = storages_.try_emplace({storage.key, storage.elements.size});
    if (is_new) known->second = read_(storage);
    if (known->second.dtype() != storage.elements.dtype || known->second.size() != storage.count)
      damaged("two storages of the key ", storage.key);
    return known->second;
  }

  FileElements elements_of(std::string_view type) const {
    static constexpr std::pair<std::string_view, std::pair<char, std::size_t>> types[] = {
        {"torch.FloatStorage", {'f', 4}},          {"torch.DoubleStorage", {'f', 8}}, {"torch.HalfStorage", {'f', 2}},
        {"torch.BFloat16Storage", {'B', 2}},       {"torch.LongStorage", {'i', 8}},   {"torch.IntStorage", {'i', 4}},
        {"torch.ShortStorage", {'i', 2}},          {"torch.CharStorage", {'i', 1}},   {"torch.ByteStorage", {'u', 1}},
        {"torch.BoolStorage", {'b', 1}},           {"torch.uint16", {'u', 2}},        {"torch.uint32", {'u', 4}},
        {"torch.storage.UntypedStorage", {'u', 1}}};
    std::string plain(type);
    if (plain.starts_with("torch.cuda.")) plain.erase(6, 5);
    for (const auto& [name, element] : types)
      if (plain == name) return file_elements(element.first, element.second, order_);
    lacks("elements of the type ", type);
  }

  const Pickle& pickle_;
  std::string file_;
  Where where_;
  std::endian order_;
  Read read_;
  StateDict found_;
  std::size_t visits_ = 0, names_ = 0;
  std::vector<char> without_storage_;        ///< by value; after a storage was found it is not used again
  std::map<std::uint32_t, Tensor> tensors_;  ///< by their number in the pickle
  /// By key and size of an element, in which tensors may differ whose storage is bytes.
  std::map<std::pair<std::string, std::size_t>, Tensor> storages_;
};

// ---- Archives, of PyTorch 1.6 and newer ---------------------------------------------------------------------------------

constexpr std::string_view pickle_member = "/data.pkl";

StateDict read_torch_archive(const ZipReader& archive, const std::string& file, Where where) {
  std::map<std::string_view, const ZipReader::Member*> members;
  std::string folder;
  for (const ZipReader::Member& each : archive.members()) {
    members.emplace(each.name, &each);
    if (is_pytorch_member(each.name)) folder = each.name.substr(0, each.name.size() - pickle_member.size() + 1);
  }
  const auto open = [&](const std::string& name) {
    const auto found = members.find(folder + name);
    if (found == members.end())
      throw DataLossError(detail::join(file, " is damaged: it has no member ", folder, name), where);
    return archive.open(*found->second);
  };
  std::endian order = std::endian::little;
  if (members.contains(folder + "byteorder")) {
    const auto stream = open("byteorder");
    std::string text(3, '\0');
    stream->read(std::as_writable_bytes(std::span(text)));
    if (text == "big") order = std::endian::big;
  }
  const auto stream = open("data.pkl");
  ByteReader reader(*stream);
  const Pickle pickle(reader);
  return TorchTensors(pickle, file, where, order).find([&](const TorchStorage& storage) {
    return read_elements(*open("data/" + storage.key), storage.elements, {storage.count});
  });
}

// ---- Files of earlier versions ------------------------------------------------------------------------------------------

/// The pickle of the number by which PyTorch knows its files.
constexpr std::string_view early_head = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19."sv;

std::endian order_of_system(const Pickle& system) {
  const PickleValue& found = system[system.result()];
  for (std::size_t i = 0; i + 1 < found.items.size(); i += 2)
    if (system[found.items[i]].text == "little_endian" && system[found.items[i + 1]].integer == 0)
      return std::endian::big;
  return std::endian::little;
}

/// There are five pickles: PyTorch's number, the version, the system, the object, and the keys of its storages. The
/// storages follow, each as the number of its elements and these.
StateDict read_early_torch(const SourceFile& file, Where where) {
  FileRange range(file, file.name(), 0, file.size());
  ByteReader reader(range);
  for (int i = 0; i < 2; ++i) Pickle{reader};
  const std::endian order = order_of_system(Pickle(reader));
  const Pickle object(reader), keys(reader);
  TorchTensors tensors(object, file.name(), where, order);
  std::map<std::string, TorchStorage> storages;
  for (std::uint32_t i = 0; i < object.size(); ++i) {
    if (object[i].kind != PickleValue::Kind::persistent) continue;
    TorchStorage storage = tensors.storage(i);
    storages.emplace(storage.key, storage);
  }
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> places;
  std::int64_t place = reader.position();
  const TorchTensors list(keys, file.name(), where, order);
  for (const std::uint32_t each : list.items(keys.result(), PickleValue::Kind::sequence)) {
    const auto storage = storages.find(list.text(each));
    if (storage == storages.end()) list.damaged("a storage that no tensor has");
    FileRange count(file, file.name(), place, std::min<std::int64_t>(place + 8, file.size()));
    if (read_elements(count, file_elements('i', 8, order), {}).item<std::int64_t>() != storage->second.count)
      list.damaged("a storage of another size");
    place += 8;
    const std::int64_t bytes = claimed_bytes(std::span(&storage->second.count, 1), storage->second.elements.size);
    if (bytes < 0 || bytes > file.size() - place)
      list.damaged("fewer elements than the storage ", storage->first, " claims: ", storage->second.count);
    places[storage->first] = {place, place + bytes};
    place += bytes;
  }
  return tensors.find([&](const TorchStorage& storage) {
    const auto found = places.find(storage.key);
    if (found == places.end()) tensors.damaged("no storage ", storage.key);
    FileRange elements(file, detail::join(file.name(), ", storage ", storage.key), found->second.first,
                       found->second.second);
    return read_elements(elements, storage.elements, {storage.count});
  });
}

}  // namespace

bool is_early_pytorch(std::string_view head) { return head.starts_with(early_head); }
bool is_pytorch_member(std::string_view member) {
  return member.ends_with(pickle_member) && std::count(member.begin(), member.end(), '/') == 1;
}

StateDict read_pytorch(const std::filesystem::path& path, Where where) {
  const SourceFile file(path, where);
  std::string head(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 16)), '\0');
  file.read(0, std::as_writable_bytes(std::span(head)));
  if (is_early_pytorch(head)) return read_early_torch(file, where);
  return read_torch_archive(ZipReader(path, where), file.name(), where);
}

}  // namespace tapestry::io

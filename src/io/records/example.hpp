#pragma once

#include "io/wire.hpp"
#include "tapestry/data/example.hpp"

namespace tapestry::io {

/// Where a record stands, in errors: "train.tfrecord: the record at byte 12".
std::string place_of(const data::Record& record);

/// Calls `visit` with the key and the message Feature of each entry of a message Example, in the order of the bytes.
/// Throws protozero's exceptions for bytes that are none. The views refer to these bytes.
template <class F>
void visit_features(WireReader features, F visit) {
  while (features.next()) {
    if (features.tag() != 1) {
      features.skip();
      continue;
    }
    WireReader entry = features.get_message();
    std::string_view key, feature;
    while (entry.next()) switch (entry.tag()) {
        case 1:
          key = entry.get_text();
          break;
        case 2:
          feature = entry.get_text();
          break;
        default:
          entry.skip();
      }
    visit(key, feature);
  }
}

/// The lists of a message Feature.
enum class FeatureList { none, bytes = 1, floats = 2, integers = 3 };

/// Calls `list` with the kind of each list of a message Feature and a reader of the list, as protocol buffers' rules
/// for a oneof say: the last kind counts, and lists of it are joined.
template <class F>
FeatureList visit_lists(std::string_view feature, F list) {
  FeatureList last = FeatureList::none;
  const auto is_list = [](const WireReader& reader) { return reader.tag() >= 1 && reader.tag() <= 3; };
  for (WireReader reader(feature.data(), feature.size()); reader.next(); reader.skip())
    if (is_list(reader)) last = static_cast<FeatureList>(reader.tag());
  WireReader reader(feature.data(), feature.size());
  while (reader.next()) {
    if (is_list(reader) && static_cast<FeatureList>(reader.tag()) == last) {
      list(last, reader.get_message());
    } else {
      reader.skip();
    }
  }
  return last;
}

/// The values of a message FloatList or Int64List, packed or not, and BytesList.
/// @{
template <class F>
void visit_texts(WireReader list, F visit) {
  while (list.next()) {
    if (list.tag() == 1) {
      visit(list.get_text());
    } else {
      list.skip();
    }
  }
}
void append_floats(WireReader list, std::vector<float>& values);
void append_integers(WireReader list, std::vector<std::int64_t>& values);
/// @}

}  // namespace tapestry::io

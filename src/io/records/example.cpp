#include "io/records/example.hpp"

#include <bit>
#include <cstring>

namespace tapestry::io {

std::string place_of(const data::Record& record) {
  if (!record.path) return "A record";
  return detail::join(*record.path, ": the record at byte ", record.offset);
}

void append_floats(WireReader list, std::vector<float>& values) {
  static_assert(std::endian::native == std::endian::little, "floats are stored as they lie in memory");
  while (list.next()) {
    if (list.tag() != 1) {
      list.skip();
    } else if (list.wire_type() == protozero::pbf_wire_type::fixed32) {
      values.push_back(list.get_float());
    } else {
      const std::string_view bytes = list.get_text();
      if (bytes.size() % sizeof(float) != 0) throw protozero::invalid_length_exception();
      const std::size_t before = values.size();
      values.resize(before + bytes.size() / sizeof(float));
      if (!bytes.empty()) std::memcpy(values.data() + before, bytes.data(), bytes.size());
    }
  }
}

void append_integers(WireReader list, std::vector<std::int64_t>& values) {
  while (list.next()) {
    if (list.tag() != 1) {
      list.skip();
    } else if (list.wire_type() == protozero::pbf_wire_type::varint) {
      values.push_back(list.get_int64());
    } else {
      const std::string_view bytes = list.get_text();
      const char* at = bytes.data();
      const char* const end = at + bytes.size();
      while (at != end) values.push_back(static_cast<std::int64_t>(protozero::decode_varint(&at, end)));
    }
  }
}

}  // namespace tapestry::io

namespace tapestry::data {
namespace {

using io::WireReader;
using protozero::pbf_writer;

void write_values(pbf_writer& writer, const FeatureValues& values) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&values)) {
    io::add_message(writer, 1, [&](pbf_writer& list) {
      for (const std::string& each : *texts) list.add_bytes(1, each);
    });
  } else if (const auto* floats = std::get_if<std::vector<float>>(&values)) {
    io::add_message(writer, 2, [&](pbf_writer& list) { list.add_packed_float(1, floats->begin(), floats->end()); });
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&values)) {
    io::add_message(writer, 3, [&](pbf_writer& list) { list.add_packed_int64(1, integers->begin(), integers->end()); });
  }
}

/// A map entry: a key, and a message as its value.
template <class F>
void add_entry(pbf_writer& writer, const std::string& key, F fill) {
  io::add_message(writer, 1, [&](pbf_writer& entry) {
    entry.add_string(1, key);
    io::add_message(entry, 2, fill);
  });
}

void write_features(pbf_writer& writer, const Example& example) {
  for (const auto& [name, values] : example)
    add_entry(writer, name, [&values = values](pbf_writer& feature) { write_values(feature, values); });
}

FeatureValues values_of(std::string_view feature) {
  FeatureValues values;
  io::visit_lists(feature, [&](io::FeatureList kind, const WireReader& list) {
    if (kind == io::FeatureList::bytes) {
      if (values.index() != 1) values = std::vector<std::string>();
      io::visit_texts(list, [&](std::string_view text) { std::get<1>(values).emplace_back(text); });
    } else if (kind == io::FeatureList::floats) {
      if (values.index() != 2) values = std::vector<float>();
      io::append_floats(list, std::get<2>(values));
    } else {
      if (values.index() != 3) values = std::vector<std::int64_t>();
      io::append_integers(list, std::get<3>(values));
    }
  });
  return values;
}

void read_features(const WireReader& features, Example& example) {
  io::visit_features(features, [&](std::string_view key, std::string_view feature) {
    example[std::string(key)] = values_of(feature);
  });
}

/// Reads a record by `read`, which takes a WireReader. protozero's errors become ours.
template <class F>
void read_message(const Record& record, std::string_view message, Where where, F read) {
  try {
    read(WireReader(record.bytes));
  } catch (const protozero::exception&) {
    throw DataLossError(detail::join(io::place_of(record), " is no ", message, ", or damaged"), where);
  }
}

}  // namespace

void FeatureValues::refuse(std::size_t wanted, Where where) const {
  constexpr std::string_view names[] = {"no values", "bytes", "floats", "integers"};
  throw InvalidArgumentError(tapestry::detail::join("The feature has ", names[index()], ", not ", names[wanted]),
                             where);
}

std::string encode(const Example& example) {
  std::string bytes;
  pbf_writer writer(bytes);
  io::add_message(writer, 1, [&](pbf_writer& features) { write_features(features, example); });
  return bytes;
}

std::string encode(const SequenceExample& example) {
  std::string bytes;
  pbf_writer writer(bytes);
  io::add_message(writer, 1, [&](pbf_writer& features) { write_features(features, example.context); });
  io::add_message(writer, 2, [&](pbf_writer& lists) {
    for (const auto& [name, steps] : example.feature_lists)
      add_entry(lists, name, [&steps = steps](pbf_writer& list) {
        for (const FeatureValues& each : steps)
          io::add_message(list, 1, [&](pbf_writer& feature) { write_values(feature, each); });
      });
  });
  return bytes;
}

Example decode_example(const Record& record, Where where) {
  Example example;
  read_message(record, "tf.Example", where, [&](WireReader reader) {
    while (reader.next()) {
      if (reader.tag() == 1) {
        read_features(reader.get_message(), example);
      } else {
        reader.skip();
      }
    }
  });
  return example;
}

SequenceExample decode_sequence_example(const Record& record, Where where) {
  SequenceExample example;
  read_message(record, "tf.SequenceExample", where, [&](WireReader reader) {
    while (reader.next()) {
      if (reader.tag() == 1) {
        read_features(reader.get_message(), example.context);
      } else if (reader.tag() == 2) {
        io::visit_features(reader.get_message(), [&](std::string_view key, std::string_view list) {
          std::vector<FeatureValues>& steps = example.feature_lists[std::string(key)];
          steps.clear();
          io::visit_texts(WireReader(list.data(), list.size()),
                          [&](std::string_view feature) { steps.push_back(values_of(feature)); });
        });
      } else {
        reader.skip();
      }
    }
  });
  return example;
}

}  // namespace tapestry::data

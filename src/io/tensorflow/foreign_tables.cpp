#include <unordered_map>

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/reader_plugin.hpp"

namespace tapestry::io {
namespace {

using Table = std::unordered_multimap<std::string_view, ForeignOp>;

/// The ops of all tables: those that are read so under a condition, or always.
const Table& foreign_ops(bool conditional) {
  static const auto& tables = *new std::pair<Table, Table>([] {
    std::pair<Table, Table> made;
    for (const auto& table :
         {foreign_arrays(),         foreign_candidates(),    foreign_cells(),     foreign_channels_first(),
          foreign_colours(),        foreign_control(),       foreign_counts(),    foreign_ctc(),
          foreign_decoders(),       foreign_distributions(), foreign_fused(),     foreign_glimpses(),
          foreign_gradients(),      foreign_hashes(),        foreign_images(),    foreign_integers(),
          foreign_lists(),          foreign_math(),          foreign_matrices(),  foreign_mutable_tables(),
          foreign_normalizations(), foreign_quantized(),     foreign_ragged(),    foreign_random(),
          foreign_sampling(),       foreign_scatter(),       foreign_selection(), foreign_sound(),
          foreign_sparse(),         foreign_special(),       foreign_systems(),   foreign_values(),
          foreign_volumes()})
      for (const ForeignOp& each : table) (each.applies ? made.first : made.second).emplace(each.name, each);
    return made;
  }());
  return conditional ? tables.first : tables.second;
}

}  // namespace

const ForeignOp* find_in_tables(const NodeDef& def) {
  for (const bool conditional : {true, false}) {
    const Table& table = foreign_ops(conditional);
    for (auto [each, end] = table.equal_range(def.op); each != end; ++each)
      if (!conditional || each->second.applies(def)) return &each->second;
  }
  return nullptr;
}

}  // namespace tapestry::io

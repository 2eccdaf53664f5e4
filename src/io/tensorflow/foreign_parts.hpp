#pragma once

#include <functional>
#include <vector>

#include "core/make_tensor.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "io/tensorflow/op_reader.hpp"
#include "ops/resize.hpp"
#include "tapestry/ops.hpp"

/// What the tables of foreign ops share, in the plugin that reads graphs. Each table is a file of its own.

namespace tapestry::io {

using ForeignOps = std::vector<ForeignOp>;

ForeignOps foreign_arrays();
ForeignOps foreign_candidates();
ForeignOps foreign_cells();
ForeignOps foreign_colours();
ForeignOps foreign_control();
/// How often numbers occur.
ForeignOps foreign_counts();
/// Labels of sequences, and their losses.
ForeignOps foreign_ctc();
/// What labels are the likeliest, and how far labels are from others.
ForeignOps foreign_decoders();
/// Random numbers of distributions with parameters.
ForeignOps foreign_distributions();
ForeignOps foreign_fused();
/// Windows and boxes in images.
ForeignOps foreign_glimpses();
ForeignOps foreign_gradients();
/// Hashes of whole numbers.
ForeignOps foreign_hashes();
ForeignOps foreign_images();
/// What our ops have for floating point numbers only. These ops have conditions.
ForeignOps foreign_integers();
ForeignOps foreign_lists();
ForeignOps foreign_math();
ForeignOps foreign_matrices();
/// What is done with tables that change.
ForeignOps foreign_mutable_tables();
ForeignOps foreign_normalizations();
/// Their numbers are int32, and the attribute `quantized_type` tells the type.
ForeignOps foreign_quantized();
/// Rows of different lengths.
ForeignOps foreign_ragged();
ForeignOps foreign_random();
ForeignOps foreign_sampling();
ForeignOps foreign_scatter();
ForeignOps foreign_selection();
ForeignOps foreign_sound();
ForeignOps foreign_sparse();
ForeignOps foreign_special();
ForeignOps foreign_systems();
ForeignOps foreign_values();
ForeignOps foreign_volumes();
/// Images with the channels before the rows and columns. These ops have conditions.
ForeignOps foreign_channels_first();

/// More elements than a list of indices of any real graph has.
inline constexpr std::int64_t most_numbers = 1 << 24;
/// Longer than any list that a real graph stitches together, and than a side of any image.
inline constexpr std::int64_t most_places = 1 << 20;
/// More than any block size of a real graph, or any side of a window.
inline constexpr std::int64_t most_blocks = 1 << 12;

// ---- Conditions (ForeignOp::applies)

/// Whether a node has a flag with this value.
bool has_flag(const NodeDef& def, std::string_view name, bool value);
/// Whether a node's attribute "T" is a type of whole numbers.
bool is_of_integers(const NodeDef& def);

// ---- Conditions (ForeignOp::lacks_sizes)

bool lacks_rank(const NodeReader& reader, const Tensors& inputs);
bool lacks_any_size(const NodeReader& reader, const Tensors& inputs);
/// For what is done to each element of a batch: the first size of the first input does not matter.
bool lacks_element_sizes(const NodeReader& reader, const Tensors& inputs);
/// For images: their number does not matter.
bool lacks_image_sizes(const NodeReader& reader, const Tensors& inputs);

// ---- Outputs (ForeignOp::specs)

/// For one output, which has the type and the shape of the first input.
Specs specs_like_first(const NodeReader& reader, const Tensors& inputs);

// ---- Checks

[[noreturn]] void lack(const ForeignNode& n, std::string_view what);
void require_nhwc(const ForeignNode& n);
void require_images(const ForeignNode& n);
void require_rank(const ForeignNode& n, std::size_t input, int rank);
/// Throws unless all inputs from `first` on have one type.
void require_one_type(const ForeignNode& n, std::size_t first = 0);

// ---- Parts

/// Adds constants as the outputs of a node.
Tensors constant_nodes(const ForeignNode& n, const std::vector<Tensor>& values);
std::vector<Padding> paddings_of(const ForeignNode& n, std::size_t input = 1);
/// How a node pads with what is inside.
PadMode mirror_mode(const ForeignNode& n);
/// A tensor of zeros for ops that only use its shape.
Tensor shape_only(const ForeignNode& n, const Shape& shape, DType dtype);
/// How a node of resizing, or of its gradient, makes one size of another.
Taps resize_taps(const ForeignNode& n, std::int64_t from, std::int64_t to);
/// The gradients of the sum of all elements that `f` gives for the sources, by these. The sources are given to `f` as
/// tensors of their own: what else depends on the same tensors does not count.
Tensors gradients_of(const Tensors& sources, const std::function<Tensors(const Tensors&)>& f);
Attrs with_groups(const Attrs& attrs, std::int64_t groups);

}  // namespace tapestry::io

#pragma once

#include "io/tensorflow/node_writer.hpp"

/// The ops that TensorFlow has only under conditions, or not at all: the conditions, and the `expand` functions, which
/// write other ops instead. Each of them puts the values of the node's outputs into `writer.result`.

namespace tapestry::io {

bool have_one_shape(const detail::Node& node);
bool has_scalar_bounds(const detail::Node& node);
bool has_known_target(const detail::Node& node);
bool has_one_axis(const detail::Node& node);
// Whether the place of an axis depends on the rank of an input.
bool always(const detail::Node& node);
bool is_before_last(const detail::Node& node);
bool counts_from_both_ends(const detail::Node& node);
bool is_behind_first(const detail::Node& node);
bool repeats_one_axis(const detail::Node& node);
bool has_rank_2(const detail::Node& node);
bool has_one_group(const detail::Node& node);
bool has_no_explicit_padding(const detail::Node& node);
bool alpha_fits_float(const detail::Node& node);
bool fills_whole_slice(const detail::Node& node);
bool is_largest_known(const detail::Node& node);
bool is_standard_random(const detail::Node& node);
bool is_on_host(const detail::Node& node);

void expand_cross_entropy(NodeWriter& writer);
void expand_broadcast_to(NodeWriter& writer);
void expand_expand_dims(NodeWriter& writer);
void expand_sum_like(NodeWriter& writer);
void expand_broadcast_like(NodeWriter& writer);
void expand_reshape_like(NodeWriter& writer);
void expand_size_like(NodeWriter& writer);
void expand_identity(NodeWriter& writer);
void expand_fill(NodeWriter& writer);
void expand_fill_like(NodeWriter& writer);
void expand_to_constant(NodeWriter& writer);
void expand_concat_grad(NodeWriter& writer);
void expand_sequence_mask(NodeWriter& writer);
void expand_slice_update(NodeWriter& writer);
void expand_slice_grad(NodeWriter& writer);
void expand_repeat(NodeWriter& writer);
void expand_tile_grad(NodeWriter& writer);
void expand_pad_grad(NodeWriter& writer);
void expand_segments(NodeWriter& writer);
void expand_scatter_nd(NodeWriter& writer);
void expand_take_along(NodeWriter& writer);
void expand_put_along(NodeWriter& writer);
void expand_top_k(NodeWriter& writer);
void expand_conv(NodeWriter& writer);
void expand_conv_backprop_input(NodeWriter& writer);
void expand_conv_backprop_filter(NodeWriter& writer);
void expand_avg_pool(NodeWriter& writer);
void expand_avg_pool_grad(NodeWriter& writer);
void expand_normal(NodeWriter& writer);
void expand_uniform(NodeWriter& writer);
void expand_uniform_int(NodeWriter& writer);
void expand_bernoulli(NodeWriter& writer);
void expand_permutation(NodeWriter& writer);

}  // namespace tapestry::io

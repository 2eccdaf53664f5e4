#include <cmath>

#include "op_cases/odd_calls.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {
namespace {

using X = const Tensors&;
using N = const OddNumbers&;

Shape shape_of(const Ints& sizes) { return std::vector<std::int64_t>(sizes.begin(), sizes.end()); }

Axes axes_of(N n, std::size_t from) {
  if (n.flag(from)) return Axes(n[from + 1]);
  if (n[from] == 0) return {};
  return Axes(n.list(from + 1, n[from]));
}

ReduceOptions keep(N n) { return {.keep_dims = n.flag(15)}; }

std::vector<OddFunction> movements() {
  return {
      {"reshape", 1, [](X x, N n) -> Tensors { return {reshape(x[0], shape_of(n.list(1, n[0])))}; }},
      {"ensure_shape", 1, [](X x, N n) -> Tensors { return {ensure_shape(x[0], shape_of(n.list(1, n[0])))}; }},
      {"transpose", 1, [](X x, N n) -> Tensors { return {transpose(x[0], n.list(1, n[0]))}; }},
      {"squeeze", 1, [](X x, N n) -> Tensors { return {squeeze(x[0], axes_of(n, 0))}; }},
      {"expand_dims", 1, [](X x, N n) -> Tensors { return {expand_dims(x[0], axes_of(n, 0))}; }},
      {"broadcast_to", 1, [](X x, N n) -> Tensors { return {broadcast_to(x[0], shape_of(n.list(1, n[0])))}; }},
      {"flip", 1, [](X x, N n) -> Tensors { return {flip(x[0], axes_of(n, 0))}; }},
      {"roll", 1, [](X x, N n) -> Tensors { return {roll(x[0], n[0], n[1])}; }},
      {"slice", 1, [](X x, N n) -> Tensors { return {slice(x[0], n.list(1, n[0]), n.list(5, n[0]))}; }},
      {"index", 1, [](X x, N n) -> Tensors { return {x[0](n[0])}; }},
      {"index range", 1, [](X x, N n) -> Tensors { return {x[0](range(n[0], n[1], n[2]))}; }},
      {"index two", 1, [](X x, N n) -> Tensors { return {x[0](range(n[0], n[1]), n[2])}; }},
      {"index ellipsis", 1, [](X x, N n) -> Tensors { return {x[0](n[0], ellipsis, range(n[1], n[2], n[3]))}; }},
      {"index newaxis", 1, [](X x, N n) -> Tensors { return {x[0](newaxis, n[0], all, newaxis)}; }},
      {"index tensor", 2, [](X x, N) -> Tensors { return {x[0](x[1])}; }},
      {"slice_update", 2, [](X x, N n) -> Tensors { return {slice_update(x[0], x[1], n[0])}; }},
      {"slice_update range", 2,
       [](X x, N n) -> Tensors { return {slice_update(x[0], x[1], range(n[0], n[1], n[2]), ellipsis)}; }},
      {"size", 1,
       [](X x, N n) -> Tensors {
         return {size(x[0], n[0]), size(x[0]), shape(x[0])};
       }},
      {"concat", 2,
       [](X x, N n) -> Tensors {
         return {concat({x[0], x[1]}, n[0])};
       }},
      {"concat three", 3,
       [](X x, N n) -> Tensors {
         return {concat({x[0], x[1], x[2]}, n[0])};
       }},
      {"stack", 2,
       [](X x, N n) -> Tensors {
         return {stack({x[0], x[1]}, n[0])};
       }},
      {"unstack", 1, [](X x, N n) -> Tensors { return unstack(x[0], n[0]); }},
      {"split", 1, [](X x, N n) -> Tensors { return split(x[0], n[0], n[1]); }},
      {"split sizes", 1, [](X x, N n) -> Tensors { return split(x[0], n.list(2, n[0]), n[1]); }},
      {"tile", 1, [](X x, N n) -> Tensors { return {tile(x[0], n.list(1, n[0]))}; }},
      {"repeat", 1, [](X x, N n) -> Tensors { return {repeat(x[0], n[0], n[1])}; }},
      {"repeat all", 1, [](X x, N n) -> Tensors { return {repeat(x[0], n[0])}; }},
      {"pad", 1,
       [](X x, N n) -> Tensors {
         std::vector<Padding> paddings;
         for (std::int64_t i = 0; i < std::llabs(n[0] % 4); ++i)
           paddings.push_back({n[static_cast<std::size_t>(2 * i + 2)], n[static_cast<std::size_t>(2 * i + 3)]});
         return {pad(x[0], paddings, {.mode = static_cast<PadMode>(std::llabs(n[1] % 3)), .value = n.real[0]})};
       }},
      {"gather", 2, [](X x, N n) -> Tensors { return {gather(x[0], x[1], n[0])}; }},
      {"gather_nd", 2, [](X x, N) -> Tensors { return {gather_nd(x[0], x[1])}; }},
      {"take_along_axis", 2, [](X x, N n) -> Tensors { return {take_along_axis(x[0], x[1], n[0])}; }},
      {"scatter_add", 3, [](X x, N) -> Tensors { return {scatter_add(x[0], x[1], x[2])}; }},
      {"tensor_scatter_nd_add", 3, [](X x, N) -> Tensors { return {tensor_scatter_nd_add(x[0], x[1], x[2])}; }},
      {"top_k", 1,
       [](X x, N n) -> Tensors {
         const TopK t = top_k(x[0], n[0]);
         return {t.values, t.indices};
       }},
      {"sort", 1,
       [](X x, N n) -> Tensors {
         return {sort(x[0], n[0], n.flag(1) ? Direction::ascending : Direction::descending)};
       }},
      {"argsort", 1,
       [](X x, N n) -> Tensors {
         return {argsort(x[0], n[0], n.flag(1) ? Direction::ascending : Direction::descending)};
       }},
      {"sum_like", 2, [](X x, N) -> Tensors { return {sum_like(x[0], x[1])}; }},
      {"broadcast_like", 2, [](X x, N) -> Tensors { return {broadcast_like(x[0], x[1])}; }},
      {"reshape_like", 2, [](X x, N) -> Tensors { return {reshape_like(x[0], x[1])}; }},
      {"cast", 1, [](X x, N n) -> Tensors { return {cast(x[0], static_cast<DType>(n.flag(7) ? n[0] : n[0] & 7))}; }},
      {"meshgrid", 2,
       [](X x, N) -> Tensors {
         return meshgrid({x[0], x[1]});
       }},
      {"rot90", 1, [](X x, N n) -> Tensors { return {rot90(x[0], n[0])}; }},
      {"tril", 1,
       [](X x, N n) -> Tensors {
         return {tril(x[0], n[0]), triu(x[0], n[1])};
       }},
      {"band_part", 1, [](X x, N n) -> Tensors { return {band_part(x[0], n[0], n[1])}; }},
      {"nonzero", 1, [](X x, N) -> Tensors { return {nonzero(x[0])}; }},
      {"boolean_mask", 2, [](X x, N) -> Tensors { return {boolean_mask(x[0], x[1])}; }},
      {"masked_assign", 3, [](X x, N) -> Tensors { return {masked_assign(x[0], x[1], x[2])}; }},
      {"unique", 1,
       [](X x, N) -> Tensors {
         const Unique u = unique(x[0]);
         return {u.values, u.inverse, u.counts};
       }},
      {"dynamic_partition", 2, [](X x, N n) -> Tensors { return dynamic_partition(x[0], x[1], n[0]); }},
      {"dynamic_stitch", 2, [](X x, N) -> Tensors { return {dynamic_stitch({x[0]}, {x[1]})}; }},
      {"dynamic_stitch two", 4,
       [](X x, N) -> Tensors {
         return {dynamic_stitch({x[0], x[1]}, {x[2], x[3]})};
       }},
      {"sequence_mask", 1, [](X x, N n) -> Tensors { return {sequence_mask(x[0], n[0])}; }},
      {"reverse_sequence", 2, [](X x, N n) -> Tensors { return {reverse_sequence(x[0], x[1], n[0], n[1])}; }},
      {"ragged_to_padded", 2, [](X x, N n) -> Tensors { return {ragged_to_padded(x[0], x[1], n.real[0])}; }},
      {"padded_to_ragged", 2, [](X x, N) -> Tensors { return {padded_to_ragged(x[0], x[1])}; }},
      {"one_hot", 1, [](X x, N n) -> Tensors { return {one_hot(x[0], n[0])}; }},
      {"diag_part", 1, [](X x, N) -> Tensors { return {diag_part(x[0])}; }},
      {"set_diag", 2, [](X x, N) -> Tensors { return {set_diag(x[0], x[1])}; }},
      {"kron", 2, [](X x, N) -> Tensors { return {kron(x[0], x[1])}; }},
      {"outer", 2, [](X x, N) -> Tensors { return {outer(x[0], x[1])}; }},
  };
}

std::vector<OddFunction> reductions() {
  return {
      {"reduce_sum", 1, [](X x, N n) -> Tensors { return {reduce_sum(x[0], axes_of(n, 0), keep(n))}; }},
      {"reduce_mean", 1, [](X x, N n) -> Tensors { return {reduce_mean(x[0], axes_of(n, 0), keep(n))}; }},
      {"reduce_prod", 1, [](X x, N n) -> Tensors { return {reduce_prod(x[0], axes_of(n, 0), keep(n))}; }},
      {"reduce_max", 1, [](X x, N n) -> Tensors { return {reduce_max(x[0], axes_of(n, 0), keep(n))}; }},
      {"reduce_min", 1, [](X x, N n) -> Tensors { return {reduce_min(x[0], axes_of(n, 0), keep(n))}; }},
      {"reduce_any", 1, [](X x, N n) -> Tensors { return {reduce_any(x[0], axes_of(n, 0), keep(n))}; }},
      {"reduce_all", 1, [](X x, N n) -> Tensors { return {reduce_all(x[0], axes_of(n, 0), keep(n))}; }},
      {"reduce_logsumexp", 1, [](X x, N n) -> Tensors { return {reduce_logsumexp(x[0], axes_of(n, 0), keep(n))}; }},
      {"reduce_std", 1, [](X x, N n) -> Tensors { return {reduce_std(x[0], axes_of(n, 0), keep(n))}; }},
      {"variance", 1, [](X x, N n) -> Tensors { return {variance(x[0], axes_of(n, 0), keep(n))}; }},
      {"moments", 1,
       [](X x, N n) -> Tensors {
         const Moments m = moments(x[0], axes_of(n, 0), keep(n));
         return {m.mean, m.variance};
       }},
      {"argmax", 1,
       [](X x, N n) -> Tensors {
         return {argmax(x[0], n[0]), argmin(x[0], n[0])};
       }},
      {"cumsum", 1,
       [](X x, N n) -> Tensors { return {cumsum(x[0], n[0], {.exclusive = n.flag(1), .reverse = n.flag(2)})}; }},
      {"cumprod", 1,
       [](X x, N n) -> Tensors { return {cumprod(x[0], n[0], {.exclusive = n.flag(1), .reverse = n.flag(2)})}; }},
      {"cummax", 1,
       [](X x, N n) -> Tensors {
         return {cummax(x[0], n[0]), cummin(x[0], n[0])};
       }},
      {"cumulative_logsumexp", 1, [](X x, N n) -> Tensors { return {cumulative_logsumexp(x[0], n[0])}; }},
      {"quantile", 1, [](X x, N n) -> Tensors { return {quantile(x[0], n.real[0], n[0], keep(n))}; }},
      {"quantile all", 1, [](X x, N n) -> Tensors { return {quantile(x[0], n.real[0])}; }},
      {"median", 1,
       [](X x, N n) -> Tensors {
         return {median(x[0], n[0], keep(n)), median(x[0])};
       }},
      {"diff", 1, [](X x, N n) -> Tensors { return {diff(x[0], n[0], n[1])}; }},
      {"trapezoid", 1, [](X x, N n) -> Tensors { return {trapezoid(x[0], n.real[0], n[0])}; }},
      {"trapezoid points", 2, [](X x, N n) -> Tensors { return {trapezoid(x[0], x[1], n[0])}; }},
      {"cov", 1,
       [](X x, N) -> Tensors {
         return {cov(x[0]), corrcoef(x[0])};
       }},
      {"bincount", 1, [](X x, N n) -> Tensors { return {bincount(x[0], n[0])}; }},
      {"bincount weights", 2, [](X x, N n) -> Tensors { return {bincount(x[0], x[1], n[0])}; }},
      {"histogram", 1, [](X x, N n) -> Tensors { return {histogram_fixed_width(x[0], n.real[0], n.real[1], n[0])}; }},
      {"searchsorted", 2,
       [](X x, N n) -> Tensors { return {searchsorted(x[0], x[1], n.flag(0) ? Side::left : Side::right)}; }},
      {"interp", 3, [](X x, N) -> Tensors { return {interp(x[0], x[1], x[2])}; }},
      {"softmax", 1,
       [](X x, N n) -> Tensors {
         return {softmax(x[0], n[0]), log_softmax(x[0], n[0])};
       }},
      {"norm", 1,
       [](X x, N n) -> Tensors {
         return {norm(x[0], {.ord = n.real[0], .axis = axes_of(n, 0), .keep_dims = n.flag(15)})};
       }},
      {"norm by name", 1,
       [](X x, N n) -> Tensors {
         return {norm(x[0], {.ord = n.flag(14) ? "fro" : "euclidean", .axis = axes_of(n, 0), .keep_dims = n.flag(15)})};
       }},
      {"unsorted_segment_sum", 2, [](X x, N n) -> Tensors { return {unsorted_segment_sum(x[0], x[1], n[0])}; }},
      {"unsorted_segment_mean", 2, [](X x, N n) -> Tensors { return {unsorted_segment_mean(x[0], x[1], n[0])}; }},
      {"unsorted_segment_max", 2, [](X x, N n) -> Tensors { return {unsorted_segment_max(x[0], x[1], n[0])}; }},
      {"unsorted_segment_min", 2, [](X x, N n) -> Tensors { return {unsorted_segment_min(x[0], x[1], n[0])}; }},
      {"unsorted_segment_prod", 2, [](X x, N n) -> Tensors { return {unsorted_segment_prod(x[0], x[1], n[0])}; }},
      {"unsorted_segment_sqrt_n", 2, [](X x, N n) -> Tensors { return {unsorted_segment_sqrt_n(x[0], x[1], n[0])}; }},
      {"segment_sum", 2, [](X x, N) -> Tensors { return {segment_sum(x[0], x[1])}; }},
      {"segment_mean", 2, [](X x, N) -> Tensors { return {segment_mean(x[0], x[1])}; }},
      {"segment_max", 2, [](X x, N) -> Tensors { return {segment_max(x[0], x[1])}; }},
      {"segment_min", 2, [](X x, N) -> Tensors { return {segment_min(x[0], x[1])}; }},
      {"segment_prod", 2, [](X x, N) -> Tensors { return {segment_prod(x[0], x[1])}; }},
  };
}

Conv2dOptions conv_options(N n) {
  Conv2dOptions options;
  if (n.flag(0)) options.strides = {n[1], n[2]};
  if (n[0] > 1) options.padding = n.flag(3) ? Padding2d("SAME") : Padding2d(n[4]);
  if (n.flag(5)) options.dilations = {n[6], n[7]};
  if (n.flag(8)) options.groups = n[9];
  return options;
}

Pool2dOptions pool_options(N n) {
  Pool2dOptions options;
  if (n.flag(0)) options.window = {n[1], n[2]};
  if (n.flag(3)) options.strides = Size2d{n[4], n[5]};
  if (n.flag(6)) options.padding = n.flag(7) ? Padding2d("SAME") : Padding2d(n[8]);
  return options;
}

Pool3dOptions pool3d_options(N n) {
  Pool3dOptions options;
  if (n.flag(0)) options.window = {n[1], n[2], n[9]};
  if (n.flag(3)) options.strides = Size3d{n[4], n[5], n[10]};
  if (n.flag(6)) options.padding = n.flag(7) ? Padding3d("SAME") : Padding3d(n[8]);
  return options;
}

std::vector<OddFunction> networks() {
  return {
      {"conv2d", 2, [](X x, N n) -> Tensors { return {conv2d(x[0], x[1], conv_options(n))}; }},
      {"conv2d_transpose", 2,
       [](X x, N n) -> Tensors {
         return {conv2d_transpose(
             x[0], x[1], {.strides = {n[0], n[1]}, .padding = n.flag(2) ? Padding2d("SAME") : Padding2d(n[3])})};
       }},
      {"conv3d", 2,
       [](X x, N n) -> Tensors {
         Conv3dOptions options;
         if (n.flag(0)) options.strides = {n[1], n[2], n[3]};
         if (n.flag(4)) options.padding = n.flag(5) ? Padding3d("SAME") : Padding3d(n[6]);
         if (n.flag(7)) options.dilations = {n[8], n[9], n[10]};
         return {conv3d(x[0], x[1], options)};
       }},
      {"max_pool2d", 1, [](X x, N n) -> Tensors { return {max_pool2d(x[0], pool_options(n))}; }},
      {"avg_pool2d", 1, [](X x, N n) -> Tensors { return {avg_pool2d(x[0], pool_options(n))}; }},
      {"max_pool3d", 1, [](X x, N n) -> Tensors { return {max_pool3d(x[0], pool3d_options(n))}; }},
      {"avg_pool3d", 1, [](X x, N n) -> Tensors { return {avg_pool3d(x[0], pool3d_options(n))}; }},
      {"adaptive_pool", 1,
       [](X x, N n) -> Tensors {
         return {adaptive_avg_pool2d(x[0], {n[0], n[1]}), adaptive_max_pool2d(x[0], {n[0], n[1]})};
       }},
      {"resize", 1,
       [](X x, N n) -> Tensors {
         return {resize(x[0], {n[0], n[1]}, {.method = static_cast<ResizeMethod>(std::llabs(n[2] % 3))})};
       }},
      {"batch_norm", 5, [](X x, N n) -> Tensors { return {batch_norm(x[0], x[1], x[2], x[3], x[4], n.real[0])}; }},
      {"batch_norm_training", 3,
       [](X x, N n) -> Tensors {
         const BatchNormTraining b = batch_norm_training(x[0], x[1], x[2], n.real[0]);
         return {b.y, b.mean, b.variance};
       }},
      {"layer_norm", 3, [](X x, N n) -> Tensors { return {layer_norm(x[0], x[1], x[2], {.epsilon = n.real[0]})}; }},
      {"dropout", 1, [](X x, N n) -> Tensors { return {dropout(x[0], n.real[0])}; }},
      {"embedding_lookup", 2, [](X x, N) -> Tensors { return {embedding_lookup(x[0], x[1])}; }},
      {"bias_add", 2, [](X x, N) -> Tensors { return {bias_add(x[0], x[1])}; }},
      {"softmax_cross_entropy", 2, [](X x, N) -> Tensors { return {softmax_cross_entropy(x[0], x[1])}; }},
      {"sparse_softmax_cross_entropy", 2, [](X x, N) -> Tensors { return {sparse_softmax_cross_entropy(x[0], x[1])}; }},
      {"sigmoid_cross_entropy", 2, [](X x, N) -> Tensors { return {sigmoid_cross_entropy(x[0], x[1])}; }},
      {"ctc_loss", 4, [](X x, N n) -> Tensors { return {ctc_loss(x[0], x[1], x[2], x[3], {.blank = n[0]})}; }},
      {"ctc_greedy_decoder", 2,
       [](X x, N n) -> Tensors {
         const CTCDecoded d = ctc_greedy_decoder(x[0], x[1], {.blank = n[1], .merge_repeated = n.flag(0)});
         return {d.labels, d.lengths};
       }},
      {"leaky_relu", 1, [](X x, N n) -> Tensors { return {leaky_relu(x[0], n.real[0])}; }},
      {"categorical", 1, [](X x, N n) -> Tensors { return {random::categorical(x[0], n[0])}; }},
      {"shuffle", 1, [](X x, N) -> Tensors { return {random::shuffle(x[0])}; }},
      {"normal_like", 1,
       [](X x, N n) -> Tensors { return {random::normal_like(x[0], {.mean = n.real[0], .stddev = n.real[1]})}; }},
      {"uniform_like", 1,
       [](X x, N n) -> Tensors { return {random::uniform_like(x[0], {.low = n.real[0], .high = n.real[1]})}; }},
      {"bernoulli_like", 1, [](X x, N n) -> Tensors { return {random::bernoulli_like(x[0], n.real[0])}; }},
      {"normal", 0,
       [](X, N n) -> Tensors {
         return {random::normal(shape_of(n.list(1, n[0])), {.mean = n.real[0], .stddev = n.real[1]})};
       }},
      {"uniform", 0,
       [](X, N n) -> Tensors {
         return {random::uniform(shape_of(n.list(1, n[0])),
                                 {.low = n.real[0], .high = n.real[1], .dtype = n.flag(6) ? float32 : int32})};
       }},
      {"randint", 0, [](X, N n) -> Tensors { return {random::randint(n[5], n[6], shape_of(n.list(1, n[0])))}; }},
      {"permutation", 0, [](X, N n) -> Tensors { return {random::permutation(n[0])}; }},
      {"zeros", 0,
       [](X, N n) -> Tensors {
         return {zeros(shape_of(n.list(1, n[0])), {.dtype = static_cast<DType>(n.flag(7) ? n[6] : n[6] & 7)})};
       }},
      {"full", 1, [](X x, N n) -> Tensors { return {full(shape_of(n.list(1, n[0])), x[0])}; }},
      {"eye", 0, [](X, N n) -> Tensors { return {eye(n[0], n[1])}; }},
      {"arange", 0, [](X, N n) -> Tensors { return {arange(n[0], n[1], n[2])}; }},
      {"arange real", 0, [](X, N n) -> Tensors { return {arange(n.real[0], n.real[1], n.real[2])}; }},
      {"linspace", 0, [](X, N n) -> Tensors { return {linspace(n.real[0], n.real[1], n[0])}; }},
  };
}

std::vector<OddFunction> algebra() {
  return {
      {"matmul", 2,
       [](X x, N n) -> Tensors { return {matmul(x[0], x[1], {.transpose_a = n.flag(0), .transpose_b = n.flag(1)})}; }},
      {"tensordot", 2, [](X x, N n) -> Tensors { return {tensordot(x[0], x[1], n[0])}; }},
      {"tensordot axes", 2,
       [](X x, N n) -> Tensors {
         return {tensordot(x[0], x[1], {n.list(1, n[0]), n.list(5, n.flag(10) ? n[0] : n[9])})};
       }},
      {"einsum", 2,
       [](X x, N n) -> Tensors {
         const char* equations[] = {"ij,jk->ik", "...i,...i->...", "ii,i->i",      "ij,ij",       "a...,...a->...",
                                    "i,j->ji",   "ij,k->",         "bij,bjk->bik", "ab,cd->abcd", "ij,jk->ikk"};
         return {einsum(equations[std::llabs(n[0] % 10)], {x[0], x[1]})};
       }},
      {"trace", 1, [](X x, N) -> Tensors { return {trace(x[0])}; }},
      {"cholesky", 1, [](X x, N) -> Tensors { return {cholesky(x[0])}; }},
      {"solve", 2, [](X x, N n) -> Tensors { return {solve(x[0], x[1], {.adjoint = n.flag(0)})}; }},
      {"triangular_solve", 2,
       [](X x, N n) -> Tensors { return {triangular_solve(x[0], x[1], {.lower = n.flag(0), .adjoint = n.flag(1)})}; }},
      {"inverse", 1, [](X x, N) -> Tensors { return {inverse(x[0])}; }},
      {"det", 1, [](X x, N) -> Tensors { return {det(x[0])}; }},
      {"slogdet", 1,
       [](X x, N) -> Tensors {
         const LogDeterminant d = slogdet(x[0]);
         return {d.sign, d.log_determinant};
       }},
      {"qr", 1,
       [](X x, N) -> Tensors {
         const Qr d = qr(x[0]);
         return {d.q, d.r};
       }},
      {"eigh", 1,
       [](X x, N) -> Tensors {
         const Eigh d = eigh(x[0]);
         return {d.e};
       }},
      {"svd", 1,
       [](X x, N) -> Tensors {
         const Svd d = svd(x[0]);
         return {d.s};
       }},
      {"pinv", 1, [](X x, N) -> Tensors { return {pinv(x[0])}; }},
      {"lstsq", 2, [](X x, N) -> Tensors { return {lstsq(x[0], x[1])}; }},
      {"matrix_rank", 1, [](X x, N) -> Tensors { return {matrix_rank(x[0])}; }},
      {"where", 3, [](X x, N) -> Tensors { return {where(x[0], x[1], x[2])}; }},
      {"clip", 3, [](X x, N) -> Tensors { return {clip(x[0], x[1], x[2])}; }},
      {"add number", 1, [](X x, N n) -> Tensors { return {x[0] + n[0]}; }},
      {"multiply number", 1, [](X x, N n) -> Tensors { return {x[0] * n.real[0]}; }},
      {"power number", 1, [](X x, N n) -> Tensors { return {power(x[0], n[0])}; }},
      {"mod number", 1,
       [](X x, N n) -> Tensors {
         return {mod(x[0], n[0]), floor_divide(x[0], n[0])};
       }},
      {"isclose", 2, [](X x, N n) -> Tensors { return {isclose(x[0], x[1], {.rtol = n.real[0], .atol = n.real[1]})}; }},
      {"nan_to_num", 1, [](X x, N n) -> Tensors { return {nan_to_num(x[0], {.nan = n.real[0]})}; }},
      {"check_numerics", 1, [](X x, N) -> Tensors { return {check_numerics(x[0], "odd")}; }},
      {"bitwise", 2,
       [](X x, N) -> Tensors {
         return {x[0] & x[1], x[0] | x[1], x[0] ^ x[1], ~x[0]};
       }},
  };
}

}  // namespace

std::vector<OddFunction> odd_functions() {
  std::vector<OddFunction> functions;
  for (auto family : {movements, reductions, networks, algebra}) {
    std::vector<OddFunction> more = family();
    std::move(more.begin(), more.end(), std::back_inserter(functions));
  }
  return functions;
}

}  // namespace tapestry::test

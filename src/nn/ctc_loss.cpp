#include "nn/ctc_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/checked_like.hpp"
#include "ops/lengths.hpp"
#include "ops/merged.hpp"
#include "ops/support.hpp"
#include "tapestry/control_flow.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"
#include "tapestry/ops/selection.hpp"
#include "tapestry/tape.hpp"

TAPESTRY_OP_FAMILY(ctc_loss)

namespace tapestry {
namespace {

// The labels are written with a blank before, between and behind them: 2 * longest + 1 places. A path stays at its
// place, or goes to the next one, or from a label to the next label if that is another one. It begins as if it were at
// the first blank, and ends at the last blank or the last label.

/// The number of classes may be unknown, -1.
void require_blank(std::int64_t blank, std::int64_t classes) {
  if (classes == 0 || (classes > 0 && (blank < -classes || blank >= classes)))
    throw InvalidArgumentError(detail::join("the blank is ", blank, ", but there are ", classes, " classes"));
}

Specs infer_ctc(const Call& call) {
  const Tensor &logits = call.input(0), &labels = call.input(1);
  require_type(logits, float_types);
  for (const std::size_t i : {1, 2, 3}) require_type(call.input(i), index_types, i == 1 ? "labels" : "lengths");
  if (rank_of(logits) != 3 || rank_of(labels) != 2)
    throw InvalidArgumentError(
        detail::join("logits must be [time, batch, classes] and labels [batch, longest], but their shapes are ",
                     logits.shape(), " and ", labels.shape()));
  const std::int64_t batch = logits.shape().sizes()[1], classes = logits.shape().sizes()[2];
  for (const std::size_t i : {1, 2, 3}) {
    constexpr std::string_view names[] = {"labels", "label_length", "logit_length"};
    const Shape& shape = call.input(i).shape();
    if (call.input(i).rank() != (i == 1 ? 2 : 1) || !sizes_agree(shape.sizes()[0], batch))
      throw InvalidArgumentError(detail::join(names[i - 1], " has the shape ", shape,
                                              ", which must be that of a batch of ", batch,
                                              i == 1 ? ", [batch, longest]" : ", [batch]"));
  }
  require_blank(call.attr<std::int64_t>("blank"), classes);
  return {{logits.dtype(), {batch}}, logits.spec()};
}

// ---- The op on the host -----------------------------------------------------------------------------------------------

constexpr double never = -std::numeric_limits<double>::infinity();

/// log(exp(a) + exp(b) + exp(c))
double log_add(double a, double b, double c) {
  const double most = std::max({a, b, c});
  if (most == never) return never;
  return most + std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most));
}

/// One sequence: its labels, and the logarithms of the probabilities of the classes, [time, classes].
class CTCSequence {
 public:
  CTCSequence(std::vector<std::int64_t> labels, std::vector<double> log_p, std::int64_t classes, std::int64_t blank)
      : log_p_(std::move(log_p)), classes_(classes), places_(2 * static_cast<std::int64_t>(labels.size()) + 1) {
    for (std::int64_t s = 0; s < places_; ++s) written_.push_back(s % 2 == 0 ? blank : labels[s / 2]);
    for (std::int64_t s = 0; s < places_; ++s)
      skips_.push_back(s % 2 == 1 && s > 1 && written_[s] != written_[s - 2] ? 1 : 0);
  }

  /// -log of the probability of the labels, and for each time and class the share of the paths that pass through it.
  double loss(std::vector<double>& shares) const {
    const std::int64_t time = static_cast<std::int64_t>(log_p_.size()) / classes_;
    // The paths to each place at each time, and then, from the end, those that go on from it.
    std::vector<double> ahead(static_cast<std::size_t>(time * places_));
    std::vector<double> before(static_cast<std::size_t>(places_), never), now = before;
    before[0] = 0;
    for (std::int64_t t = 0; t < time; ++t) {
      double* const row = ahead.data() + t * places_;
      for (std::int64_t s = 0; s < places_; ++s)
        row[s] =
            log_p(t, s) + log_add(before[s], s > 0 ? before[s - 1] : never, skips_[s] != 0 ? before[s - 2] : never);
      std::copy(row, row + places_, before.begin());
    }
    const double log_probability = log_add(before[places_ - 1], places_ > 1 ? before[places_ - 2] : never, never);
    shares.assign(log_p_.size(), 0);
    if (log_probability == never) return -never;
    std::fill(before.begin(), before.end(), never);
    before[places_ - 1] = 0;
    if (places_ > 1) before[places_ - 2] = 0;
    for (std::int64_t t = time - 1; t >= 0; --t) {
      for (std::int64_t s = 0; s < places_; ++s) {
        shares[t * classes_ + written_[s]] += std::exp(ahead[t * places_ + s] + before[s] - log_probability);
        now[s] = before[s] + log_p(t, s);
      }
      for (std::int64_t s = 0; s < places_; ++s)
        before[s] = log_add(now[s], s + 1 < places_ ? now[s + 1] : never,
                            s + 2 < places_ && skips_[s + 2] != 0 ? now[s + 2] : never);
    }
    return -log_probability;
  }

 private:
  double log_p(std::int64_t t, std::int64_t s) const { return log_p_[t * classes_ + written_[s]]; }

  std::vector<double> log_p_;
  std::int64_t classes_, places_;
  std::vector<std::int64_t> written_;  ///< the class at each place
  std::vector<char> skips_;            ///< whether the blank before a place may be left out
};

std::vector<std::int64_t> lengths_within(const Tensor& lengths, std::string_view what, std::int64_t most) {
  std::vector<std::int64_t> list = lengths.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i] < 0 || list[i] > most)
      throw InvalidArgumentError(detail::join(what, "[", i, "] = ", list[i], " is not in [0, ", most, "]"));
  return list;
}

void require_label(std::int64_t label, std::int64_t b, std::int64_t i, std::int64_t classes, std::int64_t blank) {
  if (label < 0 || label >= classes)
    throw InvalidArgumentError(detail::join("labels[", b, ",", i, "] = ", label, " is not in [0, ", classes, ")"));
  if (label == blank) throw InvalidArgumentError(detail::join("labels[", b, ",", i, "] = ", label, " is the blank"));
}

template <class T>
void compute_ctc(const Call& call) {
  const Shape& shape = call.input(0).shape();
  const std::int64_t time = shape[0], batch = shape[1], classes = shape[2], longest = call.input(1).shape()[1];
  const std::vector<std::int64_t> labels = call.input(1).to_vector<std::int64_t>();
  const std::vector<std::int64_t> label_lengths = lengths_within(call.input(2), "label_length", longest);
  const std::vector<std::int64_t> lengths = lengths_within(call.input(3), "logit_length", time);
  auto blank = call.attr<std::int64_t>("blank");
  if (blank < 0) blank += classes;
  const auto* const logits = static_cast<const T*>(call.input(0).impl().data);
  T *const loss = call.output_data<T>(0), *const gradient = call.output_data<T>(1);
  std::fill(gradient, gradient + shape.size(), T(0));
  std::vector<double> shares;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto first = labels.begin() + b * longest;
    for (std::int64_t i = 0; i < label_lengths[b]; ++i) require_label(first[i], b, i, classes, blank);
    std::vector<double> log_p(static_cast<std::size_t>(lengths[b] * classes));
    for (std::int64_t t = 0; t < lengths[b]; ++t) {
      const T* const from = logits + (t * batch + b) * classes;
      double* const to = log_p.data() + t * classes;
      double most = never, sum = 0;
      for (std::int64_t k = 0; k < classes; ++k) most = std::max(most, to[k] = static_cast<double>(from[k]));
      for (std::int64_t k = 0; k < classes; ++k) sum += std::exp(to[k] - most);
      for (std::int64_t k = 0; k < classes; ++k) to[k] -= most + std::log(sum);
    }
    const CTCSequence sequence({first, first + label_lengths[b]}, log_p, classes, blank);
    const double found = sequence.loss(shares);
    loss[b] = static_cast<T>(found);
    if (std::isinf(found)) continue;
    for (std::int64_t t = 0; t < lengths[b]; ++t)
      for (std::int64_t k = 0; k < classes; ++k) {
        const std::int64_t at = t * classes + k;
        gradient[(t * batch + b) * classes + k] = static_cast<T>(std::exp(log_p[at]) - shares[at]);
      }
  }
}

void run_ctc(const Call& call) {
  detail::visit_dtype(call.input(0).dtype(), [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) compute_ctc<T>(call);
  });
}

// ---- The composition: for second derivatives, other formats, and examples of a batch ----------------------------------

constexpr double hardly_ever = -1e30;  ///< instead of -infinity, of which differences would be NaN

/// 0, 1, 2, ..., `size` - 1, on the device of a tensor. The size may be unknown.
Tensor counted(const Dimension& size, const Tensor& device_of) {
  return cumsum(ones({size}, {.dtype = int64, .device = device_of.device()})) - 1;
}

/// The elements of rows `by` places to the left, with a number in front.
Tensor shifted(const Tensor& x, std::int64_t by, double value) {
  return pad(x, {{0, 0}, {by, 0}}, {.value = value})(all, range(0, -by));
}

Tensor composed_loss(const Call& call, const Tensor& given) {
  const Tensor logits = widened(given);
  const Tensor labels = call.input(1).cast(int64), label_length = expand_dims(call.input(2).cast(int64), 1);
  const Dimension time = logits.shape()[0], batch = logits.shape()[1];
  const auto blank = call.attr<std::int64_t>("blank");
  const Tensor classes = size(logits, 2).cast(int64);
  const Tensor the_blank = blank < 0 ? classes + blank : zeros_like(classes) + blank;
  const Tensor in_use = less(counted(labels.shape()[1], logits), label_length);
  const Tensor clean = where(in_use, labels, the_blank);
  const Tensor blanks = broadcast_like(the_blank, clean);
  const Tensor blank_column = broadcast_to(the_blank, {batch, 1});
  const Tensor written = concat({merged(stack({blanks, clean}, 2), {1, 2}), blank_column}, 1);
  const Tensor two_before = concat({blank_column, blank_column, written}, 1)(all, range(0, -2));
  const Tensor other = not_equal(written, the_blank) & not_equal(written, two_before);
  const Tensor skip_cost = where(other, 0.0, hardly_ever).cast(logits.dtype());
  const Dimension places = written.shape()[1];
  const Tensor emitted =
      take_along_axis(log_softmax(logits), broadcast_to(expand_dims(written, 0), {time, batch, places}), 2);
  const Tensor runs = expand_dims(less(expand_dims(counted(time, logits), 1), call.input(3).cast(int64)), 2);
  const Tensor place = counted(places, logits);
  const Tensor is_start = equal(place, 0) & greater_equal(label_length, 0);  // [batch, places]: no length is negative
  const Tensor start = where(is_start, 0.0, hardly_ever).cast(logits.dtype());
  const auto step = [&](const Tensors& x) -> Tensors {
    const Tensor &stay = x[0], next = shifted(stay, 1, hardly_ever), skip = shifted(stay, 2, hardly_ever) + skip_cost;
    const Tensor most = stop_gradient(maximum(maximum(stay, next), skip));
    return {where(x[2], most + log(exp(stay - most) + exp(next - most) + exp(skip - most)) + x[1], stay)};
  };
  const Tensor paths = detail::flat_scan(step, {start}, {emitted, runs}, {}, {})[0];
  const Tensor ends = equal(place, 2 * label_length) | equal(place, 2 * label_length - 1);
  const Tensor sum = reduce_logsumexp(where(ends, paths, hardly_ever), 1);
  const Tensor loss = where(less(sum, 0.5 * hardly_ever), std::numeric_limits<double>::infinity(), -sum);
  return reshape(loss.cast(given.dtype()), {batch});
}

Tensors composed_with_gradient(const Call& call, const Tensor& logits) {
  GradientTape tape;
  tape.watch(logits);
  const Tensor loss = composed_loss(call, logits);
  return {loss, tape.gradient(loss, logits)};
}

/// The logits as a tensor of its own, by which a tape takes the gradient.
Tensor own_logits(const Call& call) { return identity(call.input(0)); }

Tensors compose_ctc(const Call& call) { return composed_with_gradient(call, own_logits(call)); }

/// What flows through the loss has the gradient that was computed, and what flows through that one goes through the
/// composition.
Tensors ctc_gradient(const Call& call, const Tensors& g) {
  Tensor of_logits;
  if (g[0]) of_logits = expand_dims(expand_dims(g[0], 0), -1) * call.output(1);
  if (g[1]) {
    const Tensor logits = own_logits(call);
    GradientTape tape;
    tape.watch(logits);
    const Tensor part = tape.gradient(composed_with_gradient(call, logits)[1], logits, {.output_gradients = {g[1]}});
    of_logits = of_logits ? of_logits + part : part;
  }
  return {of_logits, Tensor(), Tensor(), Tensor()};
}

TAPESTRY_OP(ctc_loss_op){{
    .name = "CTCLossDense",
    .attrs = {{"blank", AttrKind::number}},
    .infer = infer_ctc,
    .cpu = run_ctc,
    .composition = compose_ctc,
    .gradient = ctc_gradient,
    .needs = Needs{15, 2},
    .precision = Precision::full,
    .outputs = 2,
}};

}  // namespace

CTCLoss ctc_loss_and_gradient(const Tensor& labels, const Tensor& logits, const Tensor& label_length,
                              const Tensor& logit_length, std::int64_t blank, std::string_view name, Where where) {
  const Tensors results =
      apply_all(ctc_loss_op, {logits, labels, label_length, logit_length}, {{"blank", blank}}, name, where);
  return {results[0], results[1]};
}

Tensor ctc_loss(In labels, In logits, In label_length, In logit_length, const CTCLossOptions& options,
                std::string_view name) {
  return blaming(ctc_loss_op.name, logits.where(), [&] {
    const bool keeps_infinity = !options.zero_infinity;
    const Tensor loss = ctc_loss_and_gradient(labels, as_floats(logits), label_length, logit_length, options.blank,
                                              keeps_infinity ? name : std::string_view(), logits.where())
                            .loss;
    return keeps_infinity ? loss : where(equal(loss, std::numeric_limits<double>::infinity()), 0.0, loss, name);
  });
}

CTCPath ctc_best_path(const Tensor& logits, const Tensor& logit_length, const CTCDecoderOptions& options) {
  require_type(logits, number_types);
  require_type(logit_length, index_types, "logit_length");
  if (rank_of(logits) != 3 || rank_of(logit_length) != 1 ||
      !sizes_agree(logit_length.shape().sizes()[0], logits.shape().sizes()[1]))
    throw InvalidArgumentError(
        detail::join("logits must be [time, batch, classes] and logit_length [batch], but their shapes are ",
                     logits.shape(), " and ", logit_length.shape()));
  require_blank(options.blank, logits.shape().sizes()[2]);
  const Tensor one_each = checked_like(logit_length, Shape{logits.shape()[1]});
  const Tensor length = expand_dims(checked_lengths(one_each, logits, 0), 1);
  const Tensor classes = transpose(argmax(logits, 2));
  const Tensor in_use = less(counted(logits.shape()[0], logits), length);
  const Tensor blank = options.blank < 0 ? size(logits, 2).cast(int64) + options.blank : tensor(options.blank);
  Tensor counts = in_use & not_equal(classes, blank.to(logits.device()));
  if (options.merge_repeated) counts = counts & not_equal(classes, shifted(classes, 1, -1));
  return {classes, counts, -reduce_sum(where(in_use, transpose(reduce_max(logits, 2)), 0), 1)};
}

CTCDecoded ctc_greedy_decoder(In logits, In logit_length, const CTCDecoderOptions& options, std::string_view name) {
  return blaming("CTCGreedyDecoder", logits.where(), [&]() -> CTCDecoded {
    const CTCPath path = ctc_best_path(logits, logit_length, options);
    const Tensor lengths = reduce_sum(path.counts.cast(int64), 1);
    return {ragged_to_padded(boolean_mask(path.classes, path.counts), lengths, -1, name), lengths, path.neg_sum_logits};
  });
}

}  // namespace tapestry

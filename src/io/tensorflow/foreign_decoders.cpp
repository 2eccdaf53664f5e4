// Sequences of labels: the likeliest ones that logits tell, and how far others are from them. What comes out depends on
// the values, so that these ops wait for them.

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

using Labels = std::vector<std::int64_t>;

// ---- Search by beams ------------------------------------------------------------------------------------------------

constexpr float never = -std::numeric_limits<float>::infinity();

float log_sum(float a, float b) {
  if (a == never || b == never) return std::max(a, b);
  return a > b ? a + std::log1p(std::exp(b - a)) : b + std::log1p(std::exp(a - b));
}

/// The logarithms of how likely a sequence of labels is: in all, if a blank comes last, and if its last label does.
struct Likelihood {
  float total = never, blank = never, label = never;
};

/// A sequence of labels, as one more label than another sequence has.
struct Prefix {
  const Prefix* shorter = nullptr;
  std::int64_t last = -1;
  Likelihood before{}, now{};
  std::map<std::int64_t, Prefix*> longer{};
};

class BeamSearch {
 public:
  BeamSearch(std::size_t width, std::int64_t classes) : width_(width), blank_(classes - 1) {
    Prefix& nothing = made_.emplace_back();
    nothing.now = {0, 0, never};
    keep(nothing);
  }

  void step(const float* logits) {
    const float* const end = logits + blank_ + 1;
    const float largest = *std::max_element(logits, end);
    float sum = 0;
    for (const float* each = logits; each != end; ++each) sum += std::exp(*each - largest);
    const float offset = largest + std::log(sum);
    const std::vector<Prefix*> prefixes = best();
    beam_.clear();
    for (Prefix* each : prefixes) each->before = each->now;
    for (Prefix* each : prefixes) {
      if (each->shorter && each->shorter->now.total != never)
        each->now.label = log_sum(each->now.label, before_repeated(*each->shorter, each->last));
      if (each->shorter) each->now.label += logits[each->last] - offset;
      each->now.blank = each->before.total + logits[blank_] - offset;
      each->now.total = log_sum(each->now.blank, each->now.label);
      keep(*each);
    }
    for (Prefix* each : prefixes) {
      if (!is_candidate(each->before)) continue;
      for (std::int64_t label = 0; label < blank_; ++label) lengthen(*each, label, logits[label] - offset);
    }
  }

  /// The sequences that are left, the likeliest first.
  std::vector<Prefix*> best() const {
    std::vector<Prefix*> all;
    for (auto each = beam_.rbegin(); each != beam_.rend(); ++each) all.push_back(std::get<Prefix*>(*each));
    return all;
  }

 private:
  /// How likely a sequence was before a label that makes it longer: one that repeats its last label follows a blank.
  static float before_repeated(const Prefix& prefix, std::int64_t label) {
    return label == prefix.last ? prefix.before.blank : prefix.before.total;
  }
  bool is_candidate(const Likelihood& found) const {
    return found.total > never && (beam_.size() < width_ || found.total > std::get<float>(*beam_.begin()));
  }
  void keep(Prefix& prefix) { beam_.emplace(prefix.now.total, -static_cast<std::int64_t>(++count_), &prefix); }

  void lengthen(Prefix& prefix, std::int64_t label, float likelihood) {
    Prefix*& longer = prefix.longer[label];
    if (longer && longer->now.total != never) return;
    Likelihood found;
    found.label = found.total = likelihood + before_repeated(prefix, label);
    if (!is_candidate(found)) {
      if (longer) longer->before = longer->now = {};
      return;
    }
    if (!longer) longer = &made_.emplace_back(Prefix{.shorter = &prefix, .last = label});
    longer->now = found;
    if (beam_.size() == width_) {
      std::get<Prefix*>(*beam_.begin())->now = {};
      beam_.erase(beam_.begin());
    }
    keep(*longer);
  }

  std::size_t width_;
  std::int64_t blank_;
  std::size_t count_ = 0;
  std::deque<Prefix> made_;
  std::set<std::tuple<float, std::int64_t, Prefix*>> beam_;  ///< of those that are as likely, the first comes last
};

Labels labels_of(const Prefix& prefix, bool merge_repeated) {
  Labels labels;
  std::int64_t next = -1;
  for (const Prefix* each = &prefix; each->shorter; each = each->shorter) {
    if (!merge_repeated || each->last != next) labels.push_back(each->last);
    next = each->last;
  }
  std::reverse(labels.begin(), labels.end());
  return labels;
}

/// The coordinates, the elements and the shape of a sparse matrix with these rows.
std::array<Tensor, 3> sparse_rows(const std::vector<Labels>& rows) {
  Labels coordinates, elements;
  std::int64_t longest = 0;
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (std::size_t i = 0; i < rows[row].size(); ++i) {
      coordinates.insert(coordinates.end(), {static_cast<std::int64_t>(row), static_cast<std::int64_t>(i)});
      elements.push_back(rows[row][i]);
      longest = std::max(longest, static_cast<std::int64_t>(i) + 1);
    }
  return {reshape(vector_of(coordinates, int64), {-1, 2}), vector_of(elements, int64),
          vector_of({static_cast<std::int64_t>(rows.size()), longest}, int64)};
}

Tensors read_beam_search(const ForeignNode& n) {
  const Tensor logits = n.node.constant(0).cast(float32);
  const Labels lengths = n.numbers(1);
  const auto width = n.node.attr<std::int64_t>("beam_width"), paths = n.node.attr<std::int64_t>("top_paths");
  if (logits.rank() != 3 || std::cmp_not_equal(lengths.size(), logits.shape().sizes()[1]) ||
      logits.shape().sizes()[2] < 1)
    n.node.refuse(detail::join("its logits have the shape ", logits.shape(), ", for ", lengths.size(), " sequences"));
  if (paths < 1 || width < paths || width > most_blocks)
    n.node.refuse(detail::join("it looks for ", paths, " sequences by a beam of ", width));
  const std::int64_t classes = logits.shape().sizes()[2];
  const std::vector<float> all = logits.to_vector<float>();
  std::vector<std::vector<Labels>> found(static_cast<std::size_t>(paths));
  std::vector<float> likelihoods;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || lengths[i] > logits.shape().sizes()[0])
      n.node.refuse(detail::join("its sequence ", i, " has the length ", lengths[i]));
    BeamSearch search(static_cast<std::size_t>(width), classes);
    for (std::int64_t t = 0; t < lengths[i]; ++t)
      search.step(&all[(static_cast<std::size_t>(t) * lengths.size() + i) * static_cast<std::size_t>(classes)]);
    const std::vector<Prefix*> best = search.best();
    if (best.size() < found.size())
      n.node.refuse(detail::join("only ", best.size(), " sequences of labels are possible"));
    for (std::size_t path = 0; path < found.size(); ++path) {
      found[path].push_back(labels_of(*best[path], n.node.attr_or<bool>("merge_repeated", true)));
      likelihoods.push_back(best[path]->now.total);
    }
  }
  std::vector<Tensor> results(3 * found.size());
  for (std::size_t path = 0; path < found.size(); ++path) {
    const std::array<Tensor, 3> parts = sparse_rows(found[path]);
    for (std::size_t k = 0; k < 3; ++k) results[k * found.size() + path] = parts[k];
  }
  results.push_back(reshape(tensor(likelihoods), {-1, paths}).cast(n.node.constant(0).dtype()));
  return constant_nodes(n, results);
}

Specs specs_of_beam_search(const NodeReader& reader, const Tensors& inputs) {
  const std::int64_t paths = std::clamp<std::int64_t>(reader.attr_or<std::int64_t>("top_paths", 1), 1, most_blocks);
  Specs specs;
  for (const Shape& each : {Shape{-1, 2}, Shape{-1}, Shape{2}})
    for (std::int64_t i = 0; i < paths; ++i) specs.push_back({int64, each});
  specs.push_back({inputs[0].dtype(), Shape{-1, paths}});
  return specs;
}

// ---- Distances ------------------------------------------------------------------------------------------------------

/// How many labels are to be removed, added or replaced.
std::int64_t distance(const Labels& a, const Labels& b) {
  Labels row(b.size() + 1);
  for (std::size_t k = 0; k <= b.size(); ++k) row[k] = static_cast<std::int64_t>(k);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int64_t diagonal = std::exchange(row[0], static_cast<std::int64_t>(i) + 1);
    for (std::size_t k = 0; k < b.size(); ++k) {
      const std::int64_t replaced = diagonal + (a[i] == b[k] ? 0 : 1);
      diagonal = row[k + 1];
      row[k + 1] = std::min({replaced, diagonal + 1, row[k] + 1});
    }
  }
  return row.back();
}

/// The sequences along the last axis of a sparse tensor, by the coordinates on the other axes.
std::map<Labels, Labels> sequences_of(const ForeignNode& n, std::size_t first) {
  const Tensor coordinates = n.node.constant(first), elements = n.node.constant(first + 1);
  const Labels shape = n.numbers(first + 2);
  if (shape.empty() || coordinates.dtype() != int64 || !is_integer(elements.dtype()) ||
      coordinates.shape() != Shape{elements.size(), static_cast<std::int64_t>(shape.size())})
    n.node.refuse(detail::join("its sparse tensor has coordinates of the shape ", coordinates.shape(), " for ",
                               elements.size(), " elements"));
  const Labels places = coordinates.to_vector<std::int64_t>(), all = elements.to_vector<std::int64_t>();
  std::map<Labels, Labels> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto at = places.begin() + static_cast<std::ptrdiff_t>(i * shape.size());
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (at[static_cast<std::ptrdiff_t>(axis)] < 0 || at[static_cast<std::ptrdiff_t>(axis)] >= shape[axis])
        n.node.refuse("a coordinate is outside the shape");
    found[Labels(at, at + static_cast<std::ptrdiff_t>(shape.size()) - 1)].push_back(all[i]);
  }
  return found;
}

Tensors read_distance(const ForeignNode& n) {
  const std::map<Labels, Labels> given = sequences_of(n, 0), truth = sequences_of(n, 3);
  Labels sizes = n.numbers(2);
  const Labels others = n.numbers(5);
  if (sizes.size() != others.size()) n.node.refuse("its two tensors have different ranks");
  sizes.pop_back();
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) sizes[axis] = std::max(sizes[axis], others[axis]);
  const Shape shape(sizes);
  if (shape.size() > most_numbers) n.node.refuse(detail::join("its result has the shape ", shape));
  const bool normalize = n.node.attr_or<bool>("normalize", true);
  std::vector<float> distances(static_cast<std::size_t>(shape.size()));
  const auto measure = [&](const Labels& place) {
    const auto of = [&](const std::map<Labels, Labels>& all) {
      const auto found = all.find(place);
      return found == all.end() ? Labels() : found->second;
    };
    const Labels right = of(truth);
    const auto apart = static_cast<float>(distance(of(given), right));
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) at = at * sizes[axis] + place[axis];
    const bool is_infinite = right.empty() && apart > 0;
    distances[static_cast<std::size_t>(at)] = !normalize    ? apart
                                              : is_infinite ? std::numeric_limits<float>::infinity()
                                                            : apart / std::max(1.0F, static_cast<float>(right.size()));
  };
  for (const auto* all : {&given, &truth})
    for (const auto& [place, labels] : *all) measure(place);
  return constant_nodes(n, {reshape(tensor(distances), shape)});
}

}  // namespace

ForeignOps foreign_decoders() {
  return {
      {.name = "CTCBeamSearchDecoder",
       .inputs = 2,
       .values = {0, 1},
       .takes_reals = true,
       .specs = specs_of_beam_search,
       .read = read_beam_search},
      {.name = "EditDistance",
       .inputs = 6,
       .values = {0, 1, 2, 3, 4, 5},
       .outputs = {typed(float32)},
       .read = read_distance},
  };
}

}  // namespace tapestry::io

#include <cctype>
#include <map>

#include "ops/checked_like.hpp"
#include "ops/merged.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/linalg.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"

// einsum and tensordot are lowered to transpose, reshape, reduce_sum and matrix products. Each axis of an operand has a
// label: the letter of the equation, or, for a dimension of an ellipsis, a character below 'A'. The latter count from
// the right, so that dimensions that broadcast together share a label.

namespace tapestry {
namespace {

using Labels = std::string;

struct Operand {
  Tensor tensor;
  Labels labels;  ///< one per axis
};

struct Equation {
  std::vector<Operand> operands;
  Labels output;
};

bool contains(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }
bool is_ellipsis(char label) { return label < 'A'; }

// ---- Parsing -----------------------------------------------------------------------------------------------------------

class Parser {
 public:
  Parser(std::string_view equation, const Tensors& operands) : equation_(equation) {
    for (const char c : equation)
      if (c != ' ') text_ += c;
    const std::size_t arrow = text_.find("->");
    std::string inputs = text_.substr(0, arrow);
    std::vector<std::string> terms;
    for (std::size_t comma = 0; (comma = inputs.find(',')) != std::string::npos; inputs.erase(0, comma + 1))
      terms.push_back(inputs.substr(0, comma));
    terms.push_back(inputs);
    if (terms.size() != operands.size())
      refuse("has ", terms.size(), " operands, but ", operands.size(), " tensors were given");
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const Tensor x = with_rank(operands[i], terms[i]);
      parsed_.operands.push_back({x, input_labels(terms[i], x)});
    }
    parsed_.output = arrow == std::string::npos ? implicit_output() : explicit_output(text_.substr(arrow + 2));
  }

  Equation result() && { return std::move(parsed_); }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw InvalidArgumentError(detail::join("einsum: the equation \"", equation_, "\" ", parts...));
  }

  static Labels ellipsis_labels(int count) {
    Labels labels;
    for (int i = count; i > 0; --i) labels += static_cast<char>(i);
    return labels;
  }

  /// The labels of a term in which the dots stand for the given number of dimensions.
  Labels expand(const std::string& term, int dots_rank) const {
    const std::size_t dots = term.find("...");
    Labels labels;
    for (std::size_t i = 0; i < term.size(); ++i) {
      if (i == dots) {
        labels += ellipsis_labels(dots_rank);
        i += 2;
      } else if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
        labels += term[i];
      } else {
        refuse("has '", std::string(1, term[i]), "' where a letter, '...', ',' or '->' is expected");
      }
    }
    return labels;
  }

  /// A tensor of unknown rank, with one axis for each letter.
  static Tensor with_rank(const Tensor& x, const std::string& term) {
    if (x.shape().has_rank() || term.find('.') != std::string::npos) return x;
    Ints in_order;
    for (std::size_t i = 0; i < term.size(); ++i) in_order.push_back(static_cast<std::int64_t>(i));
    return transpose(x, in_order);
  }

  Labels input_labels(const std::string& term, const Tensor& x) {
    const bool dots = term.find("...") != std::string::npos;
    const int letters = static_cast<int>(term.size()) - (dots ? 3 : 0);
    const Labels checked = expand(term, 0);
    const int rank = rank_of(x);
    if (dots ? letters > rank : letters != rank)
      refuse("gives \"", term, "\" to a tensor of shape ", x.shape(), ", which has ", rank, " dimensions");
    const int dots_rank = rank - static_cast<int>(checked.size());
    dots_rank_ = std::max(dots_rank_, dots_rank);
    Labels labels = expand(term, dots_rank);
    for (std::size_t i = 0; i < labels.size(); ++i) check_size(labels[i], x.shape().sizes()[static_cast<int>(i)]);
    return labels;
  }

  void check_size(char label, std::int64_t size) {
    std::int64_t& known = sizes_.try_emplace(label, size).first->second;
    if (is_ellipsis(label) && (known == 1 || size == 1)) {
      if (known == 1) known = size;
      return;
    }
    if (!sizes_agree(known, size)) {
      if (is_ellipsis(label))
        refuse("has dimensions of sizes ", known, " and ", size, " in '...', which do not broadcast");
      refuse("gives the letter '", std::string(1, label), "' to axes of sizes ", known, " and ", size);
    }
    known = std::max(known, size);
  }

  Labels implicit_output() const {
    std::map<char, int> count;  // in alphabetical order
    for (const Operand& operand : parsed_.operands)
      for (const char label : operand.labels) ++count[label];
    Labels output = ellipsis_labels(dots_rank_);
    for (const auto& [label, times] : count)
      if (times == 1 && !is_ellipsis(label)) output += label;
    return output;
  }

  Labels explicit_output(const std::string& term) const {
    if (dots_rank_ > 0 && term.find("...") == std::string::npos) refuse("lacks '...' behind the arrow");
    Labels output = expand(term, dots_rank_);
    for (std::size_t i = 0; i < output.size(); ++i) {
      if (sizes_.find(output[i]) == sizes_.end())
        refuse("has '", std::string(1, output[i]), "' behind the arrow, but not before it");
      if (output.find(output[i], i + 1) != Labels::npos)
        refuse("has '", std::string(1, output[i]), "' twice behind the arrow");
    }
    return output;
  }

  std::string equation_, text_;
  Equation parsed_;
  std::map<char, std::int64_t> sizes_;
  int dots_rank_ = 0;
};

// ---- One operand -------------------------------------------------------------------------------------------------------

/// The operand with its axes in the order of `order`, which has the same labels.
Operand permuted(const Operand& x, const Labels& order, std::string_view name = {}) {
  if (x.labels == order) return {named(x.tensor, name), order};
  Ints perm;
  for (const char label : order) perm.push_back(x.labels.find(label));
  return {transpose(x.tensor, perm, name), order};
}

/// Takes the diagonal along the axes of each label that occurs more than once.
Operand without_repeats(Operand x) {
  for (std::size_t i = 0; i < x.labels.size();) {
    const char label = x.labels[i];
    const std::size_t again = x.labels.find(label, i + 1);
    if (again == Labels::npos) {
      ++i;
      continue;
    }
    Ints perm;
    Labels rest;
    for (std::size_t j = 0; j < x.labels.size(); ++j) {
      if (j == i || j == again) continue;
      perm.push_back(j);
      rest += x.labels[j];
    }
    perm.push_back(i);
    perm.push_back(again);
    x = {diag_part(transpose(x.tensor, perm)), rest + label};
    i = 0;
  }
  return x;
}

/// The operand summed over all labels that are not in `needed`.
Operand summed_to(const Operand& x, const Labels& needed) {
  Ints axes;
  Labels kept;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    if (contains(needed, x.labels[i])) {
      kept += x.labels[i];
    } else {
      axes.push_back(i);
    }
  }
  return axes.empty() ? x : Operand{reduce_sum(x.tensor, axes), kept};
}

/// Makes a graph whose sizes become known later refuse operands that give a letter to several sizes: ops that broadcast
/// would take a size of 1 for any other.
void require_equal_sizes(std::vector<Operand>& operands) {
  std::map<char, Dimension> sizes;
  for (Operand& operand : operands) {
    Shape expected = operand.tensor.shape();
    bool is_shared = false;
    for (int axis = 0; axis < expected.rank(); ++axis) {
      const char label = operand.labels[axis];
      const auto [first, is_new] = sizes.try_emplace(label, expected[axis]);
      if (is_new || is_ellipsis(label)) continue;
      expected.set(axis, first->second);
      is_shared = true;
    }
    if (is_shared) operand.tensor = checked_like(operand.tensor, expected);
  }
}

// ---- Two operands ------------------------------------------------------------------------------------------------------

/// Whether the unknown sizes of a shape follow from the number of elements: it is one, and none of the others is 0.
bool can_be_inferred(const Shape& shape) {
  const auto sizes = shape.sizes();
  const auto unknown = std::count(sizes.begin(), sizes.end(), -1);
  return unknown == 0 || (unknown == 1 && std::count(sizes.begin(), sizes.end(), 0) == 0);
}

/// The tensor in another shape.
Tensor in_shape(const Tensor& x, const Shape& shape) {
  return reshape(x, can_be_inferred(shape) ? Shape(shape.sizes()) : shape);
}

}  // namespace

Tensor merged(const Tensor& x, const Ints& counts) {
  Shape result, group;
  const auto for_groups = [&](auto f) {
    for (int axis = 0; const std::int64_t count : counts) {
      group = {};
      for (const int end = axis + static_cast<int>(count); axis < end; ++axis) group.push_back(x.shape()[axis]);
      f();
    }
  };
  for_groups([&] { result.push_back(group.num_elements()); });
  if (!can_be_inferred(result)) {
    // The size of a group is then that of a tensor, of which nothing but the shape is read.
    result = {};
    for_groups([&] { result.push_back(group.rank() == 1 ? group[0] : reshape(zeros(group), {-1}).shape()[0]); });
  }
  return in_shape(x, result);
}

namespace {

/// How the labels of two operands are used: batch labels are in both and stay, inner ones are summed over.
struct Roles {
  Labels batch, outer_a, outer_b, inner;

  Roles(const Labels& a, const Labels& b, const Labels& needed) {
    for (const char label : a) {
      if (is_ellipsis(label) || (contains(b, label) && contains(needed, label))) {
        batch += label;
      } else {
        (contains(b, label) ? inner : outer_a) += label;
      }
    }
    for (const char label : b)
      if (!contains(a, label)) (is_ellipsis(label) ? batch : outer_b) += label;
    // The dimensions of an ellipsis broadcast from the right, so they keep their order, and come first.
    std::stable_sort(batch.begin(), batch.end(),
                     [](char x, char y) { return is_ellipsis(x) && (!is_ellipsis(y) || x > y); });
  }
  Labels product() const { return batch + outer_a + outer_b; }
};

/// An operand's tensor with its axes in the order of `order`. Labels that it lacks become axes of size 1, but leading
/// ones are left out.
Tensor aligned(const Operand& x, const Labels& order) {
  Labels present;
  Ints missing;
  for (const char label : order) {
    if (contains(x.labels, label)) {
      present += label;
    } else if (!present.empty()) {
      missing.push_back(-static_cast<std::int64_t>(order.size() - order.find(label)));
    }
  }
  const Tensor tensor = permuted(x, present).tensor;
  return missing.empty() ? tensor : expand_dims(tensor, missing);
}

/// Merges the last dimensions into two: first `rows` of them, then `columns`.
Tensor as_matrices(const Tensor& x, std::size_t rows, std::size_t columns) {
  if (rows == 1 && columns == 1) return x;
  Ints counts(static_cast<std::size_t>(x.rank()) - rows - columns, 1);
  counts.push_back(static_cast<std::int64_t>(rows));
  counts.push_back(static_cast<std::int64_t>(columns));
  return merged(x, counts);
}

/// Multiplies two operands and sums over the inner labels. The labels of the result are `roles.product()`.
Tensor multiply_and_sum(const Operand& a, const Operand& b, const Roles& roles) {
  const Labels all = roles.product() + roles.inner;
  const Tensor product = aligned(a, all) * aligned(b, all);
  Ints axes;
  for (std::size_t i = 0; i < roles.inner.size(); ++i) axes.push_back(-1 - i);
  return axes.empty() ? product : reduce_sum(product, axes);
}

Tensor matrix_product(const Operand& a, const Operand& b, const Roles& roles) {
  const Tensor left =
      as_matrices(aligned(a, roles.batch + roles.outer_a + roles.inner), roles.outer_a.size(), roles.inner.size());
  const Tensor right =
      as_matrices(aligned(b, roles.batch + roles.inner + roles.outer_b), roles.inner.size(), roles.outer_b.size());
  Tensor product = matmul(left, right);
  if (roles.outer_a.size() == 1 && roles.outer_b.size() == 1) return product;
  Shape shape;
  for (int i = 0; i + 2 < product.rank(); ++i) shape.push_back(product.shape()[i]);
  for (const char label : roles.outer_a) shape.push_back(a.tensor.shape()[a.labels.find(label)]);
  for (const char label : roles.outer_b) shape.push_back(b.tensor.shape()[b.labels.find(label)]);
  return in_shape(product, shape);
}

/// The product of two operands, summed over the labels that are not needed.
Operand contract(const Operand& a, const Operand& b, const Labels& needed) {
  const Operand x = summed_to(a, needed + b.labels), y = summed_to(b, needed + a.labels);
  const Roles roles(x.labels, y.labels, needed);
  return {roles.inner.empty() ? multiply_and_sum(x, y, roles) : matrix_product(x, y, roles), roles.product()};
}

/// The equation of `tensordot`. Each axis of a has its own letter. An axis of b has the letter of its partner, or its
/// own.
std::string pairing(const Shape& a, const Shape& b, const ContractedAxes& axes) {
  const auto refuse = [&](const auto&... parts) {
    throw InvalidArgumentError(detail::join("tensordot: ", parts..., " of the shapes ", a, " and ", b));
  };
  Ints axes_of_a = axes.axes_of_a(), axes_of_b = axes.axes_of_b();
  if (!axes.listed() && (axes.count() < 0 || axes.count() > std::min(a.rank(), b.rank())))
    refuse("cannot sum over ", axes.count(), " axes");
  for (std::int64_t i = 0; i < axes.count(); ++i) {
    axes_of_a.push_back(a.rank() - axes.count() + i);
    axes_of_b.push_back(i);
  }
  if (axes_of_a.size() != axes_of_b.size()) refuse("cannot pair ", axes_of_a.size(), " axes with ", axes_of_b.size());

  Labels labels_of_a, labels_of_b;
  for (int i = 0; i < a.rank(); ++i) labels_of_a += static_cast<char>('a' + i);
  for (int i = 0; i < b.rank(); ++i) labels_of_b += static_cast<char>('A' + i);
  Labels output = labels_of_a + labels_of_b;
  for (std::size_t i = 0; i < axes_of_a.size(); ++i) {
    const int of_a = normalize_axis(axes_of_a[i], a.rank()), of_b = normalize_axis(axes_of_b[i], b.rank());
    char& label = labels_of_b[of_b];
    const char partner = labels_of_a[of_a];
    if (!contains(output, label) || !contains(output, partner)) refuse("an axis is named twice among those");
    if (!sizes_agree(a.sizes()[of_a], b.sizes()[of_b])) refuse("cannot pair the axes ", of_a, " and ", of_b);
    std::erase_if(output, [&](char each) { return each == label || each == partner; });
    label = partner;
  }
  return labels_of_a + "," + labels_of_b + "->" + output;
}

}  // namespace

Tensor einsum(std::string_view equation, const InList& operands, std::string_view name) {
  return blaming("Einsum", operands.where(), [&] {
    Equation parsed = Parser(equation, operands.tensors()).result();
    require_equal_sizes(parsed.operands);
    Operand result = without_repeats(parsed.operands[0]);
    for (std::size_t i = 1; i < parsed.operands.size(); ++i) {
      Labels needed = parsed.output;
      for (std::size_t j = i + 1; j < parsed.operands.size(); ++j) needed += parsed.operands[j].labels;
      result = contract(result, without_repeats(parsed.operands[i]), needed);
    }
    return permuted(summed_to(result, parsed.output), parsed.output, name).tensor;
  });
}

Tensor tensordot(In a, In b, const ContractedAxes& axes, std::string_view name) {
  return blaming("Tensordot", a.where(), [&] {
    // Without both ranks there is no equation.
    rank_of(a);
    rank_of(b);
    return einsum(pairing(a->shape(), b->shape(), axes), InList({a.tensor(), b.tensor()}, a.where()), name);
  });
}

}  // namespace tapestry

#include "tapestry/data/collate.hpp"

#include <algorithm>

#include "dispatch/recorder.hpp"
#include "tapestry/ops/array.hpp"

namespace tapestry::data {
namespace {

/// The tensor with `pad` behind its elements, up to the shape.
Tensor padded(const Tensor& element, const std::vector<std::int64_t>& sizes, double pad, Where where) {
  std::vector<Padding> paddings;
  bool is_shorter = false;
  for (int axis = 0; axis < element.rank(); ++axis) {
    paddings.push_back({.after = sizes[axis] - element.shape().sizes()[axis]});
    is_shorter |= paddings.back().after > 0;
  }
  if (!is_shorter) return element;
  try {
    return tapestry::pad(element, paddings, {.value = pad});
  } catch (const InvalidArgumentError& error) {  // of an op that the user does not know of
    throw InvalidArgumentError(detail::join("`pad` of a batch: ", error.message()), where);
  }
}

/// What would let an element be in a batch with the first one.
std::string_view advice(const Tensor& element, const Tensor& first) {
  if (element.dtype() != first.dtype()) return "; elements must have one dtype";
  if (element.rank() != first.rank()) return "; only sizes may differ, with `pad`";
  return "; `pad` would make shapes that differ equal";
}

}  // namespace

Tensor collate(std::vector<Tensor> elements, const BatchOptions& options, Where where) {
  const ExecuteNow now;
  const CallSiteScope site(where);
  std::vector<std::int64_t> largest;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!elements[i]) throw InvalidArgumentError(detail::join("Element ", i, " of a batch is an empty Tensor"), where);
    const Shape &shape = elements[i].shape(), &first = elements[0].shape();
    const bool fits = options.pad ? shape.rank() == first.rank() : shape == first;
    const bool has_type = elements[i].dtype() == elements[0].dtype();
    if (!fits || !has_type)
      throw InvalidArgumentError(
          detail::join("Element ", i, " of a batch is ", elements[i].dtype(), shape, ", the first one is ",
                       elements[0].dtype(), first, advice(elements[i], elements[0])),
          where);
    largest.resize(static_cast<std::size_t>(shape.rank()));
    for (int axis = 0; axis < shape.rank(); ++axis) {
      std::int64_t& size = largest[axis];
      size = std::max(size, shape.sizes()[axis]);
    }
  }
  if (options.pad)
    for (Tensor& each : elements) each = padded(each, largest, *options.pad, where);
  return stack(elements);
}

Batch collate(std::vector<Batch> elements, const BatchOptions& options, Where where) {
  std::vector<Tensor> x, y;
  for (Batch& each : elements) {
    x.push_back(std::move(each.x));
    y.push_back(std::move(each.y));
  }
  return {collate(std::move(x), options, where), collate(std::move(y), options, where)};
}

StateDict collate(std::vector<StateDict> elements, const BatchOptions& options, Where where) {
  StateDict batch;
  for (const auto& [name, unused] : elements.front()) {
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const auto found = elements[i].find(name);
      if (found == elements[i].end() || elements[i].size() != elements.front().size())
        throw InvalidArgumentError(
            detail::join("Element ", i, " of a batch has other names than the first one, such as '", name, "'"), where);
      parts.push_back(found->second);
    }
    batch.emplace(name, collate(std::move(parts), options, where));
  }
  return batch;
}

std::vector<Tensor> collate(std::vector<std::vector<Tensor>> elements, const BatchOptions& options, Where where) {
  std::vector<Tensor> batch;
  for (std::size_t part = 0; part < elements.front().size(); ++part) {
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      if (elements[i].size() != elements.front().size())
        throw InvalidArgumentError(detail::join("Element ", i, " of a batch has ", elements[i].size(),
                                                " tensors, the first one has ", elements.front().size()),
                                   where);
      parts.push_back(elements[i][part]);
    }
    batch.push_back(collate(std::move(parts), options, where));
  }
  return batch;
}

}  // namespace tapestry::data

#include "distributed/buckets.hpp"

#include <algorithm>

#include "tapestry/ops/math.hpp"

namespace tapestry::detail {

void Buckets::add(std::size_t number, const Tensor& tensor) {
  if (!tensor) return;
  auto bucket =
      std::find_if(open_.begin(), open_.end(), [&](const Bucket& each) { return each.dtype == tensor.dtype(); });
  if (bucket == open_.end()) bucket = open_.insert(bucket, Bucket{.dtype = tensor.dtype()});
  bucket->tensors.push_back(tensor);
  bucket->numbers.push_back(number);
  // In a graph, a size that is not known yet does not count.
  const std::int64_t elements = tensor.shape().is_known() ? tensor.shape().num_elements() : 0;
  bucket->bytes += elements * static_cast<std::int64_t>(size_of(tensor.dtype()));
  if (bucket->bytes >= bytes_) send(*bucket);
}

void Buckets::add_rows(std::size_t number, const IndexedSlices& rows, const Tensor& like) {
  rows_.push_back({number, rows, like});
}

void Buckets::send(Bucket& bucket) {
  if (bucket.tensors.empty()) return;
  std::int64_t layout = static_cast<std::int64_t>(sent_.size());
  for (const std::size_t number : bucket.numbers)
    layout = layout % 1000003 * 1000033 + static_cast<std::int64_t>(number);
  sent_.push_back(
      {start_all_reduce(among_, bucket.tensors, reduce_, layout, where_, settings_), std::move(bucket.numbers)});
  bucket = Bucket{.dtype = bucket.dtype};
}

std::vector<Tensor> Buckets::finish(std::size_t count) {
  for (Bucket& each : open_) send(each);
  std::vector<Tensor> results(count);
  for (const Sent& each : sent_) {
    const Tensors reduced = detail::finish(each.pending);
    for (std::size_t i = 0; i < reduced.size(); ++i) results[each.numbers[i]] = reduced[i];
  }
  // After the buckets: ranks that do not agree on what is row-sparse find that out there.
  for (const Rows& each : rows_) {
    IndexedSlices all = gather_rows(among_, each.rows, static_cast<std::int64_t>(each.number), where_, settings_);
    if (reduce_ == Reduce::mean) all.values = all.values / static_cast<double>(among_.size());
    results[each.number] = to_tensor(all, {each.like, where_});
  }
  return results;
}

}  // namespace tapestry::detail

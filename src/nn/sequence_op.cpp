#include "nn/sequence_op.hpp"

#include <algorithm>

#include "backend/views.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"

namespace tapestry {

Tensor of_gate(const Tensor& z, std::int64_t gate, std::int64_t gate_count) {
  const std::int64_t hidden = z.shape().sizes()[1] / gate_count;
  return view_part(z, 1, gate * hidden, hidden);
}

Tensor turned_weight(Backend& backend, const Tensor& weight) {
  // Each product reads it in place: a cache keeps few lines that are a power of two apart, so the rows have a gap.
  constexpr std::int64_t gap = 16;
  const std::int64_t rows = weight.shape().sizes()[0], columns = weight.shape().sizes()[1];
  const Tensor turned =
      view_part(detail::make_tensor(weight.dtype(), {columns, rows + gap}, weight.device()), 1, 0, rows);
  backend.copy(view_transposed(weight), turned);
  return turned;
}

Tensor states_before(Backend& backend, const Tensor& first, const Tensor& after) {
  const std::int64_t time = after.shape().sizes()[1];
  const Tensor before = detail::make_tensor(after.dtype(), after.shape(), after.device());
  backend.copy(first, view_at(before, 1, 0));
  backend.copy(view_part(after, 1, 0, time - 1), view_part(before, 1, 1, time - 1));
  return before;
}

Tensors go_through(const detail::FlatFunction& f, const Tensors& carried, const Tensors& sequences, bool reverse) {
  const std::int64_t time = sequences[0].shape().sizes()[0];
  const auto has_length = [](const Tensor& each) { return each.shape().sizes()[0] >= 0; };
  if (!std::all_of(sequences.begin(), sequences.end(), has_length))
    return detail::flat_scan(f, carried, sequences, {.reverse = reverse}, {});
  std::vector<std::vector<Tensor>> elements, outputs;
  for (const Tensor& each : sequences) elements.push_back(unstack(each));
  Tensors current = carried;
  for (std::int64_t step = 0; step < time; ++step) {
    const auto at = static_cast<std::size_t>(reverse ? time - 1 - step : step);
    for (const std::vector<Tensor>& each : elements) current.push_back(each[at]);
    const Tensors results = f(current);
    current = Tensors(results.begin(), results.begin() + carried.size());
    outputs.resize(results.size() - carried.size(), std::vector<Tensor>(static_cast<std::size_t>(time)));
    for (std::size_t k = 0; k < outputs.size(); ++k) outputs[k][at] = results[carried.size() + k];
  }
  for (const std::vector<Tensor>& each : outputs) current.push_back(stack(each));
  return current;
}

Tensor by_time(const Tensor& x) { return transpose(x, {1, 0, 2}); }

Tensor steepness(const Tensor& y) { return y * (1 - y); }

Tensor nothing_like(const Tensor& x) {
  return broadcast_like(zeros({}, {.dtype = x.dtype(), .device = x.device()}), x);
}

Tensor zeros_of_weight(const Tensor& weight, std::int64_t gate_count) {
  const std::int64_t hidden = weight.shape().sizes()[1];
  return weight.shape().is_known() || hidden < 0 ? zeros_like(weight)
                                                 : zeros({gate_count * hidden, hidden}, {.dtype = weight.dtype()});
}

}  // namespace tapestry

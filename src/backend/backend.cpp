/// The interface's own definitions of the families. They run several calls one after another, and compute in float32
/// what a backend has no kernels for.

#include "backend/backend.hpp"

#include <unordered_map>

#include "backend/place.hpp"
#include "backend/program.hpp"
#include "backend/views.hpp"
#include "core/make_tensor.hpp"

namespace tapestry {

Tensor Backend::contiguous(const Tensor& x) { return x.is_contiguous() ? x : contiguous_copy(x); }

Tensor Backend::contiguous_copy(const Tensor& x) {
  Tensor copied = detail::make_tensor(x.dtype(), x.shape(), x.device());
  copy(x, copied);
  return copied;
}

// ---- One call after another ---------------------------------------------------------------------------------------

void Backend::run_side_by_side(std::int64_t count, const std::function<void(std::int64_t)>& task) {
  for (std::int64_t i = 0; i < count; ++i) task(i);
}

namespace {
constinit thread_local LateChecks* late_checks = nullptr;
}

LateChecks::LateChecks(bool variables_change) : variables_change_(variables_change) { late_checks = this; }
LateChecks::~LateChecks() { late_checks = nullptr; }
LateChecks* LateChecks::current() { return late_checks; }

std::unique_ptr<Recording> Backend::record(const std::function<void()>&) { return nullptr; }

bool Backend::copy_from_peer(Backend&, void*, const void*, std::size_t) { return false; }

std::string Backend::address() {
  throw UnimplementedError(detail::join("devices of the kind ", name(), " exchange no tensors with other ranks'"));
}
std::string Backend::new_group() { return address(); }
std::unique_ptr<DeviceGroup> Backend::join_group(const std::string&, int, int) {
  address();
  return nullptr;
}

void Backend::copy_each(const Tensors& from, const Tensors& to) {
  for (std::size_t i = 0; i < to.size(); ++i) copy(from[i], to[i]);
}

bool Backend::join(const Tensors&, int, const Tensor&) { return false; }

void Backend::program(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  if (!are_contiguous(outputs)) {
    Tensors results(outputs.begin(), outputs.end()), from, to;
    for (Tensor& each : results) {
      if (each.is_contiguous()) continue;
      to.push_back(each);
      from.push_back(each = detail::make_tensor(each.dtype(), each.shape(), each.device()));
    }
    this->program(program, inputs, {results.data(), results.size()});
    return copy_each(from, to);
  }
  std::vector<Tensor> values(inputs.begin(), inputs.end());
  values.insert(values.end(), outputs.begin(), outputs.end());
  values.resize(program.operands());
  for (const Program::Instruction& each : program.instructions) {
    const Tensor y = program.is_register(each.result)
                         ? detail::make_tensor(each.dtype, outputs[0].shape(), outputs[0].device())
                         : values[each.result];
    const auto& [a, b, c] = each.operands;
    run(*this, each.function, {&values[a], &values[b], &values[c]}, each.number, y);
    values[each.result] = y;
  }
}

void Backend::gemm_program(const FusedProduct& fused, const Tensor& a, const Tensor& b, const Program& program,
                           std::span<const Tensor> others, std::span<const Tensor> outputs) {
  const Tensor& product = outputs[fused.into];
  gemm(a, b, fused.transpose_a, fused.transpose_b, product);
  const ProgramInputs inputs = with_product(others, fused.product, product);
  this->program(program, {inputs.data(), inputs.size()}, outputs);
}

namespace {

Tensor scalar(Backend& backend, double value, DType dtype, Device device) {
  Tensor tensor = detail::make_tensor(dtype, {}, device);
  backend.fill(value, tensor);
  return tensor;
}

Tensor uninitialized_like(const Tensor& x) { return detail::make_tensor(x.dtype(), x.shape(), x.device()); }

/// All axes but the last.
std::uint32_t all_but_channels(const Tensor& x) { return (1U << (x.rank() - 1)) - 1; }

/// 1 / sqrt(variance + epsilon)
Tensor reciprocal_deviation(Backend& backend, const Tensor& variance, double epsilon) {
  const Tensor sum = uninitialized_like(variance);
  Tensor rstd = uninitialized_like(variance);
  backend.binary(Binary::add, variance, scalar(backend, epsilon, variance.dtype(), variance.device()), 0, sum);
  backend.unary(Unary::rsqrt, sum, 0, rstd);
  return rstd;
}

/// Throws InvalidArgumentError unless the labels are in [0, classes). They are few, so they are read on the host.
void check_labels(const Tensor& labels, std::int64_t classes) {
  const Tensor host = detail::on_host(labels);
  const void* values = host.impl().data;
  for (std::int64_t i = 0; i < host.size(); ++i) {
    const std::int64_t label = host.dtype() == int64 ? static_cast<const std::int64_t*>(values)[i]
                                                     : static_cast<const std::int32_t*>(values)[i];
    if (label < 0 || label >= classes) throw InvalidArgumentError(label_out_of_range(label, classes));
  }
}

void compose_sparse_softmax_cross_entropy(Backend& backend, const Tensor& logits, const Tensor& labels,
                                          const Tensor& loss, const Tensor& backprop) {
  const int axis = logits.rank() - 1;
  check_labels(labels, logits.shape().sizes()[axis]);
  Shape column = labels.shape();
  column.push_back(1);
  const Tensor positions = view_as(backend.contiguous(labels), column);

  const Tensor log_p = uninitialized_like(backprop), picked = uninitialized_like(loss),
               minus_one_hot = uninitialized_like(backprop);
  backend.softmax(logits, true, log_p);
  backend.take_along(log_p, positions, axis, view_as(picked, column));
  backend.unary(Unary::negative, picked, 0, loss);
  const Tensor minus_one = scalar(backend, -1, logits.dtype(), logits.device());
  backend.put_along_add(positions, view_broadcast(minus_one, column), axis, minus_one_hot);
  backend.softmax_grad(log_p, minus_one_hot, true, backprop);
}

void compose_batch_normalize(Backend& backend, const Tensor& x, const Tensor& scale, const Tensor& offset,
                             double epsilon, const Tensor& y, const Tensor& mean, const Tensor& variance) {
  backend.reduce(ReduceFunction::mean, x, all_but_channels(x), mean);
  backend.binary(Binary::subtract, x, mean, 0, y);
  const Tensor squares = uninitialized_like(y);
  backend.unary(Unary::square, y, 0, squares);
  backend.reduce(ReduceFunction::mean, squares, all_but_channels(x), variance);
  const Tensor factor = reciprocal_deviation(backend, variance, epsilon);
  backend.binary(Binary::multiply, factor, scale, 0, factor);
  backend.binary(Binary::multiply, y, factor, 0, y);
  backend.binary(Binary::add, y, offset, 0, y);
}

void compose_batch_normalize_grad(Backend& backend, const Tensor& x, const Tensor& scale, const Tensor& mean,
                                  const Tensor& variance, const Tensor& g, double epsilon, const Tensor& dx,
                                  const Tensor& dscale, const Tensor& doffset) {
  const Tensor factor = reciprocal_deviation(backend, variance, epsilon);
  const Tensor normal = uninitialized_like(dx);
  backend.binary(Binary::subtract, x, mean, 0, normal);
  backend.binary(Binary::multiply, normal, factor, 0, normal);
  backend.binary(Binary::multiply, normal, g, 0, dx);
  backend.reduce(ReduceFunction::sum, dx, all_but_channels(x), dscale);
  backend.reduce(ReduceFunction::sum, g, all_but_channels(x), doffset);

  const Tensor level = uninitialized_like(doffset), slope = uninitialized_like(dscale);
  const auto rows = static_cast<double>(x.size()) / static_cast<double>(dscale.size());
  const Tensor count = scalar(backend, rows, dscale.dtype(), dscale.device());
  backend.binary(Binary::divide, doffset, count, 0, level);
  backend.binary(Binary::divide, dscale, count, 0, slope);
  backend.binary(Binary::multiply, normal, slope, 0, normal);
  backend.binary(Binary::subtract, g, level, 0, dx);
  backend.binary(Binary::subtract, dx, normal, 0, dx);
  backend.binary(Binary::multiply, factor, scale, 0, factor);
  backend.binary(Binary::multiply, dx, factor, 0, dx);
}

}  // namespace

double busy_with_product(const Tensor& a, bool transpose_a, const Tensor& y) {
  constexpr double multiplications_per_nanosecond = 50;
  const std::int64_t k = a.shape().sizes()[transpose_a ? 0 : 1];
  const double work = static_cast<double>(y.size()) * static_cast<double>(k);
  const bool is_vector = y.shape().sizes()[0] == 1 || y.shape().sizes()[1] == 1;
  return is_vector || work >= large_product ? 0 : work / multiplications_per_nanosecond;
}

// ---- Half types ---------------------------------------------------------------------------------------------------
//
// float16 and bfloat16 are storage types. A backend without kernels for them calls these definitions, which compute in
// float32 and round each result once.

namespace {

/// One call of a family, with float32 tensors in place of those of half types. Tensors of other types stay as they are.
class Widened {
 public:
  explicit Widened(Backend& backend) : backend_(backend) {}
  Backend* operator->() const { return &backend_; }

  /// An input. Elements that it repeats by strides of 0 are converted once.
  Tensor read(const Tensor& x) {
    if (!is_half(x.dtype())) return x;
    const Tensor once = view_without_repeats(x, x.rank());
    Tensor wide = detail::make_tensor(float32, once.shape(), x.device());
    backend_.copy(once, wide);
    return once.shape() == x.shape() ? wide : view_broadcast(wide, x.shape());
  }
  /// An output. `round` copies it to y.
  Tensor write(const Tensor& y) {
    if (!is_half(y.dtype())) return y;
    results_.push_back({detail::make_tensor(float32, y.shape(), y.device()), y});
    return results_.back().wide;
  }
  /// A tensor that is changed in place.
  Tensor change(const Tensor& y) {
    Tensor wide = write(y);
    if (!wide.is(y)) backend_.copy(y, wide);
    return wide;
  }
  /// Rounds the results to their types.
  void round() const {
    for (const Result& each : results_) backend_.copy(each.wide, each.y);
  }

 private:
  struct Result {
    Tensor wide, y;
  };
  Backend& backend_;
  SmallVector<Result, 3> results_;
};

/// The largest number of a half type in [low, high), or `low` rounded to that type if there is none.
template <class T>
float last_below(double low, double high) {
  T number(high);
  if (number >= high && high > low) {
    // The next one towards minus infinity.
    const std::uint16_t bits = number.bits();
    const bool positive = (bits & 0x8000) == 0, zero = (bits & 0x7fff) == 0;
    number = T::from_bits(zero ? std::uint16_t{0x8001} : positive ? bits - 1 : bits + 1);
  }
  return std::max(static_cast<float>(number), static_cast<float>(T(low)));
}

}  // namespace

void Backend::unary(Unary f, const Tensor& x, double alpha, const Tensor& y) {
  Widened wide(*this);
  wide->unary(f, wide.read(x), alpha, wide.write(y));
  wide.round();
}

void Backend::binary(Binary f, const Tensor& a, const Tensor& b, double alpha, const Tensor& y) {
  Widened wide(*this);
  wide->binary(f, wide.read(a), wide.read(b), alpha, wide.write(y));
  wide.round();
}

void Backend::ternary(Ternary f, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& y) {
  Widened wide(*this);
  wide->ternary(f, wide.read(a), wide.read(b), wide.read(c), wide.write(y));
  wide.round();
}

void Backend::reduce(ReduceFunction f, const Tensor& x, std::uint32_t axes, const Tensor& y) {
  Widened wide(*this);
  wide->reduce(f, wide.read(x), axes, wide.write(y));
  wide.round();
}

void Backend::program_reduce(const Program& program, std::span<const Tensor> inputs, const Shape& shape,
                             const ReducedOutput& reduced, std::span<const Tensor> outputs) {
  ProgramInputs places(outputs.begin(), outputs.end());
  Tensor& x = places[reduced.output];
  x = detail::make_tensor(x.dtype(), shape, x.device());
  this->program(program, inputs, {places.data(), places.size()});
  reduce(reduced.function, x, reduced.axes, outputs[reduced.output]);
}

std::shared_ptr<const LoopCode> Backend::loop_code(const LoopProgram&) { return nullptr; }

void Backend::scan(Scan f, const Tensor& x, int axis, bool exclusive, bool reverse, const Tensor& y) {
  Widened wide(*this);
  wide->scan(f, wide.read(x), axis, exclusive, reverse, wide.write(y));
  wide.round();
}

void Backend::arg_reduce(ArgReduce f, const Tensor& x, int axis, const Tensor& y) {
  Widened wide(*this);
  wide->arg_reduce(f, wide.read(x), axis, y);
}

void Backend::top_k(const Tensor& x, std::int64_t k, bool largest, const Tensor& values, const Tensor& indices) {
  Widened wide(*this);
  wide->top_k(wide.read(x), k, largest, wide.write(values), indices);
  wide.round();
}

void Backend::gemm(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const Tensor& y) {
  Widened wide(*this);
  wide->gemm(wide.read(a), wide.read(b), transpose_a, transpose_b, wide.write(y));
  wide.round();
}

void Backend::linalg(Linalg f, std::span<const Tensor> inputs, bool adjoint, std::span<const Tensor> outputs) {
  Widened wide(*this);
  Tensors from, to;
  for (const Tensor& each : inputs) from.push_back(wide.read(each));
  for (const Tensor& each : outputs) to.push_back(wide.write(each));
  wide->linalg(f, {from.data(), from.size()}, adjoint, {to.data(), to.size()});
  wide.round();
}

void Backend::scatter_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) {
  Widened wide(*this);
  wide->scatter_add(indices, wide.read(updates), axis, wide.write(y));
  wide.round();
}

void Backend::scatter_nd_add(const Tensor& indices, const Tensor& updates, const Tensor& y) {
  Widened wide(*this);
  wide->scatter_nd_add(indices, wide.read(updates), wide.write(y));
  wide.round();
}

void Backend::put_along_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) {
  Widened wide(*this);
  wide->put_along_add(indices, wide.read(updates), axis, wide.write(y));
  wide.round();
}

void Backend::softmax(const Tensor& x, bool logarithm, const Tensor& y) {
  Widened wide(*this);
  wide->softmax(wide.read(x), logarithm, wide.write(y));
  wide.round();
}

void Backend::softmax_grad(const Tensor& y, const Tensor& g, bool logarithm, const Tensor& dx) {
  Widened wide(*this);
  wide->softmax_grad(wide.read(y), wide.read(g), logarithm, wide.write(dx));
  wide.round();
}

void Backend::normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                        const Tensor& mean, const Tensor& rstd) {
  Widened wide(*this);
  wide->normalize(wide.read(x), wide.read(scale), wide.read(offset), epsilon, wide.write(y), wide.write(mean),
                  wide.write(rstd));
  wide.round();
}

void Backend::normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                             const Tensor& g, const Tensor& dx, const Tensor& dscale, const Tensor& doffset) {
  Widened wide(*this);
  wide->normalize_grad(wide.read(x), wide.read(scale), wide.read(mean), wide.read(rstd), wide.read(g), wide.write(dx),
                       wide.write(dscale), wide.write(doffset));
  wide.round();
}

void Backend::sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& loss,
                                           const Tensor& backprop) {
  if (!is_half(logits.dtype())) return compose_sparse_softmax_cross_entropy(*this, logits, labels, loss, backprop);
  Widened wide(*this);
  wide->sparse_softmax_cross_entropy(wide.read(logits), wide.read(labels), wide.write(loss), wide.write(backprop));
  wide.round();
}

void Backend::batch_normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon,
                              const Tensor& y, const Tensor& mean, const Tensor& variance) {
  if (!is_half(x.dtype())) return compose_batch_normalize(*this, x, scale, offset, epsilon, y, mean, variance);
  Widened wide(*this);
  wide->batch_normalize(wide.read(x), wide.read(scale), wide.read(offset), epsilon, wide.write(y), wide.write(mean),
                        wide.write(variance));
  wide.round();
}

void Backend::batch_normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& variance,
                                   const Tensor& g, double epsilon, const Tensor& dx, const Tensor& dscale,
                                   const Tensor& doffset) {
  if (!is_half(x.dtype()))
    return compose_batch_normalize_grad(*this, x, scale, mean, variance, g, epsilon, dx, dscale, doffset);
  Widened wide(*this);
  wide->batch_normalize_grad(wide.read(x), wide.read(scale), wide.read(mean), wide.read(variance), wide.read(g),
                             epsilon, wide.write(dx), wide.write(dscale), wide.write(doffset));
  wide.round();
}

void Backend::conv2d(const Tensor& x, const Tensor& filter, const Window2d& window, const Tensor& y) {
  Widened wide(*this);
  wide->conv2d(wide.read(x), wide.read(filter), window, wide.write(y));
  wide.round();
}

void Backend::conv2d_grad_input(const Tensor& g, const Tensor& filter, const Window2d& window, const Tensor& dx) {
  Widened wide(*this);
  wide->conv2d_grad_input(wide.read(g), wide.read(filter), window, wide.write(dx));
  wide.round();
}

void Backend::conv2d_grad_filter(const Tensor& x, const Tensor& g, const Window2d& window, const Tensor& dfilter) {
  Widened wide(*this);
  wide->conv2d_grad_filter(wide.read(x), wide.read(g), window, wide.write(dfilter));
  wide.round();
}

void Backend::pool2d(PoolKind f, const Tensor& x, const Window2d& window, const Tensor& y) {
  Widened wide(*this);
  wide->pool2d(f, wide.read(x), window, wide.write(y));
  wide.round();
}

void Backend::pool2d_grad(PoolKind f, const Tensor& x, const Tensor& y, const Tensor& g, const Window2d& window,
                          const Tensor& dx) {
  Widened wide(*this);
  const bool reads = f == PoolKind::max;
  wide->pool2d_grad(f, reads ? wide.read(x) : x, reads ? wide.read(y) : y, wide.read(g), window, wide.write(dx));
  wide.round();
}

void Backend::random(Distribution f, std::uint64_t key, std::uint64_t offset, double a, double b, const Tensor& y) {
  if (y.size() == 0) return;
  Widened wide(*this);
  const Tensor numbers = wide.write(y);
  wide->random(f, key, offset, a, b, numbers);
  if (f == Distribution::uniform) {  // no number may be rounded up to b
    const float last = y.dtype() == float16 ? last_below<float16_t>(a, b) : last_below<bfloat16_t>(a, b);
    wide->binary(Binary::minimum, numbers, scalar(*this, last, float32, y.device()), 0, numbers);
  }
  wide.round();
}

namespace {

Tensor on_device(const std::vector<std::int64_t>& numbers, Device device) {
  Tensor result = detail::make_tensor(int64, {std::ssize(numbers)}, device);
  backend_of(device).copy_from_host(result.impl().data, numbers.data(), numbers.size() * sizeof(std::int64_t));
  return result;
}

}  // namespace

/// The rows come in the order in which their indices occur first.
Backend::IndexedRows Backend::sum_rows(const IndexedRows& rows, std::int64_t size) {
  const std::vector<std::int64_t> indices = rows.indices.to_vector<std::int64_t>();
  std::unordered_map<std::int64_t, std::int64_t> places;
  places.reserve(indices.size());
  std::vector<std::int64_t> distinct, place_of;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= size)
      throw InvalidArgumentError(detail::join("indices", place_in(rows.indices.shape(), static_cast<std::int64_t>(i)),
                                              " = ", indices[i], " is not in [0, ", size, ")"));
    const auto [found, is_new] = places.try_emplace(indices[i], std::ssize(distinct));
    if (is_new) distinct.push_back(indices[i]);
    place_of.push_back(found->second);
  }
  const Device device = rows.values.device();
  if (distinct.size() == indices.size()) return {on_device(distinct, device), contiguous(rows.values)};
  Shape shape = rows.values.shape();
  shape.set(0, std::ssize(distinct));
  const Tensor sums = detail::make_tensor(rows.values.dtype(), shape, device);
  scatter_add(on_device(place_of, device), rows.values, 0, sums);
  return {on_device(distinct, device), sums};
}

void Backend::put_rows(const Tensor& rows, const Tensor& indices, const Tensor& y) {
  const std::vector<std::int64_t> places = indices.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < places.size(); ++i)
    copy(view_at(rows, 0, static_cast<std::int64_t>(i)), view_at(y, 0, places[i]));
}

void Backend::take_rows(const Tensor& x, const Tensor& indices, const Tensor& rows) { gather(x, indices, 0, rows); }

void Backend::update(Update f, const Tensor& numbers, const Tensor& gradient, std::span<const Tensor> slots,
                     const Tensor& variable) {
  Widened wide(*this);
  Tensors changed;
  for (const Tensor& each : slots) changed.push_back(wide.change(each));
  wide->update(f, numbers, wide.read(gradient), {changed.data(), changed.size()}, wide.change(variable));
  wide.round();
}

}  // namespace tapestry

#include "dispatch/composition.hpp"

#include "tapestry/detail/locate.hpp"

namespace tapestry {
namespace {

constinit thread_local int depth = 0;

}  // namespace

void check_results(std::string_view function, const Tensors& results, const Specs& told) {
  if (results.size() != told.size())
    throw InvalidArgumentError(
        detail::join(function, " returns ", results.size(), " tensors, where infer tells ", told.size()));
  for (std::size_t i = 0; i < told.size(); ++i) {
    if (!results[i]) throw InvalidArgumentError(detail::join(function, " returns an empty Tensor as output ", i));
    const Spec& result = results[i].spec();
    const bool has_type =
        result.dtype == told[i].dtype || result.dtype == DType::unknown || told[i].dtype == DType::unknown;
    if (!has_type || !agree(result.shape, told[i].shape))
      throw InvalidArgumentError(detail::join(function, " returns ", to_string(result.dtype), result.shape,
                                              " as output ", i, ", where infer tells ", to_string(told[i].dtype),
                                              told[i].shape));
  }
}

Tensors compose(const Composition& composition, const Call& call, const Tensors& inputs) {
  const std::string_view name = call.name() == call.type() ? std::string_view() : call.name();
  Tensors results = composition(Call(call.op(), inputs, call.attrs(), call.where(), name));
  detail::locating(call.type(), call.where(), [&] {
    Specs told;
    for (const Tensor& output : call.outputs()) told.push_back(output.spec());
    check_results("composition", results, told);
  });
  return results;
}

void Composing::begin(const Call& call) {
  constexpr int most = 64;
  if (depth == most)
    throw InvalidArgumentError("The composition applies the op itself, without an end", call.type(), call.where());
  ++depth;
}

void Composing::end() { --depth; }

}  // namespace tapestry

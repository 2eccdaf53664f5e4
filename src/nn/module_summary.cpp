#include "tapestry/nn/module_summary.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "core/make_tensor.hpp"
#include "nn/layer_call.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry::nn::detail {
namespace {

using tapestry::detail::join;

using Row = std::array<std::string, 4>;

/// The shapes of the layers' last results.
class Shapes : public LayerObserver {
 public:
  void on_result(const Module& layer, const Tensor& result) override { shapes_[&layer] = result.shape(); }
  std::string of(const Module& module) const {
    const auto found = shapes_.find(&module);
    return found == shapes_.end() ? "" : to_string(found->second);
  }

 private:
  std::map<const Module*, Shape> shapes_;
};

/// "1,234,567"
std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

/// The number of elements of each module's own parameters, without those of the modules in it.
std::map<std::string, std::int64_t> own_parameters(const Module& module, Where where) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [name, part] : module.named_modules()) counts[name] = 0;
  for (const auto& [name, parameter] : module.named_parameters(where)) {
    // The owner's name is the longest one that is followed by a dot.
    std::size_t end = name.size();
    do {
      end = name.rfind('.', end - 1);
    } while (end != std::string::npos && !counts.contains(name.substr(0, end)));
    counts[end == std::string::npos ? "" : name.substr(0, end)] += parameter.shape().size();
  }
  return counts;
}

std::string table_of(const std::vector<Row>& rows) {
  std::array<std::size_t, 4> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string table;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      const bool is_number = i + 1 == row.size();
      table += is_number ? space + row[i] + "\n" : row[i] + space + "  ";
    }
  }
  return table;
}

}  // namespace

std::string summary(const Module& module, const std::vector<TensorSpec>& inputs,
                    const std::function<void(const Tensors&)>& call, Where where) {
  Shapes shapes;
  if (call) {
    const Graph scratch;
    const Graph::Scope scope(scratch);
    Tensors arguments;
    for (const TensorSpec& input : inputs) arguments.push_back(placeholder(input.dtype, input.shape, input.name));
    tapestry::detail::locating({}, where, [&] { call(arguments); });
  }
  std::vector<Row> rows{{"Name", "Layer", "Output shape", "Parameters"}};
  const auto counts = own_parameters(module, where);
  for (const auto& [name, part] : module.named_modules()) {
    const bool holds_others = part->named_modules().size() > 1;
    const std::int64_t count = counts.at(name);
    if (!holds_others || count > 0)
      rows.push_back({name.empty() ? "-" : name, type_name(*part), shapes.of(*part), grouped(count)});
  }
  std::int64_t bytes = 0;
  for (const auto& [name, value] : module.state_dict(where))
    bytes += static_cast<std::int64_t>(tapestry::detail::nbytes(value));
  return table_of(rows) + join(type_name(module), ": ", grouped(module.parameter_count(where)), " parameters, ",
                               grouped(bytes), " bytes with all buffers\n");
}

}  // namespace tapestry::nn::detail

#include "tapestry/model.hpp"

#include <algorithm>

#include "dispatch/recorder.hpp"
#include "graph/call_graph.hpp"
#include "io/signature.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry {
namespace {

constexpr std::string_view usual_signature = "serving_default";

std::vector<std::string> names_in(const std::map<std::string, Tensor>& tensors) {
  std::vector<std::string> names;
  names.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

template <class Names>
std::string listed(const Names& names) {
  std::string text;
  for (const auto& each : names) text += (text.empty() ? "'" : ", '") + each + "'";
  return text.empty() ? "none" : text;
}

/// The value in the dtype of its input. Throws if the input's dtype would narrow it, or if its shape does not fit.
Tensor value_for(const std::string& name, const Tensor& input, const Value& value, Where where) {
  const DType wanted = input.dtype();
  if (value.is_empty_tensor())
    throw InvalidArgumentError(detail::join("The value of the input '", name, "' is an empty Tensor"), where);
  const bool literal = !value.is_tensor() && wanted != DType::unknown;
  const Tensor given = literal ? value.tensor(wanted, where) : value.tensor({}, where);
  const bool fits = wanted == DType::unknown || given.dtype() == DType::unknown || given.dtype() == wanted ||
                    promote(given.dtype(), wanted) == wanted;
  if (!fits || !can_be(input.shape(), given.shape()))
    throw InvalidArgumentError(detail::join("The input '", name, "' of the model is ", to_string(wanted), input.shape(),
                                            ", not ", to_string(given.dtype()), given.shape()),
                               where);
  const bool same = wanted == DType::unknown || given.dtype() == DType::unknown || given.dtype() == wanted;
  return same ? given : given.cast(wanted, where);
}

}  // namespace

struct Model::State {
  explicit State(Parts p) : parts(std::move(p)), session(parts.graph, {.allow_soft_placement = true}) {}

  Parts parts;
  Session session;

  const Signature& called(Where where) const {
    const auto found = parts.signatures.find(parts.called);
    if (found == parts.signatures.end())
      throw FailedPreconditionError("The model has no signature by which it could be called", where);
    return found->second;
  }

  /// The values in the order of `parts.inputs`.
  std::vector<Value> values_of(const Feeds& feeds, const Signature& signature, Where where) const {
    std::vector<std::optional<Value>> found(parts.inputs.size());
    for (const Feed& feed : feeds) {
      const auto is_meant = [&](const std::string& name) {
        return feed.key.tensor() ? signature.inputs.at(name).is(feed.key.tensor()) : name == feed.key.name();
      };
      const auto place = std::find_if(parts.inputs.begin(), parts.inputs.end(), is_meant);
      const std::string name = feed.key.tensor() ? feed.key.tensor().name() : feed.key.name();
      if (place == parts.inputs.end())
        throw InvalidArgumentError(
            detail::join("The model has no input '", name, "'; its inputs: ", listed(parts.inputs)), where);
      std::optional<Value>& value = found[place - parts.inputs.begin()];
      if (value) throw InvalidArgumentError(detail::join("The input '", name, "' is given twice"), where);
      value = feed.value;
    }
    std::vector<Value> values;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i])
        throw InvalidArgumentError(detail::join("The input '", parts.inputs[i],
                                                "' of the model is missing; its inputs: ", listed(parts.inputs)),
                                   where);
      values.push_back(*found[i]);
    }
    return values;
  }

  /// Whether the ops must be applied one by one, because an open graph, a recorder or a symbolic value needs them.
  static bool is_watched(const std::vector<Value>& values) {
    return open_sink() || !recorders().empty() || std::any_of(values.begin(), values.end(), [](const Value& each) {
             return each.is_tensor() && !each.is_empty_tensor() && each.tensor().is_symbolic();
           });
  }

  Tensors tensors(const std::vector<std::string>& names, const std::map<std::string, Tensor>& of) const {
    Tensors list;
    for (const std::string& each : names) list.push_back(of.at(each));
    return list;
  }
};

Model::Model(const Signature& signature, Where where)
    : Model(detail::locating({}, where, [&] {
        return Parts{.graph = io::graph_of(signature),
                     .signatures = {{std::string(usual_signature), signature}},
                     .called = std::string(usual_signature)};
      })) {}

Model::Model(Parts parts) {
  if (parts.called.empty() && !parts.signatures.empty()) {
    const bool usual = parts.signatures.contains(std::string(usual_signature));
    parts.called = usual ? std::string(usual_signature) : parts.signatures.begin()->first;
  }
  if (const auto found = parts.signatures.find(parts.called); found != parts.signatures.end()) {
    if (parts.inputs.empty()) parts.inputs = names_in(found->second.inputs);
    if (parts.outputs.empty()) parts.outputs = names_in(found->second.outputs);
  }
  state_ = std::make_shared<const State>(std::move(parts));
}

std::vector<Tensor> Model::operator()(const Feeds& feeds, Where where) const {
  return detail::locating({}, where, [&]() -> std::vector<Tensor> {
    const Parts& parts = state_->parts;
    const Signature& signature = state_->called(where);
    const std::vector<Value> values = state_->values_of(feeds, signature, where);
    const Tensors inputs = state_->tensors(parts.inputs, signature.inputs);
    const Tensors outputs = state_->tensors(parts.outputs, signature.outputs);
    Tensors given;
    for (std::size_t i = 0; i < values.size(); ++i)
      given.push_back(value_for(parts.inputs[i], inputs[i], values[i], where));
    if (!State::is_watched(values)) {
      Feeds feeds_in_order;
      for (std::size_t i = 0; i < given.size(); ++i) feeds_in_order.add(inputs[i], given[i]);
      return state_->session.run_all({outputs.begin(), outputs.end()}, feeds_in_order, {}, nullptr, where);
    }
    return detail::call_graph(*parts.graph.state(), inputs, given, outputs, where);
  });
}

std::vector<TensorSpec> Model::inputs() const {
  std::vector<TensorSpec> specs;
  for (const std::string& each : state_->parts.inputs) specs.push_back(spec(state_->called({}).inputs.at(each), each));
  return specs;
}

std::vector<TensorSpec> Model::outputs() const {
  std::vector<TensorSpec> specs;
  for (const std::string& each : state_->parts.outputs)
    specs.push_back(spec(state_->called({}).outputs.at(each), each));
  return specs;
}

std::vector<Variable> Model::parameters() const {
  Tensors outputs;
  for (const auto& [name, signature] : state_->parts.signatures)
    for (const auto& [key, tensor] : signature.outputs) outputs.push_back(tensor);
  std::vector<Variable> parameters;
  for (const Variable& each : detail::variables_behind(*state_->parts.graph.state(), outputs))
    if (each.trainable()) parameters.push_back(each);
  return parameters;
}

const std::map<std::string, Signature>& Model::signatures() const { return state_->parts.signatures; }

Model Model::signature(std::string_view name, Where where) const {
  Parts parts = state_->parts;
  parts.called = name;
  if (!parts.signatures.contains(parts.called)) {
    std::vector<std::string> names;
    for (const auto& [each, signature] : parts.signatures) names.push_back(each);
    throw NotFoundError(detail::join("The model has no signature '", name, "'; its signatures: ", listed(names)),
                        where);
  }
  parts.inputs.clear();
  parts.outputs.clear();
  return Model(std::move(parts));
}

const Signature& Model::signature(Where where) const { return state_->called(where); }

Graph Model::graph() const { return state_->parts.graph; }

const std::shared_ptr<const detail::SavedModelExtras>& Model::extras() const { return state_->parts.extras; }

}  // namespace tapestry

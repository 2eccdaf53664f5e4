#include "tapestry/nn/sequential.hpp"

#include "nn/names.hpp"

namespace tapestry::nn {

using detail::join;

Sequential::Sequential(const Sequential& other) : Layer(other) {
  for (const auto& stage : other.stages_) stages_.push_back(stage->copy());
}

Sequential& Sequential::operator=(const Sequential& other) {
  Layer::operator=(other);
  stages_.resize(other.stages_.size());
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& theirs = *other.stages_[i];
    if (!stages_[i] || !stages_[i]->assign(theirs)) stages_[i] = theirs.copy();
  }
  return *this;
}

Fields Sequential::fields() {
  Fields fields;
  if (stages_.empty()) fields.note_empty_list();
  for (std::size_t i = 0; i < stages_.size(); ++i)
    fields.add(std::to_string(i), stages_[i]->module(), stages_[i]->bytes());
  return fields;
}

Tensor Sequential::forward(const Tensor& x) const {
  Tensor y = x;
  for (const auto& stage : stages_) y = naming(stage->module(), {y}, [&] { return stage->call(y); });
  return y;
}

Module& Sequential::module_at(std::size_t place, Where where) {
  require_parts(*this, {}, where);
  if (place >= stages_.size())
    throw OutOfRangeError(join("There is no module ", place, " in a Sequential of ", stages_.size()), where);
  return stages_[place]->module();
}

void Sequential::refuse_type(std::size_t place, const Module& module, Where where) {
  throw InvalidArgumentError(join("The module ", place, " of the Sequential is of the class ", type_name(module)),
                             where);
}

}  // namespace tapestry::nn

#pragma once

#include <string>

#include "fuzz/dice.hpp"

namespace tapestry::test {

/// A GraphDef with one field changed, at any depth; the lengths of the messages around it are right again.
std::string damage_field(const std::string& graph_def, Dice& dice);
/// The same for a value of a checkpoint's index, for a saved_model.pb, an Event, a tf.Example, and an ONNX model.
/// @{
std::string damage_bundle_field(const std::string& entry, Dice& dice);
std::string damage_saved_model_field(const std::string& saved_model, Dice& dice);
std::string damage_event_field(const std::string& event, Dice& dice);
std::string damage_example_field(const std::string& example, Dice& dice);
std::string damage_onnx_field(const std::string& model, Dice& dice);
/// @}

}  // namespace tapestry::test

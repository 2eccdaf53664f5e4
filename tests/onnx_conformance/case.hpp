#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tapestry/tensor.hpp"

namespace tapestry::test::onnx_case {

/// Why a case cannot be run: what it asks for that Tapestry does not have.
struct Inexpressible {
  std::string reason;
};

/// A node of a case's graph. The getters remember what was asked for, so that no attribute is passed over.
class Node {
 public:
  std::string type;
  std::vector<std::string> inputs, outputs;  ///< names; "" where an optional one is left out

  double real(const std::string& name, double otherwise) const;
  std::int64_t whole(const std::string& name, std::int64_t otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  Ints ints(const std::string& name, const Ints& otherwise = {}) const;
  /// An empty tensor when there is no such attribute.
  Tensor tensor(const std::string& name) const;
  bool has(const std::string& name) const { return attributes_.contains(name); }
  /// The attributes that no getter was asked for.
  std::string unread() const;

 private:
  friend Node read_node(std::string_view message);
  std::optional<std::string> attribute(const std::string& name) const;

  std::map<std::string, std::string> attributes_;  ///< AttributeProtos
  mutable std::set<std::string> read_;
};

/// Throws Inexpressible for a model that has inputs or outputs that are no tensors.
void require_tensors(const std::filesystem::path& folder);
/// The tensors of a test data set: "input_0.pb", ... or "output_0.pb", ... Throws Inexpressible for others than tensors
/// of our types.
std::vector<Tensor> read_tensors(const std::filesystem::path& folder, const std::string& kind);

/// What came of a case: both are empty if the outputs agree, `lack` is what Tapestry lacks for it.
struct Outcome {
  std::string lack{}, difference{};
};
/// Reads the model of a case, and runs it as a plan and op by op.
Outcome outcome_of(const std::filesystem::path& folder);

/// An ONNX model and the tensors with which it comes.
struct Case {
  std::string name;
  std::vector<Node> nodes;
  std::vector<std::string> inputs, outputs;  ///< names
  std::map<std::string, Tensor> values;      ///< of the inputs and the initializers
  std::vector<Tensor> expected;              ///< the outputs
};

/// Reads what lies in the folder of a case: model.onnx, and input_0.pb, output_0.pb, ... in test_data_set_0. Throws
/// Inexpressible for what is no tensor, and for an element type that is none of ours.
Case read_case(const std::filesystem::path& folder);

/// The element type of ONNX's number. Throws Inexpressible.
DType type_of_code(std::int64_t code);

}  // namespace tapestry::test::onnx_case

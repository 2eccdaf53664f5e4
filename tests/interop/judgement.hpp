#pragma once

#include <filesystem>
#include <string>

#include "io/tensorflow/graph_def.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {

/// What a judge is to do, step by step, and what it must find: a GraphDef, for want of another format, whose nodes are
/// these steps.
class Judgement {
 public:
  explicit Judgement(const std::filesystem::path& path) : path_(path) {}
  /// About a graph, which goes to "<title>.pb"; the judgement itself to "<title>.judge.pb".
  Judgement(const std::filesystem::path& folder, const std::string& title, const Graph& graph,
            const SaveOptions& options = {});

  /// From here on the tensor "x:0" is fed with the value.
  void feed(const std::string& tensor, const Tensor& value);
  /// The judge runs the operation.
  void run(const std::string& operation);
  /// The tensor must have the value.
  void fetch(const std::string& tensor, const Tensor& value);
  /// The judge's own derivative of the sum of `y` by `x` must have the value.
  void gradient(const std::string& y, const std::string& x, const Tensor& value);
  /// The Variable must have the value now. (A step "distribution" has the mean, the deviation and the bounds instead,
  /// and in `by` the dtype.)
  void variable(const std::string& name, const Tensor& value);

  /// Any step.
  void add(const std::string& step, const std::string& target, const Tensor& value = {}, const std::string& by = {});

  void save() const;

 private:
  std::filesystem::path path_;
  io::GraphDef steps_;
};

/// Normal numbers; values, while a graph is open, too.
Tensor draw(random::NumpyLegacy& numbers, const Shape& shape, DType dtype = float32);

/// An event file with one of everything, and what must be read from it: "events.judge.pb".
void write_events(const std::filesystem::path& folder);
/// Every row of the op table, with its gradients of first and second order: one file for each row, type and knowledge
/// of the batch size. Returns the number of files.
int write_op_models(const std::filesystem::path& folder);
/// Branches and loops, with their gradients. Returns the number of files.
int write_flow_models(const std::filesystem::path& folder);
/// Networks, with the steps of all optimizers, in all styles of Variables.
int write_trained_models(const std::filesystem::path& folder);
/// SavedModels, each with what it must give.
void write_saved_models(const std::filesystem::path& folder);
/// Checkpoints, each with what must be read from it.
void write_checkpoints(const std::filesystem::path& folder);
/// TFRecord files of tf.Examples, each with the tensors that must be made of them.
void write_records(const std::filesystem::path& folder);
/// ONNX models, each with what it must give: networks, and the rows of the op table with their gradients. Returns their
/// number, and prints what ONNX lacks.
int write_onnx_models(const std::filesystem::path& folder);

}  // namespace tapestry::test

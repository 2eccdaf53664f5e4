#include "interop/judgement.hpp"

#include <fstream>

#include "dispatch/recorder.hpp"

namespace tapestry::test {
namespace {

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) throw FailedPreconditionError(detail::join("Cannot write ", path.string()));
}

}  // namespace

Judgement::Judgement(const std::filesystem::path& folder, const std::string& title, const Graph& graph,
                     const SaveOptions& options) {
  std::string name = title;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  path_ = folder / (name + ".judge.pb");
  write(folder / (name + ".pb"), graph.as_graph_def(options));
  add("title", title);
}

void Judgement::feed(const std::string& tensor, const Tensor& value) { add("feed", tensor, value); }
void Judgement::run(const std::string& operation) { add("run", operation); }
void Judgement::fetch(const std::string& tensor, const Tensor& value) { add("fetch", tensor, value); }
void Judgement::gradient(const std::string& y, const std::string& x, const Tensor& value) {
  add("gradient", y, value, x);
}
void Judgement::variable(const std::string& name, const Tensor& value) { add("variable", name, value); }

void Judgement::add(const std::string& step, const std::string& target, const Tensor& value, const std::string& by) {
  io::NodeDef node{.name = std::to_string(steps_.nodes.size()), .op = step};
  node.attrs.emplace("target", target);
  if (bool(value) && value.is_symbolic())
    throw InternalError("What a judge compares with has no value: " + step + " " + target);
  if (value) node.attrs.emplace("value", io::TensorDef{io::code_of(value.dtype()), value});
  if (!by.empty()) node.attrs.emplace("by", by);
  steps_.nodes.push_back(std::move(node));
}

void Judgement::save() const { write(path_, io::encode(steps_)); }

Tensor draw(random::NumpyLegacy& numbers, const Shape& shape, DType dtype) {
  const ExecuteNow now;
  return numbers.randn(shape).cast(dtype);
}

}  // namespace tapestry::test

// SavedModels of TensorFlow 1 and 2 in: functions, signatures, Variables from checkpoints, and out again with them.

#include <filesystem>
#include <fstream>
#include <functional>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "io/tensorflow/inline_functions.hpp"
#include "io/tensorflow/meta_graph.hpp"
#include "io/tensorflow/saved_model_extras.hpp"
#include "io/wire.hpp"
#include "node_text.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::saved_model_load_test {
namespace {

namespace fs = std::filesystem;

std::string golden(const std::string& name) { return std::string(GOLDEN_FILES) + "/" + name; }

void write_bytes(const fs::path& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

template <class T>
void check_values(const Tensor& tensor, const std::vector<T>& expected) {
  CHECK(tensor.to_vector<T>() == expected);
}

std::vector<std::string> names_of(const std::vector<TensorSpec>& specs) {
  std::vector<std::string> names;
  for (const TensorSpec& each : specs) names.push_back(each.name);
  return names;
}

std::vector<std::string> names_of(const std::vector<Variable>& variables) {
  std::vector<std::string> names;
  for (const Variable& each : variables) names.push_back(each.name());
  return names;
}

/// What TensorFlow computes for the golden models.
void check_model2(const Model& model) {
  CHECK(names_of(model.inputs()) == std::vector<std::string>{"x"});
  CHECK(names_of(model.outputs()) == std::vector<std::string>{"index", "top", "y"});
  const std::vector<Tensor> results = model({{"x", {{1, 1}, {-1, 0}}}});
  check_values<std::int32_t>(results[0], {1, 0});
  check_values<float>(results[1], {5.5F, -0.5F});
  check_values<float>(results[2], {4.5F, 5.5F, 0, 0});
}

void check_model1(const Model& model) {
  const std::vector<Tensor> results = model({{"x", {{1, 1}, {-1, 0}}}});
  REQUIRE(results.size() == 1);
  check_values<float>(results[0], {14, 15, 16, 8, 6, 4});
}

TEST_CASE("A model of TensorFlow 2 computes what TensorFlow does") {
  const Model model = saved_model::load(golden("saved_model2"));
  check_model2(model);
  CHECK(model.signatures().size() == 2);
  CHECK(names_of(model.parameters()) == std::vector<std::string>{"b", "w"});
  CHECK_FALSE(model.graph().has_operation("saver_filename/nothing"));
  CHECK(model.graph().get_tensor_by_name("StatefulPartitionedCall_1:1").dtype() != DType::unknown);
}

TEST_CASE("A signature changes the Variables of the model") {
  const Model model = saved_model::load(golden("saved_model2"));
  const Model count = model.signature("count");
  CHECK(count({{"by", 2}})[0].item<std::int64_t>() == 9);
  CHECK(count({{"by", 1}})[0].item<std::int64_t>() == 10);
  {
    const GradientTape tape;
    CHECK(count({{"by", 1}})[0].item<std::int64_t>() == 11);
  }
  const auto call = [&](Tensor by) { return count({{"by", by}})[0] * 2; };
  const auto traced = trace(call, {spec(int64, {})});
  CHECK(traced(1).item<std::int64_t>() == 24);
  CHECK(traced(2).item<std::int64_t>() == 28);
  const Graph graph;
  const Graph::Scope open(graph);
  const Tensor by = placeholder(int64, {}, "by"), twice = call(by), thrice = call(by);
  const Session session(graph);
  CHECK(session.run(twice, {{by, 1}}).item<std::int64_t>() == 30);
  const auto [first, second] = session.run(std::tuple{twice, thrice}, {{by, 1}});
  CHECK(std::min(first.item<std::int64_t>(), second.item<std::int64_t>()) == 32);
  CHECK(std::max(first.item<std::int64_t>(), second.item<std::int64_t>()) == 34);
}

TEST_CASE("A model of TensorFlow 1 computes what TensorFlow does, with a Variable in parts") {
  const Model model = saved_model::load(golden("saved_model1"));
  check_model1(model);
  CHECK(names_of(model.parameters()) ==
        std::vector<std::string>{"layer/w", "layer/b", "layer/parts/part_0", "layer/parts/part_1"});
  for (const Variable& each : model.graph().variables())
    if (each.name() == "layer/step") CHECK_FALSE(each.trainable());
}

TEST_CASE("A model refuses a value that its input would narrow, on a tape or not") {
  const auto f = trace([](Tensor x) { return x * 2.0; }, {spec(float32, {-1}, "x")});
  const Model model(Signature{.inputs = {{"x", f.input()}}, .outputs = {{"y", f.output()}}});
  const Tensor wide = tensor<double>({1e300, 0.1});
  TAPESTRY_REFUSED(InvalidArgumentError, "'x' of the model is float32[?], not float64[2]", model({{"x", wide}}));
  check_values<float>(model({{"x", {1, 2}}})[0], {2, 4});
  check_values<float>(model({{"x", tensor({1, 2})}})[0], {2, 4});
  const GradientTape tape;
  TAPESTRY_REFUSED(InvalidArgumentError, "'x' of the model is float32[?], not float64[2]", model({{"x", wide}}));
  check_values<float>(model({{"x", tensor({1, 2})}})[0], {2, 4});
}

TEST_CASE("A tape differentiates a model by its input and by its parameters") {
  for (const char* name : {"saved_model1", "saved_model2"}) {
    CAPTURE(name);
    const Model model = saved_model::load(golden(name));
    const Variable x(tensor<float>({{1, 2}}));
    const auto loss = [&] { return reduce_sum(square(model({{"x", x}}).back())); };
    std::vector<Variable> sources = model.parameters();
    sources.push_back(x);
    GradientTape tape;
    const Tensor value = loss();
    const std::vector<Tensor> gradients = tape.gradient(value, sources);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      REQUIRE(bool(gradients[i]));
      const Tensor step = 1e-4F * gradients[i];
      const double before = loss().item<double>(), slope = reduce_sum(square(gradients[i])).item<double>();
      sources[i].assign_sub(step);
      const double after = loss().item<double>();
      sources[i].assign_add(step);
      CHECK((before - after) / (1e-4 * slope) == doctest::Approx(1).epsilon(0.2));
    }
  }
}

TEST_CASE("A model becomes part of a traced function") {
  const Model model = saved_model::load(golden("saved_model2"));
  const auto twice = trace([&](Tensor x) { return 2 * model({{"x", x}})[2]; }, {spec(float32, {-1, 2})});
  check_values<float>(twice(tensor<float>({{1, 1}})), {9, 11});
}

TEST_CASE("A SavedModel may be a text") {
  const TemporaryFolder folder;
  const std::string path = (folder / "model").string();
  const auto scale = [w = Variable({2.0, 3.0}, {.name = "w"})](Tensor x) { return x * w; };
  const auto traced = trace(scale, {spec(float32, {-1, 2}, "x")});
  saved_model::save(path, Signature{.inputs = {{"x", traced.input(0)}}, .outputs = {{"y", traced.outputs()[0]}}});
  const std::string text = io::to_text(read_text(path + "/saved_model.pb"), io::TextMessage::saved_model);
  CHECK(text.find("signature_def {") != std::string::npos);
  fs::remove(path + "/saved_model.pb");
  write_bytes(path + "/saved_model.pbtxt", text);
  check_values<float>(saved_model::load(path)({{"x", tensor<float>({{1, 10}})}})[0], {2, 30});
  write_bytes(path + "/saved_model.pbtxt", text.substr(0, text.size() / 2));
  CHECK_THROWS_AS(saved_model::load(path), Error);
}

TEST_CASE("A model's first operation runs when it is read, but for what Tapestry lacks") {
  const TemporaryFolder folder;
  const std::string path = folder / "saved_model.pbtxt", dtype = attr("dtype", "type: DT_FLOAT");
  const std::string graph = variable_nodes("count", "DT_FLOAT", "", "float_val: 5", true) + float_node("seven", "7") +
                            node("change", "AssignVariableOp", {"count", "seven"}, dtype) +
                            node("inner", "NoOp", {"^change"}) + node("texts", "FillsTablesOfTexts", {}) +
                            node("first", "NoOp", {"^texts", "^inner"}) +
                            node("now", "ReadVariableOp", {"count"}, dtype);
  const auto model_with = [&](const std::string& operation) {
    write_bytes(path, "meta_graphs { meta_info_def { tags: 'serve' } graph_def {\n" + graph + "}\n" + operation +
                          " signature_def { key: 'serving_default' value { outputs { key: 'y' value { name: 'now:0' "
                          "dtype: DT_FLOAT tensor_shape { } } } } } }\n");
    return saved_model::load(folder.path().string());
  };
  const auto listed = [](const std::string& key) {
    return "collection_def { key: '" + key + "' value { node_list { value: 'first' } } }";
  };
  check_values<float>(model_with("")({})[0], {5});
  for (const std::string& operation :
       {listed("saved_model_main_op"), listed("legacy_init_op"),
        std::string(
            "signature_def { key: '__saved_model_init_op' value { outputs { key: '__saved_model_init_op' value { "
            "name: 'first' dtype: DT_INVALID tensor_shape { unknown_rank: true } } } } }")}) {
    CAPTURE(operation);
    const Model model = model_with(operation);
    check_values<float>(model({})[0], {7});
    saved_model::save((folder / "again"), model);
    check_values<float>(saved_model::load(folder / "again")({})[0], {7});
  }
}

TEST_CASE("A model is written with its Variables, and read again") {
  const TemporaryFolder folder;
  const std::string path = (folder / "model").string();
  for (const char* name : {"saved_model1", "saved_model2"}) {
    CAPTURE(name);
    const Model model = saved_model::load(golden(name));
    saved_model::save(path, model);
    CHECK(fs::exists(path + "/variables/variables.index"));
    const Model again = saved_model::load(path);
    CHECK(names_of(again.outputs()) == names_of(model.outputs()));
    CHECK(names_of(again.parameters()).size() == model.parameters().size());
    name == std::string_view("saved_model1") ? check_model1(again) : check_model2(again);
    // The same model gives the same file.
    const std::string bytes = read_text(path + "/saved_model.pb");
    saved_model::save(path, model);
    CHECK(read_text(path + "/saved_model.pb") == bytes);
  }
  const StateDict values = tensor_bundle::load(path + "/variables/variables");
  CHECK(values.contains("w/.ATTRIBUTES/VARIABLE_VALUE"));
  CHECK(values.at("calls/.ATTRIBUTES/VARIABLE_VALUE").item<std::int64_t>() == 7);
}

TEST_CASE("A program's signature is a model") {
  const TemporaryFolder folder;
  const std::string path = (folder / "model").string();
  const Variable w(tensor<float>({{1, 2}, {3, 4}}), {.name = "w"});
  const auto f = trace([&](Tensor x) { return matmul(x, w); }, {spec(float32, {-1, 2}, "x")});
  const Model model({.inputs = {{"in", f.input()}}, .outputs = {{"out", f.output()}}});
  check_values<float>(model({{"in", {{1, 1}}}})[0], {4, 6});
  saved_model::save(path, model);
  w.assign(zeros({2, 2}));
  check_values<float>(saved_model::load(path)({{"in", {{1, 1}}}})[0], {4, 6});
}

TEST_CASE("A program's signature that trains in a branch or loop is written, and trains when it is read") {
  const TemporaryFolder folder;
  const std::string path = (folder / "model").string();
  const Variable w({1.0, 2.0}, {.name = "w"});
  for (const bool in_loop : {false, true}) {
    CAPTURE(in_loop);
    train::AdamOptimizer optimizer(0.1);
    const auto step = [&](const Tensor& x) {
      return optimizer.minimize([&] { return reduce_sum(square(w - x)); }, {w});
    };
    const auto traced = trace(
        [&](const Tensor& x, const Tensor& n) {
          if (!in_loop)
            return cond(
                greater(n, 0), [&] { return step(x); }, [&] { return x(0); });
          return std::get<1>(while_loop([&](const Tensor& i, const Tensor&) { return less(i, n); },
                                        [&](const Tensor& i, const Tensor&) {
                                          return std::tuple{i + 1, step(x)};
                                        },
                                        std::tuple{0, tensor(0.0)}));
        },
        {spec(float32, {2}), spec(int32, {})});
    w.assign({1.0, 2.0});
    saved_model::save(path, Model({.inputs = {{"x", traced.input(0)}, {"n", traced.input(1)}},
                                   .outputs = {{"loss", traced.output()}}}));
    const Model model = saved_model::load(path);
    const Tensor x = tensor({0.5, 0.25});
    for (int i = 0; i < 2; ++i) check_same(model({{"x", x}, {"n", 3}})[0], traced(x, 3), 1e-6);
  }
}

TEST_CASE("A model refuses what does not fit its signature") {
  const Model model = saved_model::load(golden("saved_model2"));
  CHECK(message_of<InvalidArgumentError>([&] { model({}); }).find("'x'") != std::string::npos);
  CHECK(message_of<InvalidArgumentError>([&] {
          model({{"z", 1}});
        }).find("no input 'z'; its inputs: 'x'") != std::string::npos);
  CHECK_THROWS_AS(model({{"x", {1, 2, 3}}}), InvalidArgumentError);
  CHECK_THROWS_AS(model.signature("nothing"), NotFoundError);
  const GradientTape tape;
  CHECK_THROWS_AS(model({{"x", {1, 2, 3}}}), InvalidArgumentError);
}

TEST_CASE("Files of other kinds and missing ones are named") {
  const std::string path = golden("saved_model2"), file = path + "/saved_model.pb";
  const auto says = [](const std::string& message, std::string_view part) {
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  };
  says(message_of<NotFoundError>([&] { saved_model::load(path, {.tags = {"train"}}); }), "{'serve'}");
  says(message_of<InvalidArgumentError>([&] { saved_model::load(file); }), "is a file");
  says(message_of<NotFoundError>([] { saved_model::load("nowhere"); }), "nowhere/saved_model.pb");
  says(message_of<InvalidArgumentError>([&] { Graph::load(file); }), "is a SavedModel; read its folder with");
  says(message_of<InvalidArgumentError>([&] { Graph::load(path); }), "is the folder of a SavedModel");
  const TemporaryFolder folder;
  const std::string text = folder.write("graph.pb", {});
  write_bytes(text, "node {\n  name: \"a\"\n}\n");
  says(message_of<InvalidArgumentError>([&] { Graph::load(text); }), "is a text");
  const auto f = trace([](Tensor x) { return add(x, x); }, {spec(float32, {2}, "x")});
  onnx::save(text, {.inputs = {{"x", f.input()}}, .outputs = {{"y", f.output()}}});
  says(message_of<InvalidArgumentError>([&] { Graph::load(text); }), "is an ONNX model");
  const std::string name = io::encode({.nodes = {{.name = "a\x1b[31m", .op = "NoOp"}}});
  says(message_of<InvalidArgumentError>([&] { Graph::from_graph_def(name); }), "a\\x1b[31m");
}

TEST_CASE("A file of another kind is called by its name, whichever reader gets it") {
  using namespace std::string_literals;
  const TemporaryFolder folder;
  const auto bytes_of = [&](auto write) {
    write((folder / "made").string());
    return read_text(folder / "made");
  };
  const auto f = trace([](Tensor x) { return add(x, x); }, {spec(float32, {2}, "x")});
  const std::string graph = f.input().op().graph().as_graph_def();
  const std::string model = read_text(golden("saved_model2") + "/saved_model.pb");
  std::string meta;
  io::for_fields(io::WireReader(model.data(), model.size()), 2, [&](io::WireReader& each) { meta = each.get_text(); });
  tensor_bundle::save(folder / "checkpoint", {{"w", tensor({1.0, 2.0})}});
  const std::vector<std::pair<std::string, std::string>> kinds{
      {graph, "a GraphDef; read it with tp::Graph::load"},
      {"# text\nnode { name: 'a' op: 'NoOp' }\n", "a text of a GraphDef; tp::Graph::load"},
      {meta, "a MetaGraphDef (.meta)"},
      {"meta_info_def {\n  stripped_op_list {}\n}\n", "a MetaGraphDef (.meta)"},
      {model, "a SavedModel; read its folder with tp::saved_model::load"},
      {"saved_model_schema_version: 1\n", "a text of a SavedModel"},
      {bytes_of([&](const std::string& to) {
         onnx::save(to, {.inputs = {{"x", f.input()}}, .outputs = {{"y", f.output()}}});
       }),
       "an ONNX model; read it with tp::onnx::load"},
      {bytes_of([&](const std::string& to) {
         data::write_npy(to, tensor({1.0, 2.0}));
       }),
       "read it with tp::data::read_npy"},
      {bytes_of([&](const std::string& to) {
         data::write_npz(to, {{"a", tensor({1.0, 2.0})}});
       }),
       "a zip archive, such as NumPy's .npz and PyTorch's .pt, which tp::load_weights reads"},
      {"\x1f\x8b\x08 packed", "compressed by gzip"},
      {"\x89HDF\r\n\x1a\n", "HDF5"},
      {"\x1c\0\0\0TFL3\x14\0 \0\x1c\0"s, "a model of TensorFlow Lite"},
      {"GGUF\3\0\0\0\2\0"s, "a GGUF file"},
      {bytes_of([&](const std::string& to) { data::RecordWriter(to).write("record"); }), "a TFRecord or event file"},
      {read_text(folder / "checkpoint.index"), "the index of a checkpoint"},
      {"\x80\x04\x95 pickled", "a pickle of Python"},
      {"{\"node\":[]}", "JSON"},
      {"<!DOCTYPE html><html></html>", "a page of HTML"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "`git lfs pull`"},
      {"\x89PNG\r\n\x1a\n\0\0"s, "an image"},
      {"This is a model.\n", "a text"},
      {"", "empty"}};
  const auto any = [](const std::string& path) { return Graph::load(path); };
  const std::vector<std::pair<std::string, std::function<void(const std::string&)>>> readers{
      {"tp::Graph::load", any},
      {".pbtxt", any},
      {"tp::onnx::load", [](const std::string& path) { onnx::load(path); }},
      {"a SavedModel", [](const std::string& path) { saved_model::load(path); }},
      {"folder", [](const std::string& path) { saved_model::load(fs::path(path).parent_path()); }},
      {"tp::load_weights", [](const std::string& path) { load_weights(path); }},
      {"prefix", [](const std::string& path) { tensor_bundle::load(path); }},
      {"read_npy", [](const std::string& path) { data::read_npy(path); }},
      {"zip", [](const std::string& path) { data::read_npz(path); }},
      {"TFRecord", [](const std::string& path) { summary::FileReader{path}; }},
      {"TFRecord", [](const std::string& path) { data::records(path).collect(); }}};
  for (const auto& [bytes, name] : kinds)
    for (const auto& [reads, read] : readers) {
      const std::string path = folder / (reads == ".pbtxt" ? "a.pbtxt" : "saved_model.pb");
      write_bytes(path, bytes);
      const bool is_text = name.starts_with("a text");
      if (name.find(reads) != std::string::npos && reads != "a SavedModel" && reads != "prefix") continue;
      if ((reads == "folder" || reads == "zip") && name.starts_with("a SavedModel")) continue;
      if (reads == ".pbtxt" && is_text) continue;
      if (reads == "TFRecord" && name == "empty") continue;  // nothing has been written yet
      const std::string tried = detail::join(name, " given to ", reads);
      CAPTURE(tried);
      const std::string message = message_of<Error>([&, &read = read] { read(path); });
      CAPTURE(message);
      CHECK(message.find(path) != std::string::npos);
      // What load_weights can tell in more detail, or what it reads but for damage.
      const bool is_told = (reads == "tp::load_weights" && (name == "HDF5" || name == "the index of a checkpoint")) ||
                           (reads == "read_npy" && name == "compressed by gzip");
      CHECK((is_told || message.find(name) != std::string::npos));
      CHECK(message.find("exception") == std::string::npos);
    }
  const std::string shard = folder / "checkpoint.data-00000-of-00001";
  for (const auto& [reads, read] : readers)
    if (reads == "tp::Graph::load" || reads == "tp::onnx::load" || reads == "tp::load_weights")
      CHECK(message_of<InvalidArgumentError>([&, &read = read] { read(shard); }).find("a part of a checkpoint") !=
            std::string::npos);
  CHECK(message_of<InvalidArgumentError>([&] {
          load_weights(golden("saved_model2"));
        }).ends_with("its weights are the checkpoint " + golden("saved_model2") + "/variables/variables"));
  write_bytes(folder / "page.csv", "<html><body>404</body></html>");
  CHECK(message_of<InvalidArgumentError>([&] { data::read_csv(folder / "page.csv"); }).find("a page of HTML") !=
        std::string::npos);
  CHECK(Graph::from_graph_def("").operations().empty());
  CHECK_FALSE(Graph().as_graph_def().empty());
}

TEST_CASE("A cut or damaged model is an error, or reads") {
  const TemporaryFolder folder;
  const fs::path path = folder / "model";
  fs::copy(golden("saved_model2"), path, fs::copy_options::recursive);
  const std::string whole = read_text(path / "saved_model.pb");
  const auto load = [&](std::string_view bytes) {
    write_bytes(path / "saved_model.pb", bytes);
    try {
      saved_model::load(path.string());
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  for (std::size_t size = 0; size < whole.size(); size += 97) load(std::string_view(whole).substr(0, size));
  for (std::size_t i = 0; i < whole.size(); i += 61) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x15);
    load(damaged);
  }
  CHECK(load(whole));
}

TEST_CASE("A Variable whose sizes the graph leaves open has those of its value") {
  const TemporaryFolder folder;
  const fs::path path = folder / "model";
  fs::copy(golden("saved_model2"), path, fs::copy_options::recursive);
  std::string bytes = read_text(path / "saved_model.pb");
  // In the attribute "shape" of w, two dimensions of size 2 become "unknown_rank: true", four times.
  const std::string sizes("shape\x12\x0a\x3a\x08\x12\x02\x08\x02\x12\x02\x08\x02", 17), open("\x18\x01\x18\x01", 4);
  const std::size_t found = bytes.find(sizes);
  REQUIRE(found != std::string::npos);
  bytes.replace(found + 9, 8, open + open);
  write_bytes(path / "saved_model.pb", bytes);
  const Model model = saved_model::load(path.string());
  check_model2(model);
  saved_model::save(path.string(), model);
  check_model2(saved_model::load(path.string()));
}

// ---- What a model has beside its graph ------------------------------------------------------------------------------

/// What each signature of the model gives for some numbers, by "signature/output".
std::map<std::string, Tensor> results_of(const Model& model) {
  std::map<std::string, Tensor> results;
  for (const auto& [name, signature] : model.signatures()) {
    Feeds feeds;
    for (const auto& [key, tensor] : signature.inputs) {
      Shape shape = tensor.shape();
      for (int axis = 0; axis < shape.rank(); ++axis)
        if (shape.sizes()[static_cast<std::size_t>(axis)] < 0) shape.set(axis, 3);
      const ExecuteNow now;
      feeds.add(key, reshape(cos(arange(shape.size(), {.dtype = float64})), shape).cast(tensor.dtype()));
    }
    const Model called = model.signature(name);
    const std::vector<Tensor> values = called(feeds);
    for (std::size_t i = 0; i < values.size(); ++i) results.emplace(name + "/" + called.outputs()[i].name, values[i]);
  }
  return results;
}

/// Whether an argument of a function has the name of a Variable, which may have other signs.
bool same_name(const std::string& argument, const std::string& variable) {
  return std::equal(argument.begin(), argument.end(), variable.begin(), variable.end(),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)) || a == '_'; });
}

/// The model whose signatures call the functions by which TensorFlow 2 knows them.
Model by_functions(const std::string& path) {
  const std::string bytes = read_text(path + "/saved_model.pb");
  const io::MetaGraph meta = io::decode_saved_model(bytes).at(0);
  io::GraphDef file = io::decode(meta.graph);
  REQUIRE_FALSE(meta.objects.empty());
  CHECK(meta.objects[0].children.contains("signatures"));
  std::vector<io::NodeDef> nodes;
  for (const io::NodeDef& each : file.nodes)
    if (each.op == "VarHandleOp") nodes.push_back(each);
  std::map<std::string, io::SignatureDef> signatures;
  const auto functions = io::decode_library(file.library, GraphLimits::none());
  REQUIRE(functions.size() == meta.signatures.size());
  std::size_t number = 0;
  std::map<std::string, Signature> made;
  std::vector<std::pair<std::string, std::string>> calls;
  for (const auto& [name, signature] : meta.signatures) {
    const io::FunctionDef& function = functions.at(number++);
    io::NodeDef call{.name = "call_" + name, .op = function.name};
    std::size_t i = 0;
    for (const auto& [key, tensor] : signature.inputs) {
      const auto& argument = function.inputs.at(i++);
      call.inputs.push_back(tensor.substr(0, tensor.rfind(':')));
      for (const io::NodeDef& each : file.nodes)
        if (each.name == call.inputs.back()) nodes.push_back(each);
      CHECK(argument.type.value != io::resource_type.value);
    }
    for (; i < function.inputs.size(); ++i) {
      CHECK(function.inputs[i].type.value == io::resource_type.value);
      for (const io::NodeDef& each : file.nodes)
        if (each.op == "VarHandleOp" && same_name(function.inputs[i].name, each.name)) call.inputs.push_back(each.name);
    }
    REQUIRE(call.inputs.size() == function.inputs.size());
    nodes.push_back(call);
  }
  file.nodes = nodes;
  const Graph graph = Graph::from_graph_def(io::encode(io::inline_functions(file, GraphLimits::none())));
  for (const auto& [name, signature] : meta.signatures) {
    for (const auto& [key, tensor] : signature.inputs) made[name].inputs.emplace(key, graph.get_tensor_by_name(tensor));
    int output = 0;
    for (const auto& [key, tensor] : signature.outputs)
      made[name].outputs.emplace(key, graph.get_tensor_by_name(detail::join("call_", name, ":", output++)));
  }
  const StateDict values = tensor_bundle::load(path + "/variables/variables");
  for (const Variable& each : graph.variables()) each.assign(values.at(each.name() + "/.ATTRIBUTES/VARIABLE_VALUE"));
  return Model(Model::Parts{.graph = graph, .signatures = made});
}

TEST_CASE("Each signature is written as a function, too, which gives the same") {
  const TemporaryFolder folder;
  const std::string path = (folder / "model").string();
  Variable w(tensor<float>({{1, 2}, {3, 4}}), {.name = "w"}), steps(tensor<float>({0.5F, 1}), {.name = "b"});
  const auto step = trace(
      [&](Tensor x) {
        GradientTape tape;
        const Tensor y = layer_norm(matmul(x, w), steps, steps);
        const TopK top = top_k(gelu(y), 1);
        w.assign_sub(0.1 * tape.gradient(reduce_sum(square(y)), {w})[0]);
        return std::tuple{top.values, top.indices, x};
      },
      {spec(float32, {-1, 2}, "x")});
  const std::vector<Model> models{
      saved_model::load(golden("saved_model1")), saved_model::load(golden("saved_model2")),
      saved_model::load(golden("saved_model_keras")),
      Model({.inputs = {{"In put", step.input()}},
             .outputs = {{"values", step.output(0)}, {"indices", step.output(1)}, {"same", step.output(2)}}})};
  for (const Model& model : models) {
    saved_model::save(path, model);
    const auto expected = results_of(saved_model::load(path)), found = results_of(by_functions(path));
    REQUIRE(expected.size() == found.size());
    for (const auto& entry : expected) {
      const auto& name = entry.first;
      const auto& value = entry.second;
      CAPTURE(name);
      check_same(found.at(name), value);
    }
    // A model that was read is written as it was.
    const std::string bytes = read_text(path + "/saved_model.pb");
    saved_model::save(path, saved_model::load(path));
    const Model again = saved_model::load(path);
    saved_model::save(path, again);
    CHECK(read_text(path + "/saved_model.pb").size() <= bytes.size() + 200);
  }
}

TEST_CASE("Keras' model: what it gives, and its gradients by its parameters") {
  std::map<std::string, Tensor> known;
  for (const io::NodeDef& node : io::decode(read_text(golden("saved_model_keras.expected.pb"))).nodes)
    known.emplace(node.name, std::get<io::TensorDef>(node.attrs.at("value")).value);
  const TemporaryFolder folder;
  const Model read = saved_model::load(golden("saved_model_keras"));
  saved_model::save((folder / "again").string(), read);
  for (const Model& model : {read, saved_model::load((folder / "again").string())}) {
    const std::vector<Variable> parameters = model.parameters();
    CHECK(parameters.size() == 6);
    GradientTape tape;
    const Tensor scores = model({{model.inputs().at(0).name, known.at("image")}}).at(0);
    check_same(scores, known.at("scores"), 1e-6);
    const std::vector<Tensor> gradients = tape.gradient(reduce_sum(square(scores)), parameters);
    for (int i = 0; i < 6; ++i) {
      const Tensor& value = known.at("value/" + std::to_string(i));
      const auto same = std::find_if(parameters.begin(), parameters.end(), [&](const Variable& each) {
        return each.shape() == value.shape() && reduce_all(equal(each.value(), value)).item<bool>();
      });
      REQUIRE(same != parameters.end());
      check_same(gradients[static_cast<std::size_t>(same - parameters.begin())],
                 known.at("gradient/" + std::to_string(i)), 1e-6);
    }
  }
}

TEST_CASE("Variables of a Keras model that have the same name") {
  std::map<std::string, Tensor> known;
  for (const io::NodeDef& node : io::decode(read_text(golden("saved_model_twins.expected.pb"))).nodes)
    known.emplace(node.name, std::get<io::TensorDef>(node.attrs.at("value")).value);
  const TemporaryFolder folder;
  const Model read = saved_model::load(golden("saved_model_twins"));
  saved_model::save((folder / "again").string(), read);
  for (const Model& model : {read, saved_model::load((folder / "again").string())}) {
    CHECK(model.parameters().size() == 6);
    check_same(model({{model.inputs().at(0).name, known.at("x")}}).at(0), known.at("y"), 1e-6);
    const Model version = model.signature("version");
    // Of int8, which is read as int32.
    check_same(version({{version.inputs().at(0).name, 1}}).at(0), tensor(4));
    check_same(version({{version.inputs().at(0).name, 127}}).at(0), tensor(-126));
  }
}

TEST_CASE("Tables of numbers have the entries of the checkpoint, and a Variable grows") {
  const TemporaryFolder folder;
  for (const bool is_written : {false, true}) {
    CAPTURE(is_written);
    Model model = saved_model::load(golden("saved_model_numbers"));
    if (is_written) {
      saved_model::save((folder / "again").string(), model);
      model = saved_model::load((folder / "again").string());
    }
    const auto insert = [&](const std::vector<std::int64_t>& keys, const std::vector<float>& values) {
      const std::vector<Tensor> all = model({{"keys", tensor(keys)}, {"values", tensor(values)}});
      std::map<std::string, Tensor> found;
      for (std::size_t i = 0; i < all.size(); ++i) found.emplace(model.outputs().at(i).name, all[i]);
      return found;
    };
    auto found = insert({5, 4, 3}, {7, 8, 9});
    check_same(found["before"], tensor<float>({0.25, -1, 0.5}));
    check_same(found["pairs"], tensor<double>({{3, 4}, {1, 2}, {1, 2}}));
    CHECK(found["size"].item<std::int64_t>() == 3);
    check_same(found["memory"], tensor<float>({1, 2, 7, 8, 9}));
    found = insert({4}, {1});
    check_same(found["before"], tensor<float>({8}));
    check_same(found["memory"], tensor<float>({1, 2, 7, 8, 9, 1}));
  }
}

TEST_CASE("Tables and their files do no harm to a signature with numbers, and are written again") {
  const TemporaryFolder folder;
  const auto check = [](const Model& model) {
    check_values<float>(model({{"x", {2, 4}}})[0], {3, 6});
    const Model look_up = model.signature("look_up");
    CHECK(look_up.inputs().at(0).name == "words");
    CHECK(message_of<Error>([&] { look_up({{"words", zeros({2})}}); }).find("HashTableV2") != std::string::npos);
  };
  const Model model = saved_model::load(golden("saved_model_table"));
  check(model);
  const std::string first = (folder / "first").string(), second = (folder / "second").string();
  saved_model::save(first, model);
  CHECK(read_text(first + "/assets/words.txt") == "one\ntwo\nthree\n");
  const Model again = saved_model::load(first);
  check(again);
  saved_model::save(second, again);
  CHECK(read_text(second + "/saved_model.pb") == read_text(first + "/saved_model.pb"));
  // In place, and when the files are gone.
  saved_model::save(first, again);
  fs::remove_all(first);
  CHECK(message_of<NotFoundError>([&] { saved_model::save(second, again); }).find("words.txt") != std::string::npos);
  const std::string bytes = read_text(second + "/saved_model.pb");
  for (const std::string name : {"../words", "/words.txt"}) {
    std::string lying = bytes;
    lying.replace(lying.rfind("words.txt", lying.size()), 9,
                  name.substr(0, 9).append(9 - std::min<std::size_t>(9, name.size()), 'x'));
    write_bytes(second + "/saved_model.pb", lying);
    CHECK_THROWS_AS(saved_model::load(second), DataLossError);
  }
}

TEST_CASE("A model keeps its tags") {
  const TemporaryFolder folder;
  const std::string path = (folder / "model").string();
  const Variable w(2.0F, {.name = "w"});
  const auto f = trace([&](Tensor x) { return x * w; }, {spec(float32, {-1}, "x")});
  const auto extras =
      std::make_shared<const detail::SavedModelExtras>(detail::SavedModelExtras{.tags = {"serve", "gpu"}});
  const Signature signature{.inputs = {{"x", f.input()}}, .outputs = {{"y", f.output()}}};
  saved_model::save(path,
                    Model(Model::Parts{.graph = f.graph(), .signatures = {{"double", signature}}, .extras = extras}));
  CHECK_THROWS_AS(saved_model::load(path), NotFoundError);
  const Model model = saved_model::load(path, {.tags = {"gpu", "serve"}});
  saved_model::save(path, model);
  check_values<float>(saved_model::load(path, {.tags = {"gpu", "serve"}})({{"x", {1, 2}}})[0], {2, 4});
}

}  // namespace
}  // namespace tapestry::test::saved_model_load_test

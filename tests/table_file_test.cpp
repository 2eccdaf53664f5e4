// Lookups in tables of numbers that text files fill, as TensorFlow reads them.

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "expect.hpp"
#include "node_text.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::table_file_test {
namespace {

constexpr int whole_line = -2, line_number = -1;

struct Form {
  int key = 0, value = 1;
  std::string more{};  ///< attributes
};

std::string number_attr(const std::string& name, std::int64_t number) {
  return attr(name, "i: " + std::to_string(number));
}

/// A graph that looks x up in a table from int64 to numbers of a type.
Graph look_up(const std::filesystem::path& file, const Form& form, const std::string& type = "DT_INT64") {
  const std::string types = attr("key_dtype", "type: DT_INT64") + attr("value_dtype", "type: " + type),
                    ends = attr("Tin", "type: DT_INT64") + attr("Tout", "type: " + type);
  return read(
      node("table", "HashTableV2", {}, types) +
      constant_node("file", "DT_STRING", "tensor_shape { } string_val: '" + file.string() + "'") +
      node("fill", "InitializeTableFromTextFileV2", {"table", "file"},
           number_attr("key_index", form.key) + number_attr("value_index", form.value) + form.more) +
      constant_node("otherwise", type,
                    std::string("tensor_shape { } ") +
                        (type == "DT_FLOAT"   ? "float_val"
                         : type == "DT_INT32" ? "int_val"
                                              : "int64_val") +
                        ": -1") +
      node("x", "Placeholder", {}, attr("dtype", "type: DT_INT64") + attr("shape", "shape { unknown_rank: true }")) +
      node("found", "LookupTableFindV2", {"table", "x", "otherwise"}, ends) +
      node("size", "LookupTableSizeV2", {"table"}));
}

class File {
 public:
  explicit File(std::string_view text) { std::ofstream(path(), std::ios::binary) << text; }
  std::filesystem::path path() const { return folder_ / "table.txt"; }

 private:
  TemporaryFolder folder_;
};

Tensor found(const std::string& text, const Form& form, const Tensor& x, const std::string& type = "DT_INT64") {
  const Graph graph = [&] {
    const File file(text);
    return look_up(file.path(), form, type);
  }();
  // The file is gone.
  const Tensor result = Session(graph).run("found:0", {{"x:0", x}});
  check_same(Session(Graph::from_graph_def(graph.as_graph_def())).run("found:0", {{"x:0", x}}), result);
  return result;
}

TEST_CASE("a table's keys and values are columns of a file, its lines or their numbers") {
  const Tensor x = tensor<std::int64_t>({7, 9, 0, 1, 2, 10});
  check_same(found("7\t5\n9\t6", {}, x), tensor<std::int64_t>({5, 6, -1, -1, -1, -1}));
  check_same(found("7\t 5 \r\n+9\t+6\r\n", {}, x), tensor<std::int64_t>({5, 6, -1, -1, -1, -1}));
  check_same(found("7\n9\n", {.key = whole_line, .value = line_number}, x),
             tensor<std::int64_t>({0, 1, -1, -1, -1, -1}));
  check_same(found("7\n9\n", {.key = line_number, .value = whole_line}, x),
             tensor<std::int64_t>({-1, -1, 7, 9, -1, -1}));
  check_same(found("7\n9\n3\n\n", {.key = line_number, .value = 0, .more = number_attr("vocab_size", 2)}, x),
             tensor<std::int64_t>({-1, -1, 7, 9, -1, -1}));
  check_same(found("7,,3\n9,,4,8", {.key = 2, .value = 0, .more = attr("delimiter", "s: ','")},
                   tensor<std::int64_t>({3, 4, 5})),
             tensor<std::int64_t>({7, 9, -1}));
  check_same(found("7\n9\n", {.key = line_number, .value = 0, .more = number_attr("offset", 9)}, x),
             tensor<std::int64_t>({-1, 7, -1, -1, -1, 9}));
  check_same(found("7 1e99\n9 -0x1p3\n0 1e-3", {.more = attr("delimiter", "s: ' '")}, x, "DT_FLOAT"),
             tensor<float>({std::numeric_limits<float>::infinity(), -8, 1e-3F, -1, -1, -1}));
  check_same(found("7\n9", {.key = 0, .value = 0}, x, "DT_INT32"), tensor<std::int32_t>({7, 9, -1, -1, -1, -1}));
  const File file("7\t1\n9\t2\n7\t1\n");
  CHECK(Session(look_up(file.path(), {})).run("size:0").item<std::int64_t>() == 2);
}

TEST_CASE("a file that is no table is refused with TensorFlow's words") {
  const std::string most = std::to_string(std::numeric_limits<std::int64_t>::max());
  const struct {
    std::string text;
    Form form;
    std::string message;
  } cases[] = {
      {"7\t5\n9\t6x", {}, "Field 6x in line 1 is not a valid int64."},
      {"7\t5\n9\t", {}, "Field  in line 1 is not a valid int64."},
      {"7\t5\n9\t+-6", {}, "Field +-6 in line 1 is not a valid int64."},
      {"7\t99999999999999999999", {}, "Field 99999999999999999999 in line 0 is not a valid int64."},
      {"7\t5\n9", {}, "line 1 (9) : expected at least 2 got 1"},
      {"7\t5\n\n9\t6", {}, "empty line found at position 5."},
      {"\r\n", {}, "empty line found at position 2."},
      {"7\t5\n9\t6", {.more = number_attr("vocab_size", 5)}, ": expected 5 but got 2"},
      {"7\t5\n9\t1\n7\t6", {}, "HashTable has different value for same key. Key 7 has 5 and trying to add value 6"},
      {"", {}, "has no lines"},
      {"7", {.key = -3}, "columns from -2 on, not -3"},
      {"7\t1", {.more = attr("delimiter", "s: ''")}, "delimiter of one character"},
      {"7\n8", {.key = 0, .value = line_number, .more = number_attr("offset", std::stoll(most))}, "overflow int64"},
      {std::string(3000, '\0'), {}, "Invalid number of columns"},
      {std::string(3000, 'x'), {}, "xxx) : expected at least 2 got 1"},
  };
  for (const auto& each : cases) {
    const File file(each.text);
    CAPTURE(each.text);
    CHECK_THROWS_WITH(look_up(file.path(), each.form), doctest::Contains(each.message.c_str()));
  }
  const File file("7\n8");
  CHECK_THROWS_WITH(look_up(file.path(), {.key = 0, .value = 2'000'000'000}),
                    doctest::Contains("expected at least 2000000001 got 1"));
}

TEST_CASE("a lookup whose file is missing, or none, is refused when it runs, and harms nothing beside it") {
  const TemporaryFolder folder;
  ::mkfifo((folder / "pipe").c_str(), 0600);
  for (const char* name : {"missing.txt", "pipe", "."}) {
    CAPTURE(name);
    const Graph graph = look_up(folder / name, {});
    CHECK_THROWS_WITH(Session(graph).run("found:0", {{"x:0", tensor<std::int64_t>({1})}}),
                      doctest::Contains("LookupTableFindV2"));
    CHECK(Session(graph).run("otherwise:0").item<std::int64_t>() == -1);
    CHECK(graph.as_graph_def().find((folder / name).string()) != std::string::npos);
  }
}

/// A SavedModel of TensorFlow 1 whose table takes a file from the folder of assets. The path in the graph is that where
/// it was written.
std::string model_with_asset(const std::string& collection) {
  const std::string ends = attr("Tin", "type: DT_INT64") + attr("Tout", "type: DT_INT64"),
                    info = "dtype: DT_INT64 tensor_shape { unknown_rank: true }";
  const auto collected = [](const std::string& key, const std::string& value) {
    return "collection_def { key: '" + key + "' value { " + value + " } }\n";
  };
  const auto tensor = [&](const std::string& side, const std::string& name) {
    return side + " { key: '" + name + "' value { name: '" + name + ":0' " + info + " } }";
  };
  return io::from_text("meta_graphs { meta_info_def { tags: 'serve' } graph_def {" +
                           node("table", "HashTableV2", {},
                                attr("key_dtype", "type: DT_INT64") + attr("value_dtype", "type: DT_INT64")) +
                           constant_node("file", "DT_STRING", "tensor_shape { } string_val: '/away/ids.txt'") +
                           node("fill", "InitializeTableFromTextFileV2", {"table", "file"},
                                number_attr("key_index", whole_line) + number_attr("value_index", line_number)) +
                           constant_node("otherwise", "DT_INT64", "tensor_shape { } int64_val: -1") +
                           node("x", "Placeholder", {},
                                attr("dtype", "type: DT_INT64") + attr("shape", "shape { unknown_rank: true }")) +
                           node("y", "LookupTableFindV2", {"table", "x", "otherwise"}, ends) + "}" +
                           collected("saved_model_assets", collection) +
                           collected("saved_model_main_op", "node_list { value: 'fill' }") +
                           "signature_def { key: 'serving_default' value { " + tensor("inputs", "x") +
                           tensor("outputs", "y") + "} } }",
                       io::TextMessage::saved_model);
}

std::string any(const std::string& bytes) {
  return "any_list { value { type_url: 'type.googleapis.com/tensorflow.AssetFileDef' value: '" + bytes + "' } }";
}

TEST_CASE("a SavedModel of TensorFlow 1 finds its file by a collection, and keeps it") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& collection) {
    std::filesystem::create_directories(folder / "model" / "assets");
    std::ofstream(folder / "model" / "assets" / "ids.txt") << "40\n-7\n";
    std::ofstream(folder / "model" / "saved_model.pb", std::ios::binary) << model_with_asset(collection);
    return saved_model::load((folder / "model").string());
  };
  const Model model = write(any(R"(\n\010\n\006file:0\022\007ids.txt)"));
  const std::string again = (folder / "again").string();
  saved_model::save(again, model);
  for (const Model& each : {model, saved_model::load(again)})
    check_same(each({{"x", tensor<std::int64_t>({-7, 40, 1})}})[0], tensor<std::int64_t>({1, 0, -1}));

  for (const char* lying :
       {R"(\n\010\n\006file:0\022\177ids.txt)", R"(\n\010\n\006file:0\022\007ids)",
        R"(\n\377\377\377\377\377\377\377\377\377\001\n\006file:0)", R"(\n\010\n\177file:0)", R"(\020\010)",
        R"(\n\010\n\006file:0\022\014../../passwd)", R"(\n\010\n\006file:0\022\013/etc/passwd)",
        R"(\n\010\n\006file:0\022\012a/../../xy)", R"(\n\010\n\006file:0\022\000)"}) {
    CAPTURE(lying);
    CHECK_THROWS_AS(write(any(lying)), DataLossError);
  }
  // What names no file of this graph harms nothing but the lookup.
  for (const std::string& other :
       {any(R"(\n\010\n\006fill:0\022\007ids.txt)"), any(R"(\n\010\n\006file:0\022\010away.txt)"),
        std::string("any_list { }"), std::string("node_list { value: 'file:0' }")}) {
    CAPTURE(other);
    CHECK_THROWS_WITH(write(other)({{"x", tensor<std::int64_t>({1})}}), doctest::Contains("LookupTableFindV2"));
  }
}

}  // namespace
}  // namespace tapestry::test::table_file_test

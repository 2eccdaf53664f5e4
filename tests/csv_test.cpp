#include "tapestry/data/csv.hpp"

#include <doctest/doctest.h>

#include "expect.hpp"
#include "refused.hpp"
#include "temporary_folder.hpp"

namespace csv_test {

using namespace tapestry;
using namespace tapestry::test;
using data::CsvOptions;
using data::Table;

namespace {

using Names = std::vector<std::string>;

const TemporaryFolder& folder() {
  static const TemporaryFolder instance;
  return instance;
}

std::string written(std::string_view text) { return folder().write("x.csv", Bytes(text.begin(), text.end())); }

Table read(std::string_view text, const CsvOptions& options = {}, Where where = Where::here()) {
  return data::read_csv(written(text), options, where);
}

}  // namespace

TEST_CASE("csv: columns find their types") {
  const Table table = read(
      "name,count,size,note\n"
      "one, 1 ,1.5,x\n"
      "two,-2,+2,7\n"
      "three,3,1e3,\n");
  CHECK(table.rows() == 3);
  CHECK(table.names() == Names{"name", "count", "size", "note"});
  CHECK(same_bits(table.column("count"), tensor<std::int64_t>({1, -2, 3})));
  CHECK(same_bits(table.column("size"), tensor<double>({1.5, 2, 1000})));
  CHECK(table.text("name") == Names{"one", "two", "three"});
  CHECK(table.text("note") == Names{"x", "7", ""});
  CHECK(same_bits(table.matrix(), tensor<float>({{1, 1.5}, {-2, 2}, {3, 1000}})));
  CHECK(same_bits(table.matrix({"size", "count"}, int32), tensor<int>({{1, 1}, {2, -2}, {1000, 3}})));
  CHECK(same_bits(table.matrix({"count"}, boolean), tensor<bool>({{true}, {true}, {true}})));

  const auto [codes, names] = table.categories("name");
  CHECK(names == Names{"one", "three", "two"});
  CHECK(same_bits(codes, tensor<std::int64_t>({0, 2, 1})));
}

TEST_CASE("csv: no header, other separators, chosen columns and types") {
  const Table table =
      read("1;a;0\n2;b;1\n",
           {.header = false, .separator = ';', .columns = {"2", "0"}, .types = {{"0", float32}, {"2", boolean}}});
  CHECK(table.names() == Names{"2", "0"});
  CHECK(same_bits(table.column("0"), tensor<float>({1, 2})));
  CHECK(same_bits(table.column("2"), tensor<bool>({false, true})));
  CHECK(same_bits(table.matrix(), tensor<float>({{0, 1}, {1, 2}})));
  CHECK(same_bits(read("a\tb\n1\t2\n", {.separator = '\t'}).column("b"), tensor<std::int64_t>({2})));
  CHECK(read("a\tb\n\t2\n", {.separator = '\t', .fill = 0}).column("a").item<int>() == 0);
  CHECK(read("a,b\n").rows() == 0);
  CHECK(read("a,b\n").matrix().shape() == Shape{0, 2});
  CHECK(read("").names().empty());
}

TEST_CASE("csv: quotes, line ends, marks and blank lines") {
  const Table table = read(
      "\xEF\xBB\xBF\"a, b\",c\r\n"
      "\r\n"
      "\"say \"\"hi\"\"\nto all\" , x\"y \r\n"
      "   \n"
      "\"\",\" z \"");
  CHECK(table.names() == Names{"a, b", "c"});
  CHECK(table.text("a, b") == Names{"say \"hi\"\nto all", ""});
  CHECK(table.text("c") == Names{"x\"y", " z "});
  CHECK(read("a\n'1'\n'2'\n", {.quote = '\''}).column("a").to_vector<int>() == std::vector{1, 2});
}

TEST_CASE("csv: the line ends of all systems") {
  for (const std::string end : {"\n", "\r\n", "\r", "\r\r\n", "\n\r", "\r\r"}) {
    CAPTURE(end);
    for (const std::string& last : {end, std::string()}) {
      const Table table = read("a,b" + end + "1,x" + end + "3,\"y" + end + "z\"" + end + " 5 , w " + last);
      CHECK(table.names() == Names{"a", "b"});
      CHECK(same_bits(table.column("a"), tensor<std::int64_t>({1, 3, 5})));
      CHECK(table.text("b") == Names{"x", "y" + end + "z", "w"});
    }
  }
  TAPESTRY_REFUSED(DataLossError, "x.csv:5: the row has 3 fields", read("a,b\r1,\"x\r\r\ny\"\r1,2,3\r"));
  TAPESTRY_REFUSED(DataLossError, "x.csv:3: column 1 ('a') holds 'x'", read("a\r1\rx\r", {.types = {{"a", int32}}}));
}

TEST_CASE("csv: numbers beyond the range of their type") {
  const std::string many(400, '0');
  const std::string text = "a\n1e-400\n-1e-400\n1e400\n-1e400\n0.5\n0." + many + "1\n1" + many + "\n+1" + many +
                           "e-9\n1e99999999999999999999\n-1e-99999999999999999999\n";
  const Tensor doubles = read(text).column("a");
  CHECK(same_bits(doubles, tensor<double>({0, -0.0, infinity, -infinity, 0.5, 0, infinity, infinity, infinity, -0.0})));
  for (const DType dtype : {float32, float16, bfloat16})
    CHECK(same_bits(read(text, {.types = {{"a", dtype}}}).column("a"), doubles.cast(dtype)));

  const auto column = [](const std::string& numbers, DType dtype) {
    return read("a\n" + numbers, {.types = {{"a", dtype}}}).column("a");
  };
  using Limits = std::numeric_limits<float>;
  const std::string floats = "1e-50\n-1e39\n1e39\n1e-40\n7e-46\n8e-46\n3.4028235677973366e38\n3.4028235677973367e38\n";
  CHECK(same_bits(column(floats, float32), tensor<float>({0, -Limits::infinity(), Limits::infinity(), 1e-40F, 0,
                                                          0x1p-149F, Limits::max(), Limits::infinity()})));
  CHECK(same_bits(column("5e-324\n2e-324\n3e-324\n1.7976931348623157e308\n1.7976931348623159e308\n", float64),
                  tensor<double>({0x1p-1074, 0, 0x1p-1074, std::numeric_limits<double>::max(), infinity})));
  check_values(column("1e-8\n70000\n-70000\n", float16), {0, infinity, -infinity});
  check_values(column("1e-50\n1e39\n", bfloat16), {0, infinity});
  // What is no number stays none.
  CHECK(read("a\n1e400x\n").text("a") == Names{"1e400x"});
  CHECK(read("a\n1e400\nx\n").text("a") == Names{"1e400", "x"});
}

TEST_CASE("csv: missing fields") {
  const std::string_view text = "a,b,c\n1,1.5,x\n,NA,\n3,2,NA\n";
  const CsvOptions options{.missing = {"", "NA"}, .fill = not_a_number};
  const Table table = read(text, options);
  check_values(table.column("a"), {1, not_a_number, 3});
  CHECK(table.column("a").dtype() == float64);
  check_values(table.column("b"), {1.5, not_a_number, 2});
  CHECK(table.text("c") == Names{"x", "", ""});
  CHECK(same_bits(read(text, {.missing = {"", "NA"}, .fill = -1}).column("a"), tensor<std::int64_t>({1, -1, 3})));
  TAPESTRY_REFUSED(DataLossError, "x.csv:3: column 1 ('a') holds nothing", read(text));
  // Empty fields are missing whatever else is; in quotes they are texts.
  const Table others = read("a,b\nNA,\n,x\n2,\"\"\n", {.missing = {"NA"}, .fill = -1});
  CHECK(same_bits(others.column("a"), tensor<std::int64_t>({-1, -1, 2})));
  CHECK(others.text("b") == Names{"", "x", ""});
  check_values(read("a,b\nNA,1\n2,\n", {.missing = {"NA"}, .fill = -1}).matrix(), {-1, 1, 2, -1});
  TAPESTRY_REFUSED(DataLossError, "x.csv:3: column 1 ('a') holds nothing", read(text, {.missing = {}}));
  TAPESTRY_REFUSED(DataLossError, "x.csv:3: column 1 ('a') holds nothing; CsvOptions::fill can say what to put there",
                   read("a,b\n1,2\n,?\n", {.missing = {"?"}}));
  for (const bool header : {false, true})
    TAPESTRY_REFUSED(DataLossError,
                     "x.csv:4: column 2 ('1') holds '?', which CsvOptions::missing lists; CsvOptions::fill can say "
                     "what to put there",
                     read("0,1\n\n1,2\n3, ? \n", {.header = header, .columns = {"1"}, .missing = {"-", "?"}}));
  // Where it is not said that NA means nothing, it is a text.
  CHECK(read(text, {.fill = 0}).text("b") == Names{"1.5", "NA", "2"});
  TAPESTRY_REFUSED(InvalidArgumentError, "Column 'a' of int64 cannot be filled with 0.5",
                   read(text, {.types = {{"a", int64}}, .fill = 0.5}));
}

TEST_CASE("csv: what is refused, with its line and column") {
  TAPESTRY_REFUSED(DataLossError, "x.csv:3: the row has 3 fields where the first has 2", read("a,b\n1,2\n1,2,3\n"));
  TAPESTRY_REFUSED(DataLossError, "x.csv:2: the row has 1 fields where the first has 2", read("a,b\n1\n"));
  TAPESTRY_REFUSED(DataLossError, "x.csv:2: column 2 begins with a quote that is never closed",
                   read("a,b\n1,\"2\n3,4\n"));
  TAPESTRY_REFUSED(DataLossError, "x.csv:3: column 1 goes on behind its closing quote", read("a,b\n\"1\n\"2,3\n"));
  TAPESTRY_REFUSED(DataLossError, "x.csv:4: column 2 ('b') holds '1.5', which is no int32",
                   read("a,b\n\"x\ny\",1\n2,1.5\n", {.types = {{"b", int32}}}));
  for (const auto& each : std::vector<std::pair<DType, std::string>>{{int32, "2147483648"},
                                                                     {uint8, "256"},
                                                                     {uint8, "-1"},
                                                                     {int32, "+-5"},
                                                                     {int64, "9223372036854775808"},
                                                                     {float32, "1,5"},
                                                                     {int64, "1e400"},
                                                                     {float64, "1e999x"},
                                                                     {float64, "x"},
                                                                     {float64, "1x"},
                                                                     {boolean, "2"}})
    TAPESTRY_REFUSED(DataLossError, "x.csv:2: column 1 ('a') holds",
                     read("a\n\"" + each.second + "\"\n", {.types = {{"a", each.first}}}));

  TAPESTRY_REFUSED(InvalidArgumentError, "has two columns called 'a'", read("a,a\n1,2\n"));
  TAPESTRY_REFUSED(InvalidArgumentError, "must differ", read("a", {.separator = '"'}));
  TAPESTRY_REFUSED(NotFoundError, "There is no column 'c'; there are 'a', 'b'", read("a,b\n", {.columns = {"c"}}));
  TAPESTRY_REFUSED(NotFoundError, "There is no column 'c'", read("a,b\n", {.types = {{"c", int32}}}));
  TAPESTRY_REFUSED(NotFoundError, "There is no file", data::read_csv(folder() / "absent.csv"));
  const Table table = read("a,b\nx,1\n");
  TAPESTRY_REFUSED(InvalidArgumentError, "Column 'a' holds text, not numbers", table.column("a"));
  TAPESTRY_REFUSED(InvalidArgumentError, "Column 'a' holds text, not numbers", table.matrix({"b", "a"}));
  TAPESTRY_REFUSED(InvalidArgumentError, "Column 'b' holds numbers, not text", table.text("b"));
  TAPESTRY_REFUSED(NotFoundError, "There is no column 'z'", table.categories("z"));
}

TEST_CASE("csv: any text is a table or an error") {
  const std::string alphabet = ",\"\n\r x1";
  int tables = 0;
  for (int number = 0; number < 7 * 7 * 7 * 7; ++number) {
    std::string text;
    for (int left = number; text.size() < 4; left /= 7) text += alphabet[static_cast<std::size_t>(left % 7)];
    CAPTURE(text);
    try {
      const Table table = read(text, {.header = number % 2 == 0});
      const Tensor matrix = table.matrix();
      CHECK(matrix.shape()[0] == table.rows());
      CHECK(matrix.shape()[1] <= static_cast<std::int64_t>(table.names().size()));
      ++tables;
    } catch (const Error& error) {
      CHECK(error.message().find("x.csv") != std::string::npos);
    }
  }
  CHECK(tables > 1000);
}

TEST_CASE("text files") {
  const std::string long_text(200'000, 'x');
  for (const std::string& text :
       {std::string(), std::string("one\ntwo\r\n\nlast"), long_text, std::string(1 << 16, 'y')})
    CHECK(data::read_text(written(text)) == text);
  CHECK(data::read_lines(written("one\ntwo\r\n\nla\rst")) == Names{"one", "two", "", "la\rst"});
  CHECK(data::read_lines(written("one\n")) == Names{"one"});
  CHECK(data::read_lines(written("")).empty());
  TAPESTRY_REFUSED(NotFoundError, "There is no file", data::read_text(folder() / "absent"));
}

}  // namespace csv_test

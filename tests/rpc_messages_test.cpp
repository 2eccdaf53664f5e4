#include <random>
#include <set>

#include <doctest/doctest.h>

#include "environment.hpp"
#include "expect.hpp"
#include "io/rpc/messages.hpp"
#include "tapestry/ops.hpp"

namespace rpc_messages_test {

using namespace tapestry;
using namespace tapestry::io::rpc;
using namespace tapestry::test;

namespace {

/// Fills a message with random values, none of which is a default, and writes down what a message has.
class Filler {
 public:
  explicit Filler(unsigned seed) : random_(seed) {}

  void fill(std::int64_t& value) { value = static_cast<std::int64_t>(random_() | 1U); }
  void fill(bool& value) { value = true; }
  void fill(Fixed64& value) { value.value = random_() | 1U; }
  void fill(std::string& value) { value = std::string(1 + random_() % 200, static_cast<char>('a' + random_() % 26)); }
  void fill(io::TensorDef& value) {
    static const std::vector<Tensor> samples{tensor(1.5),   tensor({1, 2, 3}), tensor({{true}, {false}}),
                                             zeros({0, 3}), arange(5000.0),    tensor({2.0}).cast(float16)};
    value.value = samples[random_() % samples.size()];
    value.type = io::code_of(value.value.dtype());
  }
  template <class T>
  void fill(std::vector<T>& list) {
    list.resize(1 + random_() % 3);
    for (T& each : list) fill(each);
  }
  template <class Message>
  void fill(Message& message) {
    Message::fields(message, [&](unsigned, auto& field) { fill(field); });
  }

 private:
  std::mt19937_64 random_;
};

std::string text(std::int64_t value) { return std::to_string(value) + ";"; }
std::string text(Fixed64 value) { return std::to_string(value.value) + ";"; }
std::string text(bool value) { return value ? "yes;" : "no;"; }
std::string text(const std::string& value) { return value + ";"; }
std::string text(const io::TensorDef& value) {
  return value.value ? to_string(value.value.dtype()) + to_string(value.value.shape()) + printed(value.value) + ";"
                     : io::type_name(value.type) + ";";
}
template <class Message>
std::string text(const Message& message);
template <class T>
std::string text(const std::vector<T>& list) {
  std::string all = "[";
  for (const T& each : list) all += text(each);
  return all + "]";
}
template <class Message>
std::string text(const Message& message) {
  std::string all = "{";
  Message::fields(message, [&](unsigned tag, const auto& field) { all += std::to_string(tag) + "=" + text(field); });
  return all + "}";
}

std::string bytes_of(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::string damaged(std::string bytes, std::mt19937_64& random) {
  for (unsigned changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.resize(at);
        break;
      case 2:
        bytes.insert(at, 1 + random() % 9, static_cast<char>(random()));
        break;
      default:
        bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 40));
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("a message that was written is read as it was") {
  for (unsigned seed = 0; seed < 20; ++seed) {
#define TAPESTRY_ROUND_TRIP(Message)                          \
  {                                                           \
    INFO(#Message ", seed ", seed);                           \
    Message message;                                          \
    CHECK(encode(message).size() <= 8); /* a message in it */ \
    Filler(seed).fill(message);                               \
    const Pieces pieces = encode(message);                    \
    const std::string bytes = pieces.joined();                \
    CHECK(pieces.size() == bytes.size());                     \
    const auto read = decode<Message>(bytes);                 \
    CHECK(text(read) == text(message));                       \
    CHECK(encode(read).joined() == bytes);                    \
  }
    TAPESTRY_RPC_MESSAGES(TAPESTRY_ROUND_TRIP)
  }
}

TEST_CASE("a large tensor is a piece of its own, where it lies") {
  const Tensor large = arange(100'000.0);
  const Pieces pieces = encode(RunCallableRequest{.session_handle = "h", .feed = {{io::code_of(float32), large}}});
  const bool is_there = std::any_of(pieces.list().begin(), pieces.list().end(), [&](const Pieces::Piece& each) {
    return each.view().data() == static_cast<const void*>(large.data<float>());
  });
  CHECK(is_there);
  CHECK(pieces.list().size() == 2);
  // Lengths stand in front of what was written before them, also where that has tensors of its own.
  const RunCallableRequest many{.session_handle = "h",
                                .feed = {{io::code_of(float32), large},
                                         {io::code_of(float32), arange(3.0)},
                                         {io::code_of(float32), arange(2'000.0)},
                                         {io::code_of(float32), large * 2.0}},
                                .request_id = 7};
  const auto again = decode<RunCallableRequest>(encode(many).joined());
  REQUIRE(again.feed.size() == many.feed.size());
  for (std::size_t i = 0; i < many.feed.size(); ++i) CHECK(same_bits(again.feed[i].value, many.feed[i].value));
  CHECK(again.request_id == 7);
  const Tensor view = transpose(reshape(large, {1000, 100}));
  const auto read =
      decode<RunCallableRequest>(encode(RunCallableRequest{.feed = {{io::code_of(float32), view}}}).joined());
  CHECK(same_bits(read.feed[0].value, view));
}

// Written by TensorFlow 2.21's own classes.
TEST_CASE("messages of TensorFlow are read") {
  CHECK(text(decode<RunStepRequest>(bytes_of(
            "0a046661386512190a03783a301212080112041202080222080000803f00000040120e0a036e3a301207080312003a01071a06"
            "6c6f73733a302204696e69742a05080310f403320130380140f88ac39e94e0eefccf01"))) ==
        "{1=fa8e;2=[{1=x:0;2=float32[2][1. 2.];}{1=n:0;2=int32[]7;}]3=[loss:0;]4=[init;]5={1=3;2=500;}6=0;7=yes;"
        "8=-3460529224550398600;}");
  CHECK(text(decode<ListDevicesResponse>(bytes_of(
            "0a4c0a292f6a6f623a776f726b65722f7265706c6963613a302f7461736b3a302f6465766963653a4350553a3012034350552080"
            "808080012a0031d3202314f12e748340ffffffffffffffffff01"))) ==
        "{1=[{1=/job:worker/replica:0/task:0/device:CPU:0;2=CPU;4=268435456;6=9472247529226838227;}]2=[]}");
  CHECK(text(decode<MakeCallableRequest>(bytes_of("0a016812110a03783a301203793a301a0174220210091805"))) ==
        "{1=h;2={1=[x:0;]2=[y:0;]3=[t;]4={1=0;2=9;}}3=5;}");
  const auto create = decode<CreateSessionRequest>(bytes_of(
      "0a0b0a090a016112044e6f4f7012190a070a03475055100022072f6a6f623a7073380158f40378011a15677270633a2f2f6c6f63616c"
      "686f73743a32333031"));
  CHECK(text(create.config) == "{4=[/job:ps;]7=yes;11=500;15=yes;}");
  CHECK(create.target == "grpc://localhost:2301");
  CHECK(io::decode(create.graph_def).nodes.at(0).op == "NoOp");
  const auto step = decode<RunStepResponse>(bytes_of(
      "0a150a03793a30120e080212003208000000000000f83f12530a510a4f0a252f6a6f623a70732f7265706c6963613a302f7461736b3a30"
      "2f6465766963653a4350553a3012260a016d100a1801200442106d203d204d61744d756c28612c206229500268904e70e80778942318"
      "0322116e6f205b5b7b7b6e6f646520787d7d5d5d"));
  CHECK(text(step.tensor) == "[{1=y:0;2=float64[]1.5;}]");
  CHECK(step.status_code == 3);
  CHECK(step.status_error_message == "no [[{{node x}}]]");
  CHECK(text(decode<StepMetadata>(step.metadata)) ==
        "{1={1=[{1=/job:ps/replica:0/task:0/device:CPU:0;2=[{1=m;2=10;3=1;4=4;8=m = MatMul(a, b);10=2;13=10000;14=1000;"
        "15=4500;}]}]}}");
  CHECK(decode<ExtendSessionResponse>(bytes_of("2007")).new_graph_version == 7);
  CHECK(text(decode<ResetRequest>(bytes_of("0a01610a016212072f6a6f623a7073"))) == "{1=[a;b;]2=[/job:ps;]}");
}

TEST_CASE("a damaged message is read or refused, and never harms") {
  std::mt19937_64 random(7);
  const long cases = number_of_cases(10'000);
  std::set<std::string> refusals;
  long refused = 0;
  for (long i = 0; i < cases;) {
#define TAPESTRY_DAMAGE(Message)                                         \
  if (i++ < cases) {                                                     \
    Message message;                                                     \
    Filler(static_cast<unsigned>(i)).fill(message);                      \
    const std::string bytes = damaged(encode(message).joined(), random); \
    try {                                                                \
      static_cast<void>(encode(decode<Message>(bytes)).size());          \
    } catch (const Error& error) {                                       \
      ++refused;                                                         \
      refusals.insert(std::to_string(static_cast<int>(error.code())));   \
    }                                                                    \
  }
    TAPESTRY_RPC_MESSAGES(TAPESTRY_DAMAGE)
  }
  CHECK(refused > cases / 10);
  // DataLossError and InvalidArgumentError; nothing else.
  for (const std::string& each : refusals) CHECK((each == "15" || each == "3"));
}

TEST_CASE("a tensor that claims to repeat an element too often is refused") {
  // A fetch: float32 [2^40], one element.
  const std::string bytes = bytes_of("0a12080112091207088080808080202d0000803f");
  CHECK_THROWS_AS(decode<RunCallableResponse>(bytes), InvalidArgumentError);
}

}  // namespace rpc_messages_test

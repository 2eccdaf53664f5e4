// The cases by which ONNX's authors say what its ops compute, as the package libonnx-testdata has them: each is run by
// what Tapestry has in the op's place, or there is a reason why it cannot be.

#include <cstdlib>
#include <iostream>

#include "expect.hpp"
#include "onnx_conformance/ops.hpp"

namespace tapestry::test::onnx_conformance_test {
namespace {

using namespace onnx_case;

constexpr const char* cases_folder = "/usr/share/libonnx-testdata/data/node";

const Functions& functions() {
  static const Functions table = [] {
    Functions all;
    for (const Functions& each : {elementwise_functions(), reduction_functions(), array_functions(), image_functions(),
                                  network_functions(), optimizer_functions()})
      all.insert(each.begin(), each.end());
    return all;
  }();
  return table;
}

/// What Tapestry lacks, and the ops that would need it.
const std::map<std::string, std::set<std::string>>& lacking() {
  static const std::map<std::string, std::set<std::string>> table{
      {"operations on bits", {"BitShift"}},
      {"a size that depends on values", {"Compress", "NonMaxSuppression", "NonZero", "Unique"}},
      {"branches and loops within a graph", {"If", "Loop", "Scan"}},
      {"Fourier transforms and windows of signals",
       {"BlackmanWindow", "DFT", "HammingWindow", "HannWindow", "MelWeightMatrix", "STFT"}},
      {"quantized numbers",
       {"ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QLinearConv", "QLinearMatMul",
        "QuantizeLinear"}},
      {"images between their pixels", {"GridSample", "Resize", "RoiAlign"}},
      {"the positions of the maxima", {"MaxUnpool"}},
      {"determinants", {"Det"}},
      {"sequences of different lengths in a batch", {"ReverseSequence"}},
      {"texts", {"StringNormalizer", "TfIdfVectorizer"}},
      {"another library's random numbers", {"Bernoulli", "RandomUniformLike"}},
  };
  return table;
}

std::string reason_for(const std::string& op) {
  for (const auto& [reason, ops] : lacking())
    if (ops.contains(op)) return reason;
  return {};
}

/// Of floats. The windows of signals were computed with 3.1415 for pi.
double tolerance_of(const std::string& name) { return name.find("window") == std::string::npos ? 2e-6 : 2e-4; }

/// Computes node after node, and compares the outputs.
void run(const Case& each) {
  std::map<std::string, Tensor> values = each.values;
  values[""] = Tensor();
  for (const Node& node : each.nodes) {
    INFO(node.type);
    if (const std::string reason = reason_for(node.type); !reason.empty()) throw Inexpressible{reason};
    Inputs inputs;
    for (const std::string& name : node.inputs) inputs.push_back(values.at(name));
    REQUIRE(functions().contains(node.type));
    const Outputs outputs = functions().at(node.type)(node, inputs);
    CHECK(node.unread() == "");
    REQUIRE(outputs.size() >= node.outputs.size());
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (!node.outputs[i].empty()) values[node.outputs[i]] = outputs[i];
  }
  for (std::size_t i = 0; i < each.outputs.size(); ++i) {
    INFO("output ", each.outputs[i]);
    check_same(values.at(each.outputs[i]), each.expected[i],
               is_floating(each.expected[i].dtype()) ? tolerance_of(each.name) : 0);
  }
}

}  // namespace

TEST_CASE("every case of ONNX's agrees, or there is a reason why it is not run") {
  if (!std::filesystem::exists(cases_folder)) {
    std::cout << "There is no " << cases_folder << " (Debian's package libonnx-testdata)\n";
    std::exit(77);
  }
  std::map<std::string, int> reasons;
  int cases = 0, agreed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cases_folder)) {
    const std::string name = entry.path().filename().string();
    INFO(name);
    ++cases;
    try {
      run(read_case(entry.path()));
      ++agreed;
    } catch (const Inexpressible& lack) {
      ++reasons[lack.reason];
    } catch (const std::exception& error) {
      FAIL_CHECK(std::string(error.what()));
    }
  }
  std::cout << agreed << " of " << cases << " cases run; the others ask for\n";
  for (const auto& [reason, count] : reasons) std::cout << "  " << reason << ": " << count << '\n';
  for (const auto& lack : lacking()) CHECK_MESSAGE(reasons.contains(lack.first), lack.first);
  CHECK(agreed >= 700);
}

}  // namespace tapestry::test::onnx_conformance_test

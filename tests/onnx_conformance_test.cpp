// The cases by which ONNX's authors say what its ops compute, as the package libonnx-testdata has them: each is read
// and run. onnx_conformance/passing.txt names those that agree; Tapestry lacks something that the others need.

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "expect.hpp"
#include "onnx_conformance/case.hpp"

namespace tapestry::test::onnx_conformance_test {
namespace {

using namespace onnx_case;
namespace fs = std::filesystem;

const fs::path all_cases = "/usr/share/libonnx-testdata/data";

std::set<std::string> names_that_pass() {
  std::ifstream file(ONNX_CASES);
  std::set<std::string> names;
  for (std::string name; file >> name;) names.insert(name);
  return names;
}

}  // namespace

TEST_CASE("every case of ONNX's agrees, or Tapestry lacks what it needs") {
  if (!fs::exists(all_cases)) {
    std::cout << "There is no " << all_cases << " (Debian's package libonnx-testdata)\n";
    std::exit(77);
  }
  const std::set<std::string> passing = names_that_pass();
  std::map<std::string, int> lacks;
  std::ofstream found(std::getenv("ONNX_CASES_FOUND") ? std::getenv("ONNX_CASES_FOUND") : "/dev/null");
  int cases = 0, agreed = 0;
  for (const char* kind : {"node", "simple", "pytorch-operator", "pytorch-converted"})
    for (const auto& entry : fs::directory_iterator(all_cases / kind)) {
      const std::string name = detail::join(kind, '/', entry.path().filename().string());
      INFO(name);
      ++cases;
      const Outcome outcome = outcome_of(entry.path());
      CHECK_MESSAGE(outcome.difference.empty(), outcome.difference);
      const bool passes = outcome.lack.empty() && outcome.difference.empty();
      if (!outcome.lack.empty()) {
        const std::size_t reason = outcome.lack.find("Tapestry lacks");
        ++lacks[outcome.lack.substr(reason == std::string::npos ? 0 : reason)];
      }
      if (passes) {
        ++agreed;
        found << name << '\n';
      }
      if (outcome.difference.empty()) CHECK_MESSAGE(passes == passing.contains(name), outcome.lack);
    }
  std::cout << agreed << " of " << cases << " cases agree; the others:\n";
  for (const auto& [lack, count] : lacks) std::cout << "  " << lack << ": " << count << '\n';
}

}  // namespace tapestry::test::onnx_conformance_test

#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tapestry/tapestry.hpp"

namespace tapestry::test {

/// Saves a model, and what it must give for these inputs. Returns why ONNX cannot say it, or "".
std::string write_onnx_model(const std::filesystem::path& folder, const std::string& title, const Signature& signature,
                             const std::map<std::string, Tensor>& inputs);

/// Models of branches and loops. Returns their number.
int write_onnx_flow_models(const std::filesystem::path& folder);

}  // namespace tapestry::test

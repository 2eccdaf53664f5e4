#pragma once

#include <map>
#include <string>

namespace tapestry::test {

/// Our files that TensorFlow has accepted, as they are written today: the bytes by the file's name. Two layers, and a
/// step of AdamW in each style of Variables.
std::map<std::string, std::string> golden_files();

}  // namespace tapestry::test

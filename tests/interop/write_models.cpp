// Writes graphs, checkpoints, records and an event file for other programs to judge; with --golden our part of the
// golden files: write_models [--golden] FOLDER

#include <fstream>
#include <iostream>
#include <string_view>

#include "interop/golden.hpp"
#include "interop/judgement.hpp"

int main(int count, char** arguments) {
  const bool golden = count == 3 && std::string_view(arguments[1]) == "--golden";
  if (count != 2 && !golden) {
    std::cerr << "usage: write_models [--golden] FOLDER\n";
    return 2;
  }
  try {
    const std::filesystem::path folder = arguments[count - 1];
    if (golden) {
      for (const auto& [name, bytes] : tapestry::test::golden_files()) std::ofstream(folder / name) << bytes;
      return 0;
    }
    std::filesystem::create_directories(folder / "graphs");
    std::cout << tapestry::test::write_op_models(folder / "graphs") << " graphs of ops, "
              << tapestry::test::write_flow_models(folder / "graphs") << " of branches and loops, "
              << tapestry::test::write_trained_models(folder / "graphs") << " graphs of networks, an event file in "
              << folder.string() << '\n';
    tapestry::test::write_events(folder);
    tapestry::test::write_saved_models(folder / "saved_models");
    tapestry::test::write_checkpoints(folder / "checkpoints");
    tapestry::test::write_records(folder / "records");
    std::cout << tapestry::test::write_onnx_models(folder / "onnx") << " ONNX models\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}

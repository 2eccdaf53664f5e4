#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/mutants.hpp"
#include "fuzz/wire_damage.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test {
namespace {

namespace fs = std::filesystem;

constexpr GraphLimits limits{.bytes = 16 << 20, .elements = 1 << 16, .nodes = 1 << 12, .time_in_ms = 1000};

/// The files of a SavedModel that are damaged, in the order in which they lie in a mutant, each behind its length.
constexpr const char* parts[] = {"saved_model.pb", "variables/variables.index",
                                 "variables/variables.data-00000-of-00001"};
constexpr std::size_t digits = 8;

std::string joined(const std::vector<std::string>& files) {
  std::string bytes;
  for (const std::string& each : files) {
    const std::string length = std::to_string(each.size());
    bytes += std::string(digits - length.size(), '0') + length + each;
  }
  return bytes;
}

std::vector<std::string> divided(std::string_view bytes) {
  std::vector<std::string> files;
  while (bytes.size() >= digits) {
    const std::size_t length = std::stoul(std::string(bytes.substr(0, digits)));
    files.emplace_back(bytes.substr(digits, length));
    bytes.remove_prefix(digits + length);
  }
  return files;
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> files;
  for (const char* each : parts) files.push_back(read_text(folder / each));
  return files;
}

/// TensorFlow's models, and the same as we write them.
const std::vector<std::vector<std::string>>& seeds() {
  static const auto& all_seeds = *new std::vector<std::vector<std::string>>([] {
    std::vector<std::vector<std::string>> made;
    const TemporaryFolder folder;
    for (const char* name :
         {"saved_model1", "saved_model2", "saved_model_keras", "saved_model_table", "saved_model_gradients"}) {
      const fs::path path = fs::path(GOLDEN_FILES) / name, own = folder / name;
      made.push_back(files_in(path));
      saved_model::save(own.string(), saved_model::load(path.string()));
      made.push_back(files_in(own));
    }
    return made;
  }());
  return all_seeds;
}

std::string make_saved_model_mutant(Dice& dice) {
  std::vector<std::string> files = dice.of(seeds());
  for (std::size_t i = 1 + dice.below(3); i > 0; --i) files[0] = damage_saved_model_field(files[0], dice);
  if (dice.one_in(8)) {
    std::string& other = files[1 + dice.below(2)];
    other = dice.damaged(other);
  }
  return joined(files);
}

/// Calls each signature, directly and on a tape.
void call(const Model& model, Dice& dice) {
  for (const auto& [name, signature] : model.signatures()) {
    const Model called = model.signature(name);
    try {
      Feeds feeds;
      for (const TensorSpec& each : called.inputs()) {
        Shape shape = each.shape.has_rank() ? each.shape : Shape{2};
        for (int axis = 0; axis < shape.rank(); ++axis)
          if (!shape[axis].is_known()) shape.set(axis, 1 + static_cast<std::int64_t>(dice.below(3)));
        if (shape.num_elements() > limits.elements) return;
        feeds.add(each.name, zeros(shape, {.dtype = each.dtype}));
      }
      called(feeds);
      GradientTape tape;
      const std::vector<Tensor> results = called(feeds);
      for (const Tensor& each : results)
        if (is_floating(each.dtype())) {
          tape.gradient(reduce_sum(each), called.parameters());
          break;
        }
    } catch (const Error&) {
      // The call says no.
    }
  }
}

bool use_saved_model(const std::string& bytes, Dice& dice) {
  static const TemporaryFolder folder;
  const fs::path path = folder / "model";
  fs::create_directories(path / "variables");
  const std::vector<std::string> files = divided(bytes);
  for (std::size_t i = 0; i < files.size(); ++i) std::ofstream(path / parts[i], std::ios::binary) << files[i];
  try {
    const Model model = saved_model::load(path.string(), {}, limits);
    call(model, dice);
    const std::string again = (folder / "again").string();
    try {
      saved_model::save(again, model);
    } catch (const Error&) {
      return true;  // TensorFlow has no word for all that is read
    }
    call(saved_model::load(again, {}, limits), dice);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Mutants saved_model_mutants() {
  return {.name = "mutate_saved_model", .make = make_saved_model_mutant, .use = use_saved_model};
}

}  // namespace tapestry::test

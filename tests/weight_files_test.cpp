// Which file has the weights: the file "checkpoint" of TensorFlow, which names the last ones, and files of any format.

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "refused.hpp"
#include "state_samples.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::weight_files_test {
namespace {

const TemporaryFolder& folder() {
  static const TemporaryFolder instance;
  return instance;
}

Bytes to_bytes(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace

TEST_CASE("the file \"checkpoint\": what is written is read, as TensorFlow writes it") {
  const TemporaryFolder folder;
  const std::string ckpt = (folder / "ckpt").string(), other = (folder / "other" / "model").string();
  CHECK_FALSE(get_checkpoint_state(ckpt));
  CHECK_FALSE(latest_checkpoint(ckpt));
  for (const char* name : {"/model-1", "/model-2", "/m\xC3\xB6\"del"})
    tensor_bundle::save(ckpt + name, {{"w", tensor(1.0F)}});

  update_checkpoint_state(ckpt, {.latest = ckpt + "/model-2", .all = {ckpt + "/model-1"}});
  CHECK(read_text(ckpt + "/checkpoint") ==
        "model_checkpoint_path: \"model-2\"\nall_model_checkpoint_paths: \"model-1\"\n"
        "all_model_checkpoint_paths: \"model-2\"\n");
  CHECK(latest_checkpoint(ckpt) == ckpt + "/model-2");
  CHECK(get_checkpoint_state(ckpt)->all == std::vector{ckpt + "/model-1", ckpt + "/model-2"});

  // Names that are escaped, and places outside the folder.
  update_checkpoint_state(ckpt, {.latest = ckpt + "/m\xC3\xB6\"del", .all = {other}});
  CHECK(latest_checkpoint(ckpt) == ckpt + "/m\xC3\xB6\"del");
  CHECK(get_checkpoint_state(ckpt)->all == std::vector{other, ckpt + "/m\xC3\xB6\"del"});
  update_checkpoint_state(ckpt, {.latest = other});
  CHECK(get_checkpoint_state(ckpt)->latest == other);
  CHECK_FALSE(latest_checkpoint(ckpt));  // has no index
  CHECK_THROWS_AS(update_checkpoint_state(ckpt, {}), InvalidArgumentError);

  // As tf.train.CheckpointManager writes it.
  std::ofstream(ckpt + "/checkpoint") << "model_checkpoint_path: \"model-1\"\n"
                                         "all_model_checkpoint_paths: 'model-1'\n"
                                         "all_model_checkpoint_timestamps: 1795447460.436008\n"
                                         "last_preserved_timestamp: 1795447459.1 # so far\n";
  CHECK(latest_checkpoint(ckpt) == ckpt + "/model-1");
  for (const char* damaged : {"model_checkpoint_path: 3", "model_checkpoint_path \"a", "{", "\x01"}) {
    std::ofstream(ckpt + "/checkpoint") << damaged;
    CHECK(message_of<DataLossError>([&] { latest_checkpoint(ckpt); }).find(ckpt) != std::string::npos);
  }
}

TEST_CASE("load_weights tells formats apart by their contents") {
  const StateDict tensors{{"w", tensor<float>({1, 2})}};
  save(folder() / "a.safetensors", tensors);
  save(folder() / "a.npz", tensors);
  tensor_bundle::save(folder() / "a.ckpt", tensors);
  for (const char* name : {"a.safetensors", "a.npz"}) {
    std::filesystem::copy_file(folder() / name, folder() / "any", std::filesystem::copy_options::overwrite_existing);
    CHECK(same_bits(load_weights(folder() / "any"), tensors));
  }
  CHECK(same_bits(load_weights(folder() / "a.ckpt"), tensors));
  save(folder() / "none.npz", StateDict{});
  CHECK(load_weights(folder() / "none.npz").empty());

  TAPESTRY_REFUSED(NotFoundError, "There is neither a file", load_weights(folder() / "absent"));
  TAPESTRY_REFUSED(NotFoundError, "There is neither a file", load_weights(folder().path()));
  TAPESTRY_REFUSED(UnimplementedError, "give the prefix", load_weights(folder() / "a.ckpt.index"));
  const auto refused_file = [](const char* problem, const Bytes& bytes, Where where = Where::here()) {
    refused<UnimplementedError>(problem, problem, where, [&] { load_weights(folder().write("any", bytes), where); });
  };
  refused_file("any is a file of HDF5 (.h5)", to_bytes("\x89HDF\r\n\x1a\n"));
  // An archive of Keras, made of one of ours by another name of the same length.
  const std::string member = "model.weights.h5", other(member.size() - 4, 'x');
  data::write_npz(folder() / "archive.npz", {{other, tensor(1)}});
  std::string archive = read_text(folder() / "archive.npz");
  for (std::size_t at = archive.find(other); at != std::string::npos; at = archive.find(other))
    archive.replace(at, member.size(), member);
  refused_file("a model of Keras (.keras)", to_bytes(archive));
  for (const Bytes& bytes : {Bytes{}, Bytes{1, 2}, to_bytes("neither this nor that")})
    TAPESTRY_REFUSED(InvalidArgumentError, "holds no weights", load_weights(folder().write("any", bytes)));
}

}  // namespace tapestry::test::weight_files_test

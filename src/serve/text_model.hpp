#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "serve/signature_info.hpp"
#include "serve/text_graph.hpp"
#include "tapestry/saved_model.hpp"

namespace tapestry::serve {

/// A SavedModel, also one with texts: requests and answers have them, while the graph computes with their numbers.
class TextModel {
 public:
  /// Reads the SavedModel. Throws what `saved_model::load` throws.
  explicit TextModel(const std::filesystem::path& folder);

  const Graph& graph() const { return graph_; }
  const std::map<std::string, SignatureInfo>& infos() const { return infos_; }
  /// The tensors that a signature gets and gives, of which some stand for texts. Throws InvalidArgumentError for a
  /// signature that the model lacks, UnimplementedError for one with tensors that are not plain arrays.
  const Signature& signature(const std::string& name) const;

  /// The tensors for the inputs of a signature. Throws InvalidArgumentError for values that do not fit. `texts`: gets
  /// the texts.
  NamedTensors tensors_of(const std::string& name, NamedValues&& inputs, RequestTexts& texts) const;
  /// The values of the outputs.
  NamedValues values_of(const std::string& name, NamedTensors&& outputs, const RequestTexts& texts) const;

  const ModelTexts& texts() const { return texts_; }

 private:
  /// How tf.Examples are parsed.
  struct Parsing {
    data::ExampleParser parser;
    std::map<std::string, std::string> placeholders;  ///< by the names of features, the inputs of the signature
  };
  /// An input of texts.
  struct Examples {
    bool is_moved;                    ///< the signature has an input for the texts' numbers
    std::vector<Parsing> parsings{};  ///< of the tf.Examples that the texts are
  };

  static std::vector<Parsing> parsings_of(const std::vector<ParsedFeature>& features, const std::string& input);
  /// Adds the tensors for the features of tf.Examples, which are the input `key`.
  static void parse_examples(const Examples& examples, const std::string& key, const Texts& given,
                             const Signature& signature, RequestTexts& texts, NamedTensors& tensors);
  void load_numbered(const std::filesystem::path& folder);
  void adopt(const Model& model);

  std::map<std::string, SignatureInfo> infos_;
  Graph graph_;
  std::map<std::string, Signature> signatures_;
  std::map<std::string, std::map<std::string, Examples>> inputs_;  ///< those of texts, by signature and name
  ModelTexts texts_;
};

}  // namespace tapestry::serve

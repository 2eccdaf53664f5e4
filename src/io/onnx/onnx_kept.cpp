/// Nodes that were read from ONNX and wait for what is fed, or whose op Tapestry lacks: they are written as they were.

#include <algorithm>
#include <array>

#include "io/onnx/onnx_ops.hpp"
#include "io/onnx/onnx_writer.hpp"
#include "io/tensorflow/kept_node.hpp"

namespace tapestry::io {
namespace {

/// An op whose attribute is an input from some version on.
struct MovedAttr {
  std::string_view op;
  std::int64_t version;
  std::string_view attr;
  std::size_t place;
};
constexpr auto moved_attrs = std::to_array<MovedAttr>({{"ReduceL1", 18, "axes", 1},
                                                       {"ReduceL2", 18, "axes", 1},
                                                       {"ReduceLogSum", 18, "axes", 1},
                                                       {"ReduceLogSumExp", 18, "axes", 1},
                                                       {"ReduceMax", 18, "axes", 1},
                                                       {"ReduceMean", 18, "axes", 1},
                                                       {"ReduceMin", 18, "axes", 1},
                                                       {"ReduceProd", 18, "axes", 1},
                                                       {"ReduceSum", 13, "axes", 1},
                                                       {"ReduceSumSquare", 18, "axes", 1},
                                                       {"Slice", 10, "starts", 1},
                                                       {"Slice", 10, "ends", 2},
                                                       {"Slice", 10, "axes", 3},
                                                       {"Split", 13, "split", 1},
                                                       {"Squeeze", 13, "axes", 1},
                                                       {"TopK", 10, "k", 1},
                                                       {"Unsqueeze", 13, "axes", 1}});

/// The versions from which on an op means something else, where no moved attribute is all.
struct Break {
  std::string_view op;
  std::int64_t version;
};
constexpr auto breaks = std::to_array<Break>({{"BatchNormalization", 14},
                                              {"Clip", 11},
                                              {"DFT", 20},
                                              {"Dropout", 12},
                                              {"GridSample", 20},
                                              {"GroupNormalization", 21},
                                              {"Hardmax", 13},
                                              {"LogSoftmax", 13},
                                              {"Pad", 11},
                                              {"Resize", 11},
                                              {"Scatter", 11},
                                              {"Softmax", 13},
                                              {"Upsample", 10}});
/// Ops of older versions had attributes for broadcasting, and others that are gone.
constexpr std::int64_t first_version = 7;

class KeptWriter {
 public:
  KeptWriter(OnnxWriter& writer, const NodeDef& def)
      : w_(writer),
        def_(def),
        domain_(def.op.substr(0, def.op.rfind("::"))),
        type_(def.op.substr(def.op.rfind("::") + 2)),
        version_(std::get<std::int64_t>(def.attrs.at(std::string(onnx_version)))) {
    if (domain_ == "ai.onnx") domain_.clear();
  }

  void run() {
    require_same_form();
    std::vector<std::string> inputs = given();
    OnnxFields fields;
    for (const auto& [name, value] : def_.attrs)
      if (!name.starts_with('#') && !take(name, value, inputs)) fields.emplace_back(name, field(value));
    w_.graph().opsets().require(domain_, version_);
    w_.finish(w_.ops(type_, std::move(inputs), std::move(fields), w_.node().outputs().size(), domain_));
  }

 private:
  /// Throws UnimplementedError if the file's opset has the op in another form.
  void require_same_form() const {
    if (domain_ == "tapestry" || type_.find("Sequence") != std::string::npos)
      w_.refuse("it uses a sequence, which Tapestry has as a tensor");
    if (!domain_.empty()) return;
    const auto changes = [&](const Break& each) { return each.op == type_ && version_ < each.version; };
    const auto found = std::find_if(breaks.begin(), breaks.end(), changes);
    const std::int64_t end = found == breaks.end() ? 0 : found->version;
    if (version_ < first_version || (end > 0 && end <= OnnxOpsets::least))
      w_.refuse(detail::join("it waits for sizes that are not known, and has the form of opset ", version_,
                             ", which opset ", OnnxOpsets::least, " lacks"));
    if (end > 0) w_.graph().opsets().require_before(end);
  }

  /// The values of the node's inputs, by their places.
  std::vector<std::string> given() const {
    const std::size_t count = w_.node().inputs().size();
    std::vector<std::string> inputs;
    const auto places = def_.attrs.find(onnx_places);
    if (places == def_.attrs.end()) {
      for (std::size_t i = 0; i < count; ++i) inputs.push_back(w_.in(i));
      return inputs;
    }
    for (const std::int64_t each : std::get<ListDef>(places->second).ints)
      inputs.push_back(each < 0 ? std::string() : w_.in(static_cast<std::size_t>(each)));
    return inputs;
  }

  /// Whether an attribute becomes an input.
  bool take(const std::string& name, const AttrDef& value, std::vector<std::string>& inputs) const {
    const auto found = std::find_if(moved_attrs.begin(), moved_attrs.end(), [&](const MovedAttr& each) {
      return each.op == type_ && each.attr == name && version_ < each.version;
    });
    if (!domain_.empty() || found == moved_attrs.end()) return false;
    const auto* list = std::get_if<ListDef>(&value);
    const auto* number = std::get_if<std::int64_t>(&value);
    if (!list && !number) w_.refuse(detail::join("its attribute '", name, "' is no list of numbers"));
    if (inputs.size() <= found->place) inputs.resize(found->place + 1);
    inputs[found->place] = w_.ints(list ? list->ints : std::vector<std::int64_t>{*number});
    return true;
  }

  OnnxValue field(const AttrDef& value) const {
    if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
    if (const auto* real = std::get_if<float>(&value)) return static_cast<double>(*real);
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    if (const auto* tensor = std::get_if<TensorDef>(&value); tensor && bool(tensor->value)) return tensor->value;
    if (const auto* list = std::get_if<ListDef>(&value)) {
      if (!list->floats.empty()) return list->floats;
      if (!list->strings.empty()) return list->strings;
      return list->ints;
    }
    w_.refuse("an attribute of it is of a type that Tapestry lacks");
  }

  OnnxWriter& w_;
  const NodeDef& def_;
  std::string domain_, type_;
  std::int64_t version_;
};

}  // namespace

const NodeDef* kept_onnx_node(const detail::Node& node) {
  const KeptNode* kept = kept_node(node);
  return kept && kept->def.attrs.contains(onnx_version) && kept->def.op.find("::") != std::string::npos ? &kept->def
                                                                                                        : nullptr;
}

void write_kept_onnx(OnnxWriter& writer, const NodeDef& def) { KeptWriter(writer, def).run(); }

}  // namespace tapestry::io

/// A layered drawing after Sugiyama, Tagawa and Toda (1981): nodes in layers along the edges' direction, ordered within
/// each layer so that few edges cross, and shifted towards their neighbours.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>

#include "graph/graph_state.hpp"
#include "io/drawing/drawing.hpp"

namespace tapestry::io {
namespace {

using detail::Node;

constexpr double node_height = 26, title_height = 18, between_layers = 46, between_nodes = 14;
constexpr std::size_t most_dummies = 64;  ///< of an edge

class Layout;

/// A vertex of the layered drawing: a node of the graph, or a dummy where a long edge passes a layer.
struct Vertex {
  const Node* node = nullptr;  ///< nullptr: a dummy
  Look look{};
  std::size_t layer = 0;
  double width = 0, height = 0;  ///< 0 for a dummy
  double along = 0, across = 0;  ///< the centre: in the direction from layer to layer, and within the layer
  std::vector<std::size_t> before{}, behind{};
  std::vector<std::shared_ptr<Layout>> inside{};  ///< the functions that the node runs
};

struct Line {
  std::vector<std::size_t> vertices;  ///< from the producer over the dummies to the consumer
  bool control;
  std::string label;
};

/// The layout of a frame. It contains those of the frames inside its nodes.
class Layout {
 public:
  Layout(Frame frame, bool to_right) : frame_(std::move(frame)), to_right_(to_right) {
    add_vertices();
    assign_layers();
    connect();
    order();
    spread();
  }

  double width() const {
    double right = 0;
    for (const Vertex& each : vertices_) right = std::max(right, x(each) - left_ + each.width / 2);
    return right + margin;
  }
  double height() const {
    double bottom = 0;
    for (const Vertex& each : vertices_) bottom = std::max(bottom, y(each) - top_ + each.height / 2);
    return bottom + margin;
  }

  std::string svg() {
    std::string text = detail::join(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", number(width()), "\" height=\"", number(height()),
        "\" font-family=\"sans-serif\" font-size=\"11\">\n"
        "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
        "orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\" fill=\"#666\"/></marker></defs>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
    return text + drawn_at(0, 0) + "</svg>\n";
  }

 private:
  static std::string number(double value) { return std::to_string(std::lround(value)); }
  double x(const Vertex& vertex) const { return left_ + (to_right_ ? vertex.along : vertex.across); }
  double y(const Vertex& vertex) const { return top_ + (to_right_ ? vertex.across : vertex.along); }
  double length_along(const Vertex& vertex) const { return to_right_ ? vertex.width : vertex.height; }
  double length_across(const Vertex& vertex) const { return std::max(to_right_ ? vertex.height : vertex.width, 4.0); }

  /// Calls f with the number of each vertex that the node of a vertex has an edge from.
  template <class F>
  void for_inputs(const Vertex& vertex, F f) const {
    if (frame_.given.contains(vertex.node)) return;
    for (const Tensor& input : vertex.node->inputs()) f(number_of_.at(&detail::producer_of(input)));
    for (const Node* control : vertex.node->control_inputs) f(number_of_.at(control));
  }

  void add_vertices() {
    for (const Node* node : frame_.nodes) {
      number_of_.emplace(node, vertices_.size());
      Vertex& vertex = vertices_.emplace_back(Vertex{.node = node, .look = look_of(*node)});
      vertex.width = std::max(34.0, width_of(vertex.look.label));
      vertex.height = node_height;
      if (frame_.given.contains(node)) {
        vertex.look.shape = "ellipse";
        continue;
      }
      for (Frame& each : frames_inside(*node, frame_.prefix + node->name()))
        vertex.inside.push_back(std::make_shared<Layout>(std::move(each), to_right_));
      if (!vertex.inside.empty()) enclose(vertex);
    }
  }

  static double width_of(const std::string& label) { return static_cast<double>(label.size()) * letter_width + 16; }

  /// Makes room for the functions of a node, which stand side by side across the layers.
  void enclose(Vertex& vertex) const {
    double along = 0, across = 0;
    for (const auto& each : vertex.inside) {
      const double wide = each->framed_width(), high = each->framed_height();
      along = std::max(along, to_right_ ? wide : high);
      across += between_nodes + (to_right_ ? high : wide);
    }
    vertex.width = std::max(vertex.width, (to_right_ ? along : across - between_nodes) + 2 * between_nodes);
    vertex.height = title_height + (to_right_ ? across - between_nodes : along) + 1.5 * between_nodes;
  }
  double framed_width() const { return std::max(width(), width_of(frame_.title)); }
  double framed_height() const { return height() + title_height / 2; }

  /// Assigns each node to a layer after those of its inputs. A leaf, and a chain of nodes with one input each that
  /// begins at a leaf, moves to the layers just before its first use.
  void assign_layers() {
    const std::size_t count = vertices_.size();
    std::vector<char> leads(count, 1);
    for (std::size_t i = 0; i < count; ++i) {
      Vertex& vertex = vertices_[i];
      std::size_t inputs = 0;
      for_inputs(vertex, [&](std::size_t from) {
        vertex.layer = std::max(vertex.layer, vertices_[from].layer + 1);
        leads[i] = leads[i] && leads[from] && ++inputs == 1;
      });
    }
    std::vector<std::size_t> first_use(count, SIZE_MAX);
    for (std::size_t i = count; i-- > 0;) {
      if (leads[i] && first_use[i] != SIZE_MAX) vertices_[i].layer = first_use[i] - 1;
      for_inputs(vertices_[i],
                 [&](std::size_t from) { first_use[from] = std::min(first_use[from], vertices_[i].layer); });
    }
  }

  void connect() {
    for (std::size_t i = 0; i < frame_.nodes.size(); ++i) {
      const Node& node = *frame_.nodes[i];
      if (frame_.given.contains(&node)) continue;
      for (const Tensor& input : node.inputs())
        add_line(number_of_.at(&detail::producer_of(input)), i, false, edge_label(input));
      for (const Node* control : node.control_inputs) add_line(number_of_.at(control), i, true, {});
    }
  }

  void add_line(std::size_t from, std::size_t to, bool control, const std::string& label) {
    Line line{{from}, control, label};
    const std::size_t first = vertices_[from].layer + 1, last = vertices_[to].layer;
    // A very long edge is drawn straight: dummies for many of them could outnumber the nodes by far.
    for (std::size_t layer = first; layer < last && last - first <= most_dummies; ++layer) {
      line.vertices.push_back(vertices_.size());
      vertices_.push_back({.layer = layer});
    }
    line.vertices.push_back(to);
    for (std::size_t i = 1; i < line.vertices.size(); ++i) {
      vertices_[line.vertices[i - 1]].behind.push_back(line.vertices[i]);
      vertices_[line.vertices[i]].before.push_back(line.vertices[i - 1]);
    }
    lines_.push_back(std::move(line));
  }

  /// Sorts each layer by the mean positions of its vertices' neighbours: those in the previous layer on the way
  /// forwards through the layers, those in the next layer on the way back.
  void order() {
    for (std::size_t i = 0; i < vertices_.size(); ++i) {
      layers_.resize(std::max(layers_.size(), vertices_[i].layer + 1));
      layers_[vertices_[i].layer].push_back(i);
    }
    std::vector<double> position(vertices_.size());
    const auto number_layer = [&](const std::vector<std::size_t>& layer) {
      for (std::size_t i = 0; i < layer.size(); ++i) position[layer[i]] = static_cast<double>(i);
    };
    for (const auto& layer : layers_) number_layer(layer);
    std::vector<double> wanted(vertices_.size());
    const auto sort = [&](std::vector<std::size_t>& layer, std::vector<std::size_t> Vertex::*side) {
      for (const std::size_t i : layer) wanted[i] = mean(vertices_[i].*side, position, position[i]);
      std::stable_sort(layer.begin(), layer.end(), [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
      number_layer(layer);
    };
    for (int round = 0; round < 4; ++round) {
      for (std::size_t i = 1; i < layers_.size(); ++i) sort(layers_[i], &Vertex::before);
      for (std::size_t i = layers_.size(); i-- > 1;) sort(layers_[i - 1], &Vertex::behind);
    }
  }

  static double mean(const std::vector<std::size_t>& neighbours, const std::vector<double>& value, double otherwise) {
    if (neighbours.empty()) return otherwise;
    double sum = 0;
    for (const std::size_t i : neighbours) sum += value[i];
    return sum / static_cast<double>(neighbours.size());
  }

  void spread() {
    double along = margin;
    for (const auto& layer : layers_) {
      double widest = 0;
      for (const std::size_t i : layer) widest = std::max(widest, length_along(vertices_[i]));
      for (const std::size_t i : layer) vertices_[i].along = along + widest / 2;
      lengths_.push_back(widest);
      along += widest + between_layers;
    }
    std::vector<double> across(vertices_.size());
    for (int round = 0; round < 6; ++round)
      for (std::size_t k = 0; k < layers_.size(); ++k) {
        const bool forward = round % 2 == 0;
        shift(layers_[forward ? k : layers_.size() - 1 - k], forward ? &Vertex::before : &Vertex::behind, across);
      }
    double lowest = std::numeric_limits<double>::max();
    for (std::size_t i = 0; i < vertices_.size(); ++i)
      lowest = std::min(lowest, across[i] - length_across(vertices_[i]) / 2);
    for (std::size_t i = 0; i < vertices_.size(); ++i) vertices_[i].across = across[i] - lowest + margin;
  }

  /// Moves the vertices of a layer to the mean positions of their neighbours, as far as their order and gaps allow:
  /// they are pushed apart once from the front and once from the back. The mean of both keeps the order and the gaps.
  void shift(const std::vector<std::size_t>& layer, std::vector<std::size_t> Vertex::*side,
             std::vector<double>& across) {
    std::vector<double> pushed(layer.size()), pulled(layer.size());
    const auto gap = [&](std::size_t a, std::size_t b) {
      return (length_across(vertices_[layer[a]]) + length_across(vertices_[layer[b]])) / 2 + between_nodes;
    };
    for (std::size_t i = 0; i < layer.size(); ++i) {
      pushed[i] = mean(vertices_[layer[i]].*side, across, across[layer[i]]);
      if (i > 0) pushed[i] = std::max(pushed[i], pushed[i - 1] + gap(i - 1, i));
    }
    for (std::size_t i = layer.size(); i-- > 0;) {
      pulled[i] = mean(vertices_[layer[i]].*side, across, across[layer[i]]);
      if (i + 1 < layer.size()) pulled[i] = std::min(pulled[i], pulled[i + 1] - gap(i, i + 1));
    }
    for (std::size_t i = 0; i < layer.size(); ++i) across[layer[i]] = (pushed[i] + pulled[i]) / 2;
  }

  /// Draws the frame with its upper left corner at a position of the picture.
  std::string drawn_at(double left, double top) {
    left_ = left;
    top_ = top;
    std::string text;
    for (const Vertex& each : vertices_)
      if (!each.inside.empty()) text += drawn_with_inside(each);
    for (const Line& each : lines_) text += drawn(each);
    text += labels_of_lines();
    for (const Vertex& each : vertices_)
      if (each.node && each.inside.empty())
        text += box(each, each.look.colour) + label_at(x(each), y(each) + 4, each.look.label) + "</g>\n";
    return text;
  }

  std::string drawn_with_inside(const Vertex& vertex) const {
    double left = x(vertex) - vertex.width / 2, top = y(vertex) - vertex.height / 2;
    std::string text = box(vertex, vertex.node->op().stateful ? vertex.look.colour : "#eef3fa") +
                       label_at(x(vertex), top + 13, vertex.look.label) + "</g>\n";
    left += between_nodes;
    top += title_height;
    for (const auto& each : vertex.inside) {
      const double wide = each->framed_width(), high = each->framed_height();
      text += detail::join("<g><title>", escaped(frame_.prefix), escaped(vertex.node->name()), ":",
                           escaped(each->frame_.title), " (function)</title><rect x=\"", number(left), "\" y=\"",
                           number(top), "\" width=\"", number(wide), "\" height=\"", number(high),
                           "\" rx=\"4\" fill=\"white\" stroke=\"#9ab\"/><text x=\"", number(left + 6), "\" y=\"",
                           number(top + 13), "\" fill=\"#579\">", escaped(each->frame_.title), "</text></g>\n");
      text += each->drawn_at(left, top + title_height / 2);
      (to_right_ ? top : left) += between_nodes + (to_right_ ? high : wide);
    }
    return text;
  }

  /// The box of a node, in a group that is open. Results of a function have a thick line.
  std::string box(const Vertex& vertex, std::string_view colour) const {
    const bool is_result = frame_.results.contains(vertex.node);
    return detail::join("<g><title>", escaped(frame_.prefix), escaped(vertex.node->name()), " (",
                        escaped(vertex.node->type()), ")</title><rect x=\"", number(x(vertex) - vertex.width / 2),
                        "\" y=\"", number(y(vertex) - vertex.height / 2), "\" width=\"", number(vertex.width),
                        "\" height=\"", number(vertex.height), "\" rx=\"", vertex.look.shape == "box" ? "4" : "13",
                        "\" fill=\"", colour, "\" stroke=\"", is_result ? "#357\" stroke-width=\"2" : "#888", "\"/>");
  }

  static std::string label_at(double x, double y, const std::string& label) {
    return detail::join("<text x=\"", number(x), "\" y=\"", number(y), "\" text-anchor=\"middle\">", escaped(label),
                        "</text>");
  }

  std::string point(double along, double across) const {
    return to_right_ ? number(left_ + along) + "," + number(top_ + across)
                     : number(left_ + across) + "," + number(top_ + along);
  }

  std::string drawn(const Line& line) const {
    const Vertex& from = vertices_[line.vertices.front()];
    double along = from.along + lengths_[from.layer] / 2, across = from.across;
    std::string path = "M" + point(from.along + length_along(from) / 2, across) + " L" + point(along, across);
    // Within a layer a line is straight, or it would cross the boxes of wider nodes.
    for (std::size_t i = 1; i < line.vertices.size(); ++i) {
      const Vertex& to = vertices_[line.vertices[i]];
      const double reach = lengths_[to.layer] / 2, end = to.along - reach, middle = (along + end) / 2;
      path += " C" + point(middle, across) + " " + point(middle, to.across) + " " + point(end, to.across);
      along = to.along + reach;
      across = to.across;
      path += " L" + point(to.node ? to.along - length_along(to) / 2 : along, across);
    }
    return detail::join("<path d=\"", path, "\" fill=\"none\" stroke=\"#666\"",
                        line.control ? " stroke-dasharray=\"4 3\"" : "", " marker-end=\"url(#arrow)\"/>\n");
  }

  /// The labels of all lines, where the lines begin. Those of one node stand one above the other, equal ones once.
  std::string labels_of_lines() const {
    std::string text;
    std::map<std::size_t, std::vector<std::string_view>> labels;  // by the vertex that the lines begin at
    for (const Line& each : lines_) {
      std::vector<std::string_view>& others = labels[each.vertices.front()];
      if (each.label.empty() || std::find(others.begin(), others.end(), each.label) != others.end()) continue;
      const Vertex& from = vertices_[each.vertices.front()];
      const double start = from.along + length_along(from) / 2, shift = 9 * static_cast<double>(others.size());
      const double label_x = left_ + (to_right_ ? start + 3 : from.across + 4),
                   label_y = top_ + (to_right_ ? from.across - 3 - shift : start + 11 + shift);
      text += detail::join("<text x=\"", number(label_x), "\" y=\"", number(label_y),
                           "\" font-size=\"8\" fill=\"#555\">", escaped(each.label), "</text>\n");
      others.push_back(each.label);
    }
    return text;
  }

  Frame frame_;
  bool to_right_;
  double left_ = 0, top_ = 0;  ///< where the frame is in the picture
  std::unordered_map<const Node*, std::size_t> number_of_;
  std::vector<Vertex> vertices_;  ///< the nodes first, in the frame's order
  std::vector<Line> lines_;
  std::vector<std::vector<std::size_t>> layers_;
  std::vector<double> lengths_;  ///< of the layers
};

}  // namespace

}  // namespace tapestry::io

namespace tapestry {

std::string Graph::to_svg(const DrawOptions& options, Where where) const {
  io::check_direction(options, where);
  const std::lock_guard lock(state_->mutex());
  return io::Layout(io::frame_of(*state_), options.rankdir == "LR").svg();
}

}  // namespace tapestry

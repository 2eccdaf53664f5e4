#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <tapestry/tapestry.hpp>

namespace support {

struct Color {
  std::uint8_t red = 0, green = 0, blue = 0;
};

/// A picture to draw on. Coordinates are pixels from the upper left corner, fractions included. Everything is drawn at
/// three times the resolution and averaged at the end, which smooths the edges.
class Canvas {
 public:
  Canvas(int width, int height, Color background);

  void rectangle(double left, double top, double right, double bottom, Color color);
  void disc(double x, double y, double radius, Color color);
  void line(double x0, double y0, double x1, double y1, double width, Color color);

  /// Writes in letters 14 pixels high, whose upper edge is at `top`. The font has digits, small letters and -+.,:=%()/.
  void text(double left, double top, std::string_view text, Color color);
  static double text_width(std::string_view text);

  /// uint8 [height,width,3].
  tp::Tensor image() const;

 private:
  /// Paints the pixels of a box whose centres lie in a region.
  template <class Region>
  void paint(double left, double top, double right, double bottom, Color color, const Region& inside);

  int width_, height_;  ///< of the enlarged picture
  std::vector<Color> pixels_;
};

}  // namespace support

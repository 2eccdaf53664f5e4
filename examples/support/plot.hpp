#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "canvas.hpp"

namespace support {

inline constexpr Color black{33, 37, 41}, grey{134, 142, 150}, light_grey{222, 226, 230}, white{255, 255, 255};
inline constexpr Color red{214, 58, 47}, blue{37, 99, 201}, light_red{250, 208, 202}, light_blue{203, 220, 248};

struct Axis {
  std::string label;
  double low = 0, high = 1;
  bool logarithmic = false;
};

/// A diagram with two axes, made to be saved as a PNG file.
class Plot {
 public:
  Plot(const std::string& title, Axis x, Axis y, int width = 720, int height = 600);

  /// Fills a grid of cells over the whole diagram; row 0 is the lowest.
  void cells(int columns, int rows, const std::function<Color(int column, int row)>& color);
  void points(const std::vector<double>& xs, const std::vector<double>& ys, Color color, const std::string& label);
  void line(const std::vector<double>& xs, const std::vector<double>& ys, Color color);

  void save(const std::filesystem::path& path);

 private:
  double pixel_x(double x) const;
  double pixel_y(double y) const;
  void draw_axes();

  Axis x_, y_;
  double left_, right_, top_, bottom_;  ///< of the diagram inside the picture, in pixels
  double legend_;                       ///< where the next entry of the legend ends
  Canvas canvas_;
};

}  // namespace support

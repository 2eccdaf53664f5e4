#include "canvas.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace support {
namespace {

constexpr int enlarged = 3;  // pixels drawn per pixel of the picture, in each direction
constexpr double dot = 2;    // width of a dot of the font
constexpr int glyph_width = 5, glyph_height = 9;

/// Some characters of the font side by side, with a gap of one dot.
struct Banner {
  std::string_view characters;
  std::array<std::string_view, glyph_height> rows;
};

// clang-format off
constexpr Banner font[] = {
    {"0123456789",
     {
         " ###    #    ###   ###     #  #####   ##  #####  ###   ### ",
         "#   #  ##   #   # #   #   ##  #      #        # #   # #   #",
         "#  ##   #       #     #  # #  ####  #        #  #   # #   #",
         "# # #   #      #    ##  #  #      # ####    #    ###   ####",
         "##  #   #     #       # #####     # #   #   #   #   #     #",
         "#   #   #    #    #   #    #  #   # #   #  #    #   #    # ",
         " ###   ###  #####  ###     #   ###   ###   #     ###   ##  ",
         "                                                           ",
         "                                                           ",
     }},
    {".-+,:=%()/",
     {
         "                                    ##  #    #   #        #",
         "              #           ##        ##  #   #     #       #",
         "              #           ##  #####    #   #       #     # ",
         "       ###  #####                     #    #       #    #  ",
         "              #           ##  #####  #     #       #   #   ",
         "  ##          #     ##    ##        #  ##   #     #   #    ",
         "  ##                 #              #  ##    #   #    #    ",
         "                    #                                      ",
         "                                                           ",
     }},
    {"abcdefghijklm",
     {
         "      #               #         ##        #       #      #  #      ##        ",
         "      #               #        #  #       #                 #       #        ",
         " ###  # ##   ###   ## #  ###   #     #### # ##   ##     ##  #  #    #   ## # ",
         "    # ##  # #   # #  ## #   # ####  #   # ##  #   #      #  # #     #   # # #",
         " #### #   # #     #   # #####  #    #   # #   #   #      #  ##      #   # # #",
         "#   # #   # #   # #   # #      #    #  ## #   #   #      #  # #     #   # # #",
         " #### ####   ###   ####  ###   #     ## # #   #  ###     #  #  #   ###  # # #",
         "                                        #             #  #                   ",
         "                                     ###               ##                    ",
     }},
    {"nopqrstuvwxyz",
     {
         "                                     #                                       ",
         "                                     #                                       ",
         "# ##   ###  ####   #### # ##   #### ####  #   # #   # #   # #   # #   # #####",
         "##  # #   # #   # #   # ##  # #      #    #   # #   # #   #  # #  #   #    # ",
         "#   # #   # #   # #   # #      ###   #    #   # #   # # # #   #   #   #   #  ",
         "#   # #   # ##  # #  ## #         #  #  # #  ##  # #  # # #  # #  #  ##  #   ",
         "#   #  ###  # ##   ## # #     ####    ##   ## #   #    # #  #   #  ## # #####",
         "            #         #                                               #      ",
         "            #         #                                            ###       ",
     }},
};
// clang-format on

/// Whether a character has ink at that column and row; a character that the font lacks has none.
bool has_ink(char character, int column, int row) {
  for (const Banner& banner : font) {
    const std::size_t index = banner.characters.find(character);
    if (index == std::string_view::npos) continue;
    const std::size_t place = index * (glyph_width + 1) + static_cast<std::size_t>(column);
    return banner.rows[static_cast<std::size_t>(row)][place] == '#';
  }
  return false;
}

}  // namespace

Canvas::Canvas(int width, int height, Color background)
    : width_(width * enlarged),
      height_(height * enlarged),
      pixels_(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_), background) {}

template <class Region>
void Canvas::paint(double left, double top, double right, double bottom, Color color, const Region& inside) {
  const auto first = [](double from) { return std::max(static_cast<int>(std::floor(from * enlarged)), 0); };
  const auto last = [](double to, int size) { return std::min(static_cast<int>(std::ceil(to * enlarged)), size); };
  for (int row = first(top); row < last(bottom, height_); ++row)
    for (int column = first(left); column < last(right, width_); ++column)
      if (inside((column + 0.5) / enlarged, (row + 0.5) / enlarged))
        pixels_[static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(column)] =
            color;
}

void Canvas::rectangle(double left, double top, double right, double bottom, Color color) {
  paint(left, top, right, bottom, color,
        [=](double x, double y) { return x >= left && x < right && y >= top && y < bottom; });
}

void Canvas::disc(double x, double y, double radius, Color color) {
  paint(x - radius, y - radius, x + radius, y + radius, color,
        [=](double px, double py) { return std::hypot(px - x, py - y) < radius; });
}

void Canvas::line(double x0, double y0, double x1, double y1, double width, Color color) {
  const double dx = x1 - x0, dy = y1 - y0, squared_length = dx * dx + dy * dy, radius = width / 2;
  paint(std::min(x0, x1) - radius, std::min(y0, y1) - radius, std::max(x0, x1) + radius, std::max(y0, y1) + radius,
        color, [=](double x, double y) {
          const double along = squared_length > 0 ? ((x - x0) * dx + (y - y0) * dy) / squared_length : 0;
          const double nearest = std::clamp(along, 0.0, 1.0);
          return std::hypot(x - x0 - nearest * dx, y - y0 - nearest * dy) < radius;
        });
}

void Canvas::text(double left, double top, std::string_view text, Color color) {
  for (const char character : text) {
    for (int row = 0; row < glyph_height; ++row)
      for (int column = 0; column < glyph_width; ++column)
        if (has_ink(character, column, row))
          rectangle(left + dot * column, top + dot * row, left + dot * (column + 1), top + dot * (row + 1), color);
    left += dot * (glyph_width + 1);
  }
}

double Canvas::text_width(std::string_view text) {
  return dot * (static_cast<double>(text.size()) * (glyph_width + 1) - 1);
}

tp::Tensor Canvas::image() const {
  const int width = width_ / enlarged, height = height_ / enlarged;
  std::vector<std::uint8_t> image;
  image.reserve(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      int red = 0, green = 0, blue = 0;
      for (int i = 0; i < enlarged * enlarged; ++i) {
        const int row = y * enlarged + i / enlarged, column = x * enlarged + i % enlarged;
        const Color color = pixels_[static_cast<std::size_t>(row) * static_cast<std::size_t>(width_) +
                                    static_cast<std::size_t>(column)];
        red += color.red;
        green += color.green;
        blue += color.blue;
      }
      for (const int sum : {red, green, blue})
        image.push_back(static_cast<std::uint8_t>((sum + enlarged * enlarged / 2) / (enlarged * enlarged)));
    }
  }
  return tp::tensor(image, {height, width, 3});
}

}  // namespace support

#include "plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace support {
namespace {

/// About six round numbers on an axis, 1, 2 or 5 times a power of ten apart; on a logarithmic axis, the powers of ten.
std::vector<double> ticks(const Axis& axis) {
  std::vector<double> places;
  if (axis.logarithmic) {
    const int last = static_cast<int>(std::floor(std::log10(axis.high) + 1e-9));
    for (int power = static_cast<int>(std::ceil(std::log10(axis.low) - 1e-9)); power <= last; ++power)
      places.push_back(std::pow(10, power));
    return places;
  }
  const double rough = (axis.high - axis.low) / 6, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5, 2, 1})
    if (factor * power >= rough) step = factor * power;
  // + 0.0 makes a negative zero positive.
  for (double i = std::ceil(axis.low / step - 1e-9) + 0.0; i * step <= axis.high + 1e-9 * step; ++i)
    places.push_back(i * step);
  return places;
}

std::string tick_label(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

/// The position of a value on an axis: 0 at its low end, 1 at its high end.
double position(const Axis& axis, double value) {
  if (!axis.logarithmic) return (value - axis.low) / (axis.high - axis.low);
  return std::log(value / axis.low) / std::log(axis.high / axis.low);
}

}  // namespace

Plot::Plot(const std::string& title, Axis x, Axis y, int width, int height)
    : x_(std::move(x)),
      y_(std::move(y)),
      left_(84),
      right_(width - 40),
      top_(72),
      bottom_(height - 66),
      legend_(right_),
      canvas_(width, height, white) {
  canvas_.text(left_, 14, title, black);
  canvas_.text(left_, 46, y_.label, grey);
}

double Plot::pixel_x(double x) const { return left_ + position(x_, x) * (right_ - left_); }
double Plot::pixel_y(double y) const { return bottom_ - position(y_, y) * (bottom_ - top_); }

void Plot::cells(int columns, int rows, const std::function<Color(int, int)>& color) {
  const double width = (right_ - left_) / columns, height = (bottom_ - top_) / rows;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column)
      canvas_.rectangle(left_ + column * width, bottom_ - (row + 1) * height, left_ + (column + 1) * width,
                        bottom_ - row * height, color(column, row));
}

void Plot::points(const std::vector<double>& xs, const std::vector<double>& ys, Color color, const std::string& label) {
  const auto point = [&](double x, double y) {
    canvas_.disc(x, y, 5.5, white);
    canvas_.disc(x, y, 4.5, color);
  };
  for (std::size_t i = 0; i < xs.size(); ++i) point(pixel_x(xs[i]), pixel_y(ys[i]));
  legend_ -= Canvas::text_width(label);
  canvas_.text(legend_, 46, label, grey);
  point(legend_ - 12, 54);
  legend_ -= 40;
}

void Plot::line(const std::vector<double>& xs, const std::vector<double>& ys, Color color) {
  for (std::size_t i = 1; i < xs.size(); ++i)
    canvas_.line(pixel_x(xs[i - 1]), pixel_y(ys[i - 1]), pixel_x(xs[i]), pixel_y(ys[i]), 2, color);
}

void Plot::draw_axes() {
  for (const double x : ticks(x_)) {
    canvas_.line(pixel_x(x), bottom_, pixel_x(x), bottom_ + 6, 1, grey);
    const std::string label = tick_label(x);
    canvas_.text(pixel_x(x) - Canvas::text_width(label) / 2, bottom_ + 12, label, black);
  }
  for (const double y : ticks(y_)) {
    canvas_.line(left_ - 6, pixel_y(y), left_, pixel_y(y), 1, grey);
    const std::string label = tick_label(y);
    canvas_.text(left_ - 12 - Canvas::text_width(label), pixel_y(y) - 7, label, black);
  }
  canvas_.text((left_ + right_ - Canvas::text_width(x_.label)) / 2, bottom_ + 40, x_.label, grey);
  canvas_.line(left_, bottom_, right_, bottom_, 1, grey);
  canvas_.line(left_, top_, left_, bottom_, 1, grey);
}

void Plot::save(const std::filesystem::path& path) {
  draw_axes();
  tp::write_png(path, canvas_.image());
}

}  // namespace support

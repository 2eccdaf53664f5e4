// What the library does in destructors of static objects, in functions of `atexit` and in destructors of a thread's
// objects, where its own objects of the thread, and those that `main` made first, have been destroyed. Each part runs
// in `main` first, and must give the same text again.

#include <cstdlib>
#include <functional>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tapestry/tapestry.hpp"

namespace {

template <class T>
std::string text(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

/// A product that packs its operands, while blocks that the heap has given since hold something else.
std::string product(tp::DType dtype) {
  std::vector<std::vector<float>> others(2000, std::vector<float>(200, 7.0F));
  const std::string sum = text(tp::reduce_sum(tp::matmul(tp::ones({600, 600}, dtype), tp::ones({600, 600}, dtype))));
  for (const std::vector<float>& each : others)
    if (each != std::vector<float>(200, 7.0F)) return "another block was overwritten";
  return sum;
}

std::string of_default_graph() {
  const tp::Tensor p = tp::placeholder(tp::float32, {2});
  return text(tp::Session().run(p * 1.0 + 1.0, {{p, {1, 2}}}));
}

std::string of_scopes() {
  const tp::Graph graph;
  const auto open = graph.as_default();
  const auto named = tp::name_scope("name");
  const auto placed = tp::device("/cpu:0");
  const tp::Session session(graph);
  const auto by_default = session.as_default();
  const tp::Tensor p = tp::placeholder(tp::float32, {2}, "p");
  const auto after = tp::control_dependencies({p.op()});
  return (tp::tanh(p) * 2.0).name() + text((tp::tanh(p) * 2.0).eval({{p, {1, 2}}}));
}

/// More tapes than a thread's list of recorders holds without memory from the heap.
std::string of_tapes() {
  std::vector<tp::GradientTape> tapes(9);
  const tp::Variable w(2.0);
  tp::Tensor y = w * w * w;
  for (std::size_t i = tapes.size(); i-- > 6;) y = tapes[i].gradient(y, w);
  return text(y);
}

std::string of_functions() {
  const auto cube = [](const tp::Tensor& x) { return x * x * x; };
  return text(tp::vmap(tp::grad(cube))(tp::ones({3}))) +
         text(tp::trace(cube, {tp::spec(tp::float32, {2})})(tp::ones({2})));
}

std::string of_layer() {
  tp::nn::Dense layer(2, 3);
  try {
    layer(tp::ones({4, 5}));
  } catch (const tp::Error& error) {
    return error.message();
  }
  return "no error";
}

std::string of_ranks() {
  double sum = 0;
  tp::run_ranks(2, [&](const tp::Communicator& world) {
    const double all = world.all_reduce(tp::ones({})).item<double>();
    if (world.rank() == 0) sum = all + tp::Communicator::world().size();
  });
  return text(sum);
}

std::string rows_of_batches() {
  const tp::Variable table(tp::ones({5, 2}));
  tp::train::GradientDescentOptimizer optimizer(0.5);
  optimizer.minimize([&] { return tp::reduce_sum(tp::gather(table, {1, 3})); }, {table});
  return text(table.value());
}

const std::vector<std::pair<std::string, std::function<std::string()>>>& parts() {
  static const auto& list = *new std::vector<std::pair<std::string, std::function<std::string()>>>{
      {"float32 product", [] { return product(tp::float32); }},
      {"float64 product", [] { return product(tp::float64); }},
      {"default graph", of_default_graph},
      {"scopes", of_scopes},
      {"tapes", of_tapes},
      {"functions", of_functions},
      {"layer", of_layer},
      {"ranks", of_ranks},
      {"rows", rows_of_batches},
  };
  return list;
}

std::vector<std::string>& expected() {
  static auto& list = *new std::vector<std::string>;
  return list;
}

void again(const char* place) {
  for (std::size_t i = 0; i < parts().size(); ++i) {
    const auto& [name, part] = parts()[i];
    const std::string seen = part();
    if (seen == expected()[i]) continue;
    std::cout << place << ", " << name << ": " << seen << " instead of " << expected()[i] << std::endl;
    std::_Exit(1);
  }
}

/// A tape that is open when the program ends.
struct OpenTape {
  ~OpenTape() {
    if (tape->gradient(y, *w).item<double>() != 4) std::_Exit(2);
  }
  std::optional<tp::GradientTape> tape;
  std::optional<tp::Variable> w;
  tp::Tensor y;
} open_tape;

struct OfProgram {
  ~OfProgram() {
    again("static object");
    std::cout << "done" << std::endl;
  }
} of_program;

struct OfThread {
  ~OfThread() { again("thread_local object"); }
  int used = 0;
};

}  // namespace

int main() {
  for (const auto& [name, part] : parts()) expected().push_back(part());
  open_tape.w.emplace(2.0);
  open_tape.tape.emplace();
  open_tape.y = *open_tape.w * *open_tape.w;
  std::atexit([] { again("atexit"); });
  const auto use = [] {
    static thread_local OfThread own;  // made before the library's objects of the thread, and destroyed after them
    ++own.used;
    again("thread");
  };
  std::thread(use).join();
  std::cout << tp::detail::join("the product's sum is ", expected()[0], "\n");
}

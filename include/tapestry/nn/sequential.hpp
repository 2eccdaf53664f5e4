#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "tapestry/detail/function.hpp"
#include "tapestry/nn/layer.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// A module that is called with one tensor and returns one: a layer, or a module of one's own. (The concept does not
/// require that it can be copied: for Sequential itself, the answer would depend on this concept.)
template <class M>
concept OneToOne = std::derived_from<M, Module> && requires(const M& module, const Tensor& x) {
  { module(x) } -> std::convertible_to<Tensor>;
};

/// A function from one tensor to one tensor: a lambda, or an op such as `tp::relu`, whose last argument is a name. Ops
/// with options, such as `tp::gelu` or `tp::softmax`, are layers of their own, `GELU` and `Softmax`.
template <class F>
concept TensorToTensor = requires(const F& f, const Tensor& x) {
  { f(x) } -> std::convertible_to<Tensor>;
}
|| requires(const F& f, const Tensor& x) {
  { f(x, std::string_view()) } -> std::convertible_to<Tensor>;
};

/// A layer that applies a function of one tensor:
///
///     Sequential{Dense(2, 3), tp::relu, [](const tp::Tensor& x) { return x * 2.0; }}
///
/// Tensors that the function captures are not parameters, and copies of the layer share them.
class TAPESTRY_API Lambda : public Layer {
 public:
  /// A layer that applies f.
  template <TensorToTensor F>
  explicit Lambda(F f, Where where = Where::here()) {
    tapestry::detail::require_function(f, "Lambda", where);
    if constexpr (std::invocable<const F&, const Tensor&>) {
      f_ = std::move(f);
    } else {
      f_ = [f](const Tensor& x) { return f(x, std::string_view()); };
    }
  }

 private:
  Tensor forward(const Tensor& x) const override { return tapestry::detail::owned(f_)(x); }
  std::function<Tensor(const Tensor&)> f_;
};

/// Modules that are applied one after the other. Sequential holds them by value. Their names are their indices,
/// "0.weight", as in PyTorch.
///
///     tp::nn::Sequential net{tp::nn::Dense(784, 128), tp::nn::ReLU(), tp::nn::Dense(128, 10)};
///
/// A function of one tensor becomes a Lambda. An empty Sequential returns its argument. (A Sequential of one
/// Sequential, in braces or parentheses, is a copy of it.)
class TAPESTRY_API Sequential : public Layer {
 public:
  /// No modules yet.
  Sequential() = default;
  /// The given modules and functions, in order.
  template <class First, class... Rest>
  explicit Sequential(First first, Rest... rest) {
    add(std::move(first), Where());
    (add(std::move(rest), Where()), ...);
  }
  /// Copies the modules.
  Sequential(const Sequential& other);
  /// Takes the modules over.
  Sequential(Sequential&&) noexcept = default;
  /// Assigns module by module. A module of another class is replaced by a copy.
  Sequential& operator=(const Sequential& other);
  /// Takes the modules over.
  Sequential& operator=(Sequential&&) noexcept = default;

  /// Appends a module or a function.
  template <class M>
  Sequential& add(M module, Where where = Where::here()) {
    constexpr bool is_module = OneToOne<M>, is_function = !is_module && TensorToTensor<M>;
    static_assert(
        is_module || is_function,
        "A part of tp::nn::Sequential is a module or a function that makes one tp::Tensor of one: its call is "
        "tp::Tensor operator()(const tp::Tensor&) const.");
    if constexpr (is_module) {
      stages_.push_back(std::make_unique<StageOf<M>>(std::move(module)));
    } else if constexpr (is_function) {
      stages_.push_back(std::make_unique<StageOf<Lambda>>(Lambda(std::move(module), where)));
    }
    return *this;
  }
  /// The number of modules.
  std::size_t size() const { return stages_.size(); }
  /// The module at an index: `net.at<tp::nn::Dense>(0).weight`. Throws OutOfRangeError when there is none, and
  /// InvalidArgumentError when it is of another class.
  template <std::derived_from<Module> M>
  M& at(std::size_t place, Where where = Where::here()) {
    Module& module = module_at(place, where);
    M* found = dynamic_cast<M*>(&module);
    if (!found) refuse_type(place, module, where);
    return *found;
  }

  /// The modules, named "0", "1", ...
  Fields fields() override;

 private:
  /// A module of any class.
  struct Stage {
    virtual ~Stage() = default;
    virtual std::unique_ptr<Stage> copy() const = 0;
    /// Takes the other one's values, if it is of the same class.
    virtual bool assign(const Stage& other) = 0;
    virtual Module& module() = 0;
    virtual std::size_t bytes() const = 0;
    virtual Tensor call(const Tensor& x) const = 0;
  };
  template <class M>
  struct StageOf final : Stage {
    explicit StageOf(M m) : held(std::move(m)) {}
    std::unique_ptr<Stage> copy() const override { return std::make_unique<StageOf>(held); }
    bool assign(const Stage& other) override {
      const auto* same = dynamic_cast<const StageOf*>(&other);
      if (same) held = same->held;
      return same;
    }
    Module& module() override { return held; }
    std::size_t bytes() const override { return sizeof(M); }
    Tensor call(const Tensor& x) const override { return held(x); }
    M held;
  };

  Tensor forward(const Tensor& x) const override;
  Module& module_at(std::size_t place, Where where);
  [[noreturn]] static void refuse_type(std::size_t place, const Module& module, Where where);

  std::vector<std::unique_ptr<Stage>> stages_;
  NamedParts named_parts_{this};
};

/// @}

}  // namespace tapestry::nn

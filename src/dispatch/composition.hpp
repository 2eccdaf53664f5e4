#pragma once

#include <functional>

#include "tapestry/op.hpp"

namespace tapestry {

/// Throws InvalidArgumentError unless the results of one of the op's functions, such as "evaluate", have the dtypes and
/// shapes that `infer` told, as far as these are known.
void check_results(std::string_view function, const Tensors& results, const Specs& told);

using Composition = std::function<Tensors(const Call&)>;
/// The results of a composition in place of the call's op, from inputs like those of the call. Throws
/// InvalidArgumentError unless they are like the call's outputs.
Tensors compose(const Composition& composition, const Call& call, const Tensors& inputs);

/// While what an op is composed of does something in its place. Throws InvalidArgumentError where that never ends,
/// since the composition applies the op itself.
class Composing {
 public:
  explicit Composing(const Call& call) { begin(call); }
  Composing(const Composing&) = delete;
  Composing& operator=(const Composing&) = delete;
  ~Composing() { end(); }

 private:
  TAPESTRY_API static void begin(const Call& call);
  TAPESTRY_API static void end();
};

}  // namespace tapestry

#pragma once

#include "tapestry/train/optimizer.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// Names and default values are those of TensorFlow 1. v is the Variable, g its gradient, lr the learning rate; the
/// other letters are slots, which start at 0 except where noted. `weight_decay` is PyTorch's: weight_decay * v is added
/// to g. Where TensorFlow and PyTorch differ, the documentation says which one is followed. Options out of their range
/// throw InvalidArgumentError.
///
/// A row-sparse gradient (see `indexed_slices`) changes only its rows, in the Variable and in its slots, in a time that
/// does not depend on the other rows. Rows with the same index are summed first. "Exact" means that this equals the
/// step with the whole gradient; "lazy", that it does not, because there the other rows would change, too. A weight
/// decay is lazy with all of them. t counts all steps.
/// @{

/// The options of GradientDescentOptimizer.
struct GradientDescentOptions {
  double weight_decay = 0;  ///< PyTorch's, >= 0
};

/// v -= lr * g
///
/// Row-sparse gradients: exact without weight decay.
class TAPESTRY_API GradientDescentOptimizer final : public Optimizer {
 public:
  /// The learning rate is a number or a schedule.
  explicit GradientDescentOptimizer(const LearningRate& learning_rate, const GradientDescentOptions& options = {},
                                    Where where = Where::here());
};

/// The options of MomentumOptimizer.
struct MomentumOptions {
  bool use_nesterov = false;  ///< whether to use Nesterov's momentum
  double weight_decay = 0;    ///< PyTorch's, >= 0
};

/// m = momentum * m + g, then v -= lr * m, or with Nesterov's momentum v -= lr * (g + momentum * m). Slot: "momentum".
///
/// As in TensorFlow and PyTorch (without dampening). Sutskever et al. ("On the importance of initialization and
/// momentum in deep learning", 2013) have lr inside m, which differs only when the rate changes.
///
/// Row-sparse gradients: lazy, as in TensorFlow. m of the other rows does not decay, and does not move them.
class TAPESTRY_API MomentumOptimizer final : public Optimizer {
 public:
  /// The learning rate is a number or a schedule. A momentum of 0.9 is usual, and a negative one is an error.
  MomentumOptimizer(const LearningRate& learning_rate, double momentum, const MomentumOptions& options = {},
                    Where where = Where::here());
};

/// The options of AdamOptimizer.
struct AdamOptions {
  double beta1 = 0.9;       ///< decay of m, in [0, 1)
  double beta2 = 0.999;     ///< decay of s, in [0, 1)
  double epsilon = 1e-8;    ///< prevents division by 0
  double weight_decay = 0;  ///< PyTorch's, >= 0
};

/// m = beta1 * m + (1 - beta1) * g, s = beta2 * s + (1 - beta2) * g^2, and in step number t
/// v -= lr * (m / (1 - beta1^t)) / (sqrt(s / (1 - beta2^t)) + epsilon). Slots: "m", "v" (for s).
///
/// Algorithm 1 of D. Kingma, J. Ba, "Adam: a method for stochastic optimization", 2015, as in PyTorch. TensorFlow adds
/// epsilon to sqrt(s) before the correction by 1 - beta2^t, so that it has more effect in the first steps. t counts the
/// steps of the optimizer, as in TensorFlow, and not those of one Variable.
///
/// Row-sparse gradients: lazy, as in TensorFlow's LazyAdam and PyTorch's SparseAdam. m and s of the other rows do not
/// decay, and do not move them; AdamOptimizer of TensorFlow 1 changes all rows.
class TAPESTRY_API AdamOptimizer final : public Optimizer {
 public:
  /// The learning rate is a number or a schedule.
  explicit AdamOptimizer(const LearningRate& learning_rate = 0.001, const AdamOptions& options = {},
                         Where where = Where::here());
};

/// The options of AdamWOptimizer.
struct AdamWOptions {
  double beta1 = 0.9;          ///< decay of m, in [0, 1)
  double beta2 = 0.999;        ///< decay of s, in [0, 1)
  double epsilon = 1e-8;       ///< prevents division by 0
  double weight_decay = 0.01;  ///< decoupled, >= 0
};

/// v -= lr * weight_decay * v, then as in AdamOptimizer; the decay has no effect on m and s. Slots: "m", "v".
///
/// Algorithm 2 of I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", 2019, as in PyTorch (whose default
/// decay this is) and Keras: the decay is multiplied by the learning rate, and not only by its schedule.
///
/// Row-sparse gradients: lazy, as with AdamOptimizer. Only the rows of the gradient decay.
class TAPESTRY_API AdamWOptimizer final : public Optimizer {
 public:
  /// The learning rate is a number or a schedule.
  explicit AdamWOptimizer(const LearningRate& learning_rate = 0.001, const AdamWOptions& options = {},
                          Where where = Where::here());
};

/// The options of RMSPropOptimizer.
struct RMSPropOptions {
  double decay = 0.9;       ///< decay of s, in [0, 1)
  double momentum = 0;      ///< decay of m, >= 0
  double epsilon = 1e-10;   ///< prevents division by 0
  double weight_decay = 0;  ///< PyTorch's, >= 0
};

/// s = decay * s + (1 - decay) * g^2, m = momentum * m + lr * g / sqrt(s + epsilon), v -= m. Slots: "rms" (s, which
/// starts at 1), "momentum" (m).
///
/// T. Tieleman, G. Hinton, "Lecture 6.5: RMSProp", 2012, as in TensorFlow 1. PyTorch starts s at 0, adds epsilon (1e-8)
/// to the square root, and has decay 0.99, and lr outside m.
///
/// Row-sparse gradients: lazy, as in TensorFlow. s and m of the other rows do not decay, and do not move them.
class TAPESTRY_API RMSPropOptimizer final : public Optimizer {
 public:
  /// The learning rate is a number or a schedule.
  explicit RMSPropOptimizer(const LearningRate& learning_rate, const RMSPropOptions& options = {},
                            Where where = Where::here());
};

/// The options of AdagradOptimizer.
struct AdagradOptions {
  double initial_accumulator_value = 0.1;  ///< initial value of s, >= 0
  double epsilon = 1e-7;                   ///< prevents division by 0
  double weight_decay = 0;                 ///< PyTorch's, >= 0
};

/// s += g^2, v -= lr * g / (sqrt(s) + epsilon). Slot: "accumulator" (s, which starts at initial_accumulator_value).
///
/// J. Duchi, E. Hazan, Y. Singer, "Adaptive subgradient methods for online learning and stochastic optimization", 2011,
/// as in TensorFlow 2. TensorFlow 1 has no epsilon; PyTorch starts s at 0 and has epsilon 1e-10.
///
/// Row-sparse gradients: exact without weight decay.
class TAPESTRY_API AdagradOptimizer final : public Optimizer {
 public:
  /// The learning rate is a number or a schedule.
  explicit AdagradOptimizer(const LearningRate& learning_rate, const AdagradOptions& options = {},
                            Where where = Where::here());
};

/// @}

}  // namespace tapestry::train

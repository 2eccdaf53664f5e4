#pragma once

// Training: optimizers, learning-rate schedules, clipping of gradients, scaling of losses, averages of weights, and a
// loop with callbacks.
#include "tapestry/train/accumulation.hpp"
#include "tapestry/train/averages.hpp"
#include "tapestry/train/callbacks.hpp"
#include "tapestry/train/clip.hpp"
#include "tapestry/train/early_stopping.hpp"
#include "tapestry/train/fit.hpp"
#include "tapestry/train/groups.hpp"
#include "tapestry/train/lbfgs.hpp"
#include "tapestry/train/loss_scale.hpp"
#include "tapestry/train/optimizer.hpp"
#include "tapestry/train/optimizers.hpp"
#include "tapestry/train/schedules.hpp"

#pragma once

// Training: optimizers, learning-rate schedules, clipping of gradients, scaling of losses.
#include "tapestry/train/clip.hpp"
#include "tapestry/train/loss_scale.hpp"
#include "tapestry/train/optimizer.hpp"
#include "tapestry/train/optimizers.hpp"
#include "tapestry/train/schedules.hpp"

#pragma once

// Neural networks: modules, layers, initial values, losses.
#include "tapestry/nn/activations.hpp"
#include "tapestry/nn/attention.hpp"
#include "tapestry/nn/conv.hpp"
#include "tapestry/nn/dense.hpp"
#include "tapestry/nn/dropout.hpp"
#include "tapestry/nn/embedding.hpp"
#include "tapestry/nn/init.hpp"
#include "tapestry/nn/layer.hpp"
#include "tapestry/nn/losses.hpp"
#include "tapestry/nn/module.hpp"
#include "tapestry/nn/norm.hpp"
#include "tapestry/nn/parameter.hpp"
#include "tapestry/nn/recurrent.hpp"
#include "tapestry/nn/sequential.hpp"
#include "tapestry/nn/summary.hpp"

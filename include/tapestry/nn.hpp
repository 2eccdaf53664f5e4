#pragma once

// Neural networks: modules, layers, initial values.
#include "tapestry/nn/activations.hpp"
#include "tapestry/nn/dense.hpp"
#include "tapestry/nn/init.hpp"
#include "tapestry/nn/layer.hpp"
#include "tapestry/nn/module.hpp"
#include "tapestry/nn/parameter.hpp"
#include "tapestry/nn/sequential.hpp"
#include "tapestry/nn/summary.hpp"

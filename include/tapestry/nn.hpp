#pragma once

// Neural networks: modules, layers, initial values.
#include "tapestry/nn/module.hpp"
#include "tapestry/nn/parameter.hpp"

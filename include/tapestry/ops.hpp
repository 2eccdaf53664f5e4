#pragma once

// The vocabulary, by family. Every op takes an optional last argument, the name of its node in a graph, and remembers
// the place where it was called.
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/check.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/linalg.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"
#include "tapestry/ops/reduce.hpp"

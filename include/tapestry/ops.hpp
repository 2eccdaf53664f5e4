#pragma once

// All operations, by family. Each takes an optional last argument, the name of its node in a graph, and remembers its
// call site.
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/check.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/image.hpp"
#include "tapestry/ops/linalg.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"
#include "tapestry/ops/numeric.hpp"
#include "tapestry/ops/reduce.hpp"
#include "tapestry/ops/segment.hpp"
#include "tapestry/ops/selection.hpp"
#include "tapestry/ops/volume.hpp"

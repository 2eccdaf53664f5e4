#pragma once

// Everything but the xtensor bridge, which is <tapestry/xtensor.hpp>.
#include "tapestry/data.hpp"
#include "tapestry/device.hpp"
#include "tapestry/dtype.hpp"
#include "tapestry/error.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/numpy_legacy.hpp"
#include "tapestry/onnx.hpp"
#include "tapestry/op.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/plan.hpp"
#include "tapestry/png.hpp"
#include "tapestry/random.hpp"
#include "tapestry/saved_model.hpp"
#include "tapestry/session.hpp"
#include "tapestry/shape.hpp"
#include "tapestry/signature.hpp"
#include "tapestry/summary.hpp"
#include "tapestry/tape.hpp"
#include "tapestry/tensor.hpp"
#include "tapestry/trace.hpp"
#include "tapestry/train.hpp"
#include "tapestry/variable.hpp"

namespace tp = tapestry;

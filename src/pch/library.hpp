// The headers of most sources, compiled once. A source still includes what it uses: -Db_pch=false builds without this.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/ops.hpp"

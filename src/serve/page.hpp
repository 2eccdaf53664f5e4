#pragma once

#include <string_view>

#include "serve/metrics.hpp"
#include "serve/rest.hpp"

namespace tapestry::serve {

/// The page that shows the models.
std::string_view page();

/// The answer to what the page asks below /page/: "models", "metrics" and "graph/NAME/VERSION/SIGNATURE".
Answer page_answer(std::string_view path, const ModelStore& models, const Metrics& metrics);

}  // namespace tapestry::serve

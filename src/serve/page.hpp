#pragma once

#include <string_view>

namespace tapestry::serve {

/// The page that shows the models.
std::string_view page();

}  // namespace tapestry::serve

#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tapestry/summary.hpp"

namespace tapestry::summary {

/// Decodes a message of event.proto. `plugins`: by tag, for values that do not say which plugin shows them; only the
/// first value of a tag need do so. Throws DataLossError when the bytes are not an Event, InvalidArgumentError for a
/// tensor that cannot exist. Takes memory in proportion to the bytes.
Event decode_event(std::string_view bytes, const std::map<std::string, std::string>& plugins);

}  // namespace tapestry::summary

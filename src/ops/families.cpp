#include "dispatch/define.hpp"

namespace tapestry::detail {

void link_op_families() {
#define TAPESTRY_FAMILY(name) \
  void link_##name();         \
  link_##name();
#include "op_families.inc"
#undef TAPESTRY_FAMILY
}

}  // namespace tapestry::detail

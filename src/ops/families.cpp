#include "dispatch/define.hpp"

namespace tapestry::detail {

void link_op_families() {
#define FAMILY(name)  \
  void link_##name(); \
  link_##name();
#include "op_families.inc"
#undef FAMILY
}

}  // namespace tapestry::detail

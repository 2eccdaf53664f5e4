#include "dispatch/define.hpp"

namespace tapestry::detail {

// Each file of op definitions defines one of these empty functions. A reference to it makes the linker take the file.
void link_activation();
void link_array_extend();
void link_array_index();
void link_array_join();
void link_array_movement();
void link_bias();
void link_check();
void link_compare();
void link_conv();
void link_creation();
void link_gather();
void link_like();
void link_linalg();
void link_loss();
void link_math_binary();
void link_math_unary();
void link_matmul();
void link_normalization();
void link_pool();
void link_random();
void link_reduce();
void link_scan();
void link_softmax();

void link_op_families() {
  link_activation();
  link_array_extend();
  link_array_index();
  link_array_join();
  link_array_movement();
  link_bias();
  link_check();
  link_compare();
  link_conv();
  link_creation();
  link_gather();
  link_like();
  link_linalg();
  link_loss();
  link_math_binary();
  link_math_unary();
  link_matmul();
  link_normalization();
  link_pool();
  link_random();
  link_reduce();
  link_scan();
  link_softmax();
}

}  // namespace tapestry::detail

// The same as hello_tapestry.cpp.
#include <iostream>

#include <torch/torch.h>

int main() {
  const torch::Tensor x = torch::tensor({1.0F, 2.0F, 3.0F}).set_requires_grad(true);
  (x * x).sum().backward();
  std::cout << x.grad() << '\n';
}

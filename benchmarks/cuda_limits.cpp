// The limits of a GPU: the bandwidth of its memory, and the time of float32 matrix products by cuBLAS, called directly.
// Prints JSON.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "cuda_limits: %s\n", cudaGetErrorString(error));
  std::exit(1);
}
void check(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "cuda_limits: %s\n", cublasGetStatusString(status));
  std::exit(1);
}

/// Seconds of one run: the median of several series.
template <class Run>
double seconds(const Run& run, int runs) {
  cudaEvent_t start, end;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&end));
  for (int i = 0; i < 3; ++i) run();
  std::vector<float> milliseconds(9);
  for (float& time : milliseconds) {
    check(cudaEventRecord(start));
    for (int i = 0; i < runs; ++i) run();
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    check(cudaEventElapsedTime(&time, start, end));
  }
  std::nth_element(milliseconds.begin(), milliseconds.begin() + 4, milliseconds.end());
  return milliseconds[4] * 1e-3 / runs;
}

float* memory(std::size_t count) {
  void* data = nullptr;
  check(cudaMalloc(&data, count * sizeof(float)));
  // The numbers are not 0, because a product of zeros is faster than one of data.
  const std::vector<float> values(count, 0.37F);
  check(cudaMemcpy(data, values.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  return static_cast<float*>(data);
}

/// Bytes that a copy within the memory reads and writes in a second.
double copy_bandwidth() {
  constexpr std::size_t count = std::size_t{1} << 28;
  float *from = memory(count), *to = memory(count);
  const double time =
      seconds([&] { check(cudaMemcpyAsync(to, from, count * sizeof(float), cudaMemcpyDeviceToDevice)); }, 10);
  check(cudaFree(from));
  check(cudaFree(to));
  return 2.0 * count * sizeof(float) / time;
}

double product(cublasHandle_t handle, int n) {
  const std::size_t count = static_cast<std::size_t>(n) * static_cast<std::size_t>(n);
  float *a = memory(count), *b = memory(count), *c = memory(count);
  const float one = 1, zero = 0;
  const double time = seconds(
      [&] { check(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n)); }, 10);
  for (float* each : {a, b, c}) check(cudaFree(each));
  return time;
}

}  // namespace

int main() {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  cublasHandle_t handle;
  check(cublasCreate(&handle));
  std::printf("{\"device\": \"%s\", \"copy_bytes_per_second\": %.4g", properties.name, copy_bandwidth());
  for (const int n : {1024, 4096}) std::printf(", \"m/product_%d\": %.4g", n, product(handle, n));
  std::printf("}\n");
}

// cuDNN's convolutions by their definition, as the plugin uses them: NHWC images, OHWI filters, float32 and half types.
// It refuses what the library refuses, or would read as something else than was meant.

#include "backend/cuda/cudnn.hpp"

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "cuda_runtime.h"
#include "rounding.hpp"
#include "tapestry/float16.hpp"

namespace tapestry::gpu {

struct CudnnContext {
  CUstream_st* stream = nullptr;
};
struct CudnnDescription {
  enum class Kind { tensor, filter, convolution } kind;
  bool is_set = false;
  int type = cudnn_float;
  std::int64_t batch = 0, channels = 0, height = 0, width = 0;  ///< of a filter: outputs and inputs of a group first
  std::int64_t pad_y = 0, pad_x = 0, stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1, groups = 1;
  int math = cudnn_default_math;

  std::int64_t size() const { return batch * channels * height * width; }
};

namespace {

using Kind = CudnnDescription::Kind;
using Descriptor = CudnnDescriptor;

constexpr int bad_parameter = 2000, not_supported = 3000;

int create(Kind kind, Descriptor* descriptor) {
  *descriptor = new CudnnDescription{.kind = kind};
  return cudnn_success;
}
int destroy(Kind kind, Descriptor descriptor) {
  if (!descriptor || descriptor->kind != kind) return bad_parameter;
  delete descriptor;
  return cudnn_success;
}
int set_sizes(Kind kind, Descriptor descriptor, int format, int type, int batch, int channels, int height, int width) {
  if (!descriptor || descriptor->kind != kind || format != cudnn_nhwc) return bad_parameter;
  if (type != cudnn_float && type != cudnn_half && type != cudnn_bfloat16) return bad_parameter;
  if (batch < 1 || channels < 1 || height < 1 || width < 1) return bad_parameter;
  descriptor->type = type;
  descriptor->batch = batch;
  descriptor->channels = channels;
  descriptor->height = height;
  descriptor->width = width;
  descriptor->is_set = descriptor->size() <= std::numeric_limits<int>::max();
  return descriptor->is_set ? cudnn_success : not_supported;
}

/// A convolution y of x and a filter, whichever of the three is the result.
struct Sizes {
  CudnnDescription x, filter, convolution, y;

  bool fit() const {
    for (const CudnnDescription* each : {&x, &filter, &convolution, &y})
      if (!each->is_set) return false;
    if (x.type != y.type || x.type != filter.type) return false;
    if ((x.type == cudnn_float) != (convolution.math != cudnn_tensor_math)) return false;
    const CudnnDescription& c = convolution;
    const auto positions = [](std::int64_t size, std::int64_t pad, std::int64_t window, std::int64_t dilation,
                              std::int64_t stride) {
      return (size + 2 * pad - (window - 1) * dilation - 1) / stride + 1;
    };
    return x.kind == Kind::tensor && y.kind == Kind::tensor && filter.kind == Kind::filter &&
           c.kind == Kind::convolution && x.batch == y.batch && x.channels == filter.channels * c.groups &&
           filter.batch == y.channels && y.channels % c.groups == 0 &&
           y.height == positions(x.height, c.pad_y, filter.height, c.dilation_y, c.stride_y) &&
           y.width == positions(x.width, c.pad_x, filter.width, c.dilation_x, c.stride_x);
  }

  /// body(element of x, of the filter, of y) for all products that the convolution is the sum of.
  template <class Body>
  void for_each_product(const Body& body) const {
    const CudnnDescription& c = convolution;
    const std::int64_t group_out = y.channels / c.groups;
    for (std::int64_t i = 0; i < y.size(); ++i) {
      const std::int64_t out = i % y.channels, column = i / y.channels % y.width,
                         row = i / y.channels / y.width % y.height;
      const std::int64_t image = i / y.channels / y.width / y.height;
      for (std::int64_t j = 0; j < filter.size() / filter.batch; ++j) {
        const std::int64_t in = j % filter.channels, kx = j / filter.channels % filter.width,
                           ky = j / filter.channels / filter.width;
        const std::int64_t from_y = row * c.stride_y - c.pad_y + ky * c.dilation_y,
                           from_x = column * c.stride_x - c.pad_x + kx * c.dilation_x;
        if (from_y < 0 || from_y >= x.height || from_x < 0 || from_x >= x.width) continue;
        const std::int64_t channel = out / group_out * filter.channels + in;
        body(((image * x.height + from_y) * x.width + from_x) * x.channels + channel,
             out * (filter.size() / filter.batch) + j, i);
      }
    }
  }
};

/// What there is to choose from: a number, and what is told about it.
constexpr int unsupported = 7, random = 0, greedy = 1, good = 6;
constexpr std::size_t workspace_bytes = 4096;

int choose(const Sizes& sizes, int wanted, int* found, CudnnAlgorithm* algorithms) {
  *found = 0;
  if (!sizes.fit() || wanted < 1) return bad_parameter;
  const int math = sizes.convolution.math;
  // Of groups with three channels each it knows nothing.
  if (sizes.convolution.groups > 1 && sizes.filter.channels == 3) return not_supported;
  const CudnnAlgorithm all[] = {{unsupported, not_supported, -1, 0, cudnn_deterministic, math, {}},
                                {random, cudnn_success, 1, 0, 0, math, {}},
                                {greedy, cudnn_success, 2, std::size_t{1} << 40, cudnn_deterministic, math, {}},
                                {good, cudnn_success, 3, workspace_bytes, cudnn_deterministic, math, {}}};
  for (const CudnnAlgorithm& each : all)
    if (*found < wanted) algorithms[(*found)++] = each;
  return cudnn_success;
}

int workspace(const Sizes& sizes, int algorithm, std::size_t* bytes) {
  if (!sizes.fit()) return bad_parameter;
  if (algorithm == unsupported) return not_supported;
  *bytes = algorithm == greedy ? std::size_t{1} << 40 : algorithm == good ? workspace_bytes : 0;
  return cudnn_success;
}

/// What a call is about: two operands, and the result in place of the third part of the convolution, which is null.
struct Run {
  const void* x;
  const void* filter;
  const void* y;
  void* result;
};

template <class T>
void compute(const Sizes& sizes, const Run& run) {
  const auto *x = static_cast<const T*>(run.x), *filter = static_cast<const T*>(run.filter),
             *y = static_cast<const T*>(run.y);
  const bool rounds = sizes.convolution.math == cudnn_default_math;
  const auto read = [&](T value) { return rounds ? emulator::rounded(value, 10) : static_cast<double>(value); };
  const std::int64_t size = !y ? sizes.y.size() : !x ? sizes.x.size() : sizes.filter.size();
  std::vector<double> sums(static_cast<std::size_t>(size));
  sizes.for_each_product([&](std::int64_t i, std::int64_t j, std::int64_t k) {
    if (!y)
      sums[static_cast<std::size_t>(k)] += read(x[i]) * read(filter[j]);
    else if (!x)
      sums[static_cast<std::size_t>(i)] += read(y[k]) * read(filter[j]);
    else
      sums[static_cast<std::size_t>(j)] += read(x[i]) * read(y[k]);
  });
  for (std::size_t i = 0; i < sums.size(); ++i) static_cast<T*>(run.result)[i] = static_cast<T>(sums[i]);
}

int run(const char* name, CudnnHandle handle, const Sizes& sizes, const Run& data, const void* alpha, const void* beta,
        int algorithm, void* space, std::size_t bytes) {
  if (!handle || !handle->stream || !sizes.fit() || !data.result) return bad_parameter;
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0) return bad_parameter;
  if (algorithm != good || bytes < workspace_bytes || reinterpret_cast<std::uintptr_t>(space) % 16 != 0)
    return bad_parameter;
  // What is dilated and has a stride, too, turns out to be too much.
  if (sizes.convolution.dilation_y > 1 && sizes.convolution.stride_y > 1) return not_supported;
  emulator::launch(name, {1, 1, 0, handle->stream}, [&] {
    return [=] {
      std::memset(space, 0xff, bytes);
      (sizes.x.type == cudnn_half       ? compute<float16_t>
       : sizes.x.type == cudnn_bfloat16 ? compute<bfloat16_t>
                                        : compute<float>)(sizes, data);
    };
  });
  return cudnn_success;
}

}  // namespace
}  // namespace tapestry::gpu

using namespace tapestry::gpu;  // NOLINT(google-build-using-namespace): what follows is cuDNN's

// NOLINTBEGIN(readability-identifier-naming): cuDNN's names
extern "C" {

std::size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(int status) {
  return status == not_supported ? "CUDNN_STATUS_NOT_SUPPORTED"
         : status == 0           ? "CUDNN_STATUS_SUCCESS"
                                 : "CUDNN_STATUS_BAD_PARAM";
}

int cudnnCreate(CudnnHandle* handle) {
  if (std::getenv("EMULATED_CUDNN_FAILS")) return not_supported;
  *handle = new CudnnContext;
  return cudnn_success;
}
int cudnnSetStream(CudnnHandle handle, CUstream_st* stream) {
  handle->stream = stream;
  return cudnn_success;
}

int cudnnCreateTensorDescriptor(Descriptor* descriptor) { return create(Kind::tensor, descriptor); }
int cudnnDestroyTensorDescriptor(Descriptor descriptor) { return destroy(Kind::tensor, descriptor); }
int cudnnSetTensor4dDescriptor(Descriptor descriptor, int format, int type, int n, int c, int h, int w) {
  return set_sizes(Kind::tensor, descriptor, format, type, n, c, h, w);
}
int cudnnCreateFilterDescriptor(Descriptor* descriptor) { return create(Kind::filter, descriptor); }
int cudnnDestroyFilterDescriptor(Descriptor descriptor) { return destroy(Kind::filter, descriptor); }
int cudnnSetFilter4dDescriptor(Descriptor descriptor, int type, int format, int k, int c, int h, int w) {
  return set_sizes(Kind::filter, descriptor, format, type, k, c, h, w);
}

int cudnnCreateConvolutionDescriptor(Descriptor* descriptor) { return create(Kind::convolution, descriptor); }
int cudnnDestroyConvolutionDescriptor(Descriptor descriptor) { return destroy(Kind::convolution, descriptor); }
int cudnnSetConvolution2dDescriptor(Descriptor descriptor, int pad_y, int pad_x, int stride_y, int stride_x,
                                    int dilation_y, int dilation_x, int mode, int type) {
  if (!descriptor || descriptor->kind != Kind::convolution || pad_y < 0 || pad_x < 0 || stride_y < 1 || stride_x < 1)
    return bad_parameter;
  if (dilation_y < 1 || dilation_x < 1 || mode != cudnn_cross_correlation || type != cudnn_float) return bad_parameter;
  descriptor->pad_y = pad_y;
  descriptor->pad_x = pad_x;
  descriptor->stride_y = stride_y;
  descriptor->stride_x = stride_x;
  descriptor->dilation_y = dilation_y;
  descriptor->dilation_x = dilation_x;
  descriptor->is_set = true;
  return cudnn_success;
}
int cudnnSetConvolutionGroupCount(Descriptor descriptor, int groups) {
  if (groups < 1) return bad_parameter;
  descriptor->groups = groups;
  return cudnn_success;
}
int cudnnSetConvolutionMathType(Descriptor descriptor, int math) {
  if (math != cudnn_default_math && math != cudnn_tensor_math && math != cudnn_fma_math) return bad_parameter;
  descriptor->math = math;
  return cudnn_success;
}

int cudnnGetConvolutionForwardAlgorithm_v7(CudnnHandle, Descriptor x, Descriptor filter, Descriptor convolution,
                                           Descriptor y, int wanted, int* found, CudnnAlgorithm* algorithms) {
  return choose({*x, *filter, *convolution, *y}, wanted, found, algorithms);
}
int cudnnGetConvolutionForwardWorkspaceSize(CudnnHandle, Descriptor x, Descriptor filter, Descriptor convolution,
                                            Descriptor y, int algorithm, std::size_t* bytes) {
  return workspace({*x, *filter, *convolution, *y}, algorithm, bytes);
}
int cudnnConvolutionForward(CudnnHandle handle, const void* alpha, Descriptor x, const void* x_data, Descriptor filter,
                            const void* filter_data, Descriptor convolution, int algorithm, void* space,
                            std::size_t bytes, const void* beta, Descriptor y, void* y_data) {
  return run("cudnnConvolutionForward", handle, {*x, *filter, *convolution, *y}, {x_data, filter_data, nullptr, y_data},
             alpha, beta, algorithm, space, bytes);
}

int cudnnGetConvolutionBackwardDataAlgorithm_v7(CudnnHandle, Descriptor filter, Descriptor y, Descriptor convolution,
                                                Descriptor x, int wanted, int* found, CudnnAlgorithm* algorithms) {
  return choose({*x, *filter, *convolution, *y}, wanted, found, algorithms);
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(CudnnHandle, Descriptor filter, Descriptor y, Descriptor convolution,
                                                 Descriptor x, int algorithm, std::size_t* bytes) {
  return workspace({*x, *filter, *convolution, *y}, algorithm, bytes);
}
int cudnnConvolutionBackwardData(CudnnHandle handle, const void* alpha, Descriptor filter, const void* filter_data,
                                 Descriptor y, const void* y_data, Descriptor convolution, int algorithm, void* space,
                                 std::size_t bytes, const void* beta, Descriptor x, void* x_data) {
  return run("cudnnConvolutionBackwardData", handle, {*x, *filter, *convolution, *y},
             {nullptr, filter_data, y_data, x_data}, alpha, beta, algorithm, space, bytes);
}

int cudnnGetConvolutionBackwardFilterAlgorithm_v7(CudnnHandle, Descriptor x, Descriptor y, Descriptor convolution,
                                                  Descriptor filter, int wanted, int* found,
                                                  CudnnAlgorithm* algorithms) {
  return choose({*x, *filter, *convolution, *y}, wanted, found, algorithms);
}
int cudnnGetConvolutionBackwardFilterWorkspaceSize(CudnnHandle, Descriptor x, Descriptor y, Descriptor convolution,
                                                   Descriptor filter, int algorithm, std::size_t* bytes) {
  return workspace({*x, *filter, *convolution, *y}, algorithm, bytes);
}
int cudnnConvolutionBackwardFilter(CudnnHandle handle, const void* alpha, Descriptor x, const void* x_data,
                                   Descriptor y, const void* y_data, Descriptor convolution, int algorithm, void* space,
                                   std::size_t bytes, const void* beta, Descriptor filter, void* filter_data) {
  return run("cudnnConvolutionBackwardFilter", handle, {*x, *filter, *convolution, *y},
             {x_data, nullptr, y_data, filter_data}, alpha, beta, algorithm, space, bytes);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)

#define TAPESTRY_SAME_TYPE(member, name) static_assert(std::is_same_v<decltype(Cudnn{}.member), decltype(&(name))>);
TAPESTRY_CUDNN(TAPESTRY_SAME_TYPE)

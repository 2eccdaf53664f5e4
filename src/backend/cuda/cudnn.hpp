#pragma once

#include <cstddef>
#include <string>

struct CUstream_st;

namespace tapestry::gpu {

// The functions and numbers of cuDNN 9 that the plugin uses. They are declared here, so that a build without cuDNN's
// headers can use the library where it is installed. The tests compare them with the headers where they find them.

using CudnnHandle = struct CudnnContext*;
/// Describes a tensor, a filter or a convolution.
using CudnnDescriptor = struct CudnnDescription*;

inline constexpr int cudnn_success = 0, cudnn_float = 0, cudnn_half = 2, cudnn_bfloat16 = 9, cudnn_nhwc = 1,
                     cudnn_cross_correlation = 1, cudnn_deterministic = 1, cudnn_default_math = 0,
                     cudnn_tensor_math = 1, cudnn_fma_math = 3;
/// The thousands of a status are its category: 3000 to 3999 mean that something is not supported.
constexpr bool is_unsupported(int cudnn_status) { return cudnn_status / 1000 == 3; }

/// An algorithm for a convolution, and what cuDNN reports about it.
struct CudnnAlgorithm {
  int number, status;
  float time;
  std::size_t workspace;
  int determinism, math;
  int reserved[3];
};

/// The functions of a convolution or one of its gradients: a result of two operands. They return a status.
struct CudnnConvolution {
  int (*choose)(CudnnHandle, CudnnDescriptor first, CudnnDescriptor second, CudnnDescriptor convolution,
                CudnnDescriptor result, int wanted, int* found, CudnnAlgorithm*);
  int (*workspace)(CudnnHandle, CudnnDescriptor first, CudnnDescriptor second, CudnnDescriptor convolution,
                   CudnnDescriptor result, int algorithm, std::size_t* bytes);
  int (*run)(CudnnHandle, const void* alpha, CudnnDescriptor first, const void* first_data, CudnnDescriptor second,
             const void* second_data, CudnnDescriptor convolution, int algorithm, void* workspace, std::size_t bytes,
             const void* beta, CudnnDescriptor result, void* result_data);
};

struct Cudnn {
  std::size_t (*version)();
  const char* (*status_string)(int status);
  int (*create)(CudnnHandle*);
  int (*set_stream)(CudnnHandle, CUstream_st*);
  int (*create_tensor)(CudnnDescriptor*);
  int (*set_tensor)(CudnnDescriptor, int format, int type, int batch, int channels, int height, int width);
  int (*destroy_tensor)(CudnnDescriptor);
  int (*create_filter)(CudnnDescriptor*);
  int (*set_filter)(CudnnDescriptor, int type, int format, int out, int in, int height, int width);
  int (*destroy_filter)(CudnnDescriptor);
  int (*create_convolution)(CudnnDescriptor*);
  int (*set_convolution)(CudnnDescriptor, int pad_y, int pad_x, int stride_y, int stride_x, int dilation_y,
                         int dilation_x, int mode, int type);
  int (*set_groups)(CudnnDescriptor, int groups);
  int (*set_math)(CudnnDescriptor, int math);
  int (*destroy_convolution)(CudnnDescriptor);
  CudnnConvolution forward;          ///< y from x and the filter
  CudnnConvolution input_gradient;   ///< dx from the filter and dy
  CudnnConvolution filter_gradient;  ///< the filter's gradient from x and dy
};

/// X(member of Cudnn, name in the library)
#define TAPESTRY_CUDNN(X)                                                      \
  X(version, cudnnGetVersion)                                                  \
  X(status_string, cudnnGetErrorString)                                        \
  X(create, cudnnCreate)                                                       \
  X(set_stream, cudnnSetStream)                                                \
  X(create_tensor, cudnnCreateTensorDescriptor)                                \
  X(set_tensor, cudnnSetTensor4dDescriptor)                                    \
  X(destroy_tensor, cudnnDestroyTensorDescriptor)                              \
  X(create_filter, cudnnCreateFilterDescriptor)                                \
  X(set_filter, cudnnSetFilter4dDescriptor)                                    \
  X(destroy_filter, cudnnDestroyFilterDescriptor)                              \
  X(create_convolution, cudnnCreateConvolutionDescriptor)                      \
  X(set_convolution, cudnnSetConvolution2dDescriptor)                          \
  X(set_groups, cudnnSetConvolutionGroupCount)                                 \
  X(set_math, cudnnSetConvolutionMathType)                                     \
  X(destroy_convolution, cudnnDestroyConvolutionDescriptor)                    \
  X(forward.choose, cudnnGetConvolutionForwardAlgorithm_v7)                    \
  X(forward.workspace, cudnnGetConvolutionForwardWorkspaceSize)                \
  X(forward.run, cudnnConvolutionForward)                                      \
  X(input_gradient.choose, cudnnGetConvolutionBackwardDataAlgorithm_v7)        \
  X(input_gradient.workspace, cudnnGetConvolutionBackwardDataWorkspaceSize)    \
  X(input_gradient.run, cudnnConvolutionBackwardData)                          \
  X(filter_gradient.choose, cudnnGetConvolutionBackwardFilterAlgorithm_v7)     \
  X(filter_gradient.workspace, cudnnGetConvolutionBackwardFilterWorkspaceSize) \
  X(filter_gradient.run, cudnnConvolutionBackwardFilter)

/// The library, opened at the first call; null if it is not installed, does not start, or TAPESTRY_CUDNN is 0.
const Cudnn* cudnn();
/// Stops the use of the library from now on; `convolutions_by` tells the reason.
void disable_cudnn(const std::string& reason);
/// "convolutions by cuDNN 9.19.0", or "convolutions by Tapestry's own kernels: " and the reason.
std::string convolutions_by();

}  // namespace tapestry::gpu

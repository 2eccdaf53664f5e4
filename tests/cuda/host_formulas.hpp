#pragma once

// The element functions of the CUDA kernels, compiled by nvcc for the host.

#include "backend/cuda/kernels/kernel.hpp"
#include "backend/cuda/kernels/random.hpp"
#include "backend/functors.hpp"

namespace tapestry::gpu {

/// y[i] = f(a[i], b[i], c[i]; p) for i < n; null where there is no such function.
using HostLoop = void (*)(const void* a, const void* b, const void* c, void* y, std::int64_t n, double p);
HostLoop host_unary(Unary f, Type type);
HostLoop host_binary(Binary f, Type type);
HostLoop host_ternary(Ternary f, Type type);
HostLoop host_convert(Type from, Type to);

/// As random_floats and random_whole.
void host_floats(Type type, RandomKind kind, std::uint64_t key, std::uint64_t counter, double a, double b, double top,
                 void* y, std::int64_t n);
void host_whole(Type type, std::uint64_t key, std::uint64_t counter, std::int64_t a, std::uint64_t range, void* y,
                std::int64_t n);

}  // namespace tapestry::gpu

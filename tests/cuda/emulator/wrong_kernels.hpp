#pragma once

struct CUstream_st;

/// Kernels with the faults that the emulator has to see, and one without. They work on a block of 64 threads, or
/// `threads`.
namespace emulator::test {

void start_right(CUstream_st* stream, int* sums);
void start_leaving(CUstream_st* stream);
void start_divergent(CUstream_st* stream);
void start_branches(CUstream_st* stream);
void start_lonely_shuffle(CUstream_st* stream);
void start_short_warp(CUstream_st* stream);
/// Adds 1 to data[at], and has no fault either.
void start_adding(CUstream_st* stream, int* data, int at);
void start_beyond(CUstream_st* stream, int* data, int count);
void start_racing(CUstream_st* stream, int* data);
void start_forgetful(CUstream_st* stream, int* data);
void start_shared(CUstream_st* stream);
void start_bounded(CUstream_st* stream, unsigned threads);
void start_grid(CUstream_st* stream, unsigned x, unsigned y, unsigned threads);

}  // namespace emulator::test

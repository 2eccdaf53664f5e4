#include "io/deflate.hpp"

#include <algorithm>
#include <array>
#include <new>

#include <zlib.h>

namespace tapestry::io {
namespace {

z_stream& state_of(const auto& pointer) { return *static_cast<z_stream*>(pointer.get()); }

/// zlib's number for a wrapping.
int window_bits(Wrapping wrapping) {
  if (wrapping == Wrapping::bare) return -MAX_WBITS;
  return wrapping == Wrapping::zlib ? MAX_WBITS : MAX_WBITS + 16;
}

}  // namespace

void Deflater::Close::operator()(void* state) const {
  deflateEnd(static_cast<z_stream*>(state));
  delete static_cast<z_stream*>(state);
}

Deflater::Deflater(Wrapping wrapping, std::function<void(Chunk)> write)
    : write_(std::move(write)), state_(new z_stream{}) {
  constexpr int usual_memory_level = 8;
  if (deflateInit2(&state_of(state_), Z_DEFAULT_COMPRESSION, Z_DEFLATED, window_bits(wrapping), usual_memory_level,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
}

void Deflater::run(Chunk bytes, int flush) {
  z_stream& state = state_of(state_);
  state.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  state.avail_in = static_cast<uInt>(bytes.size());
  do {
    std::array<std::byte, 1 << 14> packed;
    state.next_out = reinterpret_cast<Bytef*>(packed.data());
    state.avail_out = packed.size();
    deflate(&state, flush);
    write_(Chunk(packed).first(packed.size() - state.avail_out));
  } while (state.avail_out == 0);
}

void Deflater::add(Chunk bytes) {
  constexpr std::size_t most = 1 << 30;  // zlib counts in 32 bits
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), most)))
    run(bytes.first(std::min(bytes.size(), most)), Z_NO_FLUSH);
}

void Deflater::end() { run({}, Z_FINISH); }

void Inflater::Close::operator()(void* state) const {
  inflateEnd(static_cast<z_stream*>(state));
  delete static_cast<z_stream*>(state);
}

Inflater::Inflater(ByteStream& packed, Wrapping wrapping) : packed_(packed), state_(new z_stream{}), piece_(1 << 16) {
  if (inflateInit2(&state_of(state_), window_bits(wrapping)) != Z_OK) throw std::bad_alloc();
}

/// Whether there are packed bytes to go on with.
bool Inflater::fill() {
  z_stream& state = state_of(state_);
  if (state.avail_in > 0) return true;
  state.next_in = reinterpret_cast<Bytef*>(piece_.data());
  state.avail_in = static_cast<uInt>(packed_.read(piece_));
  return state.avail_in > 0;
}

std::size_t Inflater::read(std::span<std::byte> bytes) {
  z_stream& state = state_of(state_);
  std::size_t done = 0;
  while (done < bytes.size() && !ended_) {
    fill();
    const auto room = static_cast<uInt>(std::min<std::size_t>(bytes.size() - done, 1U << 30));
    state.next_out = reinterpret_cast<Bytef*>(bytes.data() + done);
    state.avail_out = room;
    const int result = ::inflate(&state, Z_NO_FLUSH);
    done += room - state.avail_out;
    if (result == Z_STREAM_END) {
      ended_ = true;
    } else if (result == Z_BUF_ERROR) {
      break;  // no more input
    } else if (result != Z_OK && done > 0) {
      break;  // zlib says the same to the next call
    } else if (result != Z_OK) {
      refuse(packed_, " is damaged: its packed data make no sense");
    }
  }
  return done;
}

bool Inflater::next_member() {
  if (!fill()) return false;
  inflateReset(&state_of(state_));
  ended_ = false;
  return true;
}

std::size_t InflatedFile::read(std::span<std::byte> bytes) {
  while (true) {
    if (const std::size_t done = inflater_.read(bytes); done > 0 || bytes.empty()) return done;
    if (!inflater_.ended()) refuse(packed_, " is damaged: its packed data stop early");
    if (!inflater_.next_member()) return 0;
    if (wrapping_ != Wrapping::gzip) refuse(packed_, " is damaged: there are bytes behind its packed data");
  }
}

}  // namespace tapestry::io

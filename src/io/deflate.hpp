#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "io/file.hpp"

namespace tapestry::io {

/// What lies around deflated data.
enum class Wrapping { bare, zlib, gzip };

/// Deflate packs at most 258 bytes into two bits: 1032 to 1.
inline constexpr std::int64_t most_unpacked = 1032;

/// Packs bytes.
class Deflater {
 public:
  /// `write` takes the packed bytes, as soon as there are some.
  Deflater(Wrapping wrapping, std::function<void(Chunk)> write);

  void add(Chunk bytes);
  /// Ends the data; nothing may be added then.
  void end();

 private:
  struct Close {
    void operator()(void* state) const;
  };

  void run(Chunk bytes, int flush);

  std::function<void(Chunk)> write_;
  std::unique_ptr<void, Close> state_;  ///< zlib's z_stream
};

/// Unpacks the deflated data of a stream, which must outlive it.
class TAPESTRY_API Inflater {
 public:
  Inflater(ByteStream& packed, Wrapping wrapping);

  /// Fills `bytes`, or less where the data end, stop early or make no sense. Throws DataLossError when they make no
  /// sense from the first byte on, so that what comes before a damage is not lost.
  std::size_t read(std::span<std::byte> bytes);
  /// Whether the end of the data has been read.
  bool ended() const { return ended_; }
  /// Goes on with further data behind the end, as in a file of several gzip streams; false if there are none.
  bool next_member();

 private:
  struct Close {
    void operator()(void* state) const;
  };

  bool fill();

  ByteStream& packed_;
  std::unique_ptr<void, Close> state_;  ///< zlib's z_stream
  std::vector<std::byte> piece_;
  bool ended_ = false;
};

/// A whole file that is unpacked while it is read. A gzip file may consist of several streams. A call of `read` may
/// also fill less than there is room for where one of them ends, and before a damage, which the next call throws: then
/// the sound bytes before it, such as records with checksums of their own, are not lost.
class InflatedFile final : public ByteStream {
 public:
  InflatedFile(const SourceFile& file, Wrapping wrapping)
      : packed_(file, file.name(), 0, file.size()), inflater_(packed_, wrapping), wrapping_(wrapping) {}

  std::string name() const override { return packed_.name(); }
  Where where() const override { return packed_.where(); }
  std::int64_t most_bytes() const override { return packed_.most_bytes() * most_unpacked; }
  std::size_t read(std::span<std::byte> bytes) override;

 private:
  FileRange packed_;
  Inflater inflater_;
  Wrapping wrapping_;
};

}  // namespace tapestry::io

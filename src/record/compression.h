// The codecs of record batches, bounded in work and memory whatever the bytes say.
//
//   gzip     one or more members; what follows the last one and is no member is ignored, as Java does
//   snappy   written in xerial framing, as Java does (82 "SNAPPY" 00, version, compatible version, then int32 length +
//            raw block ...), several streams in a row accepted; one bare raw block accepted on read
//   lz4      one frame of independent blocks; what follows it is ignored. Frames of linked blocks, which Java's clients
//            cannot read, and dictionaries are refused
//   zstd     one or more frames; windows of up to 128 MiB, which cost nothing here (the output is the window)
//
// Memory grows with what was really decoded, never by a declared size, and stops at the caller's limit. Beside it the
// contexts hold at most a few hundred KiB, and for lz4 frames of 4 MiB blocks 8 MiB.
// Compressor and Decompressor keep their codecs' contexts between calls; Scratch keeps its memory. Workspace holds one
// of each: one per shard or background job, used by one call at a time.
#pragma once
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "record/batch.h"

namespace mq::record {

// Level of a codec; without one, its default. What Kafka calls level 9 of lz4, its default, is the fast compressor.
using Level = std::optional<int>;
struct LevelRange {
  int min;
  int max;
  int standard;
};  // inclusive
LevelRange levelsOf(Codec codec);  // none and snappy: {0, 0, 0}

// Memory that only grows (until released) and is not cleared: for decompressed records.
class Scratch {
 public:
  Bytes bytes() const { return {data_.get(), size_}; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  void clear() { size_ = 0; }
  void releaseAbove(size_t capacityMax);  // clears, and gives the memory back if there is more than this

  // For writers: room for at least `count` more bytes, then how many of them were written.
  MutableBytes room(size_t count);
  void advance(size_t count) { size_ += count; }

 private:
  struct Free {
    void operator()(uint8_t* data) const { std::free(data); }
  };
  std::unique_ptr<uint8_t[], Free> data_;  // from realloc: growing large memory moves pages, it does not copy
  size_t size_ = 0;
  size_t capacity_ = 0;
};

class Compressor {
 public:
  Compressor();
  ~Compressor();
  Compressor(Compressor&&) noexcept;
  Compressor& operator=(Compressor&&) noexcept;

  // Appends the compressed form to `out`. A level outside the codec's range is taken as the nearest one.
  void compress(Codec codec, Level level, Bytes plain, Buffer& out);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

class Decompressor {
 public:
  Decompressor();
  ~Decompressor();
  Decompressor(Decompressor&&) noexcept;
  Decompressor& operator=(Decompressor&&) noexcept;

  // Replaces what is in `out`; after an error it is empty. Errors: messageTooLarge if there is more than
  // `plainBytesMax`; corruptMessage if the bytes are not what the codec writes; unsupportedCompressionType for a codec
  // that is none.
  Result<void> decompress(Codec codec, Bytes compressed, size_t plainBytesMax, Scratch& out);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

struct Workspace {
  Compressor compressor;
  Decompressor decompressor;
  Scratch plain;  // the records of the batch last decompressed
};

// A Scratch that held more than this is given back before its next use.
inline constexpr size_t kScratchKeptBytesMax = 4_MiB;

// The decompressed size of one batch when nobody says otherwise. Far above what clients send, far below what hurts.
inline constexpr size_t kPlainBytesMax = 128_MiB;

}  // namespace mq::record

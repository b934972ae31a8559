#include "record/compression.h"

#include <algorithm>
#include <limits>
#include <new>

#include <lz4frame.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/check.h"

namespace mq::record {
namespace {

constexpr size_t kBatchBytesMax = std::numeric_limits<int32_t>::max();
constexpr size_t kFirstRoomBytes = 64_KiB;
constexpr size_t kStepBytesMax = 1_MiB;  // output of the streaming codecs grows by at most this at a time

Failure corrupt(Codec codec, std::string_view what) {
  return failure(Error::corruptMessage, "{}: {}", nameOf(codec), what);
}

Failure tooLarge(Codec codec, size_t plainBytesMax) {
  return failure(Error::messageTooLarge, "{}: more than {} bytes when decompressed", nameOf(codec), plainBytesMax);
}

// How much output to make room for next: one byte past the limit shows that there is more than it allows.
size_t nextRoom(size_t plainBytesMax, size_t have) {
  return std::min(plainBytesMax - have + 1, std::clamp(have, kFirstRoomBytes, kStepBytesMax));
}

int levelToUse(Codec codec, Level wanted) {
  LevelRange range = levelsOf(codec);
  if (!wanted || *wanted == range.standard) return range.standard;
  return std::clamp(*wanted, range.min, range.max);
}

template <auto release>
struct Releaser {
  void operator()(auto* context) const { release(context); }
};

void endDeflate(z_stream* stream) {
  deflateEnd(stream);
  delete stream;
}
void endInflate(z_stream* stream) {
  inflateEnd(stream);
  delete stream;
}

constexpr int kGzipWindowBits = 15 + 16;  // the largest window, and gzip framing instead of zlib's

// --- snappy in xerial framing

constexpr uint8_t kXerialMagic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};
constexpr size_t kXerialHeaderBytes = sizeof kXerialMagic + 2 * sizeof(int32_t);
constexpr int32_t kXerialVersion = 1;
constexpr size_t kXerialBlockBytes = 32_KiB;
// The densest snappy element copies 64 bytes and takes 3.
constexpr size_t kSnappyExpansionMax = 22;

bool startsXerial(Bytes bytes) {
  return bytes.size() >= kXerialHeaderBytes &&
         std::equal(std::begin(kXerialMagic), std::end(kXerialMagic), bytes.begin());
}

void compressSnappy(Bytes plain, Buffer& out) {
  ByteWriter writer(out);
  writer.bytes(kXerialMagic);
  writer.int32(kXerialVersion);
  writer.int32(kXerialVersion);
  while (!plain.empty()) {
    Bytes block = plain.first(std::min(plain.size(), kXerialBlockBytes));
    size_t lengthAt = out.size();
    out.resize(lengthAt + sizeof(int32_t) + snappy::MaxCompressedLength(block.size()));
    size_t written = 0;
    snappy::RawCompress(reinterpret_cast<const char*>(block.data()), block.size(),
                        reinterpret_cast<char*>(out.data() + lengthAt + sizeof(int32_t)), &written);
    out.resize(lengthAt + sizeof(int32_t) + written);
    storeBigEndian(out.data() + lengthAt, static_cast<int32_t>(written));
    plain = plain.subspan(block.size());
  }
}

Result<void> decompressSnappyBlock(Bytes block, size_t plainBytesMax, Scratch& out) {
  auto* from = reinterpret_cast<const char*>(block.data());
  size_t declared = 0;
  if (!snappy::GetUncompressedLength(from, block.size(), &declared)) return corrupt(Codec::snappy, "no length");
  if (declared > plainBytesMax - out.size()) return tooLarge(Codec::snappy, plainBytesMax);
  if (declared > block.size() * kSnappyExpansionMax)
    return corrupt(Codec::snappy, "length beyond what the block can hold");
  MutableBytes to = out.room(declared);
  if (!snappy::RawUncompress(from, block.size(), reinterpret_cast<char*>(to.data()))) {
    return corrupt(Codec::snappy, "broken block");
  }
  out.advance(declared);
  return {};
}

Result<void> decompressSnappy(Bytes compressed, size_t plainBytesMax, Scratch& out) {
  if (!startsXerial(compressed)) return decompressSnappyBlock(compressed, plainBytesMax, out);
  while (true) {
    while (startsXerial(compressed)) compressed = compressed.subspan(kXerialHeaderBytes);
    if (compressed.size() < sizeof(int32_t)) return {};  // as Java reads: too short for a length is the end
    auto length = loadBigEndian<uint32_t>(compressed.data());
    compressed = compressed.subspan(sizeof(int32_t));
    if (length > compressed.size()) return corrupt(Codec::snappy, "block reaches past the end");
    auto done = decompressSnappyBlock(compressed.first(length), plainBytesMax, out);
    if (!done) return done;
    compressed = compressed.subspan(length);
  }
}

// --- frame headers that are checked before the library sees them

constexpr uint32_t kLz4Magic = 0x184D2204;
constexpr size_t kLz4FlagsAt = 4;
constexpr uint8_t kLz4FlagsReserved = 0x03;  // bit 0: a dictionary, which nobody here has
constexpr uint8_t kLz4BlocksIndependent = 0x20;

constexpr uint32_t kZstdMagic = 0xFD2FB528;
constexpr uint32_t kZstdSkippableMagic = 0x184D2A50;  // low four bits free
constexpr size_t kZstdDescriptorAt = 4;
constexpr uint8_t kZstdSingleSegment = 0x20;
constexpr int kZstdWindowLogMax = 27;  // what a Java consumer accepts

uint32_t loadLittleEndian32(const uint8_t* from) { return std::byteswap(loadBigEndian<uint32_t>(from)); }

std::string_view problemOfLz4Header(Bytes frame) {
  if (frame.size() <= kLz4FlagsAt || loadLittleEndian32(frame.data()) != kLz4Magic) return "not an lz4 frame";
  if ((frame[kLz4FlagsAt] & kLz4FlagsReserved) != 0) return "reserved bits or a dictionary";
  if ((frame[kLz4FlagsAt] & kLz4BlocksIndependent) == 0) return "blocks that depend on each other";
  return {};
}

std::string_view problemOfZstdHeader(Bytes frame) {
  if (frame.size() < kZstdDescriptorAt + 2) return "not a zstd frame";
  uint32_t magic = loadLittleEndian32(frame.data());
  if ((magic & ~0xFu) == kZstdSkippableMagic) return {};
  if (magic != kZstdMagic) return "not a zstd frame";
  if ((frame[kZstdDescriptorAt] & kZstdSingleSegment) != 0) return {};
  int exponent = frame[kZstdDescriptorAt + 1] >> 3;
  int mantissa = frame[kZstdDescriptorAt + 1] & 7;
  if (10 + exponent + (mantissa > 0 ? 1 : 0) > kZstdWindowLogMax) return "window above 128 MiB";
  return {};
}

}  // namespace

LevelRange levelsOf(Codec codec) {
  switch (codec) {
    case Codec::gzip: return {Z_BEST_SPEED, Z_BEST_COMPRESSION, Z_DEFAULT_COMPRESSION};
    case Codec::lz4: return {1, 17, 9};
    case Codec::zstd: return {ZSTD_minCLevel(), ZSTD_maxCLevel(), ZSTD_CLEVEL_DEFAULT};
    default: return {0, 0, 0};
  }
}

void Scratch::releaseAbove(size_t capacityMax) {
  size_ = 0;
  if (capacity_ <= capacityMax) return;
  data_.reset();
  capacity_ = 0;
}

MutableBytes Scratch::room(size_t count) {
  if (count > capacity_ - size_) {
    size_t capacity = std::max(size_ + count, std::min(2 * capacity_, capacity_ + 4 * kStepBytesMax));
    auto* grown = static_cast<uint8_t*>(std::realloc(data_.get(), capacity));
    if (grown == nullptr) throw std::bad_alloc();
    static_cast<void>(data_.release());
    data_.reset(grown);
    capacity_ = capacity;
  }
  return {data_.get() + size_, capacity_ - size_};
}

struct Compressor::Contexts {
  std::unique_ptr<z_stream, Releaser<endDeflate>> gzip;
  int gzipLevel = 0;
  std::unique_ptr<LZ4F_cctx, Releaser<LZ4F_freeCompressionContext>> lz4;
  std::unique_ptr<ZSTD_CCtx, Releaser<ZSTD_freeCCtx>> zstd;

  void compressGzip(int level, Bytes plain, Buffer& out) {
    if (gzip && gzipLevel != level) gzip.reset();
    if (gzip) {
      deflateReset(gzip.get());
    } else {
      auto stream = std::make_unique<z_stream>();
      int made = deflateInit2(stream.get(), level, Z_DEFLATED, kGzipWindowBits, MAX_MEM_LEVEL - 1, Z_DEFAULT_STRATEGY);
      if (made == Z_MEM_ERROR) throw std::bad_alloc();
      MQ_CHECK(made == Z_OK, made);
      gzip.reset(stream.release());
      gzipLevel = level;
    }
    size_t at = out.size();
    out.resize(at + deflateBound(gzip.get(), plain.size()));
    gzip->next_in = const_cast<Bytef*>(plain.data());
    gzip->avail_in = static_cast<uInt>(plain.size());
    gzip->next_out = out.data() + at;
    gzip->avail_out = static_cast<uInt>(out.size() - at);
    int done = deflate(gzip.get(), Z_FINISH);
    MQ_CHECK(done == Z_STREAM_END, done);
    out.resize(out.size() - gzip->avail_out);
  }

  void compressLz4(int level, Bytes plain, Buffer& out) {
    if (!lz4) {
      LZ4F_cctx* made = nullptr;
      if (LZ4F_isError(LZ4F_createCompressionContext(&made, LZ4F_VERSION))) throw std::bad_alloc();
      lz4.reset(made);
    }
    LZ4F_preferences_t preferences = LZ4F_INIT_PREFERENCES;
    preferences.frameInfo.blockSizeID = LZ4F_max64KB;
    preferences.frameInfo.blockMode = LZ4F_blockIndependent;
    preferences.compressionLevel = level == levelsOf(Codec::lz4).standard ? 0 : level;
    preferences.autoFlush = 1;
    size_t at = out.size();
    out.resize(at + LZ4F_compressFrameBound(plain.size(), &preferences));
    size_t end = at;
    auto append = [&](size_t count) {
      MQ_CHECK(!LZ4F_isError(count), std::string_view(LZ4F_getErrorName(count)));
      end += count;
    };
    append(LZ4F_compressBegin(lz4.get(), out.data() + end, out.size() - end, &preferences));
    append(LZ4F_compressUpdate(lz4.get(), out.data() + end, out.size() - end, plain.data(), plain.size(), nullptr));
    append(LZ4F_compressEnd(lz4.get(), out.data() + end, out.size() - end, nullptr));
    out.resize(end);
  }

  void compressZstd(int level, Bytes plain, Buffer& out) {
    if (!zstd) zstd.reset(ZSTD_createCCtx());
    if (!zstd) throw std::bad_alloc();
    size_t at = out.size();
    out.resize(at + ZSTD_compressBound(plain.size()));
    size_t written = ZSTD_compressCCtx(zstd.get(), out.data() + at, out.size() - at, plain.data(), plain.size(), level);
    MQ_CHECK(!ZSTD_isError(written), std::string_view(ZSTD_getErrorName(written)));
    out.resize(at + written);
  }
};

Compressor::Compressor() : contexts_(std::make_unique<Contexts>()) {}
Compressor::~Compressor() = default;
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor& Compressor::operator=(Compressor&&) noexcept = default;

void Compressor::compress(Codec codec, Level wanted, Bytes plain, Buffer& out) {
  int level = levelToUse(codec, wanted);
  switch (codec) {
    case Codec::none: out.insert(out.end(), plain.begin(), plain.end()); return;
    case Codec::gzip: contexts_->compressGzip(level, plain, out); return;
    case Codec::snappy: compressSnappy(plain, out); return;
    case Codec::lz4: contexts_->compressLz4(level, plain, out); return;
    case Codec::zstd: contexts_->compressZstd(level, plain, out); return;
  }
  MQ_CHECK(isKnown(codec), static_cast<int>(codec));
}

struct Decompressor::Contexts {
  std::unique_ptr<z_stream, Releaser<endInflate>> gzip;
  std::unique_ptr<LZ4F_dctx, Releaser<LZ4F_freeDecompressionContext>> lz4;
  std::unique_ptr<ZSTD_DCtx, Releaser<ZSTD_freeDCtx>> zstd;

  Result<void> decompressGzip(Bytes compressed, size_t plainBytesMax, Scratch& out) {
    if (gzip) {
      inflateReset(gzip.get());
    } else {
      auto stream = std::make_unique<z_stream>();
      int made = inflateInit2(stream.get(), kGzipWindowBits);
      if (made == Z_MEM_ERROR) throw std::bad_alloc();
      MQ_CHECK(made == Z_OK, made);
      gzip.reset(stream.release());
    }
    gzip->next_in = const_cast<Bytef*>(compressed.data());
    gzip->avail_in = static_cast<uInt>(compressed.size());
    while (true) {
      MutableBytes room = out.room(nextRoom(plainBytesMax, out.size()));
      room = room.first(std::min(room.size(), plainBytesMax - out.size() + 1));
      gzip->next_out = room.data();
      gzip->avail_out = static_cast<uInt>(room.size());
      int done = inflate(gzip.get(), Z_NO_FLUSH);
      out.advance(room.size() - gzip->avail_out);
      if (out.size() > plainBytesMax) return tooLarge(Codec::gzip, plainBytesMax);
      if (done == Z_STREAM_END) {
        Bytes rest(gzip->next_in, gzip->avail_in);
        if (rest.size() < 3 || rest[0] != 0x1F || rest[1] != 0x8B || rest[2] != Z_DEFLATED) return {};
        inflateReset(gzip.get());
        continue;
      }
      if (done == Z_BUF_ERROR || (done == Z_OK && gzip->avail_in == 0 && gzip->avail_out > 0)) {
        return corrupt(Codec::gzip, "ends too early");
      }
      if (done == Z_MEM_ERROR) throw std::bad_alloc();
      if (done != Z_OK) return corrupt(Codec::gzip, gzip->msg == nullptr ? "broken stream" : gzip->msg);
    }
  }

  Result<void> decompressLz4(Bytes compressed, size_t plainBytesMax, Scratch& out) {
    std::string_view problem = problemOfLz4Header(compressed);
    if (!problem.empty()) return corrupt(Codec::lz4, problem);
    if (!lz4) {
      LZ4F_dctx* made = nullptr;
      if (LZ4F_isError(LZ4F_createDecompressionContext(&made, LZ4F_VERSION))) throw std::bad_alloc();
      lz4.reset(made);
    }
    LZ4F_resetDecompressionContext(lz4.get());
    while (true) {
      MutableBytes room = out.room(nextRoom(plainBytesMax, out.size()));
      size_t written = std::min(room.size(), plainBytesMax - out.size() + 1);
      size_t taken = compressed.size();
      size_t hint = LZ4F_decompress(lz4.get(), room.data(), &written, compressed.data(), &taken, nullptr);
      if (LZ4F_isError(hint)) return corrupt(Codec::lz4, LZ4F_getErrorName(hint));
      out.advance(written);
      compressed = compressed.subspan(taken);
      if (out.size() > plainBytesMax) return tooLarge(Codec::lz4, plainBytesMax);
      if (hint == 0) return {};
      if (written == 0 && taken == 0) return corrupt(Codec::lz4, "ends too early");
    }
  }

  // In one go per frame, so that the output is the window, whatever window the frame asks for. If it does not fit, once
  // more with twice the room: all attempts together do at most twice the work of the last.
  Result<void> decompressZstd(Bytes compressed, size_t plainBytesMax, Scratch& out) {
    if (!zstd) zstd.reset(ZSTD_createDCtx());
    if (!zstd) throw std::bad_alloc();
    do {
      std::string_view problem = problemOfZstdHeader(compressed);
      if (!problem.empty()) return corrupt(Codec::zstd, problem);
      size_t frameBytes = ZSTD_findFrameCompressedSize(compressed.data(), compressed.size());
      if (ZSTD_isError(frameBytes)) return corrupt(Codec::zstd, ZSTD_getErrorName(frameBytes));
      Bytes frame = compressed.first(frameBytes);
      size_t left = plainBytesMax - out.size();
      size_t capacity = std::min(left, std::max(kFirstRoomBytes, 4 * frame.size()));
      while (true) {
        MutableBytes room = out.room(capacity);
        size_t usable = std::min(room.size(), left);
        size_t written = ZSTD_decompressDCtx(zstd.get(), room.data(), usable, frame.data(), frame.size());
        if (!ZSTD_isError(written)) {
          out.advance(written);
          break;
        }
        if (ZSTD_getErrorCode(written) == ZSTD_error_memory_allocation) throw std::bad_alloc();
        if (ZSTD_getErrorCode(written) != ZSTD_error_dstSize_tooSmall) {
          return corrupt(Codec::zstd, ZSTD_getErrorName(written));
        }
        if (usable == left) return tooLarge(Codec::zstd, plainBytesMax);
        capacity = std::min(left, 2 * usable);
      }
      compressed = compressed.subspan(frameBytes);
    } while (!compressed.empty());
    return {};
  }
};

Decompressor::Decompressor() : contexts_(std::make_unique<Contexts>()) {}
Decompressor::~Decompressor() = default;
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor& Decompressor::operator=(Decompressor&&) noexcept = default;

Result<void> Decompressor::decompress(Codec codec, Bytes compressed, size_t plainBytesMax, Scratch& out) {
  out.releaseAbove(kScratchKeptBytesMax);
  plainBytesMax = std::min(plainBytesMax, kBatchBytesMax);
  auto done = [&]() -> Result<void> {
    switch (codec) {
      case Codec::none:
        if (compressed.size() > plainBytesMax) return tooLarge(codec, plainBytesMax);
        std::ranges::copy(compressed, out.room(compressed.size()).begin());
        out.advance(compressed.size());
        return {};
      case Codec::gzip: return contexts_->decompressGzip(compressed, plainBytesMax, out);
      case Codec::snappy: return decompressSnappy(compressed, plainBytesMax, out);
      case Codec::lz4: return contexts_->decompressLz4(compressed, plainBytesMax, out);
      case Codec::zstd: return contexts_->decompressZstd(compressed, plainBytesMax, out);
    }
    return failure(Error::unsupportedCompressionType, "codec {} does not exist", static_cast<int>(codec));
  }();
  if (!done) out.releaseAbove(kScratchKeptBytesMax);
  return done;
}

}  // namespace mq::record

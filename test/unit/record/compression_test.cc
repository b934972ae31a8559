#include "record/compression.h"

#include <algorithm>

#include <doctest/doctest.h>
#include <lz4frame.h>

#include "vectors.h"

using namespace mq;
using namespace mq::record;
using namespace mq::record::test;

namespace {

constexpr Codec kCompressing[] = {Codec::gzip, Codec::snappy, Codec::lz4, Codec::zstd};

Buffer compressed(Codec codec, Bytes plain, Level level = {}) {
  Compressor compressor;
  Buffer out;
  compressor.compress(codec, level, plain, out);
  return out;
}

void append(Buffer& to, Bytes bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

// What expands to `count` times 4 MiB of zeros.
Buffer bomb(Codec codec, size_t count) {
  Buffer zeros(4_MiB);
  Buffer once = compressed(codec, zeros);
  Buffer all;
  if (codec == Codec::lz4) {  // one frame: header, blocks again and again, end mark
    size_t headerBytes = 7, endBytes = 4;
    append(all, Bytes(once).first(headerBytes));
    Bytes blocks = Bytes(once).subspan(headerBytes, once.size() - headerBytes - endBytes);
    for (size_t i = 0; i < count; ++i) append(all, blocks);
    append(all, Bytes(once).last(endBytes));
  } else {  // members, streams and frames may follow each other
    for (size_t i = 0; i < count; ++i) append(all, once);
  }
  return all;
}

Error outcome(Codec codec, Bytes bytes, size_t limit = 1_MiB) {
  Decompressor decompressor;
  Scratch out;
  return decompressor.decompress(codec, bytes, limit, out).errorCode();
}

}  // namespace

TEST_CASE("what was compressed decompresses to the same bytes, with one set of contexts for all") {
  Prng random(7);
  Workspace workspace;
  for (int round = 0; round < 60; ++round) {
    Buffer plain;
    for (uint64_t pieces = random.below(6); pieces > 0; --pieces) append(plain, randomBytes(random, 300'000));
    for (Codec codec : {Codec::none, Codec::gzip, Codec::snappy, Codec::lz4, Codec::zstd}) {
      CAPTURE(nameOf(codec));
      CAPTURE(plain.size());
      Buffer prefix = {1, 2, 3};
      Buffer out = prefix;
      workspace.compressor.compress(codec, {}, plain, out);
      REQUIRE(std::equal(prefix.begin(), prefix.end(), out.begin()));
      Result<void> done =
          workspace.decompressor.decompress(codec, Bytes(out).subspan(3), plain.size(), workspace.plain);
      REQUIRE_MESSAGE(done.has_value(), done.failure().message);
      CHECK(std::ranges::equal(workspace.plain.bytes(), plain));
      if (plain.empty()) continue;
      Error tooSmall =
          workspace.decompressor.decompress(codec, Bytes(out).subspan(3), plain.size() - 1, workspace.plain)
              .errorCode();
      CHECK(tooSmall == Error::messageTooLarge);
      CHECK(workspace.plain.size() == 0);
    }
  }
}

TEST_CASE("levels change the size, and those out of range are taken as the nearest") {
  Prng random(8);
  Buffer plain;
  while (plain.size() < 200'000) append(plain, randomBytes(random, 2000));
  CHECK(compressed(Codec::gzip, plain, 9).size() < compressed(Codec::gzip, plain, 1).size());
  CHECK(compressed(Codec::zstd, plain, 19).size() < compressed(Codec::zstd, plain, -5).size());
  CHECK(compressed(Codec::lz4, plain, 12).size() < compressed(Codec::lz4, plain).size());
  CHECK(compressed(Codec::lz4, plain, 9) == compressed(Codec::lz4, plain));
  CHECK(compressed(Codec::gzip, plain, 100) == compressed(Codec::gzip, plain, 9));
  CHECK(compressed(Codec::gzip, plain, -1) == compressed(Codec::gzip, plain));
  CHECK(compressed(Codec::zstd, plain, 100) == compressed(Codec::zstd, plain, 22));
}

TEST_CASE("4 GiB of zeros are refused for the price of the limit, not of the zeros") {
  for (Codec codec : kCompressing) {
    CAPTURE(nameOf(codec));
    // Snappy shrinks no better than 22 to 1: a batch of 4 GiB cannot be sent in it.
    Buffer bytes = bomb(codec, codec == Codec::snappy ? 16 : 1024);
    Decompressor decompressor;
    Scratch out;
    for (size_t limit : {size_t{0}, size_t{1000}, size_t{1_MiB}, size_t{10_MiB} + 1}) {
      CAPTURE(limit);
      CHECK(decompressor.decompress(codec, bytes, limit, out).errorCode() == Error::messageTooLarge);
      CHECK(out.size() == 0);
      CHECK(out.capacity() <= std::max<size_t>(2 * limit, 128_KiB));
      CHECK(out.capacity() <= kScratchKeptBytesMax);  // and what is left of it does not stay
    }
  }
}

TEST_CASE("a limit of everything there is does not trip over itself") {
  for (Codec codec : kCompressing) {
    CHECK(outcome(codec, compressed(codec, Buffer(100'000)), SIZE_MAX) == Error::none);
  }
}

TEST_CASE("declared sizes are not believed") {
  // Snappy: one block that says it holds 2 GiB less one.
  Buffer snappy = {0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0x00, 0x61};
  CHECK(outcome(Codec::snappy, snappy, 1_MiB) == Error::messageTooLarge);
  CHECK(outcome(Codec::snappy, snappy, SIZE_MAX) == Error::corruptMessage);

  // zstd: a frame with a window of 128 MiB is what Java's highest levels write; it costs no memory here.
  Buffer zstd = {0x28, 0xB5, 0x2F, 0xFD, 0x00, (27 - 10) << 3, 0x09, 0x00, 0x00, 'a'};
  Decompressor decompressor;
  Scratch out;
  REQUIRE(decompressor.decompress(Codec::zstd, zstd, 1_MiB, out).has_value());
  CHECK(asText(out.bytes()) == "a");
  CHECK(out.capacity() <= 128_KiB);
  zstd[5] += 1;
  CHECK(outcome(Codec::zstd, zstd) == Error::corruptMessage);

  // zstd: a single segment that says it holds 4 GiB.
  Buffer segment = {0x28, 0xB5, 0x2F, 0xFD, 0xA0, 0x00, 0x00, 0x00, 0xFF, 0x09, 0x00, 0x00, 'a'};
  CHECK(outcome(Codec::zstd, segment) == Error::corruptMessage);
}

TEST_CASE("gzip members, zstd frames and snappy streams may follow each other; lz4 ends with its first frame") {
  Buffer first(1000, 'a'), second(1000, 'b');
  for (Codec codec : kCompressing) {
    CAPTURE(nameOf(codec));
    Buffer bytes = compressed(codec, first);
    append(bytes, compressed(codec, second));
    Decompressor decompressor;
    Scratch out;
    REQUIRE(decompressor.decompress(codec, bytes, 1_MiB, out).has_value());
    CHECK(out.size() == (codec == Codec::lz4 ? 1000 : 2000));
    CHECK(out.bytes().back() == (codec == Codec::lz4 ? 'a' : 'b'));
  }
}

TEST_CASE("every strict prefix is refused") {
  Prng random(9);
  Buffer plain;
  while (plain.size() < 3000) append(plain, randomBytes(random, 500));
  for (Codec codec : kCompressing) {
    CAPTURE(nameOf(codec));
    Buffer bytes = compressed(codec, plain);
    for (size_t size = 0; size < bytes.size(); ++size) {
      CAPTURE(size);
      // A snappy stream has no end mark: after its header or a block it may be over, and the records that miss show.
      if (codec == Codec::snappy && size >= 16 && size < 20) continue;
      Buffer exact(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      CHECK(outcome(codec, exact) == Error::corruptMessage);
    }
  }
}

TEST_CASE("lz4 frames that Java cannot read are refused") {
  Buffer plain(200'000, 'x');
  LZ4F_preferences_t linked = LZ4F_INIT_PREFERENCES;
  linked.frameInfo.blockSizeID = LZ4F_max64KB;
  linked.frameInfo.blockMode = LZ4F_blockLinked;
  Buffer bytes(LZ4F_compressFrameBound(plain.size(), &linked));
  bytes.resize(LZ4F_compressFrame(bytes.data(), bytes.size(), plain.data(), plain.size(), &linked));
  CHECK(outcome(Codec::lz4, bytes) == Error::corruptMessage);

  LZ4F_preferences_t checked = LZ4F_INIT_PREFERENCES;
  checked.frameInfo.blockMode = LZ4F_blockIndependent;
  checked.frameInfo.blockSizeID = LZ4F_max4MB;
  checked.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  checked.frameInfo.blockChecksumFlag = LZ4F_blockChecksumEnabled;
  checked.frameInfo.contentSize = plain.size();
  bytes.resize(LZ4F_compressFrameBound(plain.size(), &checked));
  bytes.resize(LZ4F_compressFrame(bytes.data(), bytes.size(), plain.data(), plain.size(), &checked));
  CHECK(outcome(Codec::lz4, bytes) == Error::none);
  bytes.back() ^= 1;
  CHECK(outcome(Codec::lz4, bytes) == Error::corruptMessage);

  Buffer skippable = {0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0};
  CHECK(outcome(Codec::lz4, skippable) == Error::corruptMessage);
}

TEST_CASE("changed bytes give the right bytes, other bytes or an error, and never a step outside") {
  Prng random(10);
  Workspace workspace;
  for (int round = 0; round < 300; ++round) {
    Buffer plain = randomBytes(random, 20'000);
    for (Codec codec : kCompressing) {
      Buffer bytes = compressed(codec, plain);
      for (uint64_t changes = 1 + random.below(3); changes > 0; --changes) {
        bytes[random.below(bytes.size())] = static_cast<uint8_t>(random.next());
      }
      Result<void> done = workspace.decompressor.decompress(codec, bytes, 64_KiB, workspace.plain);
      CHECK(workspace.plain.size() <= 64_KiB);
      if (!done) CHECK((done.errorCode() == Error::corruptMessage || done.errorCode() == Error::messageTooLarge));
    }
  }
  for (int round = 0; round < 300; ++round) {
    Buffer garbage = randomBytes(random, 5'000);
    for (Codec codec : kCompressing) {
      static_cast<void>(workspace.decompressor.decompress(codec, garbage, 64_KiB, workspace.plain));
      CHECK(workspace.plain.size() <= 64_KiB);
    }
  }
}

TEST_CASE("a codec that does not exist is named as such") {
  CHECK(outcome(static_cast<Codec>(5), Buffer(10)) == Error::unsupportedCompressionType);
}

// The bytes of one connection, cut into frames: the first byte seeds how the network cuts them and how much memory
// there is. Whatever comes, the frames are those that a plain reading of the lengths gives, memory stays in proportion
// to the bytes received, and a refusal for want of memory is over once the frames handed out are gone.
#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "fuzz.h"
#include "kafka/frame_reader.h"

namespace mq::fuzz {
namespace {

using namespace kafka;

constexpr size_t kFrameMax = 4 << 20;
bool servedInFuzz(int16_t key, int16_t version) { return key >= 0 && key <= 92 && version >= 0 && version <= 18; }

// What the stream holds: whole frames up to the end or to the first mistake.
std::vector<Bytes> framesOf(Bytes stream) {
  std::vector<Bytes> frames;
  while (stream.size() >= 4) {
    auto length = loadBigEndian<int32_t>(stream.data());
    if (length < 8 || static_cast<size_t>(length) > kFrameMax) break;
    if (stream.size() < 4 + static_cast<size_t>(length)) break;
    auto key = loadBigEndian<int16_t>(stream.data() + 4);
    auto version = loadBigEndian<int16_t>(stream.data() + 6);
    if (key != 18 && !servedInFuzz(key, version)) break;
    frames.push_back(stream.subspan(4, static_cast<size_t>(length)));
    stream = stream.subspan(4 + static_cast<size_t>(length));
  }
  return frames;
}

}  // namespace

void fuzzOne(Bytes input) {
  if (input.empty()) return;
  Prng random(input.front());
  bool scarce = random.chance(1, 2);
  Bytes stream = input.subspan(1);
  std::vector<Bytes> expected = framesOf(stream);

  BufferPool pool({.bytesMax = scarce ? size_t{200'000} : size_t{64} << 20,
                   .reserveBytes = scarce ? size_t{80'000} : size_t{1} << 20});
  size_t received = 0;
  {
    std::vector<Frame> held;
    FrameReader reader(pool, {.frameBytesMax = kFrameMax, .served = servedInFuzz});
    size_t place = 0;
    for (;;) {
      Frame frame;
      auto next = reader.next(&frame);
      if (next == FrameReader::Next::frame) {
        MQ_CHECK(place < expected.size(), place);
        MQ_CHECK(std::ranges::equal(frame.bytes, expected[place]), place);
        ++place;
        std::ranges::fill(frame.bytes, uint8_t{0xEE});  // nobody else may be looking at them
        held.push_back(std::move(frame));
        continue;
      }
      if (next == FrameReader::Next::mistake) {
        MQ_CHECK(!reader.mistake().empty());
        break;
      }
      MutableBytes space;
      if (next == FrameReader::Next::more) {
        if (stream.empty()) break;
        space = reader.space();
      }
      if (space.empty()) {
        MQ_CHECK(!held.empty() || pool.used() > 0);
        if (held.empty()) break;  // half a frame that is larger than the budget
        held.clear();
        continue;
      }
      size_t count = std::min<size_t>({space.size(), stream.size(), random.between(1, 70'000)});
      std::memcpy(space.data(), stream.data(), count);
      reader.received(count);
      received += count;
      stream = stream.subspan(count);
      // What was received, the first step of 64 KiB, and what an earlier whole frame has earned.
      MQ_CHECK(pool.used() <= 4 * received + (size_t{192} << 10), pool.used(), received);
    }
    if (stream.empty() && reader.mistake().empty() && !scarce)
      MQ_CHECK(place == expected.size(), place, expected.size());
  }
  MQ_CHECK(pool.used() == 0, pool.used());
}

std::vector<Buffer> fuzzSeeds() {
  std::vector<Buffer> seeds;
  auto frame = [](Buffer& into, int16_t key, int16_t version, size_t body) {
    ByteWriter writer(into);
    writer.int32(static_cast<int32_t>(8 + body));
    writer.int16(key);
    writer.int16(version);
    writer.int32(7);
    into.resize(into.size() + body, 0x5A);
  };
  for (uint8_t seed = 0; seed < 3; ++seed) {
    Buffer small{seed}, mixed{seed}, large{seed}, huge{seed};
    for (int16_t key = 0; key < 40; ++key) frame(small, key, 1, static_cast<size_t>(key) * 7);
    for (size_t body : {0, 1000, 1016, 20'000, 5, 4096, 40'000, 3}) frame(mixed, 0, 9, body);
    for (size_t body : {70'000, 150'000, 1'000, 150'000}) frame(large, 0, 9, body);
    frame(huge, 3, 12, 100);
    ByteWriter(huge).int32(kFrameMax);
    huge.resize(huge.size() + 100, 0);
    seeds.insert(seeds.end(), {small, mixed, large, huge});
  }
  Buffer http{1};
  for (char c : std::string_view("GET / HTTP/1.1\r\n\r\n")) http.push_back(static_cast<uint8_t>(c));
  seeds.push_back(http);
  return seeds;
}

}  // namespace mq::fuzz

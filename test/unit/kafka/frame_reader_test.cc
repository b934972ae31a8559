#include "kafka/frame_reader.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/random.h"

namespace mq::kafka {
namespace {

Buffer frame(int16_t key, size_t bodyBytes, uint8_t fill = 0x5A) {
  Buffer bytes;
  ByteWriter writer(bytes);
  writer.int32(static_cast<int32_t>(8 + bodyBytes));
  writer.int16(key);
  writer.int16(9);
  writer.int32(77);
  bytes.resize(bytes.size() + bodyBytes, fill);
  return bytes;
}

constexpr int16_t kProduce = 0;
constexpr int16_t kMetadata = 3;

// Feeds bytes as a socket would, at most `chunk` at a time, and collects the frames.
struct Feed {
  explicit Feed(FrameReader& reader) : reader(reader) {}

  // False: a mistake, or the pool is spent.
  bool push(Bytes bytes, size_t chunk = SIZE_MAX) {
    for (;;) {
      Frame frame;
      auto next = reader.next(&frame);
      if (next == FrameReader::Next::frame) {
        frames.push_back(std::move(frame));
        continue;
      }
      if (next != FrameReader::Next::more) return false;
      if (bytes.empty()) return true;
      MutableBytes space = reader.space();
      if (space.empty()) return false;
      size_t count = std::min<size_t>({space.size(), bytes.size(), chunk});
      std::memcpy(space.data(), bytes.data(), count);
      reader.received(count);
      bytes = bytes.subspan(count);
    }
  }
  FrameReader& reader;
  std::vector<Frame> frames;
};

Buffer join(std::initializer_list<Buffer> parts) {
  Buffer all;
  for (const Buffer& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

bool equals(const Frame& frame, const Buffer& sent) { return std::ranges::equal(frame.bytes, Bytes(sent).subspan(4)); }

TEST_CASE("FrameReader: frames come out as they were sent, however the network cuts them") {
  Buffer sent[] = {frame(kMetadata, 0),        frame(kProduce, 300, 1),       frame(kProduce, 16'000, 2),
                   frame(kProduce, 70'000, 3), frame(kMetadata, 5'000, 4),    frame(kProduce, 300'000, 5),
                   frame(kMetadata, 10, 6),    frame(kProduce, 2'000'000, 7), frame(kMetadata, 1'000, 8)};
  Buffer all;
  for (const Buffer& one : sent) all.insert(all.end(), one.begin(), one.end());
  Prng random(11);
  for (size_t chunk : {size_t{1 << 20}, size_t{65'536}, size_t{4096}, size_t{1500}, size_t{7}, size_t{0}}) {
    CAPTURE(chunk);
    BufferPool pool({});
    {
      FrameReader reader(pool, {});
      Feed feed(reader);
      if (chunk == 0) {
        for (size_t at = 0; at < all.size();) {
          size_t count = std::min(all.size() - at, random.between(1, 100'000));
          REQUIRE(feed.push(Bytes(all).subspan(at, count)));
          at += count;
        }
      } else {
        REQUIRE(feed.push(all, chunk));
      }
      REQUIRE(feed.frames.size() == std::size(sent));
      for (size_t i = 0; i < std::size(sent); ++i) CHECK(equals(feed.frames[i], sent[i]));
      CHECK_FALSE(reader.partial());
    }
    CHECK(pool.used() == 0);
  }
}

TEST_CASE("FrameReader: a length without a body costs no memory") {
  BufferPool pool({});
  FrameReader reader(pool, {});
  Feed feed(reader);
  Buffer head = frame(kProduce, 0);
  storeBigEndian<int32_t>(head.data(), 100 << 20);
  REQUIRE(feed.push(head));
  CHECK(reader.partial());
  (void)reader.space();
  CHECK(pool.used() <= (64 << 10) + 4096);

  Buffer some(60'000, 0);
  REQUIRE(feed.push(some));
  CHECK(pool.used() <= (64 << 10) + 4096);
  Buffer rest(400'000, 0);
  REQUIRE(feed.push(rest));
  CHECK(pool.used() <= 2 * 460'000);  // at most twice of what came
}

TEST_CASE("FrameReader: who has delivered a large frame gets the memory for the next one at once") {
  BufferPool pool({});
  FrameReader reader(pool, {});
  Feed feed(reader);
  REQUIRE(feed.push(frame(kProduce, 256 << 10)));
  feed.frames.clear();
  Buffer next = frame(kProduce, 256 << 10);
  REQUIRE(feed.push(Bytes(next).first(100)));
  CHECK(reader.space().size() == next.size() - 100);  // and not a byte more: the buffer belongs to the frame
  CHECK(pool.used() >= 256 << 10);
}

TEST_CASE("FrameReader: a large frame is read where it stays") {
  BufferPool pool({});
  FrameReader reader(pool, {});
  Feed feed(reader);
  REQUIRE(
      feed.push(join({frame(kProduce, 256 << 10, 1), frame(kProduce, 256 << 10, 2), frame(kProduce, 256 << 10, 3)})));
  REQUIRE(feed.frames.size() == 3);
  (void)reader.space();
  for (const Frame& one : feed.frames) CHECK(one.buffer.onlyReference());
}

TEST_CASE("FrameReader: small frames do not pin the buffer they came in") {
  BufferPool pool({});
  FrameReader reader(pool, {});
  Feed feed(reader);
  Buffer many;
  for (int i = 0; i < 300; ++i) {
    Buffer one = frame(kMetadata, 200);
    many.insert(many.end(), one.begin(), one.end());
  }
  REQUIRE(feed.push(many));
  CHECK(feed.frames.size() == 300);
  (void)reader.space();
  CHECK(pool.used() == 300 * 208);
}

TEST_CASE("FrameReader: lengths that cannot be are mistakes at once") {
  for (int32_t length : {0, -1, 1, 7, INT32_MIN, INT32_MAX, (100 << 20) + 1}) {
    CAPTURE(length);
    BufferPool pool({});
    FrameReader reader(pool, {});
    Buffer bytes(4);
    storeBigEndian(bytes.data(), length);
    CHECK_FALSE(Feed(reader).push(bytes));
    CHECK(reader.mistake().find(std::to_string(length)) != std::string::npos);
  }
}

TEST_CASE("FrameReader: it is said what the wrong protocol looks like") {
  auto mistakeOf = [](std::string_view text) {
    BufferPool pool({});
    FrameReader reader(pool, {});
    Feed(reader).push(asBytes(text));
    return reader.mistake();
  };
  CHECK(mistakeOf("GET / HTTP/1.1\r\n\r\n") == "sent an HTTP request");
  CHECK(mistakeOf("POST /topics HTTP/1.1\r\n") == "sent an HTTP request");
  CHECK(mistakeOf(std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03", 10)).find("TLS handshake") !=
        std::string::npos);
  CHECK(mistakeOf("SSH-2.0-OpenSSH_9.2\r\n") == "sent an SSH greeting");
}

bool only3And18(int16_t key, int16_t version) { return (key == 3 || key == 18) && version <= 13; }

TEST_CASE("FrameReader: an API or version that is not served is a mistake before its body comes") {
  auto push = [](int16_t key, int16_t version) {
    BufferPool pool({});
    FrameReader reader(pool, {.served = only3And18});
    Buffer bytes = frame(key, 1000);
    storeBigEndian(bytes.data() + 6, version);
    bytes.resize(8);
    return Feed(reader).push(bytes);
  };
  CHECK(push(3, 13));
  CHECK_FALSE(push(3, 99));
  CHECK_FALSE(push(4, 0));
  CHECK_FALSE(push(999, 0));
  CHECK(push(18, 99));  // it gets an answer that says what to use
}

TEST_CASE("FrameReader: data waits when the pool is spent, heartbeats do not") {
  BufferPool pool({.bytesMax = 400'000, .reserveBytes = 100'000, .idleBytesMax = 0});
  BufferRef spent = pool.take(190'000, Claim::data);
  FrameReader producer(pool, {}), other(pool, {});
  Feed data(producer), small(other);
  CHECK_FALSE(data.push(frame(kProduce, 50'000)));
  CHECK_FALSE(data.push(frame(kProduce, 50'000)));
  CHECK(producer.mistake().empty());
  CHECK(small.push(frame(12, 100)));
  CHECK(small.push(frame(kMetadata, 20'000)));
  CHECK(small.frames.size() == 2);
}

TEST_CASE("FrameReader: what waited for memory goes on where it was") {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  BufferPool pool({.bytesMax = 300'000, .reserveBytes = 100'000, .idleBytesMax = 0});
  BufferRef spent = pool.take(190'000, Claim::data);
  FrameReader reader(pool, {});
  Buffer sent = frame(kProduce, 50'000, 9);
  MutableBytes space = reader.space();
  REQUIRE(space.size() == FrameReader::kSmallBytes);
  std::memcpy(space.data(), sent.data(), space.size());
  reader.received(space.size());
  Frame got;
  REQUIRE(reader.next(&got) == FrameReader::Next::more);
  REQUIRE(reader.space().empty());
  auto room = reader.room();
  CHECK_FALSE(room.poll(scope));
  spent.reset();
  REQUIRE(room.poll(scope));
  Feed feed(reader);
  REQUIRE(feed.push(Bytes(sent).subspan(FrameReader::kSmallBytes)));
  REQUIRE(feed.frames.size() == 1);
  CHECK(equals(feed.frames[0], sent));
}

}  // namespace
}  // namespace mq::kafka

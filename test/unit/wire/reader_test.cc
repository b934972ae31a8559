// What a hostile or damaged peer can send.
#include <algorithm>

#include <doctest/doctest.h>

#include "allocations.h"
#include "vectors.h"
#include "wire/codec.h"
#include "wire/consumer_group_describe_request.h"
#include "wire/messages.h"
#include "wire/metadata_request.h"
#include "wire/produce_request.h"

using namespace mq;
using namespace mq::wire;

namespace {

// Decodes and proves that memory in use stayed within a constant factor of the bytes given: the largest ratio of an
// element's size to its fewest bytes on the wire, twice for vectors that grow.
Result<void> decodeGuarded(const Message& descriptor, Bytes bytes, int16_t version, Any& message) {
  message = makeAny(descriptor);
  ByteReader reader(bytes);
  test::AllocationPeak peak;
  DecodeCost cost;
  auto done = decodeInto(descriptor, reader, version, message.get(), &cost);
  INFO(descriptor.name, " v", version, " ", toHex(bytes.first(std::min<size_t>(bytes.size(), 200))));
  CHECK(peak.bytes() <= 100 * bytes.size() + 1024);  // 1024: the failure's text
  CHECK(peak.bytes() <= 2 * cost.bytes + 1024);
  return done;
}

}  // namespace

TEST_CASE("Every strict prefix of a golden message is refused") {
  for (const Vector& vector : goldenMessages()) {
    INFO(vector.title);
    size_t size = vector.body.size();
    size_t step = std::max<size_t>(1, size / 200);
    for (size_t length = 0; length < size; length += step) {
      Any message = makeAny(*vector.message);
      ByteReader reader(Bytes(vector.body).first(length));
      if (decodeInto(*vector.message, reader, vector.version, message.get()))
        FAIL_CHECK("taken: ", length, " of ", size);
    }
  }
}

TEST_CASE("Damaged messages are read as Kafka reads them, or refused, and never allocate what they do not back") {
  auto replaced = [](const Vector& vector) {  // Kafka put U+FFFD where the text was not UTF-8
    return toHex(vector.reencoded).contains("efbfbd") && !toHex(vector.body).contains("efbfbd");
  };
  size_t refusedByUsAlone = 0, takenByUsAlone = 0, same = 0;
  for (const Vector& vector : mutatedMessages()) {
    INFO(vector.title, " ", toHex(vector.body));
    Any message = makeAny(*vector.message);
    if (!decodeGuarded(*vector.message, vector.body, vector.version, message)) {
      refusedByUsAlone += vector.accepted;
      continue;
    }
    takenByUsAlone += !vector.accepted;
    Buffer again;
    auto encoded = encodeFrom(*vector.message, message.get(), vector.version, again, nullptr);
    REQUIRE_MESSAGE(encoded, encoded.failure().message);
    if (!vector.accepted || replaced(vector)) continue;
    // Bytes behind the message are no part of it.
    CHECK(toHex(vector.reencoded).starts_with(toHex(again)));
    ++same;
  }
  CHECK(refusedByUsAlone == 1);  // a tagged field that does not fill its size
  CHECK(takenByUsAlone == 4);    // with tag 2147483647, which Java cannot write again
  CHECK(same > 1000);
}

TEST_CASE("A golden message with any one byte changed is refused or read, within its memory") {
  for (const Vector& vector : goldenMessages()) {
    if (vector.body.empty()) continue;
    // One place per vector and value: the places differ from vector to vector.
    Buffer bytes = vector.body;
    size_t at = std::hash<std::string>()(vector.title) % bytes.size();
    for (uint8_t value : {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff}) {
      bytes[at] = value;
      Any message = makeAny(*vector.message);
      (void)decodeGuarded(*vector.message, bytes, vector.version, message);
    }
  }
}

TEST_CASE("A count of two billion elements in a dozen bytes allocates nothing") {
  Buffer rigid;
  ByteWriter(rigid).int32(INT32_MAX);
  Any message(nullptr, nullptr);
  auto done = decodeGuarded(MetadataRequest::kDescriptor, rigid, 1, message);
  CHECK(done.errorCode() == Error::invalidRequest);
  CHECK(done.failure().message == "MetadataRequest v1: topics: 2147483647 announced, but only 0 bytes are left");

  Buffer compact;
  ByteWriter(compact).unsignedVarint(INT32_MAX);
  compact.resize(12);
  CHECK_FALSE(decodeGuarded(MetadataRequest::kDescriptor, compact, 12, message));
}

TEST_CASE("A count is measured by the fewest bytes its elements can take in that version") {
  // Version 12: an element is a uuid (16), a nullable name (1) and tags (1).
  Buffer buffer;
  ByteWriter(buffer).unsignedVarint(3);
  buffer.resize(1 + 2 * 18 - 1);
  auto request = decode<MetadataRequest>(Bytes(buffer), 12);
  REQUIRE_FALSE(request);
  CHECK(request.failure().message == "MetadataRequest v12: topics: 2 announced, but only 35 bytes are left");
}

TEST_CASE("An error names the path of the field") {
  Buffer buffer;
  ProduceRequest request;
  request.topicData.resize(2);
  request.topicData[1].partitionData.resize(3);
  REQUIRE(encode(request, 9, buffer));
  buffer[buffer.size() - 4] = 99;  // behind it stand the tags of partition, topic and request
  auto decoded = decode<ProduceRequest>(Bytes(buffer), 9);
  REQUIRE_FALSE(decoded);
  CHECK(decoded.failure().message ==
        "ProduceRequest v9: topicData[1].partitionData[2].records: 98 announced, but only 3 bytes are left");
}

TEST_CASE("Bytes after a message are the caller's to judge") {
  Buffer buffer;
  REQUIRE(encode(MetadataRequest(), 9, buffer));
  size_t size = buffer.size();
  buffer.push_back(0);
  CHECK_FALSE(decode<MetadataRequest>(Bytes(buffer), 9));
  ByteReader reader(buffer);
  CHECK(decode<MetadataRequest>(reader, 9));
  CHECK(reader.position() == size);
}

TEST_CASE("Records and bytes are views into the frame") {
  ProduceRequest request;
  request.topicData.resize(1);
  request.topicData[0].partitionData.resize(1);
  request.topicData[0].partitionData[0].records = Blob::copyOf("0123456789");
  Buffer frame;
  REQUIRE(encode(request, 9, frame));
  auto decoded = decode<ProduceRequest>(Bytes(frame), 9);
  REQUIRE(decoded);
  Bytes records = decoded->topicData[0].partitionData[0].records->view();
  CHECK(asText(records) == "0123456789");
  CHECK(records.data() >= frame.data());
  CHECK(records.data() + records.size() <= frame.data() + frame.size());
}

TEST_CASE("Unknown tags may come in any order and are kept sorted, the last of equal ones") {
  // No fields before the tags but an empty list and a bool.
  Buffer bytes;
  ByteWriter writer(bytes);
  writer.unsignedVarint(1);
  writer.int8(1);
  writer.unsignedVarint(3);
  for (auto [tag, value] : {std::pair(9u, 1), std::pair(5u, 2), std::pair(9u, 3)}) {
    writer.unsignedVarint(tag);
    writer.unsignedVarint(1);
    writer.int8(static_cast<int8_t>(value));
  }
  auto request = decode<ConsumerGroupDescribeRequest>(Bytes(bytes), 0);
  REQUIRE(request);
  auto tags = request->unknownTags.list();
  REQUIRE(tags.size() == 2);
  CHECK(tags[0] == UnknownTag{5, {2}});
  CHECK(tags[1] == UnknownTag{9, {3}});
}

TEST_CASE("A message that costs more than it may is refused before that is allocated, and one that costs less is not") {
  MetadataRequest request;
  request.topics.emplace(10'000, MetadataRequest::MetadataRequestTopic{.name = ""});
  Buffer body;
  REQUIRE(encode(request, 9, body));
  CHECK(body.size() < 21'000);
  DecodeCost free;
  ByteReader all{Bytes(body)};
  REQUIRE(decode<MetadataRequest>(all, 9, &free));
  CHECK(free.bytes >= 10'000 * sizeof(MetadataRequest::MetadataRequestTopic));
  for (size_t limit : {free.bytes - 1, size_t{0}}) {
    DecodeCost cost{.bytesMax = limit};
    ByteReader reader{Bytes(body)};
    test::AllocationPeak peak;
    auto refused = decode<MetadataRequest>(reader, 9, &cost);
    CHECK(peak.bytes() < 2048);
    REQUIRE_FALSE(refused);
    CHECK(refused.errorCode() == Error::invalidRequest);
    CHECK(refused.failure().message.contains("topics: more than"));
  }
  DecodeCost exact{.bytesMax = free.bytes};
  ByteReader reader{Bytes(body)};
  CHECK(decode<MetadataRequest>(reader, 9, &exact));
}

#include <doctest/doctest.h>

#include "vectors.h"
#include "wire/codec.h"
#include "wire/fetch_request.h"
#include "wire/fetch_response.h"
#include "wire/messages.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"
#include "wire/offset_commit_request.h"
#include "wire/produce_request.h"
#include "wire/produce_response.h"

using namespace mq;
using namespace mq::wire;

TEST_CASE("A value that the version has no place for is refused, and the buffer is as it was") {
  MetadataRequest request;
  request.allowAutoTopicCreation = false;  // from version 4
  Buffer buffer{1, 2, 3};
  auto done = encode(request, 3, buffer);
  CHECK(done.errorCode() == Error::invalidRequest);
  CHECK(done.failure().message ==
        "MetadataRequest v3: allowAutoTopicCreation: this version has no place for its value");
  CHECK(buffer == Buffer{1, 2, 3});
  CHECK(encode(request, 4, buffer));
}

TEST_CASE("A droppable value is left out silently where the version has no place for it") {
  OffsetCommitRequest request;
  request.topics.resize(1);
  request.topics[0].partitions.resize(1);
  Buffer plain, dropped;
  REQUIRE(encode(request, 2, plain));
  request.topics[0].partitions[0].committedLeaderEpoch = 7;  // from version 6
  REQUIRE(encode(request, 2, dropped));
  CHECK(plain == dropped);
}

TEST_CASE("A tagged value is refused like any other in a version without tags") {
  ProduceResponse response;
  response.nodeEndpoints.resize(1);
  Buffer buffer;
  CHECK(encode(response, 8, buffer).errorCode() == Error::invalidRequest);
  CHECK(encode(response, 9, buffer).errorCode() == Error::invalidRequest);
  CHECK(encode(response, 10, buffer));
  ProduceResponse unknown;
  unknown.unknownTags.assign({{.tag = 99, .value = {1}}});
  CHECK(encode(unknown, 8, buffer).errorCode() == Error::invalidRequest);
  CHECK(encode(unknown, 9, buffer));
}

TEST_CASE("Null is refused in versions that cannot carry it") {
  MetadataRequest all;
  all.topics = std::nullopt;
  Buffer buffer;
  CHECK(encode(all, 0, buffer).errorCode() == Error::invalidRequest);
  REQUIRE(encode(all, 1, buffer));
  CHECK(toHex(buffer) == "ffffffff");
}

TEST_CASE("Text longer than its length field is refused") {
  FetchRequest request;
  request.rackId = std::string(INT16_MAX + 1, 'r');
  Buffer buffer;
  auto done = encode(request, 11, buffer);
  CHECK(done.failure().message == "FetchRequest v11: rackId: 32768 is too long");
  CHECK(encode(request, 12, buffer));
}

TEST_CASE("External records are spliced in where their bytes would have stood") {
  std::vector<std::string> parts = {std::string(300, 'a'), "", std::string(70000, 'c')};
  for (int16_t version : {int16_t(4), int16_t(12), int16_t(18)}) {
    INFO(version);
    FetchResponse response;
    response.responses.resize(2);
    auto add = [&](size_t topic, const Blob& records) {
      response.responses[topic].partitions.push_back({.abortedTransactions = std::nullopt, .records = records});
    };
    auto fill = [&](auto make) {
      for (auto& topic : response.responses) topic.partitions.clear();
      for (size_t i = 0; i < parts.size(); ++i) add(i == 2, make(parts[i]));
    };

    Buffer whole{0xEE};  // something stands in front already
    fill([](const std::string& text) { return Blob(asBytes(text)); });
    REQUIRE(encode(response, version, whole));

    Buffer head{0xEE};
    Splices splices;
    fill([](const std::string& text) { return Blob::external(text.size()); });
    REQUIRE(encode(response, version, head, splices));
    REQUIRE(splices.size() == 2);  // the empty one needs none
    CHECK(splices[0].length == 300);
    CHECK(splices[1].length == 70000);

    Buffer joined(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(splices[0].at));
    joined.insert(joined.end(), parts[0].begin(), parts[0].end());
    joined.insert(joined.end(), head.begin() + static_cast<std::ptrdiff_t>(splices[0].at),
                  head.begin() + static_cast<std::ptrdiff_t>(splices[1].at));
    joined.insert(joined.end(), parts[2].begin(), parts[2].end());
    joined.insert(joined.end(), head.begin() + static_cast<std::ptrdiff_t>(splices[1].at), head.end());
    CHECK(joined == whole);
  }
}

TEST_CASE("A tagged value longer than 127 bytes gets a longer size in front") {
  ProduceResponse response;
  for (int i = 0; i < 100; ++i) {
    response.nodeEndpoints.push_back({.nodeId = i, .host = std::string(200, 'h'), .port = 9092, .rack = "r"});
  }
  response.unknownTags.assign({{.tag = UINT32_MAX, .value = Buffer(300, 1)}, {.tag = 3, .value = {}}});
  Buffer buffer;
  REQUIRE(encode(response, 10, buffer));
  auto decoded = decode<ProduceResponse>(Bytes(buffer), 10);
  REQUIRE(decoded);
  CHECK(*decoded == response);
}

TEST_CASE("A fresh message encodes in every version, and decodes to a fresh message") {
  for (const Message* descriptor : allMessages()) {
    INFO(descriptor->name);
    for (int16_t version = descriptor->versions.first; version <= descriptor->versions.last; ++version) {
      INFO(version);
      Any message = makeAny(*descriptor);
      Buffer buffer;
      auto encoded = encodeFrom(*descriptor, message.get(), version, buffer, nullptr);
      REQUIRE_MESSAGE(encoded, encoded.failure().message);
      CHECK(buffer.size() >= descriptor->body.bytesMin[version - descriptor->versions.first]);
      Any decoded = makeAny(*descriptor);
      ByteReader reader(buffer);
      REQUIRE(decodeInto(*descriptor, reader, version, decoded.get()));
      CHECK(reader.atEnd());
      CHECK(describe(*descriptor, decoded.get(), version) == describe(*descriptor, message.get(), version));
    }
  }
}

#include "storage/checkpoint.h"

#include <doctest/doctest.h>

#include "storage/file_names.h"
#include "storage/partition_metadata.h"

using namespace mq;
using namespace mq::storage;

TEST_CASE("a checkpoint reads back as it was written, in Kafka's text") {
  Checkpoint checkpoint{{{"b", 0}, Offset(7)}, {{"a.topic_1-x", 12}, Offset(INT64_MAX)}};
  std::string text = encodeCheckpoint(checkpoint);
  CHECK(text == "0\n2\na.topic_1-x 12 9223372036854775807\nb 0 7\n");
  CHECK(decodeCheckpoint(text).value() == checkpoint);
  CHECK(encodeCheckpoint({}) == "0\n0\n");
  CHECK(decodeCheckpoint("0\n0\n").value().empty());
  CHECK(decodeCheckpoint("").value().empty());
}

TEST_CASE("a damaged checkpoint is refused with the line that is wrong") {
  auto problem = [](std::string_view text) {
    auto decoded = decodeCheckpoint(text);
    REQUIRE(!decoded.has_value());
    CHECK(decoded.errorCode() == Error::corruptMessage);
    return decoded.failure().message;
  };
  CHECK(problem("1\n0\n") == "line 1: not version 0");
  CHECK(problem("0\n") == "line 1: not a count");
  CHECK(problem("0\n99999999999\n") == "line 2: not a count");
  CHECK(problem("0\n2000000000\n") == "2000000000 lines were promised, 0 are there");
  CHECK(problem("0\n-1\n") == "line 2: not a count");
  CHECK(problem("0\n1\na 0 7\nb 0 7\n") == "line 4: more lines than were promised");
  CHECK(problem("0\n2\na 0 7\na 0 8\n") == "line 4: this partition stands there twice");
  for (auto line :
       {"a 0", "a 0 -1", "a 0 x", " 0 1", "a b 0 1", "a 0 1 ", "a 2147483648 1", "a 0 9223372036854775808", ""})
    CHECK(problem("0\n1\n" + std::string(line) + "\n") == "line 3: not a topic, a partition and an offset");
}

TEST_CASE("partition.metadata is Kafka's, byte for byte, and any other text is refused") {
  TopicId topic = Uuid::fromHalves(0x0123456789abcdef, 0xfedcba9876543210);
  std::string text = encodePartitionMetadata(topic);
  CHECK(text == "version: 0\ntopic_id: " + topic.toString());
  CHECK(decodePartitionMetadata(text).value() == topic);
  CHECK(decodePartitionMetadata(text + "\n").value() == topic);
  for (auto bad : {"", "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "version: 0\ntopic_id: AAAA", "version: 0\n"})
    CHECK(decodePartitionMetadata(bad).errorCode() == Error::corruptMessage);
}

TEST_CASE("file names carry their offset in 20 digits") {
  CHECK(fileName(Offset(4096), kLogSuffix) == "00000000000000004096.log");
  CHECK(filePath("d", Offset(INT64_MAX), kSnapshotSuffix) == "d/09223372036854775807.snapshot");
  auto parsed = parseFileName("00000000000000004096.log.deleted");
  REQUIRE(parsed);
  CHECK(parsed->base == Offset(4096));
  CHECK(parsed->suffix == ".log.deleted");
  for (auto bad : {"", "4096.log", "0000000000000000409x.log", "99999999999999999999.log", "-0000000000000004096.log"})
    CHECK(!parseFileName(bad));
}

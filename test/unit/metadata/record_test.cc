#include "metadata/record.h"

#include <doctest/doctest.h>

#include "base/random.h"
#include "metadata/print.h"

using namespace mq;
using namespace mq::metadata;

namespace {

Uuid id(uint64_t n) { return Uuid::fromHalves(0, n); }

std::vector<Record> oneOfEach() {
  std::vector<Record> records;
  records.push_back(ClusterRecord{id(1), {{1, id(2), {}}, {2, id(3), {}}}, {}});
  records.push_back(TopicRecord{id(4), "words", {}});
  PartitionsRecord::Partition partition;
  partition.replicas = {1, 2, 3};
  partition.isr = {1, 2};
  partition.leader = 1;
  partition.leaderEpoch = 5;
  partition.partitionEpoch = 9;
  partition.eligibleLeaders = {3};
  partition.adding = {3};
  partition.directories = {id(7), id(8), id(9)};
  records.push_back(PartitionsRecord{id(4), 0, {partition, {}}, {}});
  records.push_back(RemoveTopicRecord{id(5), {}});
  records.push_back(ConfigRecord{2, "words", "retention.ms", "100", {}});
  records.push_back(ConfigRecord{4, "", "num.partitions", std::nullopt, {}});
  BrokerRecord broker;
  broker.nodeId = 1;
  broker.incarnation = id(10);
  broker.epoch = 77;
  broker.listeners = {{"PLAINTEXT", "mq.example", 65535, 0, {}}};
  broker.rack = "r1";
  broker.fenced = true;
  records.push_back(broker);
  records.push_back(ProducerIdsRecord{1000, {}});
  records.push_back(FeatureRecord{"group.version", 1, {}});
  return records;
}

}  // namespace

TEST_CASE("Every kind of record survives encoding and decoding") {
  std::vector<Record> records = oneOfEach();
  Buffer data = encodeRecords(records);
  auto decoded = decodeRecords(data);
  REQUIRE(decoded);
  REQUIRE(decoded->size() == records.size());
  for (size_t i = 0; i < records.size(); ++i) CHECK((*decoded)[i] == records[i]);
  CHECK(encodeRecords(*decoded) == data);
}

TEST_CASE("The bytes of the example in the header are what is written") {
  std::vector<Record> records;
  records.push_back(RemoveTopicRecord{id(1), {}});
  Buffer expected = {0, 4, 0, 17};
  expected.resize(19, 0);
  expected.push_back(1);
  expected.push_back(0);
  CHECK(encodeRecords(records) == expected);
}

TEST_CASE("No records at all are one byte, and nothing is not even that") {
  CHECK(encodeRecords({}) == Buffer{0});
  CHECK(decodeRecords(Buffer{0})->empty());
  CHECK(decodeRecords({}).errorCode() == Error::invalidRequest);
}

TEST_CASE("What a newer build wrote is refused by name, tagged fields excepted") {
  CHECK(decodeRecords(Buffer{1}).failure().message ==
        "metadata records in layout 1, and this mq knows 0 only: start a newer mq");
  CHECK(decodeRecords(Buffer{0, 99, 0, 0}).failure().message ==
        "a metadata record of type 99, which this mq does not know: start a newer mq");
  auto newer = decodeRecords(Buffer{0, 8, 3, 0});
  CHECK(newer.errorCode() == Error::unsupportedVersion);
  CHECK(newer.failure().message ==
        "at byte 1: a FeatureRecord of version 3, and this mq knows up to 0: start a newer mq");
  // name "f", level 1, one tagged field: number 5, two bytes.
  auto tagged = decodeRecords(Buffer{0, 8, 0, 9, 2, 'f', 0, 1, 1, 5, 2, 'x', 'y'});
  REQUIRE(tagged);
  CHECK(std::get<FeatureRecord>((*tagged)[0]).level == 1);
}

TEST_CASE("Cut or changed bytes are refused or are other records, never more") {
  Buffer data = encodeRecords(oneOfEach());
  std::vector<size_t> boundaries = {1};
  for (size_t n = 1; n <= oneOfEach().size(); ++n) {
    auto records = oneOfEach();
    boundaries.push_back(encodeRecords(std::span(records).first(n)).size());
  }
  for (size_t size = 0; size < data.size(); ++size) {
    CAPTURE(size);
    bool whole = std::find(boundaries.begin(), boundaries.end(), size) != boundaries.end();
    CHECK(decodeRecords(Bytes(data).first(size)).has_value() == whole);
  }
  Prng random(7);
  for (int i = 0; i < 20000; ++i) {
    Buffer damaged = data;
    damaged[random.below(damaged.size())] = static_cast<uint8_t>(random.next());
    if (auto records = decodeRecords(damaged)) {
      ImageRef image = emptyImage();
      image = apply(image, *records, 1, 1).image;
      CHECK_FALSE(print(*image).empty());
    }
  }
}

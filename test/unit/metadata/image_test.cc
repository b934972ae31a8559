#include "metadata/image.h"

#include <doctest/doctest.h>

#include "base/random.h"
#include "metadata/print.h"
#include "metadata/record.h"

using namespace mq;
using namespace mq::metadata;

namespace {

Uuid id(uint64_t n) { return Uuid::fromHalves(0, n); }

PartitionsRecord::Partition partitionOn(std::vector<int32_t> replicas) {
  PartitionsRecord::Partition partition;
  partition.isr = replicas;
  partition.leader = replicas.empty() ? -1 : replicas[0];
  partition.replicas = std::move(replicas);
  return partition;
}

// An image and the number of its last entry.
struct World {
  ImageRef image = emptyImage();
  int64_t offset = 0;

  std::string apply(std::vector<Record> records) {
    ImageRef before = image;
    std::string was = print(*before);
    auto applied = metadata::apply(image, records, ++offset, 1);
    CHECK(print(*before) == was);                                                // the old image is untouched
    CHECK(print(*applied.delta) == print(difference(*before, *applied.image)));  // the two ways to the delta agree
    image = applied.image;
    return print(*applied.delta);
  }
  void topic(uint64_t n, std::string name, std::vector<PartitionsRecord::Partition> partitions) {
    apply({TopicRecord{id(n), std::move(name), {}}, PartitionsRecord{id(n), 0, std::move(partitions), {}}});
  }
};

}  // namespace

TEST_CASE("A new topic is found by name and id, with its partitions and their counts") {
  World w;
  CHECK(w.apply({TopicRecord{id(1), "words", {}},
                 PartitionsRecord{id(1), 0, {partitionOn({1, 2}), partitionOn({2})}, {}}}) ==
        "created words AAAAAAAAAAAAAAAAAAAAAQ partitions=2\n");
  REQUIRE(w.image->topic("words"));
  CHECK(w.image->topic("words") == w.image->topic(id(1)));
  CHECK(w.image->topic("word") == nullptr);
  CHECK(w.image->partition({id(1), 1})->leader == NodeId(2));
  CHECK(w.image->partition({id(1), 2}) == nullptr);
  CHECK(w.image->partition({id(1), -1}) == nullptr);
  CHECK(w.image->partitionCount() == 2);
  CHECK(w.image->replicaCount(NodeId(1)) == 1);
  CHECK(w.image->replicaCount(NodeId(2)) == 2);
  CHECK(w.image->replicaCount(NodeId(3)) == 0);
  CHECK(w.image->offset() == 1);
}

TEST_CASE("Partitions are added at the end and changed in place, and only those are in the delta") {
  World w;
  w.topic(1, "t", {partitionOn({1}), partitionOn({1})});
  CHECK(w.apply({PartitionsRecord{id(1), 2, {partitionOn({2})}, {}}}) == "changed t [2]\n");
  auto changed = partitionOn({1, 3});
  changed.partitionEpoch = 1;
  CHECK(w.apply({PartitionsRecord{id(1), 0, {changed}, {}}}) == "changed t [0]\n");
  CHECK(w.image->partitionCount() == 3);
  CHECK(w.image->replicaCount(NodeId(1)) == 2);
  CHECK(w.image->replicaCount(NodeId(3)) == 1);
  CHECK(w.apply({PartitionsRecord{id(1), 0, {changed}, {}}}).empty());
}

TEST_CASE("A topic deleted and made anew in one entry is another topic") {
  World w;
  w.topic(1, "t", {partitionOn({1})});
  w.apply({ConfigRecord{2, "t", "retention.ms", "5", {}}});
  CHECK(w.apply({RemoveTopicRecord{id(1), {}}, TopicRecord{id(2), "t", {}},
                 PartitionsRecord{id(2), 0, {partitionOn({1})}, {}}}) ==
        "created t AAAAAAAAAAAAAAAAAAAAAg partitions=1\ndeleted t AAAAAAAAAAAAAAAAAAAAAQ\nconfigs topic \"t\"\n");
  CHECK(w.image->topicConfigs("t")->empty());
  CHECK(w.image->topic(id(1)) == nullptr);
  CHECK(w.image->partitionCount() == 1);
}

TEST_CASE("A topic that comes and goes within one entry leaves nothing") {
  World w;
  CHECK(w.apply({TopicRecord{id(1), "t", {}}, PartitionsRecord{id(1), 0, {partitionOn({1})}, {}},
                 ConfigRecord{2, "t", "a", "b", {}}, RemoveTopicRecord{id(1), {}}})
            .empty());
  CHECK(w.image->topics().empty());
  CHECK(w.image->allConfigs().empty());
  CHECK(w.image->replicaCount(NodeId(1)) == 0);
}

TEST_CASE("Deleted topics are remembered, the last ones, and through snapshots") {
  World w;
  w.topic(1, "words", {partitionOn({1})});
  CHECK(!w.image->wasDeleted(id(1)));
  w.apply({RemoveTopicRecord{id(1), {}}});
  ImageRef before = w.image;
  w.apply({RemoveTopicRecord{id(1), {}}, RemoveTopicRecord{id(2), {}}});
  CHECK(before->deletedTopics() == std::vector{id(1)});
  CHECK(w.image->deletedTopics() == std::vector{id(1), id(2)});
  ImageRef again = apply(emptyImage(), recordsOf(*w.image), 9, 1).image;
  CHECK(again->deletedTopics() == w.image->deletedTopics());
  for (uint64_t n = 0; n < Image::kDeletedTopicsMax; ++n) w.apply({RemoveTopicRecord{id(100 + n), {}}});
  CHECK(w.image->deletedTopics().size() == Image::kDeletedTopicsMax);
  CHECK(!w.image->wasDeleted(id(2)));
  CHECK(w.image->wasDeleted(id(100)));
}

TEST_CASE("Records about what is not there change nothing") {
  World w;
  w.topic(1, "t", {partitionOn({1})});
  std::string before = print(*w.image);
  --w.offset;
  CHECK(w.apply({PartitionsRecord{id(9), 0, {partitionOn({1})}, {}}, PartitionsRecord{id(1), 2, {partitionOn({1})}, {}},
                 PartitionsRecord{id(1), -1, {partitionOn({1})}, {}}, RemoveTopicRecord{id(9), {}},
                 TopicRecord{id(8), "t", {}}, PartitionsRecord{id(8), 0, {partitionOn({1})}, {}},
                 ConfigRecord{2, "u", "a", std::nullopt, {}}})
            .empty());
  CHECK(print(*w.image) == before);
}

TEST_CASE("Configs, brokers, features, producer ids and voters take their last value") {
  World w;
  w.apply({ClusterRecord{id(1), {{1, id(2), {}}}, {}}});
  CHECK(w.apply({ConfigRecord{4, "", "num.partitions", "3", {}}, ConfigRecord{4, "1", "a", "x", {}}}) ==
        "configs broker \"\"\nconfigs broker \"1\"\n");
  CHECK(w.apply({ConfigRecord{4, "1", "a", std::nullopt, {}}}) == "configs broker \"1\"\n");
  CHECK(w.image->configs({ResourceType::broker, "1"})->empty());
  CHECK(w.image->configs({ResourceType::broker, ""})->at("num.partitions") == "3");
  CHECK(w.apply({BrokerRecord{1, id(3), 4, {{"PLAINTEXT", "h", 9092, 0, {}}}, std::nullopt, false, {}, {}}}) ==
        "broker 1\n");
  CHECK(w.image->broker(NodeId(1))->listener("PLAINTEXT")->port == 9092);
  CHECK(w.image->broker(NodeId(1))->listener("SSL") == nullptr);
  CHECK(w.apply({FeatureRecord{"group.version", 1, {}}}) == "features\n");
  CHECK(w.apply({FeatureRecord{"group.version", 0, {}}}) == "features\n");
  CHECK(w.image->features().empty());
  CHECK(w.apply({ProducerIdsRecord{1000, {}}}).empty());
  CHECK(w.image->nextProducerId() == 1000);
  CHECK(w.image->voters() == std::vector<Voter>{{NodeId(1), id(2)}});
  CHECK(w.image->clusterId() == id(1));
}

TEST_CASE("Random histories: a snapshot of any image makes the same image, deltas agree, old images stay") {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    Prng random(seed);
    World w;
    w.apply({ClusterRecord{id(seed % 2), {{1, id(2), {}}}, {}}});  // voters of a cluster that has no id are kept too
    uint64_t topics = 0;
    for (int step = 0; step < 120; ++step) {
      std::vector<Record> records;
      for (uint64_t n = random.between(1, 6); n > 0; --n) {
        Uuid some = id(100 + random.below(topics + 1));
        switch (random.below(7)) {
          case 0:
          case 1: {
            Uuid fresh = id(100 + topics++);
            records.push_back(TopicRecord{fresh, fmt::format("t{}", random.below(40)), {}});
            records.push_back(PartitionsRecord{fresh, 0, {partitionOn({1, 2}), partitionOn({2, 3})}, {}});
            break;
          }
          case 2: records.push_back(RemoveTopicRecord{some, {}}); break;
          case 3:
            records.push_back(PartitionsRecord{some,
                                               static_cast<int32_t>(random.below(4)),
                                               {partitionOn({static_cast<int32_t>(random.below(5))})},
                                               {}});
            break;
          case 4:
            records.push_back(ConfigRecord{2,
                                           fmt::format("t{}", random.below(40)),
                                           fmt::format("k{}", random.below(3)),
                                           random.chance(1, 2) ? std::optional<std::string>("v") : std::nullopt,
                                           {}});
            break;
          case 5:
            records.push_back(
                BrokerRecord{static_cast<int32_t>(random.below(4)), id(random.next()), step, {}, "r", false, {}, {}});
            break;
          case 6: records.push_back(FeatureRecord{"f", static_cast<int16_t>(random.below(3)), {}}); break;
        }
      }
      w.apply(records);
    }
    auto decoded = decodeRecords(encodeRecords(recordsOf(*w.image)));
    REQUIRE(decoded);
    auto restored = metadata::apply(emptyImage(), *decoded, w.image->offset(), w.image->epoch()).image;
    CHECK(print(*restored) == print(*w.image));
    CHECK(restored->partitionCount() == w.image->partitionCount());
    for (int32_t node = 0; node < 6; ++node)
      CHECK(restored->replicaCount(NodeId(node)) == w.image->replicaCount(NodeId(node)));
    CHECK(difference(*restored, *w.image).empty());
  }
}

TEST_CASE("A change among ten thousand topics shares all other topics with the image before") {
  World w;
  std::vector<Record> records;
  for (uint64_t n = 0; n < 10000; ++n) {
    records.push_back(TopicRecord{id(n + 1), fmt::format("topic-{:05}", n), {}});
    records.push_back(PartitionsRecord{id(n + 1), 0, {partitionOn({1})}, {}});
  }
  w.image = metadata::apply(w.image, records, 1, 1).image;
  ImageRef before = w.image;
  std::vector<Record> change = {PartitionsRecord{id(5000), 1, {partitionOn({1})}, {}}};
  auto applied = metadata::apply(before, change, 2, 1);
  size_t shared = 0;
  for (auto a = before->topics().begin(), b = applied.image->topics().begin(); a != before->topics().end(); ++a, ++b)
    shared += a->second == b->second;
  CHECK(shared == 9999);
}

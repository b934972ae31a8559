// One shard of node 1 in the simulated world: its partitions on a disk, a metadata feed that the test writes, and other
// nodes' coordinators as the test lets them answer.
#pragma once
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/group_coordinator.h"
#include "coordinator/remote.h"
#include "coordinator/transaction_coordinator.h"
#include "coordinator/transaction_gate.h"
#include "metadata/record.h"
#include "metrics/registry.h"
#include "record/builder.h"
#include "replica/partitions.h"
#include "sim_world.h"
#include "storage/log_directory.h"

namespace mq::coordinator::test {

inline constexpr NodeId kSelf{1};

class Others final : public RemoteCoordinators {
 public:
  struct Marker {
    NodeId node;
    MarkerRequest request;
  };
  struct Entry {
    NodeId node;
    EntryRequest request;
  };
  std::vector<Marker> markers;
  std::vector<Entry> entries;
  std::function<Result<void>(const Marker&)> onMarker = [](const Marker&) { return Result<void>(); };
  std::function<Result<void>(const Entry&)> onEntry = [](const Entry&) { return Result<void>(); };

  kj::Promise<Result<void>> writeMarker(NodeId node, MarkerRequest request, Duration) override {
    markers.push_back({node, std::move(request)});
    return onMarker(markers.back());
  }
  kj::Promise<Result<void>> mayEnter(NodeId node, EntryRequest request, Duration) override {
    entries.push_back({node, std::move(request)});
    return onEntry(entries.back());
  }
};

struct Place {
  std::vector<int32_t> replicas = {1};
  int32_t leader = 1;
  int32_t leaderEpoch = 0;
  std::vector<int32_t> isr = {};  // none: all replicas
};

class Site {
 public:
  explicit Site(Shard& first)
      : shard(first),
        directory(shard, options(), {.clusterId = {}, .node = kSelf}),
        logs(shard, directory),
        partitions(shard, kSelf, {}, logs, feed, metrics),
        groups(shard, partitions, feed, {.node = kSelf, .settings = {}}),
        transactions(shard, partitions, feed, {.node = kSelf, .settings = {}}),
        gate(shard, partitions, feed) {
    node = {kSelf, {{&partitions, &groups, &transactions, &gate}}, &others};
    transactions.connect(node);
    gate.connect(node);
  }

  static TopicId idOf(std::string_view topic) { return Uuid::fromHalves(std::hash<std::string_view>()(topic), 7); }

  void topic(const std::string& name, const std::vector<Place>& places) {
    metadata::PartitionsRecord partitionsOf{idOf(name), 0, {}, {}};
    for (const Place& place : places) partitionsOf.partitions.push_back(recordOf(place));
    publish({metadata::TopicRecord{idOf(name), name, {}}, std::move(partitionsOf)});
  }
  void move(const std::string& topic, int32_t index, const Place& place) {
    publish({metadata::PartitionsRecord{idOf(topic), index, {recordOf(place)}, {}}});
  }
  void remove(const std::string& topic) { publish({metadata::RemoveTopicRecord{idOf(topic), {}}}); }

  Co<replica::Partition*> open(std::string topic, int32_t index) {
    co_await partitions.whenOpened();
    replica::Partition* partition = partitions.find({idOf(topic), index});
    REQUIRE(partition != nullptr);
    co_return partition;
  }
  Co<void> until(std::function<bool()> condition, Duration limit = 20s) {
    Instant end = shard.now() + limit;
    while (!condition()) {
      REQUIRE(shard.now() < end);
      co_await shard.after(1ms);
    }
  }
  Co<void> close() {
    gate.stop();
    transactions.stop();
    groups.stop();
    partitions.close();
    co_await logs.close();
    co_await directory.close();
  }

  Shard& shard;
  controller::MetadataFeed feed;
  metrics::Registry metrics;
  storage::LogDirectory directory;
  storage::LogShard logs;
  replica::Partitions partitions;
  Others others;
  CoordinatorNode node;
  GroupCoordinator groups;
  TransactionCoordinator transactions;
  TransactionGate gate;

 private:
  static storage::Options options() {
    storage::Options options;
    options.path = "/data";
    options.tuning.freeBytesMin = 0;
    options.reserveBytes = 0;
    return options;
  }
  metadata::PartitionsRecord::Partition recordOf(const Place& place) {
    metadata::PartitionsRecord::Partition record;
    record.replicas = place.replicas;
    record.isr = place.isr.empty() ? place.replicas : place.isr;
    record.leader = place.leader;
    record.leaderEpoch = place.leaderEpoch;
    record.partitionEpoch = ++changes_;
    return record;
  }
  void publish(std::vector<metadata::Record> records) {
    metadata::Applied applied = metadata::apply(image_, records, ++offset_, 1);
    image_ = applied.image;
    feed.publish(image_, *applied.delta);
  }

  metadata::ImageRef image_ = metadata::emptyImage();
  int64_t offset_ = 0;
  int32_t changes_ = 0;
};

// One life of the node, to its orderly end.
inline void live(sim::SimWorld& world, std::function<Co<void>(Site& site)> body) {
  if (world.nodes() == 0) world.addNode();
  sim::SimNode& node = world.node(1);
  world.run([&] {
    node.start(1, [&](Shard& first) -> Co<void> {
      Site site(first);
      co_await body(site);
      co_await site.close();
    });
    return node.ended();
  });
}

inline Buffer batchOf(record::BatchOptions options = {}) {
  record::Workspace workspace;
  record::BatchBuilder builder(options);
  builder.add({.timestamp = WallMs(1), .key = asBytes("key"), .value = asBytes("value"), .headers = {}});
  return builder.build(workspace);
}

}  // namespace mq::coordinator::test

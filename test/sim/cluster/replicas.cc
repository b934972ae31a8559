#include "replicas.h"

#include <fmt/format.h>
#include <kj/debug.h>

#include <memory>

#include "answers.h"
#include "record/batch.h"
#include "wire/fetch_request.h"
#include "wire/fetch_response.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"

namespace mq::sim {
namespace {

constexpr Duration kLookWithin = 3s;
constexpr Duration kEqualWithin = 60s;

using Metadata = Answer<wire::MetadataResponse>;

template <class... Args>
[[noreturn]] void violated(fmt::format_string<Args...> format, Args&&... args) {
  kj::throwFatalException(KJ_EXCEPTION(FAILED, kj::str(fmt::format(format, std::forward<Args>(args)...).c_str())));
}

Co<std::optional<Metadata>> metadataOf(KafkaClient& client) {
  std::optional<Metadata> metadata;
  co_await attempted(
      client.call(wire::MetadataRequest{.topics = std::nullopt, .allowAutoTopicCreation = false}, 9, kLookWithin)
          .then([&metadata](Metadata&& got) { metadata = std::move(got); }));
  co_return metadata;
}

// What is wrong with the partitions that one broker tells of; leaders are those that the brokers before have told.
std::string problemIn(const wire::MetadataResponse& metadata, size_t brokers,
                      std::map<TopicPartition, int32_t>& leaders, InSyncState& state) {
  if (metadata.brokers.size() != brokers)
    return fmt::format("{} of {} brokers are there", metadata.brokers.size(), brokers);
  for (const auto& topic : metadata.topics) {
    if (topic.errorCode != Error::none) return fmt::format("{}: {}", *topic.name, topic.errorCode);
    for (const auto& partition : topic.partitions) {
      TopicPartition name{*topic.name, partition.partitionIndex};
      state.replicasMin = std::min(state.replicasMin, partition.replicaNodes.size());
      if (partition.errorCode != Error::none) return fmt::format("{}: {}", name, partition.errorCode);
      if (partition.leaderId < 0) return fmt::format("{} has no leader", name);
      if (partition.isrNodes.size() != partition.replicaNodes.size())
        return fmt::format("{}: {} are in sync of {}", name, fmt::join(partition.isrNodes, ","),
                           fmt::join(partition.replicaNodes, ","));
      auto [at, isNew] = leaders.try_emplace(name, partition.leaderId);
      if (!isNew && at->second != partition.leaderId) return fmt::format("brokers tell of several leaders of {}", name);
    }
  }
  return {};
}

struct Held {
  int64_t highWatermark = -1;
  std::vector<std::pair<int64_t, uint64_t>> batches;  // base offset and a hash of all bytes
};

uint64_t hashOf(Bytes bytes) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001B3u;
  return hash;
}

// What one replica serves from an offset on; nullopt: not now.
Co<std::optional<Held>> heldBy(KafkaClient& client, TopicPartition partition, int64_t from) {
  Held held;
  for (int64_t next = from;;) {
    wire::FetchRequest request{.maxWaitMs = 0, .minBytes = 0, .maxBytes = 1 << 20};
    request.topics = {
        {.topic = partition.topic,
         .partitions = {{.partition = partition.partition, .fetchOffset = next, .partitionMaxBytes = 1 << 20}}}};
    auto answer = co_await client.call(std::move(request), 12, kLookWithin);
    if (answer.message.errorCode != Error::none) co_return std::nullopt;
    const auto& part = answer.message.responses.at(0).partitions.at(0);
    if (part.errorCode != Error::none) co_return std::nullopt;
    held.highWatermark = part.highWatermark;
    const int64_t before = next;
    for (Bytes left = part.records ? part.records->view() : Bytes();;) {
      record::NextBatch batch = record::nextBatch(left);
      if (batch.kind != record::NextBatch::Kind::whole) break;
      left = left.subspan(batch.sizeBytes);
      record::BatchView view(batch.batch);
      held.batches.emplace_back(view.baseOffset().value(), hashOf(batch.batch));
      next = view.nextOffset().value();
    }
    if (next >= held.highWatermark) co_return held;
    if (next == before) co_return std::nullopt;
  }
}

// How one replica differs from what another has. It may begin later: a leader that was trimmed and lost its post.
Co<std::string> differenceAt(KafkaClient& client, TopicPartition partition, const Held& other) {
  std::string problem = "it does not serve it";
  for (size_t begin = 0; begin <= other.batches.size(); ++begin) {
    std::optional<Held> held;
    const int64_t from = begin < other.batches.size() ? other.batches[begin].first : other.highWatermark;
    co_await attempted(heldBy(client, partition, from).then([&held](auto&& got) { held = std::move(got); }));
    if (!held) continue;
    if (held->highWatermark != other.highWatermark)
      co_return fmt::format("its high watermark is {} instead of {}", held->highWatermark, other.highWatermark);
    for (size_t i = 0; i < std::max(held->batches.size(), other.batches.size() - begin); ++i) {
      if (i >= held->batches.size() || begin + i >= other.batches.size() ||
          held->batches[i] != other.batches[begin + i])
        co_return fmt::format("of its {} batches from offset {} on the one with number {} is another",
                              held->batches.size(), from, i);
    }
    co_return std::string();
  }
  co_return problem;
}

// Empty: all replicas of it hold the same.
Co<std::string> differenceIn(std::vector<std::unique_ptr<KafkaClient>>& brokers, TopicPartition partition,
                             int32_t leader, std::vector<int32_t> replicas, int64_t logStart) {
  auto clientOf = [&](int32_t node) -> KafkaClient& { return *brokers.at(static_cast<size_t>(node) - 1); };
  std::optional<Held> first;
  co_await attempted(
      heldBy(clientOf(leader), partition, logStart).then([&first](auto&& got) { first = std::move(got); }));
  if (!first) co_return fmt::format("{}: its leader {} does not serve it", partition, leader);
  for (int32_t replica : replicas) {
    if (replica == leader) continue;
    std::string difference = co_await differenceAt(clientOf(replica), partition, *first);
    if (!difference.empty()) co_return fmt::format("{}: node {}: {}", partition, replica, difference);
  }
  co_return std::string();
}

std::vector<std::unique_ptr<KafkaClient>> connectionsTo(Workload& w) {
  std::vector<std::unique_ptr<KafkaClient>> clients;
  for (const Address& broker : w.brokers) clients.push_back(std::make_unique<KafkaClient>(w.shard, broker));
  return clients;
}

}  // namespace

Co<InSyncState> lookAtReplicas(Workload& w) {
  auto clients = connectionsTo(w);
  std::map<TopicPartition, int32_t> leaders;
  InSyncState state;
  for (size_t i = 0; i < clients.size(); ++i) {
    auto metadata = co_await metadataOf(*clients[i]);
    if (!metadata) {
      state.problem = fmt::format("node {} does not answer", i + 1);
      co_return state;
    }
    state.problem = problemIn(metadata->message, clients.size(), leaders, state);
    if (!state.problem.empty()) {
      state.problem = fmt::format("node {} says: {}", i + 1, state.problem);
      co_return state;
    }
  }
  co_return state;
}

Co<void> awaitInSync(Workload& w, Duration limit) {
  const Instant end = w.shard.now() + limit;
  for (;;) {
    InSyncState state = co_await lookAtReplicas(w);
    if (state.problem.empty()) co_return;
    if (w.shard.now() > end) violated("in-sync-again: {}", state.problem);
    co_await w.shard.after(200ms);
  }
}

Co<void> watchReplicasUntilStopped(Workload& w, std::map<std::string, uint64_t>& marks) {
  struct Known {
    int32_t leader = -1, leaderEpoch = -1;
    size_t inSync = 0;
  };
  Prng random = w.random.fork();
  auto clients = connectionsTo(w);
  std::map<std::pair<std::string, int32_t>, Known> partitions;
  while (!w.stopping) {
    co_await w.shard.after(Duration(std::chrono::milliseconds(random.between(20, 400))));
    auto metadata = co_await metadataOf(*clients[random.below(clients.size())]);
    if (!metadata) continue;
    for (const auto& topic : metadata->message.topics) {
      for (const auto& partition : topic.partitions) {
        Known& known = partitions[{*topic.name, partition.partitionIndex}];
        if (partition.leaderEpoch < known.leaderEpoch) continue;  // an old story
        const bool isNew = known.leaderEpoch < 0;
        if (!isNew && partition.leaderId >= 0 && known.leader != partition.leaderId) ++marks["leader-change"];
        if (!isNew && partition.isrNodes.size() < known.inSync) ++marks["isr-shrink"];
        if (!isNew && partition.isrNodes.size() > known.inSync) ++marks["isr-expand"];
        if (partition.leaderId < 0) ++marks["no-leader"];
        known = {partition.leaderId >= 0 ? partition.leaderId : known.leader, partition.leaderEpoch,
                 partition.isrNodes.size()};
      }
    }
  }
}

Co<void> compareReplicas(Workload& w, std::map<TopicPartition, FinalPartition> partitions) {
  auto clients = connectionsTo(w);
  auto look = [&] { return metadataOf(*clients.front()); };
  auto metadata = co_await patiently<Metadata>(w.shard, "Metadata", look);
  const Instant limit = w.shard.now() + kEqualWithin;
  for (const auto& topic : metadata.message.topics) {
    if (topic.isInternal) continue;
    for (const auto& row : topic.partitions) {
      const TopicPartition partition{*topic.name, row.partitionIndex};
      auto read = partitions.find(partition);
      const int64_t start = read == partitions.end() ? 0 : read->second.logStart;  // others are never trimmed
      for (int32_t leader = row.leaderId;;) {
        std::string difference = co_await differenceIn(clients, partition, leader, row.replicaNodes, start);
        if (difference.empty()) break;
        if (w.shard.now() > limit) violated("replicas-equal: {}", difference);
        co_await w.shard.after(200ms);
        auto news = co_await patiently<Metadata>(w.shard, "Metadata", look);  // leaders may still move
        for (const auto& one : news.message.topics)
          for (const auto& each : one.partitions)
            if (TopicPartition{*one.name, each.partitionIndex} == partition && each.leaderId >= 0)
              leader = each.leaderId;
      }
    }
  }
}

}  // namespace mq::sim

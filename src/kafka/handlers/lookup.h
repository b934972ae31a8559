// Finding what a request names, in the image the shard has now.
#pragma once
#include <string_view>

#include "kafka/request.h"
#include "kafka/server.h"

namespace mq::kafka {

// Where one named partition is, or why it is nowhere.
struct Located {
  Error error = Error::none;
  TopicIdPartition id;
};

// `topic` null: not known, which is `unknownTopic` to the client (by id UNKNOWN_TOPIC_ID, by name
// UNKNOWN_TOPIC_OR_PARTITION).
inline Located locate(const metadata::Topic* topic, int32_t partition, Error unknownTopic) {
  if (topic == nullptr) return {.error = unknownTopic};
  if (topic->partition(partition) == nullptr) return {.error = Error::unknownTopicOrPartition};
  return {.id = {topic->id, partition}};
}

// Runs fn(partitions of that shard) where the partition lives and answers its promise here. Calls to one shard start in
// the order in which they were made. fn outlives the returned promise; it must not hold on to the request.
template <class Fn>
auto atOwner(Server& server, const TopicIdPartition& id, Fn fn) {
  uint32_t owner = server.shardOf(id);
  replica::Partitions& partitions = server.partitionsOf(owner);
  using Promise = decltype(fn(partitions));
  if (owner == server.shard().index()) return Promise(fn(partitions));
  return Promise(server.shard().call(owner, [&partitions, fn = std::move(fn)]() mutable { return fn(partitions); }));
}

// Topics whose name belongs to us: their records are state of coordinators.
inline bool isInternal(std::string_view topic) {
  return topic == "__consumer_offsets" || topic == "__transaction_state" || topic == "__share_group_state";
}

// As Kafka without an authorizer answers "what may I do here": bits by AclOperation.
inline constexpr int32_t kTopicOperations = 0b1101'1111'1000;  // read to describe, describe and alter configs
inline constexpr int32_t kClusterOperations =
    0b1'1111'1010'0000;  // create, alter, describe, cluster action, configs, idempotent write

}  // namespace mq::kafka

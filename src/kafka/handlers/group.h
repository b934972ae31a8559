// Reaching the coordinator of a group: the shard that has its partition of __consumer_offsets.
#pragma once
#include <string_view>

#include "coordinator/group_coordinator.h"
#include "kafka/handlers/lookup.h"
#include "kafka/request.h"
#include "kafka/server.h"

namespace mq::kafka {

// As Kafka without an authorizer answers: read, delete, describe, describe and alter configs.
inline constexpr int32_t kGroupOperations = 0b1101'0100'1000;

inline coordinator::Caller callerOf(const Request& request) {
  return {request.session.clientId, "/" + plainHost(request.session.peer.host), request.version};
}

// ask(groups, now, answer, effects) as one step on the partition that keeps the group. It may run on another shard, and
// after the client has gone: it must own what it uses. NOT_COORDINATOR when that partition is not led here.
template <class Answered, class Ask>
kj::Promise<Result<Answered>> atCoordinator(Server& server, std::string_view group, Ask ask) {
  metadata::TopicRef topic = server.image().topic(coordinator::kOffsetsTopic);
  if (topic == nullptr) return Result<Answered>(Error::notCoordinator);
  int32_t partition = coordinator::partitionOf(group, topic->partitionCount());
  uint32_t owner = server.shardOf({topic->id, partition});
  coordinator::GroupCoordinator& there = server.coordinatorOf(owner);
  if (owner == server.shard().index()) return there.ask<Answered>(partition, std::move(ask));
  return server.shard().call(owner, [&there, partition, ask = std::move(ask)]() mutable {
    return there.ask<Answered>(partition, std::move(ask));
  });
}

// Decoded bytes are views into the frame; what outlives the request has its own.
inline void own(wire::Blob& blob) { blob = wire::Blob::copyOf(blob.view()); }

}  // namespace mq::kafka

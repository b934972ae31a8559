// TxnOffsetCommit: a commit for a group inside a producer's transaction. From version 5 on it also puts the group's
// partition of __consumer_offsets into the transaction (KIP-890).
#include "coordinator/transaction_gate.h"
#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/txn_offset_commit_request.h"
#include "wire/txn_offset_commit_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kAbortableFrom = 4;
constexpr int16_t kAddsFrom = 5;
constexpr int16_t kTopicIdsFrom = 6;

using Asked = wire::TxnOffsetCommitRequest;
using Committed = wire::TxnOffsetCommitResponse;

// What the coordinator is asked, and where in the response its answers belong.
struct Split {
  Asked asked;
  std::vector<std::pair<size_t, size_t>> places;  // topic, partition in the response
  Committed response;
};

Split split(const Request& request, Asked&& all) {
  const metadata::Image& image = request.server.image();
  const bool isById = request.version >= kTopicIdsFrom;
  Split split;
  auto topics = std::move(all.topics);
  split.asked = std::move(all);
  for (size_t t = 0; t < topics.size(); ++t) {
    auto& topic = topics[t];
    auto& told = split.response.topics.emplace_back();
    told.name = topic.name;
    told.topicId = topic.topicId;
    metadata::TopicRef known = isById ? image.topic(topic.topicId) : image.topic(topic.name);
    Asked::TxnOffsetCommitRequestTopic sent;
    if (known) {
      sent.name = known->name;
      sent.topicId = known->id;
    }
    for (size_t p = 0; p < topic.partitions.size(); ++p) {
      auto& partition = topic.partitions[p];
      auto& outcome = told.partitions.emplace_back();
      outcome.partitionIndex = partition.partitionIndex;
      if (known == nullptr) {
        outcome.errorCode = isById ? Error::unknownTopicId : Error::unknownTopicOrPartition;
      } else if (known->partition(partition.partitionIndex) == nullptr) {
        outcome.errorCode = Error::unknownTopicOrPartition;
      } else {
        split.places.emplace_back(t, p);
        sent.partitions.push_back(std::move(partition));
      }
    }
    if (!sent.partitions.empty()) split.asked.topics.push_back(std::move(sent));
  }
  return split;
}

kj::Promise<Result<Committed>> commit(const Request& request, Asked asked) {
  Server& server = request.server;
  metadata::TopicRef topic = server.image().topic(coordinator::kOffsetsTopic);
  if (topic == nullptr) return Result<Committed>(Error::notCoordinator);
  if (asked.groupId.empty()) return Result<Committed>(Error::invalidGroupId);
  int32_t partition = coordinator::partitionOf(asked.groupId, topic->partitionCount());
  coordinator::TransactionGate::Asked entry{
      .id = {topic->id, partition},
      .topic = topic->name,
      .transactionalId = asked.transactionalId,
      .producer = {ProducerId(asked.producerId), asked.producerEpoch},
      .adds = request.version >= kAddsFrom,
      .knowsAbortable = request.version >= kAbortableFrom,
  };
  uint32_t owner = server.shardOf(entry.id);
  return server.shard().call(owner, [&gate = server.gateOf(owner), &groups = server.coordinatorOf(owner),
                                     entry = std::move(entry), asked = std::move(asked)]() mutable {
    int32_t index = entry.id.partition;
    return gate.enter<Committed>(std::move(entry), [&groups, index, asked = std::move(asked)](uint64_t guard) mutable {
      return groups.ask<Committed>(
          index, [&asked, guard](coordinator::Groups& there, const coordinator::Now& now,
                                 coordinator::Answer<Committed> answer, coordinator::Effects& effects) {
            there.commitPending(std::move(asked), now, std::move(answer), effects);
            effects.guard = guard;
          });
    });
  });
}

Error toClient(Error error) {
  // The transaction's coordinator; the client only looks for the group's.
  return error == Error::coordinatorNotAvailable ? Error::coordinatorLoadInProgress : error;
}

}  // namespace

Co<Committed> txnOffsetCommit(Request& request, Asked asked) {
  Split parts = split(request, std::move(asked));
  if (parts.places.empty()) co_return std::move(parts.response);
  auto committed = co_await commit(request, std::move(parts.asked));
  size_t place = 0;
  auto outcomeAt = [&](size_t at) -> Error& {
    auto [topic, partition] = parts.places[at];
    return parts.response.topics[topic].partitions[partition].errorCode;
  };
  if (committed) {
    for (const auto& topic : committed->topics)
      for (const auto& partition : topic.partitions) outcomeAt(place++) = partition.errorCode;
  } else {
    for (; place < parts.places.size(); ++place) outcomeAt(place) = toClient(committed.failure().error);
  }
  co_return std::move(parts.response);
}

}  // namespace mq::kafka

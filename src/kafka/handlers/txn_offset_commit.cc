// TxnOffsetCommit: a commit for a group inside a producer's transaction. From version 5 on it also puts the group's
// partition of __consumer_offsets into the transaction (KIP-890).
#include "coordinator/transaction_gate.h"
#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/offset_split.h"
#include "wire/txn_offset_commit_request.h"
#include "wire/txn_offset_commit_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kAbortableFrom = 4;
constexpr int16_t kAddsFrom = 5;
constexpr int16_t kTopicIdsFrom = 6;

using Asked = wire::TxnOffsetCommitRequest;
using Committed = wire::TxnOffsetCommitResponse;

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
  OffsetSplit<Asked, Committed> parts(request.server.image(), std::move(asked), request.version >= kTopicIdsFrom);
  if (parts.places.empty()) co_return std::move(parts.response);
  auto committed = co_await commit(request, std::move(parts.asked));
  if (committed)
    parts.take(*committed);
  else
    parts.refuse(toClient(committed.failure().error));
  co_return std::move(parts.response);
}

}  // namespace mq::kafka

// Reaching the coordinator of a transaction: the shard that has its partition of __transaction_state.
#pragma once
#include <string_view>

#include "coordinator/transaction_coordinator.h"
#include "kafka/handlers/lookup.h"
#include "kafka/request.h"
#include "kafka/server.h"

namespace mq::kafka {

// ask(transactions, now, answer, effects) as one step on the partition that keeps the id. It may run on another shard,
// and after the client has gone: it must own what it uses. NOT_COORDINATOR when that partition is not led here.
template <class Answered, class Ask>
kj::Promise<Result<Answered>> atTransaction(Server& server, std::string_view transactionalId, Ask ask) {
  metadata::TopicRef topic = server.image().topic(coordinator::kTransactionsTopic);
  if (topic == nullptr) return Result<Answered>(Error::notCoordinator);
  int32_t partition = coordinator::partitionOf(transactionalId, topic->partitionCount());
  uint32_t owner = server.shardOf({topic->id, partition});
  coordinator::TransactionCoordinator& there = server.transactionsOf(owner);
  if (owner == server.shard().index()) return there.ask<Answered>(partition, std::move(ask));
  return server.shard().call(owner, [&there, partition, ask = std::move(ask)]() mutable {
    return there.ask<Answered>(partition, std::move(ask));
  });
}

// Clients before that version of the request do not know PRODUCER_FENCED.
inline Error knownFence(Error error, int16_t version, int16_t knownFrom) {
  return error == Error::producerFenced && version < knownFrom ? Error::invalidProducerEpoch : error;
}

}  // namespace mq::kafka

// AddOffsetsToTxn: puts the partition of __consumer_offsets that keeps a group into a transaction.
#include "coordinator/group_coordinator.h"
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/transaction.h"
#include "wire/add_offsets_to_txn_request.h"
#include "wire/add_offsets_to_txn_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kFencedFrom = 2;

}  // namespace

Co<wire::AddOffsetsToTxnResponse> addOffsetsToTxn(Request& request, wire::AddOffsetsToTxnRequest asked) {
  wire::AddOffsetsToTxnResponse response;
  if (asked.transactionalId.empty()) {
    response.errorCode = Error::invalidRequest;
    co_return response;
  }
  auto topic = co_await request.server.offsetsTopic();
  if (!topic) {
    response.errorCode = topic.failure().error;
    co_return response;
  }
  int32_t partition = coordinator::partitionOf(asked.groupId, (*topic)->partitionCount());
  coordinator::Transactions::Add add{.id = asked.transactionalId,
                                     .producer = {ProducerId(asked.producerId), asked.producerEpoch},
                                     .partitions = {{(*topic)->name, partition}}};
  auto added = co_await atTransaction<coordinator::Left>(
      request.server, asked.transactionalId,
      [add = std::move(add)](auto& transactions, const auto& now, auto answer, auto& effects) mutable {
        transactions.add(std::move(add), now, std::move(answer), effects);
      });
  response.errorCode = knownFence(added.errorCode(), request.version, kFencedFrom);
  co_return response;
}

}  // namespace mq::kafka

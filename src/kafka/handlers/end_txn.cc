// EndTxn: answered once the decision is committed; the markers follow. From version 5 on the answer names the
// producer's next epoch (KIP-890).
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/transaction.h"
#include "wire/end_txn_request.h"
#include "wire/end_txn_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kFencedFrom = 2;
constexpr int16_t kEpochPerTransactionFrom = 5;

}  // namespace

Co<wire::EndTxnResponse> endTxn(Request& request, wire::EndTxnRequest asked) {
  using coordinator::GivenProducer;
  wire::EndTxnResponse response;
  if (asked.transactionalId.empty()) {
    response.errorCode = Error::invalidRequest;
    co_return response;
  }
  coordinator::Transactions::End end{.id = std::move(asked.transactionalId),
                                     .producer = {ProducerId(asked.producerId), asked.producerEpoch},
                                     .commits = asked.committed};
  if (request.version >= kEpochPerTransactionFrom) end.clientVersion = coordinator::kEpochPerTransaction;
  for (;;) {
    auto given = co_await atTransaction<GivenProducer>(
        request.server, end.id, [end](auto& transactions, const auto& now, auto answer, auto& effects) {
          transactions.end(end, now, std::move(answer), effects);
        });
    if (!given) {
      response.errorCode = knownFence(given.failure().error, request.version, kFencedFrom);
      co_return response;
    }
    if (!given->needsId) {
      response.producerId = given->producer.id.value();
      response.producerEpoch = given->producer.epoch;
      co_return response;
    }
    auto fresh = co_await request.server.nextProducerId();
    if (!fresh) {
      response.errorCode = fresh.failure().error;
      co_return response;
    }
    end.fresh = *fresh;
  }
}

}  // namespace mq::kafka

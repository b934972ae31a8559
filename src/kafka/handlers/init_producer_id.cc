// InitProducerId: ids for idempotent producers, of which each shard hands out of a block that the controller gave it;
// for transactional ones the transaction's coordinator decides.
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/transaction.h"
#include "wire/init_producer_id_request.h"
#include "wire/init_producer_id_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kFencedFrom = 4;

using coordinator::GivenProducer;
using coordinator::Transactions;

Co<Result<GivenProducer>> initTransactional(Server& server, Transactions::Init init) {
  for (;;) {
    std::string id = init.id;
    auto given = co_await atTransaction<GivenProducer>(
        server, id, [init](auto& transactions, const auto& now, auto answer, auto& effects) {
          transactions.init(init, now, std::move(answer), effects);
        });
    if (!given || !given->needsId) co_return given;
    auto fresh = co_await server.nextProducerId();
    if (!fresh) co_return fresh.failure();
    init.fresh = *fresh;
  }
}

}  // namespace

Co<wire::InitProducerIdResponse> initProducerId(Request& request, wire::InitProducerIdRequest asked) {
  wire::InitProducerIdResponse response;
  response.producerEpoch = -1;
  if ((asked.transactionalId && asked.transactionalId->empty()) ||
      (asked.producerId < 0) != (asked.producerEpoch < 0)) {
    response.errorCode = Error::invalidRequest;
    co_return response;
  }
  if (asked.transactionalId) {
    Transactions::Init init{.id = *asked.transactionalId, .timeoutMs = asked.transactionTimeoutMs};
    if (asked.producerId >= 0) init.expected = {ProducerId(asked.producerId), asked.producerEpoch};
    auto given = co_await initTransactional(request.server, std::move(init));
    if (given) {
      response.producerId = given->producer.id.value();
      response.producerEpoch = given->producer.epoch;
    } else {
      response.errorCode = knownFence(given.failure().error, request.version, kFencedFrom);
    }
    co_return response;
  }
  auto id = co_await request.server.nextProducerId();
  if (id) {
    response.producerId = id->value();
    response.producerEpoch = 0;
  } else {
    response.errorCode = id.failure().error;
  }
  co_return response;
}

}  // namespace mq::kafka

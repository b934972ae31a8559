// InitProducerId: ids for idempotent producers. Each shard hands out of a block that the controller gave it.
#include "kafka/handlers/handlers.h"
#include "kafka/server.h"
#include "wire/init_producer_id_request.h"
#include "wire/init_producer_id_response.h"

namespace mq::kafka {

Co<wire::InitProducerIdResponse> initProducerId(Request& request, wire::InitProducerIdRequest asked) {
  wire::InitProducerIdResponse response;
  response.producerEpoch = -1;
  if (asked.transactionalId) {
    response.errorCode = asked.transactionalId->empty() ? Error::invalidRequest : Error::coordinatorNotAvailable;
    co_return response;
  }
  if ((asked.producerId < 0) != (asked.producerEpoch < 0)) {
    response.errorCode = Error::invalidRequest;
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

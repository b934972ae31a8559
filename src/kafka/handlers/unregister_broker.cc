// UnregisterBroker (KIP-631): forgets a broker that will not come back.
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/partition_results.h"
#include "kafka/server.h"
#include "wire/unregister_broker_request.h"
#include "wire/unregister_broker_response.h"

namespace mq::kafka {

Co<wire::UnregisterBrokerResponse> unregisterBroker(Request& request, wire::UnregisterBrokerRequest asked) {
  auto done = co_await request.server.controller().ask(controller::UnregisterBrokerRequest{NodeId(asked.brokerId)});
  wire::UnregisterBrokerResponse response;
  response.errorCode = done.errorCode();
  response.errorMessage = messageOf(done);
  co_return response;
}

}  // namespace mq::kafka

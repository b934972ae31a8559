#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/consumer_group_heartbeat_request.h"
#include "wire/consumer_group_heartbeat_response.h"

namespace mq::kafka {

Co<wire::ConsumerGroupHeartbeatResponse> consumerGroupHeartbeat(Request& request,
                                                                wire::ConsumerGroupHeartbeatRequest asked) {
  wire::ConsumerGroupHeartbeatResponse response;
  response.assignment.reset();
  if (!request.server.hasConsumerProtocol()) {
    response.errorCode = Error::unsupportedVersion;
    response.errorMessage = "The consumer protocol is off: the feature group.version is at level 0.";
    co_return response;
  }
  std::string group = asked.groupId;
  auto told = co_await atCoordinator<wire::ConsumerGroupHeartbeatResponse>(
      request.server, group,
      [caller = callerOf(request), asked = std::move(asked)](auto& groups, const auto& now, auto answer,
                                                             auto& effects) mutable {
        groups.consumerHeartbeat(caller, std::move(asked), now, std::move(answer), effects);
      });
  if (told) co_return std::move(*told);
  response.errorCode = told.failure().error;
  if (!told.failure().message.empty()) response.errorMessage = told.failure().message;
  co_return response;
}

}  // namespace mq::kafka

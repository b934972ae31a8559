#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/heartbeat_request.h"
#include "wire/heartbeat_response.h"

namespace mq::kafka {

Co<wire::HeartbeatResponse> heartbeat(Request& request, wire::HeartbeatRequest asked) {
  wire::HeartbeatResponse response;
  if (asked.groupId.empty()) {
    response.errorCode = Error::invalidGroupId;
    co_return response;
  }
  std::string group = asked.groupId;
  auto alive = co_await atCoordinator<coordinator::Left>(
      request.server, group, [asked = std::move(asked)](auto& groups, const auto& now, auto answer, auto& effects) {
        groups.heartbeat(asked.groupId, asked.memberId, asked.groupInstanceId, asked.generationId, now,
                         std::move(answer), effects);
      });
  // Sessions begin anew once the groups are read, so while they are not a member is as alive as it can be.
  if (!alive && alive.failure().error != Error::coordinatorLoadInProgress) response.errorCode = alive.failure().error;
  co_return response;
}

}  // namespace mq::kafka

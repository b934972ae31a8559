#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/sync_group_request.h"
#include "wire/sync_group_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kProtocolFrom = 5;

wire::SyncGroupResponse refused(Error error) {
  wire::SyncGroupResponse response;
  response.errorCode = error;
  return response;
}

}  // namespace

Co<wire::SyncGroupResponse> syncGroup(Request& request, wire::SyncGroupRequest asked) {
  if (asked.groupId.empty()) co_return refused(Error::invalidGroupId);
  if (request.version >= kProtocolFrom && (!asked.protocolType || !asked.protocolName))
    co_return refused(Error::inconsistentGroupProtocol);
  for (auto& assignment : asked.assignments) own(assignment.assignment);
  std::string group = asked.groupId;
  auto synced = co_await atCoordinator<wire::SyncGroupResponse>(
      request.server, group,
      [asked = std::move(asked)](auto& groups, const auto& now, auto answer, auto& effects) mutable {
        groups.sync(std::move(asked), now, std::move(answer), effects);
      });
  if (!synced) {
    // The state is not there yet: joining again is what gets the member its assignment, as in Kafka.
    Error error = synced.failure().error;
    co_return refused(error == Error::coordinatorLoadInProgress ? Error::rebalanceInProgress : error);
  }
  co_return std::move(*synced);
}

}  // namespace mq::kafka

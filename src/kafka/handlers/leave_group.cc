#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/leave_group_request.h"
#include "wire/leave_group_response.h"

namespace mq::kafka {

namespace {
constexpr int16_t kManyMembersFrom = 3;
}

Co<wire::LeaveGroupResponse> leaveGroup(Request& request, wire::LeaveGroupRequest asked) {
  wire::LeaveGroupResponse response;
  if (asked.groupId.empty()) {
    response.errorCode = Error::invalidGroupId;
    co_return response;
  }
  bool isOne = request.version < kManyMembersFrom;
  if (isOne) asked.members.push_back({.memberId = std::move(asked.memberId)});
  std::string group = asked.groupId;
  auto left = co_await atCoordinator<wire::LeaveGroupResponse>(
      request.server, group, [asked = std::move(asked)](auto& groups, const auto& now, auto answer, auto& effects) {
        groups.leave(asked.groupId, asked.members, now, std::move(answer), effects);
      });
  if (!left) {
    response.errorCode = left.failure().error;
  } else if (isOne) {
    response.errorCode = left->members.front().errorCode;
  } else {
    response.members = std::move(left->members);
  }
  co_return response;
}

}  // namespace mq::kafka

#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/join_group_request.h"
#include "wire/join_group_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kNullableProtocolFrom = 7;

wire::JoinGroupResponse refused(const Request& request, Error error, std::string member) {
  wire::JoinGroupResponse response;
  response.errorCode = error;
  response.memberId = std::move(member);
  if (request.version >= kNullableProtocolFrom) response.protocolName.reset();
  return response;
}

}  // namespace

Co<wire::JoinGroupResponse> joinGroup(Request& request, wire::JoinGroupRequest asked) {
  std::string member = asked.memberId;
  if (asked.groupId.empty()) co_return refused(request, Error::invalidGroupId, std::move(member));
  for (auto& protocol : asked.protocols) own(protocol.metadata);
  std::string group = asked.groupId;
  auto joined = co_await atCoordinator<wire::JoinGroupResponse>(
      request.server, group,
      [caller = callerOf(request), asked = std::move(asked)](auto& groups, const auto& now, auto answer,
                                                             auto& effects) mutable {
        groups.join(caller, std::move(asked), now, std::move(answer), effects);
      });
  if (!joined) co_return refused(request, joined.failure().error, std::move(member));
  co_return std::move(*joined);
}

}  // namespace mq::kafka

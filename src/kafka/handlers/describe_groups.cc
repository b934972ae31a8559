#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/describe_groups_request.h"
#include "wire/describe_groups_response.h"

namespace mq::kafka {

namespace {

using Described = wire::DescribeGroupsResponse::DescribedGroup;

constexpr int16_t kNotFoundFrom = 6;
constexpr std::string_view kDead = "Dead";

Co<Described> describeGroup(Request& request, std::string id, bool operations, bool history) {
  Described described;
  described.groupId = id;
  if (id.empty()) {
    described.errorCode = Error::invalidGroupId;
    co_return described;
  }
  auto found = co_await atCoordinator<Described>(request.server, id,
                                                 [id, history](auto& groups, const auto&, auto answer, auto& effects) {
                                                   groups.describe(id, history, std::move(answer), effects);
                                                 });
  if (found) {
    described = std::move(*found);
  } else if (found.failure().error == Error::groupIdNotFound) {
    described.groupState = kDead;
    if (request.version >= kNotFoundFrom) {
      described.errorCode = Error::groupIdNotFound;
      described.errorMessage = found.failure().message;
    }
  } else {
    described.errorCode = found.failure().error;
  }
  if (operations) described.authorizedOperations = kGroupOperations;
  co_return described;
}

}  // namespace

Co<wire::DescribeGroupsResponse> describeGroups(Request& request, wire::DescribeGroupsRequest asked) {
  std::vector<Co<Described>> groups;
  for (auto& id : asked.groups)
    groups.push_back(describeGroup(request, std::move(id), asked.includeAuthorizedOperations, asked.includeHistory));
  wire::DescribeGroupsResponse response;
  for (auto& group : groups) response.groups.push_back(co_await group);
  co_return response;
}

}  // namespace mq::kafka

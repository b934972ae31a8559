#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/consumer_group_describe_request.h"
#include "wire/consumer_group_describe_response.h"

namespace mq::kafka {

namespace {

using Described = wire::ConsumerGroupDescribeResponse::DescribedGroup;

Co<Described> describeGroup(Request& request, std::string id, bool operations, bool history) {
  Described described;
  described.groupId = id;
  if (id.empty()) {
    described.errorCode = Error::invalidGroupId;
    co_return described;
  }
  auto found = co_await atCoordinator<Described>(
      request.server, id, [id, history](auto& groups, const auto& now, auto answer, auto& effects) {
        groups.describeConsumer(id, history, now, std::move(answer), effects);
      });
  if (found) {
    described = std::move(*found);
  } else {
    described.errorCode = found.failure().error;
    if (!found.failure().message.empty()) described.errorMessage = found.failure().message;
  }
  if (operations) described.authorizedOperations = kGroupOperations;
  co_return described;
}

}  // namespace

Co<wire::ConsumerGroupDescribeResponse> consumerGroupDescribe(Request& request,
                                                              wire::ConsumerGroupDescribeRequest asked) {
  std::vector<Co<Described>> groups;
  for (auto& id : asked.groupIds)
    groups.push_back(describeGroup(request, std::move(id), asked.includeAuthorizedOperations, asked.includeHistory));
  wire::ConsumerGroupDescribeResponse response;
  for (auto& group : groups) response.groups.push_back(co_await group);
  co_return response;
}

}  // namespace mq::kafka

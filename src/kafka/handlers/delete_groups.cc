#include <algorithm>

#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/delete_groups_request.h"
#include "wire/delete_groups_response.h"

namespace mq::kafka {

namespace {

Co<Error> deleteGroup(Server& server, std::string id) {
  if (id.empty()) co_return Error::invalidGroupId;
  auto deleted = co_await atCoordinator<coordinator::Left>(server, id,
                                                           [id](auto& groups, const auto&, auto answer, auto& effects) {
                                                             groups.deleteGroup(id, std::move(answer), effects);
                                                           });
  co_return deleted.errorCode();
}

}  // namespace

Co<wire::DeleteGroupsResponse> deleteGroups(Request& request, wire::DeleteGroupsRequest asked) {
  std::sort(asked.groupsNames.begin(), asked.groupsNames.end());
  asked.groupsNames.erase(std::unique(asked.groupsNames.begin(), asked.groupsNames.end()), asked.groupsNames.end());
  std::vector<Co<Error>> deletions;
  for (const auto& id : asked.groupsNames) deletions.push_back(deleteGroup(request.server, id));
  wire::DeleteGroupsResponse response;
  for (size_t i = 0; i < deletions.size(); ++i)
    response.results.push_back({.groupId = asked.groupsNames[i], .errorCode = co_await deletions[i]});
  co_return response;
}

}  // namespace mq::kafka

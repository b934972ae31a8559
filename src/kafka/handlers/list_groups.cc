// ListGroups: of all partitions of __consumer_offsets that this node leads.
#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/list_groups_request.h"
#include "wire/list_groups_response.h"

namespace mq::kafka {

namespace {

using Listed = std::vector<wire::ListGroupsResponse::ListedGroup>;

Co<Result<Listed>> listShard(coordinator::GroupCoordinator& there, wire::ListGroupsRequest filter) {
  Listed all;
  for (int32_t partition : there.led()) {
    auto listed = co_await there.ask<Listed>(
        partition, [&](coordinator::Groups& groups, const coordinator::Now&, coordinator::Answer<Listed> answer,
                       coordinator::Effects& effects) { groups.list(filter, std::move(answer), effects); });
    if (!listed && listed.failure().error == Error::notCoordinator) continue;  // it has just moved
    if (!listed) co_return listed.failure();
    std::move(listed->begin(), listed->end(), std::back_inserter(all));
  }
  co_return all;
}

}  // namespace

Co<wire::ListGroupsResponse> listGroups(Request& request, wire::ListGroupsRequest asked) {
  Server& server = request.server;
  wire::ListGroupsResponse response;
  std::vector<kj::Promise<Result<Listed>>> shards;
  for (uint32_t shard = 0; shard < server.shard().count(); ++shard) {
    shards.push_back(
        server.shard().call(shard, [&there = server.coordinatorOf(shard), asked] { return listShard(there, asked); }));
  }
  for (auto& shard : shards) {
    auto listed = co_await shard;
    if (listed) {
      std::move(listed->begin(), listed->end(), std::back_inserter(response.groups));
    } else {
      response.errorCode = listed.failure().error;
    }
  }
  co_return response;
}

}  // namespace mq::kafka

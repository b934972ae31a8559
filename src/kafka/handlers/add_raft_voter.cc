// AddRaftVoter (KIP-853): a node that follows the metadata becomes a voter. It must have joined as an observer; where
// it listens is known from that, so the listeners of the request are not needed. Answered when the change is committed.
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/partition_results.h"
#include "kafka/handlers/raft_voter.h"
#include "wire/add_raft_voter_request.h"
#include "wire/add_raft_voter_response.h"

namespace mq::kafka {

Co<wire::AddRaftVoterResponse> addRaftVoter(Request& request, wire::AddRaftVoterRequest asked) {
  auto changed =
      co_await changeVoter(request.server, std::move(asked.clusterId),
                           {.id = NodeId(asked.voterId), .directory = asked.voterDirectoryId, .isVoter = true});
  wire::AddRaftVoterResponse response;
  response.errorCode = changed.errorCode();
  response.errorMessage = messageOf(changed);
  co_return response;
}

}  // namespace mq::kafka

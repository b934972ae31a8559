// RemoveRaftVoter (KIP-853): a voter goes on as an observer.
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/partition_results.h"
#include "kafka/handlers/raft_voter.h"
#include "wire/remove_raft_voter_request.h"
#include "wire/remove_raft_voter_response.h"

namespace mq::kafka {

Co<wire::RemoveRaftVoterResponse> removeRaftVoter(Request& request, wire::RemoveRaftVoterRequest asked) {
  auto changed =
      co_await changeVoter(request.server, std::move(asked.clusterId),
                           {.id = NodeId(asked.voterId), .directory = asked.voterDirectoryId, .isVoter = false});
  wire::RemoveRaftVoterResponse response;
  response.errorCode = changed.errorCode();
  response.errorMessage = messageOf(changed);
  co_return response;
}

}  // namespace mq::kafka

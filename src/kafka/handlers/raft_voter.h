// What AddRaftVoter and RemoveRaftVoter (KIP-853) have in common.
#pragma once
#include <algorithm>

#include "kafka/request.h"
#include "kafka/server.h"

namespace mq::kafka {

// Makes a member of the quorum a voter, or one that only follows. What Kafka calls an error though nothing is to be
// done is one here too.
inline Co<Result<void>> changeVoter(Server& server, std::optional<std::string> cluster,
                                    controller::ChangeVoterRequest wish) {
  const std::string here = server.image().clusterId().toString();
  if (cluster && *cluster != here)
    co_return failure(Error::inconsistentClusterId, "this is cluster {}, not {}", here, *cluster);
  if (wish.id < NodeId(0) || wish.directory.isZero())
    co_return failure(Error::invalidRequest, "a voter has a node id and the id of its directory");
  auto present = co_await server.controller().ask(controller::DescribeQuorumRequest());
  if (!present) co_return present.failure();
  const auto& voters = std::get<controller::QuorumState>(present->response).voters;
  bool isVoter = std::ranges::any_of(
      voters, [&](const auto& voter) { return voter.id == wish.id && voter.directory == wish.directory; });
  if (isVoter && wish.isVoter)
    co_return failure(Error::duplicateVoter, "node {} with directory {} votes already", wish.id, wish.directory);
  if (!isVoter && !wish.isVoter)
    co_return failure(Error::voterNotFound, "node {} with directory {} is no voter", wish.id, wish.directory);
  auto changed = co_await server.controller().ask(wish);
  if (!changed) co_return changed.failure();
  co_return Result<void>();
}

}  // namespace mq::kafka

// What coordinators ask of other nodes, in plain values, and who carries it there. Both may be asked again at any time:
// a marker that is there already ends nothing, a partition that is in its transaction stays in it.
#pragma once
#include <string>

#include <kj/async.h>

#include "base/error.h"
#include "base/types.h"
#include "coordinator/state_machine.h"

namespace mq::coordinator {

// To the leader of the partition: end a producer's transaction there.
struct MarkerRequest {
  TopicIdPartition partition;
  TransactionMarker marker;
  bool strict = false;  // as Log::mayEnd
};

// To the coordinator of the transaction: may it have records in that partition?
struct EntryRequest {
  std::string transactionalId;
  ProducerEpoch producer;
  TopicPartition partition;
  bool adds = false;  // the partition; else it must have been added
};

// One per node, on shard 0. Never rejected: what cannot be delivered, or is not answered within the limit, fails with
// an error on which the caller tries again, and may have been done all the same. Requests to one node arrive in the
// order of the calls, or not at all: so an earlier attempt never takes effect behind a later one.
class RemoteCoordinators {
 public:
  virtual ~RemoteCoordinators() noexcept(false) {}
  // Resolves when the marker is committed there. NETWORK_EXCEPTION: not delivered or not answered.
  virtual kj::Promise<Result<void>> writeMarker(NodeId node, MarkerRequest request, Duration limit) = 0;
  // COORDINATOR_NOT_AVAILABLE: not delivered or not answered.
  virtual kj::Promise<Result<void>> mayEnter(NodeId node, EntryRequest request, Duration limit) = 0;
};

}  // namespace mq::coordinator

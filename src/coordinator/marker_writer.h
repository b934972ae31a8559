// MarkerWriter: brings the markers of transactions whose end is decided to their partitions, on whichever node they are
// led, and tries each again, with growing pauses, until it is committed. Belongs to one machine and goes with it: the
// next one begins anew from the log.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "controller/metadata_feed.h"
#include "coordinator/coordinator_shard.h"
#include "coordinator/remote.h"
#include "coordinator/transactions.h"
#include "replica/partitions.h"
#include "runtime/shard.h"
#include "runtime/tasks.h"

namespace mq::coordinator {

// Appends the marker to a partition that this node leads (else NOT_LEADER_OR_FOLLOWER), on its shard; of a partition of
// __consumer_offsets the groups hear of it too. Resolves when it is committed. One that is there already is a success.
// From any shard of the node; never rejected.
kj::Promise<Result<void>> writeMarkerHere(Shard& from, const std::vector<CoordinatorShard>& shards,
                                          const MarkerRequest& request);

class MarkerWriter final : public MarkerOutbox {
 public:
  using Done = std::function<void(const std::string& transactionalId, const ProducerEpoch& producer)>;
  // `node` lives longer.
  MarkerWriter(Shard& shard, controller::MetadataFeed& feed, const CoordinatorNode& node, LeaderEpoch coordinatorEpoch,
               Done done);

  ~MarkerWriter() noexcept override {}

  void write(EndedTransaction ended) override;

 private:
  Co<void> run(EndedTransaction ended);
  Co<void> writeUntilDone(const EndedTransaction& ended, const TopicPartition& partition);
  kj::Promise<Result<void>> tryOnce(const EndedTransaction& ended, const TopicPartition& partition);

  Shard& shard_;
  controller::MetadataFeed& feed_;
  const CoordinatorNode& node_;
  const LeaderEpoch coordinatorEpoch_;
  const Done done_;
  Tasks tasks_;  // last
};

}  // namespace mq::coordinator

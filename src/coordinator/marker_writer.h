// MarkerWriter: brings the markers of transactions whose end is decided to their partitions, and tries each again, with
// growing pauses, until it is committed. Belongs to one machine and goes with it: the next one begins anew from the
// log.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "controller/metadata_feed.h"
#include "coordinator/coordinator_shard.h"
#include "coordinator/transactions.h"
#include "replica/partitions.h"
#include "runtime/shard.h"
#include "runtime/tasks.h"

namespace mq::coordinator {

// On the shard of the partition: appends the marker; of a partition of __consumer_offsets the groups hear of it too.
// Resolves when it is committed. One that is there already is a success. `strict`: as Log::mayEnd.
kj::Promise<Result<void>> writeMarker(Shard& shard, const CoordinatorShard& there, const TopicIdPartition& id,
                                      std::string_view topic, const TransactionMarker& marker, bool strict);

class MarkerWriter final : public MarkerOutbox {
 public:
  using Done = std::function<void(const std::string& transactionalId, const ProducerEpoch& producer)>;
  // `shards`: of the node, by index; lives longer.
  MarkerWriter(Shard& shard, controller::MetadataFeed& feed, const std::vector<CoordinatorShard>& shards,
               LeaderEpoch coordinatorEpoch, Done done);

  ~MarkerWriter() noexcept override {}

  void write(EndedTransaction ended) override;

 private:
  Co<void> run(EndedTransaction ended);
  Co<void> writeUntilDone(const EndedTransaction& ended, const TopicPartition& partition);
  kj::Promise<Result<void>> tryOnce(const EndedTransaction& ended, const TopicPartition& partition);

  Shard& shard_;
  controller::MetadataFeed& feed_;
  const std::vector<CoordinatorShard>& shards_;
  const LeaderEpoch coordinatorEpoch_;
  const Done done_;
  Tasks tasks_;  // last
};

}  // namespace mq::coordinator

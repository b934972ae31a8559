// InSync: keeps the in-sync replicas of the partitions that one shard leads as they should be, by asking the
// controller.
//
// What is due together goes in one request, one request at a time: at once when a follower may come in, within a second
// when one has fallen behind for too long. Only partitions with something to look at are looked at (watch()); an idle
// one whose followers hold everything costs nothing.
#pragma once
#include <functional>
#include <memory>
#include <set>

#include "base/types.h"
#include "controller/requests.h"
#include "metadata/image.h"
#include "runtime/shard.h"
#include "runtime/tasks.h"

namespace mq::replica {

class Partition;

// A rejection, or an error of the whole but notController and staleBrokerEpoch: nobody knows what became of it.
using ProposeInSync =
    std::function<kj::Promise<Result<controller::AlterPartitionsResponse>>(controller::AlterPartitionsRequest)>;

class InSync {
 public:
  using Find = std::function<Partition*(const TopicIdPartition&)>;
  struct Options {
    NodeId self;
    Duration lagMax;
    Duration backoff;  // between two tries for one partition
  };

  InSync(Shard& shard, Options options, Find find, ProposeInSync propose);
  KJ_DISALLOW_COPY(InSync);

  void setImage(metadata::ImageRef image) { image_ = std::move(image); }
  // Somebody is behind, or something is proposed.
  void watch(const TopicIdPartition& id);
  // Somebody may come in.
  void hasCandidate(const TopicIdPartition& id);
  size_t watched() const { return watched_.size(); }

 private:
  Co<void> serve();
  Co<void> propose();
  void look(const TopicIdPartition& id);
  void wake();

  Shard& shard_;
  const Options options_;
  const Find find_;
  const ProposeInSync propose_;
  metadata::ImageRef image_ = metadata::emptyImage();
  std::set<TopicIdPartition> watched_;  // looked at every second, until there is nothing to see
  std::set<TopicIdPartition> due_;      // looked at now
  controller::AlterPartitionsRequest request_;
  kj::Own<kj::PromiseFulfiller<void>> waiting_;
  Tasks tasks_;
};

}  // namespace mq::replica

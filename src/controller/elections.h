// Elections: who leads a partition and who is in sync, as brokers come, go and propose. Pure: each rule turns a
// partition's state into the next one; nothing changes, nothing comes out.
//
// What holds always (design: KIP-966 without a wait):
//   - Every member of the ISR, and every eligible leader, holds all that was committed.
//   - Whoever leaves the ISR while it is, or becomes, smaller than min.insync.replicas stays eligible: the high
//     watermark stands still then, so it goes on holding all that was committed.
//   - The last member of the ISR stays in it, unless it may lack what it acknowledged. Then the partition is offline
//     until somebody accepts the loss (unclean.leader.election.enable, or ElectLeaders asked for it).
//   - Leaders come from the ISR, in the order of the replicas, else from the eligible ones; else unclean, where
//   allowed.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "config/broker_settings.h"
#include "metadata/image.h"
#include "metadata/record.h"

namespace mq::controller {

// What the settings of a partition's topic ask for.
struct PartitionRules {
  size_t minInSync = 1;
  bool unclean = false;  // a replica that may lack records may lead, when no other can
  bool isSynced = true;  // durability=fsync: an unclean stop loses nothing that was acknowledged
};

// Whether the broker may be made a leader now.
bool mayLead(const metadata::Image& image, NodeId node);

class Elections {
 public:
  // `settings`: the cluster's defaults for topics. Both outlive it.
  Elections(const metadata::Image& image, const config::BrokerSettings& settings)
      : image_(image), settings_(settings) {}

  // Whose brokers count as alive; those of the image, but for what is being decided.
  using MayLead = std::function<bool(NodeId)>;

  // The broker is dead, or says good-bye: it leaves the ISR and leads nothing.
  static void leave(metadata::Partition& partition, NodeId broker, const PartitionRules& rules);
  // The broker may lack what it acknowledged: nobody counts on it any more, not even when it is the last; but when it
  // is the only replica, only if it has lost all.
  static void doubt(metadata::Partition& partition, NodeId broker, bool lostAll);
  // A leader when there is none that may lead: false: there is none now.
  static bool elect(metadata::Partition& partition, const MayLead& mayLead, const PartitionRules& rules);
  // This one, if it is in the ISR. False: it is not, or leads already.
  static bool electThis(metadata::Partition& partition, NodeId leader);
  static void setLeader(metadata::Partition& partition, NodeId leader);
  // The leader's proposal was found right.
  static void setInSync(metadata::Partition& partition, std::vector<NodeId> isr, const PartitionRules& rules);
  // Ends a reassignment when all its new replicas are in sync. False: it goes on, or there is none.
  static bool finishReassignment(metadata::Partition& partition, const MayLead& mayLead, const PartitionRules& rules);

  // What `edit` makes of the partitions that are wanted, as records.
  using Wanted = std::function<bool(const metadata::Partition&)>;
  using Edit = std::function<void(metadata::Partition&, const PartitionRules&)>;
  std::vector<metadata::Record> change(const Wanted& wanted, const Edit& edit) const;

  PartitionRules rulesOf(const metadata::Topic& topic, size_t replicas) const;

 private:
  static PartitionRules rulesOf(const config::TopicSettings& settings, size_t replicas);
  config::TopicSettings settingsOf(const metadata::Topic& topic) const;

  const metadata::Image& image_;
  const config::BrokerSettings& settings_;
};

// Partitions whose state is not that of the image any more, as records: neighbours share one.
class PartitionChanges {
 public:
  // In the order of topics, then partitions. Nothing happens when `next` is the present state, unless it is `always` to
  // get a new partition epoch.
  void add(const metadata::Topic& topic, int32_t index, metadata::Partition next, bool always = false);
  std::vector<metadata::Record> take() && { return std::move(records_); }

 private:
  std::vector<metadata::Record> records_;
  TopicId topic_;
  int32_t next_ = -1;  // index that would join the last record
};

}  // namespace mq::controller

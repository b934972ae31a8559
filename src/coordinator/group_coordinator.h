// GroupCoordinator: the groups of one shard: those in the partitions of __consumer_offsets that this node leads and the
// shard owns. One per shard.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "config/broker_settings.h"
#include "coordinator/groups.h"
#include "coordinator/led_partitions.h"

namespace mq::coordinator {

inline constexpr std::string_view kOffsetsTopic = "__consumer_offsets";

class GroupCoordinator {
 public:
  struct Options {
    NodeId node;
    GroupSettings settings;
    Duration commitWithin = 5s;
  };

  GroupCoordinator(Shard& shard, replica::Partitions& partitions, controller::MetadataFeed& feed, Options options);
  KJ_DISALLOW_COPY(GroupCoordinator);

  // ask(groups, now, answer, effects) is one step on the groups of that partition. NOT_COORDINATOR and
  // COORDINATOR_LOAD_IN_PROGRESS when they are not here, or not yet.
  template <class Response, class Ask>
  kj::Promise<Result<Response>> ask(int32_t partition, Ask ask) {
    return led_.ask<Groups, Response>(partition, std::move(ask));
  }

  // Of all partitions here, for requests about all groups.
  std::vector<int32_t> led() const { return led_.list(); }

  // Answers all who wait and takes nothing any more.
  void stop() { led_.stop(); }

  struct Figures {
    size_t groups = 0;
    size_t offsets = 0;
    size_t partitions = 0;
    size_t loading = 0;
    size_t pending = 0;  // offsets in open transactions
    size_t waiting = 0;  // answers that wait for a commit
  };
  Figures figures();
  const Groups::Counters& counters() const { return counters_; }

 private:
  const Options options_;
  Groups::Counters counters_;
  LedPartitions led_;
  kj::Own<void> subscription_;
};

}  // namespace mq::coordinator

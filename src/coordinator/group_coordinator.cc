#include "coordinator/group_coordinator.h"

namespace mq::coordinator {

GroupCoordinator::GroupCoordinator(Shard& shard, replica::Partitions& partitions, controller::MetadataFeed& feed,
                                   Options options)
    : options_(std::move(options)),
      led_(shard, partitions, feed, {options_.node, std::string(kOffsetsTopic), options_.commitWithin},
           [this](int32_t, LeaderEpoch) { return std::make_unique<Groups>(options_.settings, counters_); }) {
  subscription_ = feed.subscribe([this](const metadata::ImageRef&, const metadata::Delta& delta) {
    if (delta.deleted.empty()) return;
    for (int32_t index : led_.list())
      led_.step<Groups>(index, [](Groups& groups, const Now& now, Effects&) { groups.sweepSoon(now); });
  });
}

GroupCoordinator::Figures GroupCoordinator::figures() {
  Figures sum;
  sum.partitions = led_.size();
  sum.loading = led_.loading();
  sum.waiting = led_.waitingAnswers();
  led_.forEachActive<Groups>([&](Groups& groups) {
    sum.groups += groups.groupCount();
    sum.offsets += groups.offsetCount();
    sum.pending += groups.pendingCount();
  });
  return sum;
}

}  // namespace mq::coordinator

// GroupCoordinator: the groups of one shard: a runtime for each partition of __consumer_offsets that this node leads
// and the shard owns. One per shard. Follows the metadata: leadership gained loads a partition, another leader epoch or
// leader drops it.
#pragma once
#include <map>
#include <memory>
#include <string_view>

#include "config/broker_settings.h"
#include "coordinator/groups.h"
#include "coordinator/runtime.h"

namespace mq::coordinator {

inline constexpr std::string_view kOffsetsTopic = "__consumer_offsets";

// Which partition of __consumer_offsets keeps a group: Java's hash of the name, so that Kafka's tools agree.
int32_t partitionOf(std::string_view group, int32_t partitions);

class GroupCoordinator {
 public:
  struct Options {
    NodeId node;
    GroupSettings settings;
    Duration commitWithin = 5s;
  };

  GroupCoordinator(Shard& shard, replica::Partitions& partitions, controller::MetadataFeed& feed, Options options);
  ~GroupCoordinator();
  KJ_DISALLOW_COPY(GroupCoordinator);

  // ask(groups, now, answer, effects) is one step on the groups of that partition. NOT_COORDINATOR and
  // COORDINATOR_LOAD_IN_PROGRESS when they are not here, or not yet.
  template <class Response, class Ask>
  kj::Promise<Result<Response>> ask(int32_t partition, Ask ask) {
    auto found = runtimes_.find(partition);
    if (found == runtimes_.end()) return Result<Response>(Error::notCoordinator);
    Runtime& runtime = *found->second.runtime;
    if (!runtime.isActive()) return Result<Response>(Error::coordinatorLoadInProgress);
    auto paf = kj::newPromiseAndFulfiller<Result<Response>>();
    Answer<Response> answer(
        [fulfiller = kj::mv(paf.fulfiller)](Result<Response> result) mutable { fulfiller->fulfill(kj::mv(result)); });
    runtime.step<Groups>(
        [&](Groups& groups, const Now& now, Effects& effects) { ask(groups, now, std::move(answer), effects); });
    return kj::mv(paf.promise);
  }

  // Of all partitions here, for requests about all groups.
  std::vector<int32_t> led() const;

  // Answers all who wait and takes nothing any more.
  void stop();

  struct Figures {
    size_t groups = 0;
    size_t offsets = 0;
    size_t partitions = 0;
    size_t loading = 0;
    size_t waiting = 0;  // answers that wait for a commit
  };
  Figures figures();
  const Groups::Counters& counters() const { return counters_; }

 private:
  struct Led {
    TopicId topic;
    LeaderEpoch epoch;
    std::unique_ptr<Runtime> runtime;
  };
  void follow(const metadata::ImageRef& image, const metadata::Delta& delta);

  Shard& shard_;
  replica::Partitions& partitions_;
  controller::MetadataFeed& feed_;
  const Options options_;
  Groups::Counters counters_;
  LoadQueue loads_;
  bool stopped_ = false;
  std::map<int32_t, Led> runtimes_;
  kj::Own<void> subscription_;
};

}  // namespace mq::coordinator

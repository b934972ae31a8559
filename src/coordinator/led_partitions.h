// LedPartitions: the runtimes of one shard for one topic: one for each partition that this node leads and the shard
// owns. Follows the metadata: leadership gained loads a partition, another leader epoch or leader drops it.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/load_queue.h"
#include "coordinator/runtime.h"

namespace mq::coordinator {

// Which partition of a coordinator's topic keeps a group or a transactional id: Java's hash of the name, so that
// Kafka's tools agree.
int32_t partitionOf(std::string_view name, int32_t partitions);

class LedPartitions {
 public:
  struct Options {
    NodeId node;
    std::string topic;
    Duration commitWithin = 5s;
  };
  // A machine for that partition, as its leader of that epoch.
  using Make = std::function<std::unique_ptr<StateMachine>(int32_t partition, LeaderEpoch epoch)>;

  LedPartitions(Shard& shard, replica::Partitions& partitions, controller::MetadataFeed& feed, Options options,
                Make make);
  ~LedPartitions();
  KJ_DISALLOW_COPY(LedPartitions);

  // ask(machine, now, answer, effects) is one step on that partition. NOT_COORDINATOR and COORDINATOR_LOAD_IN_PROGRESS
  // when it is not here, or not yet.
  template <class Machine, class Response, class Ask>
  kj::Promise<Result<Response>> ask(int32_t partition, Ask ask) {
    auto found = runtimes_.find(partition);
    if (found == runtimes_.end()) return Result<Response>(Error::notCoordinator);
    Runtime& runtime = *found->second.runtime;
    if (!runtime.isActive()) return Result<Response>(Error::coordinatorLoadInProgress);
    auto paf = kj::newPromiseAndFulfiller<Result<Response>>();
    Answer<Response> answer(
        [fulfiller = kj::mv(paf.fulfiller)](Result<Response> result) mutable { fulfiller->fulfill(kj::mv(result)); });
    runtime.step<Machine>(
        [&](Machine& machine, const Now& now, Effects& effects) { ask(machine, now, std::move(answer), effects); });
    return kj::mv(paf.promise);
  }

  // decide(machine, now, effects) as a step on that partition, if it is active here.
  template <class Machine, class Decide>
  void step(int32_t partition, Decide decide) {
    auto found = runtimes_.find(partition);
    if (found != runtimes_.end() && found->second.runtime->isActive())
      found->second.runtime->step<Machine>(std::move(decide));
  }

  std::vector<int32_t> list() const;
  size_t size() const { return runtimes_.size(); }
  size_t loading() const;
  size_t waitingAnswers() const;
  template <class Machine, class Fn>
  void forEachActive(Fn fn) const {
    for (const auto& [index, led] : runtimes_)
      if (auto* machine = static_cast<Machine*>(led.runtime->machine())) fn(*machine);
  }

  // Answers all who wait and takes nothing any more.
  void stop();

 private:
  struct Led {
    TopicId topic;
    LeaderEpoch epoch;
    std::unique_ptr<Runtime> runtime;
  };
  void follow(const metadata::Image& image);

  Shard& shard_;
  replica::Partitions& partitions_;
  controller::MetadataFeed& feed_;
  const Options options_;
  const Make make_;
  LoadQueue loads_;
  bool stopped_ = false;
  std::map<int32_t, Led> runtimes_;
  kj::Own<void> subscription_;
};

}  // namespace mq::coordinator

#include "replica/in_sync.h"

#include <algorithm>
#include <map>

#include "replica/partition.h"

namespace mq::replica {
namespace {

constexpr Duration kLookEvery = 1s;
constexpr Duration kAnswerWithin = 30s;
constexpr size_t kProposalsMax = 2000;  // in one request

}  // namespace

InSync::InSync(Shard& shard, Options options, Find find, ProposeInSync propose)
    : shard_(shard),
      options_(options),
      find_(std::move(find)),
      propose_(std::move(propose)),
      tasks_(shard.log(), "in-sync-failed") {
  if (propose_) tasks_.add(serve());
}

void InSync::watch(const TopicIdPartition& id) {
  if (!propose_) return;
  bool isFirst = watched_.empty();
  if (watched_.insert(id).second && isFirst) wake();
}

void InSync::hasCandidate(const TopicIdPartition& id) {
  if (!propose_) return;
  watch(id);
  if (due_.insert(id).second) wake();
}

void InSync::wake() {
  if (waiting_) waiting_->fulfill();
  waiting_ = nullptr;
}

Co<void> InSync::serve() {
  Instant nextLook = shard_.now();
  for (;;) {
    if (due_.empty()) {
      auto paf = kj::newPromiseAndFulfiller<void>();
      waiting_ = kj::mv(paf.fulfiller);
      kj::Promise<void> news = kj::mv(paf.promise);
      if (!watched_.empty()) {
        Duration left = std::max<Duration>(nextLook - shard_.now(), Duration::zero());
        news = news.exclusiveJoin(shard_.after(left));
      }
      co_await news;
      waiting_ = nullptr;
    }
    co_await kj::evalLater([] {});  // with what else this turn brings
    if (shard_.now() >= nextLook) {
      due_.insert(watched_.begin(), watched_.end());
      nextLook = shard_.now() + kLookEvery;
    }
    while (!due_.empty() && request_.partitions.size() < kProposalsMax) {
      TopicIdPartition id = *due_.begin();
      due_.erase(due_.begin());
      look(id);
    }
    if (!request_.partitions.empty()) co_await propose();
  }
}

void InSync::look(const TopicIdPartition& id) {
  Partition* partition = find_(id);
  if (partition == nullptr || !partition->isLeader()) {
    watched_.erase(id);
    return;
  }
  auto mayEnter = [&](NodeId node, const Uuid& incarnation) {
    const metadata::Broker* broker = image_->broker(node);
    return broker != nullptr && broker->incarnation == incarnation && broker->mayHold();
  };
  auto wanted = partition->wantedInSync(options_.lagMax, mayEnter);
  if (!wanted) {
    if (!partition->isInSyncWatched()) watched_.erase(id);
    return;
  }
  const metadata::Broker* self = image_->broker(options_.self);
  if (self == nullptr) return;  // not registered yet: a later look
  controller::AlterPartitionsRequest::Partition proposal{
      .id = id, .leaderEpoch = partition->leaderEpoch(), .partitionEpoch = partition->partitionEpoch(), .isr = {}};
  for (NodeId node : *wanted) {
    const metadata::Broker* broker = image_->broker(node);
    proposal.isr.push_back({node, broker == nullptr ? -1 : broker->epoch});
  }
  partition->proposeInSync(*wanted);
  request_.broker = options_.self;
  request_.brokerEpoch = self->epoch;
  request_.partitions.push_back(std::move(proposal));
}

Co<void> InSync::propose() {
  using Outcome = Followers::Outcome;
  controller::AlterPartitionsRequest asked = std::exchange(request_, {});
  auto settleAll = [&](Outcome outcome) {
    for (const auto& each : asked.partitions) {
      if (Partition* partition = find_(each.id))
        partition->inSyncAnswered(each.leaderEpoch, each.partitionEpoch, outcome, options_.backoff);
    }
  };
  Result<controller::AlterPartitionsResponse> answer;
  try {
    answer = co_await shard_.within(kAnswerWithin, propose_(asked));
  } catch (...) {
    shard_.log().warning("in-sync-unknown", "{} proposals: {}", asked.partitions.size(), describe(caughtException()));
    settleAll(Outcome::unknown);
    co_return;
  }
  if (!answer) {
    bool isFinal = answer.failure().error == Error::notController || answer.failure().error == Error::staleBrokerEpoch;
    shard_.log().info("in-sync-refused", "{} proposals: {} {}", asked.partitions.size(), answer.failure().error,
                      answer.failure().message);
    settleAll(isFinal ? Outcome::refused : Outcome::unknown);
    co_return;
  }
  std::map<TopicIdPartition, const Result<void>*> results;
  for (const auto& each : answer->partitions) results[each.id] = &each.result;
  for (const auto& each : asked.partitions) {
    Partition* partition = find_(each.id);
    if (partition == nullptr) continue;
    auto result = results.find(each.id);
    Outcome outcome = result == results.end() ? Outcome::unknown : *result->second ? Outcome::taken : Outcome::refused;
    if (outcome == Outcome::refused) {
      shard_.log().debug("in-sync-refused", "{}: {} {}", partition->name(), result->second->failure().error,
                         result->second->failure().message);
    }
    partition->inSyncAnswered(each.leaderEpoch, each.partitionEpoch, outcome, options_.backoff);
  }
}

}  // namespace mq::replica

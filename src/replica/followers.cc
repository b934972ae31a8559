#include "replica/followers.h"

#include <algorithm>

namespace mq::replica {

void Followers::begin(const std::vector<NodeId>& replicas, const std::vector<NodeId>& isr, int32_t partitionEpoch,
                      Offset end, Instant now) {
  others_.clear();
  end_ = end;
  partitionEpoch_ = -1;
  setReplicas(replicas, now);
  isr_.clear();
  commit(replicas, isr, partitionEpoch, now);
}

void Followers::commit(const std::vector<NodeId>& replicas, const std::vector<NodeId>& isr, int32_t partitionEpoch,
                       Instant now) {
  if (replicas != replicas_) setReplicas(replicas, now);
  for (NodeId node : isr) {  // who comes in may have been behind for long
    if (auto found = others_.find(node); found != others_.end() && !isInSync(node)) found->second.caughtUp = now;
  }
  isr_ = isr;
  if (partitionEpoch <= partitionEpoch_) return;
  partitionEpoch_ = partitionEpoch;
  inFlight_ = false;
  proposed_.clear();
  maybe_.clear();
}

void Followers::setReplicas(const std::vector<NodeId>& replicas, Instant now) {
  replicas_ = replicas;
  std::erase_if(others_, [&](const auto& entry) { return std::ranges::find(replicas, entry.first) == replicas.end(); });
  for (NodeId node : replicas) {
    if (node != self_) others_.try_emplace(node, Other{.caughtUp = now, .nextEnd = end_, .nextAt = now});
  }
}

bool Followers::isInSync(NodeId node) const { return std::ranges::find(isr_, node) != isr_.end(); }

bool Followers::placed(const FollowerId& who, Offset position, OffsetRange durable, Instant now) {
  auto found = others_.find(who.node);
  if (found == others_.end() || who.session < found->second.session) return false;
  Other& other = found->second;
  other.session = who.session;
  other.incarnation = who.incarnation;
  other.isLive = true;
  other.position = position;
  other.durable = std::min(durable.end, position);
  other.start = durable.first;
  noteProgress(other, now);
  return true;
}

bool Followers::reported(const FollowerId& who, OffsetRange durable, Instant now) {
  auto found = others_.find(who.node);
  if (found == others_.end() || who.session != found->second.session || !found->second.isLive) return false;
  Other& other = found->second;
  other.durable = std::max(other.durable, std::min(durable.end, other.position));
  other.start = std::max(other.start, durable.first);
  noteProgress(other, now);
  return true;
}

void Followers::noteProgress(Other& other, Instant now) {
  if (other.durable >= end_) {
    other.caughtUp = other.nextAt = now;
    other.nextEnd = end_;
  } else if (other.durable >= other.nextEnd) {
    other.caughtUp = std::max(other.caughtUp, other.nextAt);
    other.nextEnd = end_;
    other.nextAt = now;
  }
}

void Followers::gone(const FollowerId& who, Instant now) {
  auto found = others_.find(who.node);
  if (found == others_.end() || who.session != found->second.session) return;
  if (isCurrent(found->second)) found->second.caughtUp = now;
  found->second.isLive = false;
}

void Followers::grown(Offset end, Instant now) {
  for (auto& [node, other] : others_) {
    if (!isCurrent(other)) continue;
    other.caughtUp = other.nextAt = now;
    other.nextEnd = end;
  }
  end_ = end;
}

template <class Look>
void Followers::forThoseThatCount(Look look) const {
  auto count = [&](NodeId node) {
    if (node == self_) return;
    auto found = others_.find(node);
    look(found == others_.end() ? Other() : found->second);
  };
  for (NodeId node : isr_) count(node);
  for (NodeId node : proposed_) count(node);
  for (NodeId node : maybe_) count(node);
}

Offset Followers::durableEnd(Offset own) const {
  Offset least = own;
  forThoseThatCount([&](const Other& other) { least = std::min(least, other.durable); });
  return least;
}

bool Followers::beginAt(Offset start) const {
  bool all = true;
  forThoseThatCount([&](const Other& other) { all = all && other.start >= start; });
  return all;
}

bool Followers::someoneMayEnter(OffsetRange log) const {
  return std::ranges::any_of(others_, [&](const auto& entry) { return enters(entry.first, entry.second, log); });
}

bool Followers::someoneLags() const {
  return std::ranges::any_of(isr_, [&](NodeId node) {
    auto found = others_.find(node);
    return node != self_ && (found == others_.end() || !isCurrent(found->second));
  });
}

void Followers::propose(const std::vector<NodeId>& isr) {
  inFlight_ = true;
  proposed_ = isr;
}

void Followers::answered(int32_t partitionEpoch, Outcome outcome) {
  if (!inFlight_ || partitionEpoch != partitionEpoch_) return;  // it was settled by the metadata
  inFlight_ = false;
  if (outcome != Outcome::refused) maybe_.insert(proposed_.begin(), proposed_.end());
  proposed_.clear();
}

std::vector<Followers::Row> Followers::rows() const {
  std::vector<Row> rows;
  for (const auto& [node, other] : others_) rows.push_back({node, other.position, other.durable, isInSync(node)});
  return rows;
}

}  // namespace mq::replica

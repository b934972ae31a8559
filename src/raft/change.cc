// Members come and go, and leadership is handed over (dissertation chapter 4 and §3.10).
#include "base/check.h"
#include "raft/core.h"

namespace mq::raft {

Result<Position> Core::setMember(Member member) {
  Membership next = membership();
  const Member* present = next.find(member.replica.id);
  bool isSame = present && present->replica == member.replica;
  if (isSame && present->isVoter == member.isVoter)
    return failure(Error::duplicateVoter, "node {} is that already", member.replica.id);
  if (member.isVoter) {
    // It would count from its first moment, and with an empty log it would keep everybody waiting.
    if (!isSame)
      return failure(Error::ineligibleReplica, "node {} must be an observer before it becomes a voter",
                     member.replica.id);
    const Progress* progress = progressOf(member.replica.id);
    if (progress && progress->match + options_.promotionLagMax < log_.lastIndex())
      return failure(Error::ineligibleReplica, "node {} lacks {} entries", member.replica.id,
                     log_.lastIndex() - progress->match);
  }
  std::erase_if(next.members, [&](const Member& one) { return one.replica.id == member.replica.id; });
  auto at = std::find_if(next.members.begin(), next.members.end(),
                         [&](const Member& one) { return one.replica.id > member.replica.id; });
  next.members.insert(at, member);
  return change(std::move(next));
}

Result<Position> Core::removeMember(NodeId id) {
  Membership next = membership();
  if (std::erase_if(next.members, [&](const Member& one) { return one.replica.id == id; }) == 0)
    return failure(Error::voterNotFound, "node {} is no member", id);
  return change(std::move(next));
}

Result<Position> Core::change(Membership next) {
  if (auto may = mayPropose(); !may) return may.failure();
  // Both rules together: of two leaders with changes of their own on the way, only one can commit (the bug of
  // single-server changes, and its fix: raft-dev, 2015-07-10).
  if (commit_ < termStart_)
    return failure(Error::leaderNotAvailable, "node {} has not committed anything in its term yet", self_.id);
  if (members_.latestIndex() > commit_)
    return failure(Error::reassignmentInProgress, "the change before, entry {}, is not committed",
                   members_.latestIndex());
  if (next.voterCount() == 0) return failure(Error::invalidRequest, "the last voter cannot go");
  if (next.members.size() > kMembersMax) return failure(Error::invalidRequest, "more than {} members", kMembersMax);
  MQ_CHECK(votersChanged(membership(), next) <= 1, show(membership()), show(next));
  Position position = appendOwn(EntryType::membership, encodeMembership(next));
  members_.add(position.index, std::move(next));
  adoptMembership();
  return position;
}

// Whoever is in the log's last membership gets the log. Who is no longer gets it until that is committed.
void Core::adoptMembership() {
  for (const Member& member : membership().members) {
    if (member.replica.id == self_.id) continue;
    auto found = followers_.find(member.replica.id);
    if (found != followers_.end() && found->second.replica == member.replica) continue;
    followers_.erase(member.replica.id);
    followers_.emplace(member.replica.id, Progress(member.replica, log_.lastIndex() + 1, now_));
  }
}

void Core::membershipCommitted() {
  if (state_ != State::leader) return;
  std::erase_if(followers_, [&](auto& follower) {
    if (membership().has(follower.second.replica)) return false;
    send(follower.second.replica, Removed{members_.latestIndex()});
    return true;
  });
  if (isVoter()) return;
  // It led until its own removal was committed (dissertation §4.2.2).
  for (auto& [_, progress] : followers_) sendHeartbeat(progress);
  if (Progress* next = successor()) send(next->replica, TimeoutNow());
  stepDown();
}

Progress* Core::successor() {
  Progress* best = nullptr;
  for (auto& [_, progress] : followers_)
    if (membership().isVoter(progress.replica) && (!best || progress.match > best->match)) best = &progress;
  return best;
}

Result<void> Core::transfer(NodeId target) {
  if (auto may = mayPropose(); !may) return may;
  auto found = followers_.find(target);
  if (found == followers_.end() || !membership().isVoter(found->second.replica))
    return failure(Error::voterNotFound, "node {} is no other voter", target);
  handover_ = Handover{.target = target, .end = now_ + options_.electionTimeout};
  return {};
}

void Core::takeHandover() {
  if (!handover_ || handover_->isTold) return;
  auto found = followers_.find(handover_->target);
  if (found == followers_.end() || found->second.match < log_.lastIndex()) return;
  send(found->second.replica, TimeoutNow());
  handover_->isTold = true;
}

}  // namespace mq::raft

// Who leads (Raft §5.2, §5.4.1; dissertation §3.4, §4.2.3, §9.6).
#include "base/check.h"
#include "raft/core.h"

namespace mq::raft {

void Core::setElectionTimer() {
  auto timeout = static_cast<uint64_t>(options_.electionTimeout.count());
  electionAt_ = now_ + options_.electionTimeout + Duration(random_.below(timeout));
}

bool Core::hasLiveLeader() const {
  return state_ == State::leader || (leader_.id != kNoNode && now_ - heardAt_ < options_.electionTimeout);
}

// Also a voter that an uncommitted entry removes: perhaps only it has that entry, and nobody else can be elected
// (dissertation §4.2.2).
bool Core::mayCampaign() const {
  const auto& [index, committed] = members_.committed(commit_);
  return (isVoter() || committed.isVoter(self_)) && removedAt_ <= index;
}

void Core::beginTerm(int64_t term, NodeId vote) {
  hard_ = {term, vote};
  outbox_.clear();  // of an earlier term: nobody wants it any more
  verified_ = acknowledged_ = 0;
  isAskedToAcknowledge_ = false;
  incoming_.reset();
}

void Core::becomeFollower(int64_t term, const Replica& leader) {
  bool wasLeader = state_ == State::leader;
  if (wasLeader) stopLeading();
  if (term > hard_.term) beginTerm(term, kNoNode);
  state_ = State::follower;
  leader_ = leader;
  votes_.clear();
  if (leader.id != kNoNode) heardAt_ = now_;
  if (wasLeader || leader.id != kNoNode) setElectionTimer();
}

void Core::beginPreVote() {
  state_ = State::preCandidate;
  leader_ = Replica();
  votes_.clear();
  setElectionTimer();
  if (isVoter()) votes_[self_.id] = true;
  askForVotes(true, false);
  count();
}

void Core::beginElection(bool isTransfer) {
  beginTerm(hard_.term + 1, self_.id);
  state_ = State::candidate;
  leader_ = Replica();
  votes_.clear();  // our own counts when it is durable: persisted()
  setElectionTimer();
  askForVotes(false, isTransfer);
}

void Core::askForVotes(bool isPreVote, bool isTransfer) {
  // One that is being removed asks observers too. Their votes do not count, but by now they may be the only ones of its
  // membership that are left, and tell it.
  bool isToAll = isPreVote && !isVoter();
  for (const Member& member : members_.latest().members) {
    if ((member.isVoter || isToAll) && member.replica != self_)
      send(member.replica, VoteRequest{.last = log_.last(), .isPreVote = isPreVote, .isTransfer = isTransfer});
  }
}

void Core::count() {
  size_t granted = 0, refused = 0, voters = members_.latest().voterCount();
  for (auto [_, isGranted] : votes_) ++(isGranted ? granted : refused);
  if (granted > voters / 2)
    state_ == State::preCandidate ? beginElection(false) : becomeLeader();
  else if (voters - refused <= voters / 2)
    becomeFollower(hard_.term, Replica());
}

void Core::becomeLeader() {
  MQ_CHECK(isDurablyTermed() && state_ == State::candidate, hard_.term);
  state_ = State::leader;
  leader_ = self_;
  heartbeatAt_ = now_;
  adoptMembership();
  termStart_ = appendOwn(EntryType::noop, {}).index;
}

void Core::tellIfRemoved(const Replica& replica) {
  const auto& [index, committed] = members_.committed(commit_);
  if (committed.members.empty() || committed.has(replica) || members_.latest().has(replica)) return;
  send(replica, Removed{index});
}

void Core::on(const Message& message, VoteRequest& request) {
  bool isGranted = isUpToDate(request.last, log_.last());
  if (!request.isPreVote) {
    isGranted = isGranted && state_ == State::follower && (hard_.vote == kNoNode || hard_.vote == message.from.id);
    if (isGranted) {
      hard_.vote = message.from.id;
      setElectionTimer();
    }
  }
  send(message.from, VoteReply{.isPreVote = request.isPreVote, .isGranted = isGranted});
}

void Core::on(const Message& message, VoteReply& reply) {
  if (state_ != (reply.isPreVote ? State::preCandidate : State::candidate)) return;
  if (!members_.latest().isVoter(message.from)) return;
  if (!reply.isPreVote && !isDurablyTermed()) return;  // nobody has been asked yet
  votes_[message.from.id] = reply.isGranted;
  count();
}

void Core::on(const Message& message, TimeoutNow&) {
  if (state_ == State::follower && leader_ == message.from && isVoter()) beginElection(true);
}

// Whoever says so may know less than we do: it counts beside what we know to be committed, not beside a membership that
// may be lost.
void Core::on(const Message&, Removed& removed) {
  if (state_ == State::leader) return;
  removedAt_ = std::max(removedAt_, removed.index);
  if (!mayCampaign() && state_ != State::follower) becomeFollower(hard_.term, Replica());
}

}  // namespace mq::raft

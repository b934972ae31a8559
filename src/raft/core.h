// Core: one replica's part in Raft (Ongaro and Ousterhout 2014; Ongaro's dissertation). Messages and time go in,
// effects (ready.h) come out. No clock, disk, socket or thread; the same inputs give the same outputs.
//
// State transitions, all there are:
//   follower     -> preCandidate  nothing heard for an election timeout, and it may campaign
//   follower     -> candidate     the leader hands over (TimeoutNow)
//   preCandidate -> candidate     a majority would vote for it
//   preCandidate -> preCandidate  time is up: once more
//   candidate    -> leader        a majority, which may be itself alone, voted for it durably
//   candidate    -> preCandidate  time is up
//   preCandidate, candidate -> follower   a leader of this term, a later term, or a majority refuses
//   leader       -> follower      a later term; no answer of a majority for an election timeout; it is no voter any
//   more any          -> stopped       fail(): a write failed, or a message contradicts what is committed. For good.
//
// Rules that the code keeps, by number in the tests:
//   1. Nothing leaves while term or vote are not durable. An entry is acknowledged, also to oneself, when it is
//   durable.
//   2. A failed write stops the core. What may be on a disk is never replaced by something else of the same position.
//   3. Writes are in order, one at a time; what comes together is one write.
//   4. Only entries of the own term commit by counting; a leader begins with a no-op; members change only after it has
//      committed, one at a time.
//   5. Everything is bounded in bytes (options.h): messages, windows, uncommitted entries, memory.
//   7. A voter that an uncommitted entry removes still campaigns. One that is removed is told.
//   8. Pre-vote, check-quorum, sticky leader, read-index.
//   (6 is the disk format's.)
//
// Time stands still between ticks: call tick() first with whatever else happens.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "raft/log_view.h"
#include "raft/membership.h"
#include "raft/messages.h"
#include "raft/options.h"
#include "raft/progress.h"
#include "raft/read_index.h"
#include "raft/ready.h"

namespace mq::raft {

enum class State { follower, preCandidate, candidate, leader, stopped };

// What the disk had.
struct Start {
  Replica self;
  HardState hardState;
  SnapshotInfo snapshot;  // the newest; none (index 0): `members` are those of a log without a membership entry
  Position logStart;      // the entry before the first one in the log; not behind the snapshot
};

class Core {
 public:
  Core(Options options, Start start, uint64_t seed, Instant now);
  // Before the first tick: the log's entries from logStart on, all of them, in as many calls as one likes.
  void restore(const std::vector<Entry>& entries);

  // --- what happens
  void tick(Instant now);
  void step(Message message);
  // The entry's position: it is committed when an entry with this index and term is applied, lost when one with
  // another term is. Refused: not the leader, handing over, too large, too much uncommitted.
  Result<Position> propose(Buffer data);
  // One replica comes, goes, or changes its role. A voter must have been an observer, and have caught up, before.
  Result<Position> setMember(Member member);
  Result<Position> removeMember(NodeId id);
  // Leadership goes to a voter that has all entries; meanwhile proposals are refused. Given up after an election
  // timeout.
  Result<void> transfer(NodeId target);
  // Answered by readsReady or readsFailed.
  Result<void> read(ReadId id);

  // --- what the driver did
  void persisted(uint64_t write);
  // There was no space, and nothing of its entries or snapshot was written (the hard state was). A leader drops its
  // entries and steps down; what comes from a leader is written later, at the next heartbeat at the earliest.
  void refused(Write write);
  void loaded(const LogRead& read, std::vector<Entry> entries);  // none: they are no longer there
  void loaded(const SnapshotRead& read, std::optional<Buffer> chunk);
  // A snapshot is durable, and the log begins behind `logStart`.
  void compacted(SnapshotInfo newest, Position logStart);
  // A write or read failed, or what was applied made no sense. Nothing comes out any more.
  void fail(std::string reason);

  // --- what comes of it
  Ready take();
  Instant wakeAt() const;  // tick() then, or earlier

  State state() const { return stopReason_ ? State::stopped : state_; }
  const std::optional<std::string>& stopReason() const { return stopReason_; }
  int64_t term() const { return hard_.term; }
  NodeId leader() const { return leader_.id; }  // kNoNode: not known
  int64_t commitIndex() const { return commit_; }
  int64_t appliedIndex() const { return applied_; }  // of what take() gave out
  const LogView& log() const { return log_; }
  const Membership& membership() const { return members_.latest(); }
  int64_t membershipIndex() const { return members_.latestIndex(); }
  bool mayCampaign() const;
  // As of an entry that is applied and not older than the last snapshot: what a snapshot there must keep.
  const Membership& membershipAt(int64_t index) const { return members_.at(index); }
  const Progress* progressOf(NodeId id) const;  // at the leader
  size_t uncommittedBytes() const { return uncommittedBytes_; }
  uint64_t ignoredMessages() const { return ignored_; }  // made no sense, or were not for us

 private:
  struct Incoming {  // a snapshot that arrives
    Replica from;
    SnapshotInfo snapshot;
    Buffer data;
  };
  struct Proposed {
    int64_t index;
    size_t bytes;
  };
  struct Handover {
    NodeId target;
    Instant end;  // given up then
    bool isTold = false;
  };

  static constexpr size_t kOutboxMax = 100'000;

  // core.cc
  template <class Body>
  void send(const Replica& to, Body body);
  void answerStale(const Message& message);
  bool isAnswerOfStranger(const Message& message) const;
  void setCommit(int64_t index);
  void takeMessages(Ready& ready);
  void takeWrite(Ready& ready);
  void takeApply(Ready& ready);
  bool isDurablyTermed() const { return saved_ == hard_; }
  bool isAlone() const;  // no reason to wait with an election
  bool isVoter() const { return members_.latest().isVoter(self_); }

  // election.cc
  void beginTerm(int64_t term, NodeId vote);
  void becomeFollower(int64_t term, const Replica& leader);
  void beginPreVote();
  void beginElection(bool isTransfer);
  void becomeLeader();
  void askForVotes(bool isPreVote, bool isTransfer);
  void count();
  void setElectionTimer();
  bool hasLiveLeader() const;
  void tellIfRemoved(const Replica& replica);
  void on(const Message& message, VoteRequest& request);
  void on(const Message& message, VoteReply& reply);
  void on(const Message& message, TimeoutNow& now);
  void on(const Message& message, Removed& removed);

  // follower.cc
  bool follow(const Replica& leader);
  void acknowledge(int64_t verified);
  void takeAcknowledgement();
  bool takeEntries(std::vector<Entry> entries);
  void install(Incoming incoming);
  void on(const Message& message, Append& append);
  void on(const Message& message, Heartbeat& beat);
  void on(const Message& message, InstallSnapshot& install);

  // leader.cc
  void tickLeader();
  Result<void> doesLead() const;
  Result<void> mayPropose() const;
  Instant quorumEnd() const;
  void stepDown() { becomeFollower(hard_.term, Replica()); }
  void stopLeading();
  void giveUpUnwritten();
  Position appendOwn(EntryType type, Buffer data);
  void advanceCommit();
  void takeReplication(Ready& ready);
  void replicate(Progress& progress, Ready& ready);
  void sendEntries(Progress& progress, std::vector<Entry> entries);
  void sendHeartbeat(Progress& progress);
  void sendChunk(Progress& progress, Ready& ready);
  void takeReads(Ready& ready);
  Progress* reader(NodeId id, uint64_t number);
  Progress* answering(const Message& message);
  void on(const Message& message, AppendReply& reply);
  void on(const Message& message, HeartbeatReply& reply);
  void on(const Message& message, SnapshotReply& reply);

  // change.cc
  Result<Position> change(Membership next);
  void takeHandover();
  void adoptMembership();
  void membershipCommitted();
  Progress* successor();

  Options options_;
  Replica self_;
  Prng random_;
  Instant now_;
  std::optional<std::string> stopReason_;
  uint64_t ignored_ = 0;

  HardState hard_;
  HardState saved_;  // durable
  State state_ = State::follower;
  Replica leader_;
  Instant heardAt_;  // from the leader
  Instant electionAt_;
  std::map<NodeId, bool> votes_;  // of this (pre-)election
  int64_t removedAt_ = -1;        // somebody said that the membership committed there does not have us

  LogView log_;
  MembershipHistory members_;
  SnapshotInfo snapshot_;  // newest durable one
  int64_t commit_;
  int64_t applied_;

  std::vector<Message> outbox_;
  uint64_t numbers_ = 0;  // of writes and reads
  struct Writing {
    uint64_t number;
    HardState hard;
    std::optional<SnapshotInfo> snapshot;
  };
  std::optional<Writing> writing_;
  std::optional<Install> installing_;  // to be written
  std::optional<Instant> writeAgainAt_;
  uint64_t applyRead_ = 0;  // under way; 0: none
  std::vector<Entry> loadedApply_;

  // As a follower, for the leader of this term:
  int64_t verified_ = 0;      // our log equals its log up to here
  int64_t acknowledged_ = 0;  // as far as we said so
  bool isAskedToAcknowledge_ = false;
  std::optional<Incoming> incoming_;

  // As a leader:
  std::map<NodeId, Progress> followers_;
  int64_t termStart_ = 0;  // index of the no-op
  Instant heartbeatAt_;
  int64_t round_ = 0;  // of heartbeats
  ReadIndex reads_;
  std::vector<ReadId> readsFailed_;
  std::deque<Proposed> proposed_;  // not committed
  size_t uncommittedBytes_ = 0;
  std::optional<Handover> handover_;
};

template <class Body>
void Core::send(const Replica& to, Body body) {
  if (outbox_.size() >= kOutboxMax) return;  // while the disk keeps us waiting; a lost message is nothing new
  outbox_.push_back({.from = self_, .to = to, .term = hard_.term, .body = std::move(body)});
}

}  // namespace mq::raft

// RaftDriver: raft::Core in the world. Gives it time and messages, does its writes and reads on the RaftLog, applies
// what is committed to a state machine, and answers who waits for it.
//
//   propose ---> Core ---> Write ---> RaftLog (Pool::sync) ---> persisted --+
//   receive --->      ---> messages ---> send                               |
//                     <-----------------------------------------------------+
//                     ---> apply ---> StateMachine ---> answers
//
// What comes in one turn is one write. The log is used by one job at a time, in the order of the requests. Lives on one
// shard; no call blocks, but for the constructor, which reads the log.
//
// A failed write or read, or a message that contradicts what is committed, is final: `failed` resolves, everything that
// waits is answered, nothing is written any more.
#pragma once
#include <functional>
#include <memory>
#include <span>

#include <kj/async.h>

#include "controller/raft_log.h"
#include "raft/core.h"
#include "runtime/shard.h"

namespace mq::controller {

// What is replicated. Called on the driver's shard; must not call back into the driver.
class StateMachine {
 public:
  virtual ~StateMachine() noexcept(false) {}
  // Committed, in order, each once in a life: also no-ops and memberships.
  virtual void apply(std::span<const raft::Entry> entries) = 0;
  // Everything applied so far, with the members that hold there, for install() and membersIn() of this or any later
  // build. Taken now; its bytes are made on a pool, while more is applied.
  using Encode = std::move_only_function<Buffer()>;
  virtual Encode snapshot(const raft::Membership& members) = 0;
  virtual raft::Membership membersIn(Bytes snapshot) = 0;         // throws kj::Exception: cannot be read
  virtual void install(raft::SnapshotId id, Bytes snapshot) = 0;  // instead of everything so far
  // This node leads, and everything that was committed before is applied.
  virtual void leads(int64_t /*term*/) {}
  virtual void follows() {}  // not any more
};

struct RaftDriverOptions {
  raft::Options raft;
  raft::Membership members;         // of a log that has neither a snapshot nor a membership entry
  uint64_t snapshotBytes = 20_MiB;  // of log behind the newest snapshot, until the next is due
};

class RaftDriver {
 public:
  using Send = std::function<void(const raft::Message&)>;

  // The state machine is empty; it gets the newest snapshot here, and later the rest. `machine` outlives the driver.
  // Throws kj::Exception: what is on the disk cannot be read.
  RaftDriver(Shard& shard, std::shared_ptr<RaftLog> log, StateMachine& machine, Send send, RaftDriverOptions options);
  ~RaftDriver() noexcept(false);
  KJ_DISALLOW_COPY(RaftDriver);

  // Answered when the entry is committed and applied here; it has its position at once, the next one. Refusals:
  //   notController      this node does not lead: nothing was done
  //   requestTimedOut    it leads no more: the entry may still come to be committed
  //   kafkaStorageError  there was no space for the entry, and nobody else can have it: nothing was done
  // and as Core::propose: nothing was done.
  kj::Promise<Result<raft::Position>> propose(Buffer data);
  // Answered when everything that was committed anywhere before the call is applied here. Only at the leader.
  kj::Promise<Result<void>> read();
  Result<raft::Position> setMember(raft::Member member);
  Result<raft::Position> removeMember(NodeId node);
  Result<void> transfer(NodeId node);
  void receive(raft::Message message);

  // How much the log's disk took last, and, while that was little, what it takes now.
  Space lastSpace() const;
  kj::Promise<Space> space();
  const raft::Core& core() const;
  // Nothing is written any more when it resolves. Who waits is answered with notController.
  kj::Promise<void> stop();
  // Resolves with the reason when it cannot go on. Once.
  kj::Promise<kj::Exception> failed();

 private:
  class Impl;
  kj::Own<Impl> impl_;
};

}  // namespace mq::controller

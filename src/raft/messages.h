// What replicas say to each other. Plain values of bounded size; peer/ gives them their bytes.
//
// Any message may be lost, repeated, late or reordered, and may come from anybody: isSane() looks at each one before
// the core does, and the core expects nothing of one beyond that.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "raft/options.h"
#include "raft/types.h"

namespace mq::raft {

// Raft §5.2. As a pre-vote (dissertation §9.6) it asks only whether the vote would be given for the sender's next term;
// nothing changes at the receiver.
struct VoteRequest {
  Position last;
  bool isPreVote = false;
  bool isTransfer = false;  // at the leader's wish: its stickiness does not count (dissertation §4.2.3)
};
struct VoteReply {
  bool isPreVote = false;
  bool isGranted = false;
};

// Raft §5.3. Entries follow `previous` without gaps. None: asks only whether `previous` is there.
struct Append {
  Position previous;
  std::vector<Entry> entries;
  int64_t commit = 0;
};
struct AppendReply {
  // Accepted: the receiver's log equals the sender's up to here, and is on disk. Refused: index of the `previous` that
  // was not there.
  int64_t index = 0;
  bool isAccepted = false;
  Position hint;  // refused: the receiver's last entry at or below that index whose term is no later than previous.term
};

// Keeps the leader in office, tells the commit index and confirms it for reads (dissertation §6.4). Apart from Append,
// so that it need not queue behind entries.
struct Heartbeat {
  int64_t commit = 0;  // never beyond what the receiver has acknowledged
  int64_t round = 0;
};
struct HeartbeatReply {
  int64_t round = 0;
};

// Raft §7, one chunk at a time.
struct InstallSnapshot {
  SnapshotInfo snapshot;
  uint64_t offset = 0;
  Buffer chunk;
};
struct SnapshotReply {
  SnapshotId id;
  uint64_t next =
      0;  // offset of the byte that is wanted next: after a loss or restart it may be lower than what was sent
};

struct TimeoutNow {};  // dissertation §3.10: campaign at once

// To a replica that campaigns and is no member: the membership committed at `index` does not have it.
struct Removed {
  int64_t index = 0;
};

struct Message {
  Replica from;
  Replica to;
  int64_t term = 0;  // the sender's
  std::variant<VoteRequest, VoteReply, Append, AppendReply, Heartbeat, HeartbeatReply, InstallSnapshot, SnapshotReply,
               TimeoutNow, Removed>
      body;
};

// Whether a message can have been sent by a correct replica at all: ranges, order, sizes. What is not is dropped.
bool isSane(const Message& message, const Options& options);

// For traces and logs: "2>1 T3 append 4/2 +2 commit 4".
std::string show(const Message& message);
std::string show(Position position);             // "index/term"
std::string show(const Membership& membership);  // "1 2 (3)": observers in parentheses

}  // namespace mq::raft

// The nouns of consensus: entries, terms, members. Values; whoever holds one owns it.
//
// Indexes count from 1 without gaps, terms from 1; index 0 and term 0 stand for "before the first". Both are 64-bit
// and never negative.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/types.h"

namespace mq::raft {

enum class EntryType : uint8_t {
  noop = 0,        // a leader's first entry
  records = 1,     // the state machine's; opaque here
  membership = 2,  // a Membership (membership.h), in force from the moment it is in the log
};

struct Entry {
  int64_t index = 0;
  int64_t term = 0;
  EntryType type = EntryType::noop;
  Buffer data;
  friend bool operator==(const Entry&, const Entry&) = default;
};

// What an entry costs in every bound on bytes: many empty entries are not free.
inline constexpr size_t kEntryOverheadBytes = 32;
inline size_t costOf(const Entry& entry) { return entry.data.size() + kEntryOverheadBytes; }

// What must survive a crash besides the log: without it a node could vote twice in one term.
struct HardState {
  int64_t term = 0;
  NodeId vote = kNoNode;  // in that term
  friend bool operator==(const HardState&, const HardState&) = default;
};

// An entry's place. Two logs that have an entry with the same position are equal up to it (Log Matching).
struct Position {
  int64_t index = 0;
  int64_t term = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};
using SnapshotId = Position;  // of the last entry that a snapshot contains; index 0: no snapshot

// Raft §5.4.1: a log is as good as another when its last entry has a later term, or the same and no smaller index.
inline bool isUpToDate(Position candidate, Position own) {
  return candidate.term != own.term ? candidate.term > own.term : candidate.index >= own.index;
}

// A node together with its data directory. A node whose directory was wiped is another replica under the same id: what
// it promised (votes, acknowledged entries) is gone, so nothing that was meant for one reaches the other (KIP-853).
struct Replica {
  NodeId id = kNoNode;
  Uuid directory;
  friend auto operator<=>(const Replica&, const Replica&) = default;
};

struct Member {
  Replica replica;
  bool isVoter = false;  // else an observer: gets the log, never counts
  friend bool operator==(const Member&, const Member&) = default;
};

struct Membership {
  std::vector<Member> members;  // ascending by id, one for each
  friend bool operator==(const Membership&, const Membership&) = default;

  const Member* find(NodeId id) const;
  bool has(const Replica& replica) const;
  bool isVoter(const Replica& replica) const;
  size_t voterCount() const;
};

// Everything about a snapshot except its bytes, which only the driver sees.
struct SnapshotInfo {
  SnapshotId id;
  uint64_t bytes = 0;
  Membership members;  // as of id
  friend bool operator==(const SnapshotInfo&, const SnapshotInfo&) = default;
};

}  // namespace mq::raft

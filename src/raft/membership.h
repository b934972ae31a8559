// Who counts. Members change one at a time (dissertation §4.1): the voters of two successive memberships differ by one
// replica, so that any two majorities of them share a voter.
#pragma once
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "raft/types.h"

namespace mq::raft {

inline constexpr size_t kMembersMax = 1'024;

// The data of a membership entry, big-endian: version int16 = 0, count int32, per member: node int32, directory uuid,
// voter int8 (0 or 1). At least one voter; ascending by node.
Buffer encodeMembership(const Membership& membership);
std::optional<Membership> decodeMembership(Bytes data);

// The first entry of a new cluster, the same on each of its voters, who write it before their first start.
Entry bootstrapEntry(const Membership& membership);

// How many voters enter or leave between the two; a voter with another directory is both.
size_t votersChanged(const Membership& from, const Membership& to);

// The largest value that a majority of the voters has reached; `valueOf` answers for a member's id. There is a voter.
template <class ValueOf>
auto majorityOf(const Membership& membership, ValueOf valueOf) {
  std::vector<decltype(valueOf(NodeId()))> values;
  for (const Member& member : membership.members)
    if (member.isVoter) values.push_back(valueOf(member.replica.id));
  std::sort(values.begin(), values.end(), std::greater<>());
  return values[values.size() / 2];
}

// The memberships of a log, from the one that holds at its snapshot on.
class MembershipHistory {
 public:
  struct State {
    int64_t index;  // of its entry, or of the snapshot that has it
    Membership membership;
  };

  MembershipHistory(int64_t index, Membership membership) { reset(index, std::move(membership)); }

  const Membership& latest() const { return states_.back().membership; }
  int64_t latestIndex() const { return states_.back().index; }
  const Membership& at(int64_t index) const;
  // The last one that is committed for sure. After a restart the commit index is not known, but all memberships of a
  // log except its last one are committed: a leader waits for that before it adds the next.
  const State& committed(int64_t commit) const;

  void add(int64_t index, Membership membership);
  void truncate(int64_t from);    // entries from here on are gone
  void compact(int64_t through);  // nobody will ask below
  void reset(int64_t index, Membership membership);

 private:
  std::vector<State> states_;  // ascending, never empty
};

}  // namespace mq::raft

#include "raft/messages.h"

#include "raft/membership.h"

namespace mq::raft {
namespace {

// Far beyond any honest value, and far enough from the end that sums cannot overflow.
constexpr int64_t kNumberMax = int64_t{1} << 60;

bool isNumber(int64_t number) { return number >= 0 && number <= kNumberMax; }
// Term and index of an entry, or both 0.
bool isPosition(Position position) {
  return isNumber(position.index) && isNumber(position.term) && (position.index == 0) == (position.term == 0);
}

struct Judge {
  const Message& message;
  const Options& options;

  bool operator()(const VoteRequest& request) const {
    return isPosition(request.last) && request.last.term <= message.term && message.term < kNumberMax;
  }
  bool operator()(const VoteReply&) const { return true; }
  bool operator()(const Append& append) const {
    if (message.term < 1 || !isPosition(append.previous) || !isNumber(append.commit)) return false;
    Position last = append.previous;
    size_t cost = 0;
    for (const Entry& entry : append.entries) {
      if (entry.index != last.index + 1 || entry.term < last.term || entry.term < 1) return false;
      if (entry.data.size() > options.entryBytesMax) return false;
      cost += costOf(entry);
      if (entry.type == EntryType::membership && !decodeMembership(entry.data)) return false;
      if (entry.type > EntryType::membership) return false;
      last = {entry.index, entry.term};
    }
    return last.term <= message.term && (cost <= options.batchBytesMax || append.entries.size() == 1);
  }
  bool operator()(const AppendReply& reply) const { return isNumber(reply.index) && isPosition(reply.hint); }
  bool operator()(const Heartbeat& beat) const {
    return message.term >= 1 && isNumber(beat.commit) && isNumber(beat.round);
  }
  bool operator()(const HeartbeatReply& reply) const { return isNumber(reply.round); }
  bool operator()(const InstallSnapshot& install) const {
    const SnapshotInfo& snapshot = install.snapshot;
    if (message.term < 1 || snapshot.id.index < 1 || !isPosition(snapshot.id) || snapshot.id.term > message.term)
      return false;
    if (snapshot.bytes > options.snapshotBytesMax || install.offset > snapshot.bytes) return false;
    if (install.chunk.size() > options.snapshotChunkBytes || install.chunk.size() > snapshot.bytes - install.offset)
      return false;
    // The same rules as for the data of an entry.
    return snapshot.members.members.size() <= kMembersMax &&
           decodeMembership(encodeMembership(snapshot.members)) == snapshot.members;
  }
  bool operator()(const SnapshotReply& reply) const { return isPosition(reply.id); }
  bool operator()(const TimeoutNow&) const { return message.term >= 1; }
  bool operator()(const Removed& removed) const { return isNumber(removed.index); }
};

struct Printer {
  std::string operator()(const VoteRequest& request) const {
    return fmt::format("{} last {}{}", request.isPreVote ? "pre-vote?" : "vote?", show(request.last),
                       request.isTransfer ? " transfer" : "");
  }
  std::string operator()(const VoteReply& reply) const {
    return fmt::format("{} {}", reply.isPreVote ? "pre-vote" : "vote", reply.isGranted ? "yes" : "no");
  }
  std::string operator()(const Append& append) const {
    return fmt::format("append {} +{} commit {}", show(append.previous), append.entries.size(), append.commit);
  }
  std::string operator()(const AppendReply& reply) const {
    return reply.isAccepted ? fmt::format("has {}", reply.index)
                            : fmt::format("lacks {} hint {}", reply.index, show(reply.hint));
  }
  std::string operator()(const Heartbeat& beat) const {
    return fmt::format("heartbeat commit {} round {}", beat.commit, beat.round);
  }
  std::string operator()(const HeartbeatReply& reply) const { return fmt::format("alive round {}", reply.round); }
  std::string operator()(const InstallSnapshot& install) const {
    return fmt::format("snapshot {} [{}, {}) of {}", show(install.snapshot.id), install.offset,
                       install.offset + install.chunk.size(), install.snapshot.bytes);
  }
  std::string operator()(const SnapshotReply& reply) const {
    return fmt::format("snapshot {} from {}", show(reply.id), reply.next);
  }
  std::string operator()(const TimeoutNow&) const { return "campaign now"; }
  std::string operator()(const Removed& removed) const { return fmt::format("removed at {}", removed.index); }
};

}  // namespace

bool isSane(const Message& message, const Options& options) {
  return isNumber(message.term) && message.from.id >= NodeId(0) && std::visit(Judge{message, options}, message.body);
}

std::string show(const Message& message) {
  return fmt::format("{}>{} T{} {}", message.from.id, message.to.id, message.term, std::visit(Printer(), message.body));
}

std::string show(Position position) { return fmt::format("{}/{}", position.index, position.term); }

std::string show(const Membership& membership) {
  std::string text;
  for (const Member& member : membership.members)
    text += fmt::format("{}{}{}{}", text.empty() ? "" : " ", member.isVoter ? "" : "(", member.replica.id,
                        member.isVoter ? "" : ")");
  return text;
}

}  // namespace mq::raft

// Taking the log of the leader (Raft §5.3, §7).
#include "base/check.h"
#include "raft/core.h"

namespace mq::raft {

// The message is of our term, and says that its sender leads.
bool Core::follow(const Replica& leader) {
  if (state_ == State::leader || (leader_.id != kNoNode && leader_ != leader)) {
    if (members_.latest().has(leader))
      fail(fmt::format("both node {} and node {} lead in term {}", leader_.id, leader.id, hard_.term));
    else
      ++ignored_;
    return false;
  }
  becomeFollower(hard_.term, leader);
  return true;
}

void Core::acknowledge(int64_t verified) {
  verified_ = std::max(verified_, verified);
  isAskedToAcknowledge_ = true;
}

void Core::takeAcknowledgement() {
  if (state_ != State::follower || leader_.id == kNoNode) return;
  int64_t index = std::min(verified_, log_.durableIndex());
  if (index < 0 || (index <= acknowledged_ && !isAskedToAcknowledge_)) return;
  acknowledged_ = std::max(acknowledged_, index);
  isAskedToAcknowledge_ = false;
  send(leader_, AppendReply{.index = index, .isAccepted = true, .hint = {}});
}

void Core::on(const Message& message, Append& append) {
  if (!follow(message.from)) return;
  // What our log no longer has is committed.
  Position start = log_.start();
  if (append.previous.index < start.index) {
    auto covered = std::min(start.index - append.previous.index, static_cast<int64_t>(append.entries.size()));
    if (covered > 0) {
      const Entry& last = append.entries[static_cast<size_t>(covered - 1)];
      append.previous = {last.index, last.term};
      append.entries.erase(append.entries.begin(), append.entries.begin() + covered);
    }
  }
  if (append.previous.index < start.index) return acknowledge(start.index);
  if (!log_.has(append.previous)) {
    int64_t index = append.previous.index;
    if (index <= commit_)
      return fail(
          fmt::format("node {}, leader of term {}, has an entry {} of term {}, but we have committed one of term {}",
                      leader_.id, hard_.term, index, append.previous.term, *log_.termAt(index)));
    Position hint = log_.lastWithin(index, append.previous.term);
    return send(message.from, AppendReply{.index = index, .isAccepted = false, .hint = hint});
  }
  int64_t end = append.previous.index + static_cast<int64_t>(append.entries.size());
  if (!takeEntries(std::move(append.entries))) return;
  acknowledge(end);
  setCommit(std::min(append.commit, end));
}

// False: not taken; comes again.
bool Core::takeEntries(std::vector<Entry> entries) {
  auto isNew = [&](const Entry& entry) { return !log_.has({entry.index, entry.term}); };
  auto fresh = std::find_if(entries.begin(), entries.end(), isNew);
  if (fresh == entries.end()) return true;
  if (log_.unsyncedBytes() >= options_.unsyncedBytesMax) return false;
  if (fresh->index <= log_.lastIndex()) {
    if (fresh->index <= std::max(commit_, verified_)) {
      fail(fmt::format("node {}, leader of term {}, replaces entry {} of term {}, which {}, by one of term {}",
                       leader_.id, hard_.term, fresh->index, *log_.termAt(fresh->index),
                       fresh->index <= commit_ ? "is committed" : "it has sent itself", fresh->term));
      return false;
    }
    log_.truncate(fresh->index);
    members_.truncate(fresh->index);
  }
  for (; fresh != entries.end(); ++fresh) {
    if (fresh->type == EntryType::membership) members_.add(fresh->index, decodeMembership(fresh->data).value());
    log_.append(std::move(*fresh));
  }
  return true;
}

void Core::on(const Message& message, Heartbeat& beat) {
  if (!follow(message.from)) return;
  if (beat.commit > log_.lastIndex())
    return fail(
        fmt::format("node {}, leader of term {}, has our word that entry {} is on our disk, but the last one is {}",
                    leader_.id, hard_.term, beat.commit, log_.lastIndex()));
  setCommit(beat.commit);
  send(message.from, HeartbeatReply{beat.round});
}

void Core::on(const Message& message, InstallSnapshot& chunk) {
  if (!follow(message.from)) return;
  SnapshotId id = chunk.snapshot.id;
  if (id.index <= commit_) return acknowledge(id.index);
  if (log_.has(id)) {  // the log goes on behind it: nothing to replace
    acknowledge(id.index);
    return setCommit(id.index);
  }
  bool isSame = incoming_ && incoming_->from == message.from && incoming_->snapshot == chunk.snapshot;
  if (!isSame) incoming_ = Incoming{.from = message.from, .snapshot = std::move(chunk.snapshot), .data = {}};
  // A chunk that is lost, late or repeated: we say what we have.
  if (chunk.offset == incoming_->data.size())
    incoming_->data.insert(incoming_->data.end(), chunk.chunk.begin(), chunk.chunk.end());
  if (incoming_->data.size() < incoming_->snapshot.bytes)
    return send(message.from, SnapshotReply{.id = id, .next = incoming_->data.size()});
  install(std::move(*incoming_));
  incoming_.reset();
}

void Core::install(Incoming incoming) {
  SnapshotId id = incoming.snapshot.id;
  log_.reset(id);
  members_.reset(id.index, incoming.snapshot.members);
  commit_ = applied_ = id.index;
  applyRead_ = 0;
  loadedApply_.clear();
  installing_ = Install{.snapshot = std::move(incoming.snapshot), .data = std::move(incoming.data)};
  acknowledge(id.index);
}

}  // namespace mq::raft

#include "raft/core.h"

#include "base/check.h"

namespace mq::raft {

Core::Core(Options options, Start start, uint64_t seed, Instant now)
    : options_(options),
      self_(start.self),
      random_(seed),
      now_(now),
      hard_(start.hardState),
      saved_(start.hardState),
      log_(start.logStart, options.tailBytesMax),
      members_(start.snapshot.id.index, start.snapshot.members),
      snapshot_(start.snapshot),
      commit_(start.snapshot.id.index),
      applied_(start.snapshot.id.index) {
  MQ_CHECK(start.logStart.index <= start.snapshot.id.index, start.logStart.index, start.snapshot.id.index);
  MQ_CHECK(options.entryBytesMax + kEntryOverheadBytes <= options.uncommittedBytesMax, options.entryBytesMax);
  setElectionTimer();
}

void Core::restore(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    log_.restore(entry);
    if (entry.term > hard_.term)
      return fail(fmt::format("the log has an entry of term {}, but the saved term is {}", entry.term, hard_.term));
    if (entry.type != EntryType::membership || entry.index <= snapshot_.id.index) continue;
    auto membership = decodeMembership(entry.data);
    if (!membership) return fail(fmt::format("entry {} of the log is no membership", entry.index));
    members_.add(entry.index, std::move(*membership));
  }
}

void Core::tick(Instant now) {
  now_ = std::max(now_, now);
  if (stopReason_) return;
  if (state_ == State::leader) return tickLeader();
  // Nobody else can lead: no reason to wait.
  if (now_ < electionAt_ && !isAlone()) return;
  if (mayCampaign()) return beginPreVote();
  leader_ = Replica();
  setElectionTimer();
}

bool Core::isAlone() const {
  return state_ == State::follower && isVoter() && members_.latest().voterCount() == 1 && !writeAgainAt_;
}

Instant Core::wakeAt() const {
  if (stopReason_) return Instant::max();
  Instant at = electionAt_;
  if (state_ == State::leader) {
    at = std::min(heartbeatAt_, quorumEnd());
    if (handover_) at = std::min(at, handover_->end);
  } else if (isAlone()) {
    at = now_;
  }
  return writeAgainAt_ && !writing_ ? std::min(at, *writeAgainAt_) : at;
}

bool Core::isAnswerOfStranger(const Message& message) const {
  bool isAnswer =
      std::holds_alternative<VoteReply>(message.body) || std::holds_alternative<AppendReply>(message.body) ||
      std::holds_alternative<HeartbeatReply>(message.body) || std::holds_alternative<SnapshotReply>(message.body);
  if (!isAnswer || members_.latest().has(message.from)) return false;
  auto follower = followers_.find(message.from.id);  // one that is being removed
  return follower == followers_.end() || follower->second.replica != message.from;
}

// Requests are taken from anybody (dissertation §4.1): our membership may be the older one.
void Core::step(Message message) {
  if (stopReason_) return;
  if (!isSane(message, options_) || message.to != self_ || message.from.id == self_.id || isAnswerOfStranger(message)) {
    ++ignored_;
    return;
  }
  if (auto* removed = std::get_if<Removed>(&message.body)) return on(message, *removed);
  auto* vote = std::get_if<VoteRequest>(&message.body);
  if (vote) {
    tellIfRemoved(message.from);
    // A sticky leader: who hears from it helps nobody to disrupt it, and does not even learn the term (dissertation
    // §4.2.3). If the term is due, the leader learns it from the answers to what it sends.
    if (hasLiveLeader() && !vote->isTransfer) return;
  }
  if (message.term < hard_.term) return answerStale(message);
  if (message.term > hard_.term) becomeFollower(message.term, Replica());
  std::visit([&](auto& body) { on(message, body); }, message.body);
}

// So that its sender learns our term.
void Core::answerStale(const Message& message) {
  if (auto* vote = std::get_if<VoteRequest>(&message.body))
    send(message.from, VoteReply{.isPreVote = vote->isPreVote, .isGranted = false});
  else if (std::holds_alternative<Append>(message.body) || std::holds_alternative<Heartbeat>(message.body) ||
           std::holds_alternative<InstallSnapshot>(message.body))
    send(message.from, AppendReply());
}

void Core::setCommit(int64_t index) {
  if (index <= commit_) return;
  MQ_CHECK(index <= log_.lastIndex(), index, log_.lastIndex());
  int64_t before = commit_;
  commit_ = index;
  while (!proposed_.empty() && proposed_.front().index <= commit_) {
    uncommittedBytes_ -= proposed_.front().bytes;
    proposed_.pop_front();
  }
  if (members_.latestIndex() > before && members_.latestIndex() <= commit_) membershipCommitted();
}

Ready Core::take() {
  Ready ready;
  if (stopReason_) return ready;
  takeApply(ready);
  takeReads(ready);
  if (state_ == State::leader) takeReplication(ready);
  takeAcknowledgement();
  takeWrite(ready);
  takeMessages(ready);
  return ready;
}

void Core::takeMessages(Ready& ready) {
  if (!isDurablyTermed()) return;
  ready.messages = std::move(outbox_);
  outbox_.clear();
}

void Core::takeWrite(Ready& ready) {
  if (writing_) return;
  Write write;
  if (!isDurablyTermed()) write.hardState = hard_;
  if (!writeAgainAt_ || now_ >= *writeAgainAt_) {
    writeAgainAt_.reset();
    if (installing_) {
      write.install = std::move(installing_);
      installing_.reset();
      log_.handReset();
    }
    write.append = log_.hand(options_.writeBytesMax);
  }
  if (!write.hardState && !write.install && write.append.empty()) return;
  write.number = ++numbers_;
  writing_ = Writing{.number = write.number, .hard = hard_, .snapshot = std::nullopt};
  if (write.install) writing_->snapshot = write.install->snapshot;
  ready.write = std::move(write);
}

void Core::persisted(uint64_t write) {
  if (stopReason_) return;
  MQ_CHECK(writing_ && writing_->number == write, write);
  saved_ = writing_->hard;
  if (writing_->snapshot) snapshot_ = std::move(*writing_->snapshot);
  writing_.reset();
  log_.written();
  if (state_ == State::candidate && isDurablyTermed()) {
    if (isVoter()) votes_[self_.id] = true;
    count();
  } else if (state_ == State::leader) {
    advanceCommit();
  }
}

void Core::refused(Write write) {
  if (stopReason_) return;
  MQ_CHECK(writing_ && writing_->number == write.number, write.number);
  saved_ = writing_->hard;
  writing_.reset();
  log_.notWritten();
  if (write.install && !installing_ && log_.start() == write.install->snapshot.id)
    installing_ = std::move(write.install);
  writeAgainAt_ = now_ + options_.heartbeat;
  if (state_ == State::leader && !write.append.empty()) return giveUpUnwritten();
  if (state_ == State::candidate && isDurablyTermed()) {
    if (isVoter()) votes_[self_.id] = true;
    count();
  }
}

void Core::takeApply(Ready& ready) {
  if (!loadedApply_.empty()) {
    ready.apply = std::move(loadedApply_);
    loadedApply_.clear();
  } else if (int64_t end = std::min(commit_, log_.durableIndex()) + 1; applied_ + 1 < end && applyRead_ == 0) {
    if (log_.isInMemory(applied_ + 1)) {
      ready.apply = log_.slice(applied_ + 1, end, options_.applyBytesMax);
    } else {
      applyRead_ = ++numbers_;
      ready.reads.push_back({applyRead_, kNoNode, applied_ + 1, end, options_.applyBytesMax});
    }
  }
  if (!ready.apply.empty()) applied_ = ready.apply.back().index;
}

void Core::loaded(const LogRead& read, std::vector<Entry> entries) {
  if (stopReason_) return;
  for (size_t i = 0; i < entries.size(); ++i) {
    int64_t index = read.from + static_cast<int64_t>(i);
    MQ_CHECK(entries[i].index == index && index < read.end, entries[i].index, index, read.end);
  }
  if (read.target == kNoNode) {
    if (read.number != applyRead_) return;  // a snapshot came in between
    applyRead_ = 0;
    if (entries.empty() || !log_.has({entries.back().index, entries.back().term}))
      return fail(fmt::format("entry {} is to be applied and cannot be read from the log", read.from));
    loadedApply_ = std::move(entries);
    return;
  }
  Progress* progress = reader(read.target, read.number);
  if (!progress) return;
  progress->reading = 0;
  if (entries.empty()) return progress->pause(now_);
  size_t count = 1, bytes = costOf(entries.front());
  while (count < entries.size() && (bytes += costOf(entries[count])) <= options_.batchBytesMax) ++count;
  entries.resize(count);
  if (progress->next == read.from) sendEntries(*progress, std::move(entries));
}

void Core::loaded(const SnapshotRead& read, std::optional<Buffer> chunk) {
  Progress* progress = stopReason_ ? nullptr : reader(read.target, read.number);
  if (!progress) return;
  progress->reading = 0;
  const Progress::Transfer& transfer = *progress->transfer;
  if (!chunk) {
    if (transfer.snapshot.id == snapshot_.id) return progress->sentChunk(now_);  // tried again in a while
    return progress->beginSnapshot(snapshot_);
  }
  MQ_CHECK(read.id == transfer.snapshot.id && chunk->size() == read.count, chunk->size(), read.count);
  send(progress->replica,
       InstallSnapshot{.snapshot = transfer.snapshot, .offset = read.offset, .chunk = std::move(*chunk)});
  progress->sentChunk(now_);
}

void Core::compacted(SnapshotInfo newest, Position logStart) {
  if (stopReason_ || newest.id.index <= snapshot_.id.index) return;
  MQ_CHECK(newest.id.index <= applied_ && logStart.index <= newest.id.index, newest.id.index, applied_, logStart.index);
  snapshot_ = std::move(newest);
  members_.compact(snapshot_.id.index);
  log_.compact(logStart);
}

void Core::fail(std::string reason) {
  if (stopReason_) return;
  stopReason_ = std::move(reason);
  outbox_.clear();
}

const Progress* Core::progressOf(NodeId id) const {
  auto found = followers_.find(id);
  return found == followers_.end() ? nullptr : &found->second;
}

}  // namespace mq::raft

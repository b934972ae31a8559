// Leading: replication, commitment and reads (Raft §5.3, §5.4.2, §7, §8; dissertation §6.2, §6.4, §10.2).
#include "base/check.h"
#include "raft/core.h"

namespace mq::raft {

void Core::stopLeading() {
  for (ReadId id : reads_.takeAll()) readsFailed_.push_back(id);
  followers_.clear();
  proposed_.clear();
  uncommittedBytes_ = 0;
  handover_.reset();
}

// When the majority that answered last will have been silent for an election timeout.
Instant Core::quorumEnd() const {
  Instant heard = majorityOf(members_.latest(),
                             [&](NodeId id) { return id == self_.id ? Instant::max() : followers_.at(id).heardAt; });
  return heard == Instant::max() ? heard : heard + options_.electionTimeout;
}

// As if it had crashed before the write and come back: nobody waits for entries that may never fit, and what is smaller
// gets its chance in the next term. What the others have committed without us stays.
void Core::giveUpUnwritten() {
  int64_t from = std::max(log_.durableIndex(), commit_) + 1;
  stepDown();
  if (from > log_.lastIndex()) return;
  log_.truncate(from);
  members_.truncate(from);
}

void Core::tickLeader() {
  if (now_ >= quorumEnd()) return stepDown();
  if (handover_ && now_ >= handover_->end) handover_.reset();
  for (auto& [_, progress] : followers_) progress.giveUp(now_, options_.electionTimeout);
  if (now_ < heartbeatAt_) return;
  heartbeatAt_ = now_ + options_.heartbeat;
  for (auto& [_, progress] : followers_) sendHeartbeat(progress);
}

Position Core::appendOwn(EntryType type, Buffer data) {
  Entry entry{.index = log_.lastIndex() + 1, .term = hard_.term, .type = type, .data = std::move(data)};
  proposed_.push_back({entry.index, costOf(entry)});
  uncommittedBytes_ += costOf(entry);
  log_.append(std::move(entry));
  return log_.last();
}

Result<void> Core::doesLead() const {
  if (stopReason_) return failure(Error::kafkaStorageError, "node {} has stopped: {}", self_.id, *stopReason_);
  if (state_ != State::leader) return failure(Error::notController, "node {} does not lead", self_.id);
  return {};
}

Result<void> Core::mayPropose() const {
  if (auto leads = doesLead(); !leads) return leads;
  if (handover_)
    return failure(Error::leaderNotAvailable, "node {} hands over to node {}", self_.id, handover_->target);
  return {};
}

Result<Position> Core::propose(Buffer data) {
  if (auto may = mayPropose(); !may) return may.failure();
  if (data.size() > options_.entryBytesMax)
    return failure(Error::messageTooLarge, "{} bytes are more than the {} of one entry", data.size(),
                   options_.entryBytesMax);
  size_t cost = data.size() + kEntryOverheadBytes;
  if (uncommittedBytes_ + cost > options_.uncommittedBytesMax)
    return failure(Error::throttlingQuotaExceeded, "{} bytes of the log are not committed yet", uncommittedBytes_);
  if (log_.unsyncedBytes() + cost > options_.unsyncedBytesMax)
    return failure(Error::throttlingQuotaExceeded, "{} bytes of the log are not on the disk yet", log_.unsyncedBytes());
  return appendOwn(EntryType::records, std::move(data));
}

// Entries of earlier terms commit only together with one of ours (Raft §5.4.2, Figure 8).
void Core::advanceCommit() {
  int64_t index = majorityOf(members_.latest(),
                             [&](NodeId id) { return id == self_.id ? log_.durableIndex() : followers_.at(id).match; });
  if (index > commit_ && log_.termAt(index) == hard_.term) setCommit(index);
}

void Core::takeReplication(Ready& ready) {
  for (auto& [_, progress] : followers_) {
    replicate(progress, ready);
    // With nothing more to send, what is committed need not wait for the next heartbeat.
    if (std::min(progress.match, commit_) > progress.commitTold) sendHeartbeat(progress);
  }
  takeHandover();
}

void Core::replicate(Progress& progress, Ready& ready) {
  while (progress.maySend(options_)) {
    if (progress.state() == Progress::State::snapshot) return sendChunk(progress, ready);
    bool isProbe = progress.state() == Progress::State::probe;
    if (progress.next > log_.lastIndex() && !isProbe) return;
    if (!log_.termAt(progress.next - 1)) {
      MQ_CHECK(snapshot_.id.index >= log_.start().index, snapshot_.id.index, log_.start().index);
      progress.beginSnapshot(snapshot_);
    } else if (log_.isInMemory(progress.next)) {
      sendEntries(progress, log_.slice(progress.next, log_.lastIndex() + 1, options_.batchBytesMax));
    } else if (isProbe) {
      sendEntries(progress, {});
    } else {
      progress.reading = ++numbers_;
      ready.reads.push_back(
          {progress.reading, progress.replica.id, progress.next, log_.lastIndex() + 1, options_.batchBytesMax});
    }
  }
}

void Core::sendEntries(Progress& progress, std::vector<Entry> entries) {
  size_t bytes = 0;
  for (const Entry& entry : entries) bytes += costOf(entry);
  int64_t end = progress.next + static_cast<int64_t>(entries.size());
  Position previous{progress.next - 1, log_.termAt(progress.next - 1).value()};
  send(progress.replica, Append{.previous = previous, .entries = std::move(entries), .commit = commit_});
  progress.commitTold = std::max(progress.commitTold, std::min(commit_, end - 1));
  progress.sentAppend(end, bytes, now_);
}

void Core::sendHeartbeat(Progress& progress) {
  int64_t commit = std::min(progress.match, commit_);
  progress.commitTold = std::max(progress.commitTold, commit);
  send(progress.replica, Heartbeat{.commit = commit, .round = round_});
}

void Core::sendChunk(Progress& progress, Ready& ready) {
  const Progress::Transfer& transfer = *progress.transfer;
  uint64_t left = transfer.snapshot.bytes - transfer.next;
  progress.reading = ++numbers_;
  ready.snapshotReads.push_back({progress.reading, progress.replica.id, transfer.snapshot.id, transfer.next,
                                 std::min<uint64_t>(left, options_.snapshotChunkBytes)});
}

Result<void> Core::read(ReadId id) {
  if (auto leads = doesLead(); !leads) return leads;
  if (reads_.size() >= options_.readsMax)
    return failure(Error::throttlingQuotaExceeded, "{} reads wait for their turn", reads_.size());
  reads_.ask(id);
  return {};
}

void Core::takeReads(Ready& ready) {
  ready.readsFailed = std::move(readsFailed_);
  readsFailed_.clear();
  if (state_ != State::leader) return;
  // Before the first commit of its term a leader does not know what is committed (Raft §8).
  if (reads_.hasAsked() && commit_ >= termStart_) {
    reads_.begin(++round_, commit_);
    for (auto& [_, progress] : followers_) sendHeartbeat(progress);
  }
  int64_t confirmed = majorityOf(members_.latest(),
                                 [&](NodeId id) { return id == self_.id ? round_ : followers_.at(id).roundConfirmed; });
  ready.readsReady = reads_.take(confirmed, applied_);
}

Progress* Core::reader(NodeId id, uint64_t number) {
  auto found = followers_.find(id);
  return found != followers_.end() && found->second.reading == number ? &found->second : nullptr;
}

Progress* Core::answering(const Message& message) {
  auto found = followers_.find(message.from.id);
  if (state_ != State::leader || found == followers_.end() || found->second.replica != message.from) return nullptr;
  found->second.heardAt = now_;
  return &found->second;
}

void Core::on(const Message& message, AppendReply& reply) {
  Progress* progress = answering(message);
  if (!progress || reply.index > log_.lastIndex()) return;
  if (reply.isAccepted) {
    progress->accepted(reply.index);
    advanceCommit();
  } else {
    progress->refused(reply.index, log_.lastWithin(reply.hint.index, reply.hint.term).index);
  }
}

void Core::on(const Message& message, HeartbeatReply& reply) {
  Progress* progress = answering(message);
  if (!progress || reply.round > round_) return;
  progress->roundConfirmed = std::max(progress->roundConfirmed, reply.round);
  // It is alive, so it would have answered a probe by now.
  if (progress->state() == Progress::State::probe) progress->giveUp(now_, options_.heartbeat);
}

void Core::on(const Message& message, SnapshotReply& reply) {
  Progress* progress = answering(message);
  if (progress && progress->transfer && progress->transfer->snapshot.id == reply.id) progress->chunkTaken(reply.next);
}

}  // namespace mq::raft

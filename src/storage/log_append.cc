// Log: from an append that is accepted to one that is written.
#include <algorithm>

#include "base/check.h"
#include "record/recompress.h"
#include "storage/file_names.h"
#include "storage/partition_metadata.h"
#include "storage/shard_logs.h"

namespace mq::storage {
namespace {

// On the loop at most so many bytes are decompressed or compressed.
constexpr size_t kInlineBytesMax = 64_KiB;

record::TimestampType timestampType(const config::TopicSettings& settings) {
  return settings.timestampType == config::TimestampType::logAppendTime ? record::TimestampType::logAppendTime
                                                                        : record::TimestampType::createTime;
}

record::Compression compression(const config::TopicSettings& settings) {
  using Type = config::CompressionType;
  using Kind = record::Compression::Kind;
  switch (settings.compression) {
    case Type::autoLz4: return {.kind = Kind::automatic, .level = {}};
    case Type::producer: return {.kind = Kind::producer, .level = {}};
    case Type::uncompressed: return {.kind = Kind::fixed, .codec = record::Codec::none, .level = {}};
    case Type::gzip: return {.kind = Kind::fixed, .codec = record::Codec::gzip, .level = settings.gzipLevel};
    case Type::snappy: return {.kind = Kind::fixed, .codec = record::Codec::snappy, .level = {}};
    case Type::lz4: return {.kind = Kind::fixed, .codec = record::Codec::lz4, .level = settings.lz4Level};
    case Type::zstd: return {.kind = Kind::fixed, .codec = record::Codec::zstd, .level = settings.zstdLevel};
  }
  MQ_CHECK(false, static_cast<int>(settings.compression));
}

struct CheckRules {
  record::ValidationRules validation;
  record::StoreRules store;
};

CheckRules rulesOf(const config::TopicSettings& settings, Origin origin, WallMs now) {
  CheckRules rules;
  rules.validation.origin = origin == Origin::client ? record::Origin::client : record::Origin::coordinator;
  rules.validation.batchBytesMax = static_cast<size_t>(settings.maxMessageBytes);
  rules.validation.timestampType = timestampType(settings);
  rules.validation.timestampBeforeMaxMs = settings.timestampBeforeMaxMs;
  rules.validation.timestampAfterMaxMs = settings.timestampAfterMaxMs;
  rules.validation.now = now;
  rules.validation.keyRequired = settings.cleanup.compacts;
  rules.store.compression = compression(settings);
  rules.store.timestampType = timestampType(settings);
  rules.store.batchBytesMax = static_cast<size_t>(settings.maxMessageBytes);
  return rules;
}

// Whether taking in the batch may cost more than kInlineBytesMax of compression or decompression.
bool isHeavy(Bytes bytes, const record::Compression& compression) {
  if (bytes.size() <= kInlineBytesMax) return false;
  if (bytes.size() < record::Layout::kHeaderBytes) return false;
  record::Codec codec = record::BatchView(bytes).codec();
  if (codec != record::Codec::none) return true;
  return compression.kind == record::Compression::Kind::automatic ||
         (compression.kind == record::Compression::Kind::fixed && compression.codec != record::Codec::none);
}

struct Checked {
  std::optional<Failure> refused;
  MutableBytes stored;
  Buffer rewritten;
  record::BatchFacts facts;
};

Checked checkBatch(const AppendRequest& request, const CheckRules& rules, record::Workspace& workspace) {
  Checked checked;
  auto facts = record::validateProduceBatch(request.bytes, rules.validation, workspace, request.recordErrors);
  if (!facts) {
    checked.refused = facts.failure();
    return checked;
  }
  auto stored = record::storedForm(request.bytes, *facts, rules.store, workspace, checked.rewritten);
  if (!stored) {
    checked.refused = stored.failure();
    return checked;
  }
  checked.facts = *facts;
  checked.facts.plainRecords = {};
  checked.stored = *stored;
  return checked;
}

// Producers age by when we took their batches in, whatever times those carry.
std::optional<ProducerBatch> producerBatch(const record::BatchView& batch, WallMs now) {
  auto data = producerBatchOf(batch);
  if (data) data->timestamp = now;
  return data;
}

}  // namespace

std::optional<Failure> Log::unusable() const {
  if (removed_) return Failure(Error::unknownTopicOrPartition, "the partition is being deleted");
  if (offline_) return Failure(Error::kafkaStorageError, *offline_);
  if (closing_) return Failure(Error::notLeaderOrFollower, "the broker is stopping");
  return std::nullopt;
}

kj::Promise<Result<Appended>> Log::append(AppendRequest request) {
  if (auto failure = unusable()) return Result<Appended>(std::move(*failure));
  auto paf = kj::newPromiseAndFulfiller<Result<Appended>>();
  auto pending = std::make_unique<Pending>();
  pending->request = request;
  pending->answer = kj::mv(paf.fulfiller);
  pending->now = home_.shard.wallNow();
  Pending& accepted = *pending;
  pending_.push_back(std::move(pending));
  check(accepted);
  pump();
  return kj::mv(paf.promise);
}

void Log::check(Pending& pending) {
  if (pending.request.origin == Origin::replica) return checkCopied(pending);
  CheckRules rules = rulesOf(settings_, pending.request.origin, pending.now);
  if (!isHeavy(pending.request.bytes, rules.store.compression)) {
    // A small batch may still grow large when it is opened: then it is taken off the loop like a large one.
    CheckRules bounded = rules;
    bounded.validation.plainBytesMax = 4 * kInlineBytesMax;
    Checked checked = checkBatch(pending.request, bounded, home_.workspace);
    bool compressed = pending.request.bytes.size() >= record::Layout::kHeaderBytes &&
                      record::BatchView(pending.request.bytes).isCompressed();
    if (!checked.refused || checked.refused->error != Error::messageTooLarge || !compressed) {
      pending.refused = std::move(checked.refused);
      pending.rewritten = std::move(checked.rewritten);
      pending.stored = checked.stored;
      pending.facts = checked.facts;
      pending.checked = true;
      return;
    }
  }
  struct Job {
    AppendRequest request;
    CheckRules rules;
    std::unique_ptr<record::Workspace> workspace;
    Checked checked;
    std::optional<kj::Exception> failure;
  };
  auto job = std::make_shared<Job>(Job{pending.request, rules, home_.takeWorkspace(), {}, std::nullopt});
  ++jobs_;
  home_.shard.offload(
      Pool::compute,
      [job] {
        try {
          job->checked = checkBatch(job->request, job->rules, *job->workspace);
        } catch (...) {
          job->failure.emplace(caughtException());
        }
      },
      // The log waits for its jobs before it goes away (whenIdle), and a pending append stays queued until it is
      // checked.
      [this, &pending, job] {
        --jobs_;
        home_.giveBack(std::move(job->workspace));
        if (job->failure) {
          pending.refused = Failure(Error::unknownServerError, describe(*job->failure));
        } else {
          pending.refused = std::move(job->checked.refused);
          pending.rewritten = std::move(job->checked.rewritten);
          pending.stored = job->checked.stored;
          pending.facts = job->checked.facts;
        }
        pending.checked = true;
        pump();
        checkIdle();
      });
}

// From the leader, who validated: whole batches, good checksums, offsets that go on from ours.
void Log::checkCopied(Pending& pending) {
  pending.checked = true;
  MutableBytes left = pending.request.bytes;
  while (true) {
    record::NextBatch next = record::nextBatch(left);
    if (next.kind == record::NextBatch::Kind::end) break;
    if (next.kind != record::NextBatch::Kind::whole || !record::BatchView(next.batch).crcOk()) {
      pending.refused = failure(Error::corruptMessage, "batch {} of {} from the leader is damaged at byte {}",
                                pending.batches.size(), name_, left.data() - pending.request.bytes.data());
      return;
    }
    pending.batches.push_back(left.first(next.sizeBytes));
    left = left.subspan(next.sizeBytes);
  }
  if (pending.batches.empty()) {
    pending.refused = Failure(Error::corruptMessage, "no batch");
  } else {
    pending.copiedEnd = record::BatchView(pending.batches.back()).nextOffset();
  }
}

void Log::pump() {
  while (!exclusive_ && !pending_.empty() && pending_.front()->checked) {
    auto pending = std::move(pending_.front());
    pending_.pop_front();
    sequence(std::move(pending));
  }
}

void Log::refuse(std::unique_ptr<Pending> pending, Failure failure) {
  metrics_.refusedBatches.add();
  pending->answer->fulfill(Result<Appended>(std::move(failure)));
}

void Log::withdrawPending(const Failure& why) {
  flush();
  for (auto& pending : pending_) pending->withdrawn = why;  // a job may still be looking at them
}

void Log::sequence(std::unique_ptr<Pending> pending) {
  if (pending->withdrawn) {
    Failure why = std::move(*pending->withdrawn);
    return refuse(std::move(pending), std::move(why));
  }
  if (pending->refused) {
    Failure why = std::move(*pending->refused);
    return refuse(std::move(pending), std::move(why));
  }
  if (auto failure = unusable()) return refuse(std::move(pending), std::move(*failure));
  if (!home_.writable) {
    ++home_.figures.refusedForSpace;
    return refuse(std::move(pending), Failure(Error::kafkaStorageError, "free disk space is at its floor"));
  }
  if (!std::exchange(endsTurn_, true)) home_.flushAtEndOfTurn(*this);
  if (pending->request.origin != Origin::replica) {
    MutableBytes batch = pending->stored;
    if (auto queued = queueBatch(pending, batch, true); !queued) refuse(std::move(pending), queued.failure());
    return;
  }
  std::vector<MutableBytes> batches = std::move(pending->batches);
  for (size_t i = 0; i < batches.size(); ++i) {
    if (auto queued = queueBatch(pending, batches[i], i + 1 == batches.size()); !queued) {
      flush();  // what is queued of this request lies in the caller's memory
      return refuse(std::move(pending), queued.failure());
    }
  }
}

// Takes `pending` when the batch is its last one and is queued.
Result<void> Log::queueBatch(std::unique_ptr<Pending>& pending, MutableBytes bytes, bool last) {
  const Origin origin = pending->request.origin;
  record::BatchView batch(bytes);
  // First, since a roll writes what is queued, and if that fails producer state and offsets go back.
  // A log without segments may start within the first batch that its leader has: then it holds the whole of it.
  const bool isFirst = origin == Origin::replica && segments_.empty() && batch.baseOffset().value() >= 0 &&
                       batch.baseOffset() < next_ && next_ < batch.nextOffset();
  const Offset first = isFirst ? batch.baseOffset() : std::max(next_, batch.baseOffset());
  if (auto full = makeRoom(bytes.size(), {isFirst ? first : next_, first + batch.lastOffsetDelta()})) return *full;
  Queued queued;
  std::optional<ProducerMarker> marker = markerOf(batch, home_.workspace);
  if (marker) marker->timestamp = pending->now;

  if (origin == Origin::replica) {
    if (batch.baseOffset() < next_ && !isFirst) {
      return failure(Error::offsetOutOfRange, "{} goes on at offset {}, the leader sent {}", name_, next_,
                     batch.baseOffset());
    }
    // Compaction has left a gap at the leader, perhaps when its topic had another policy.
    if (batch.baseOffset() > next_) {
      if (auto failed = noteGaps(pending->copiedEnd)) return *failed;
    }
  } else if (marker) {
    if (auto allowed = producers_.check(*marker); !allowed) return allowed.failure();
  } else if (auto data = producerBatch(batch, pending->now)) {
    // A coordinator's batches have no sequence numbers; a fence is for them too.
    auto duplicate = producers_.check(*data);
    const bool isFenced = !duplicate && duplicate.failure().error == Error::invalidProducerEpoch;
    if (origin == Origin::coordinator && !isFenced) duplicate = std::optional<Duplicate>();
    const bool isDuplicate = duplicate && *duplicate;
    if (!isDuplicate && !isFenced && data->transactional &&
        !admitsTransaction(data->producer, data->epoch, pending->request.guard)) {
      return failure(Error::invalidTxnState, "producer {} epoch {} has no transaction open on {}", data->producer,
                     data->epoch, name_);
    }
    if (!duplicate) return duplicate.failure();
    if (isDuplicate) {
      Appended first{.offsets = {(*duplicate)->firstOffset, (*duplicate)->lastOffset + 1}, .duplicate = true};
      if (settings_.timestampType == config::TimestampType::logAppendTime)
        first.logAppendTime = (*duplicate)->timestamp;
      queued.answer = first;
      queued.pending = std::move(pending);
      metrics_.duplicateBatches.add();
      // Behind what it repeats, which may itself be queued still: both succeed or fail together.
      writes_.push_back(std::move(queued));
      return {};
    }
  }

  Offset base = origin == Origin::replica ? batch.baseOffset() : next_;
  Offset lastOffset = base + batch.lastOffsetDelta();
  if (origin != Origin::replica) {
    record::setBaseOffset(bytes, base);
    record::setLeaderEpoch(bytes, pending->request.leaderEpoch);
  }

  Held& active = segments_.rbegin()->second;
  if (active.firstAppend == kNoTimestamp) active.firstAppend = home_.wall.now();
  if (epochs_.assign(batch.leaderEpoch(), std::max(base, start_))) {
    epochsDirty_ = true;
    if (!epochsUnsavedFrom_) epochsUnsavedFrom_ = std::max(base, start_);
  }
  if (batch.hasProducerId()) guards_.erase(batch.producerId());
  if (marker) {
    marker->offset = base;
    queued.undo = producers_.apply(*marker, &queued.aborted);
  } else if (auto data = producerBatch(batch, pending->now)) {
    queued.undo = producers_.apply(*data);
  }
  queued.bytes = bytes;
  queued.mark = {.last = lastOffset, .maxTimestamp = batch.maxTimestamp(), .size = static_cast<uint32_t>(bytes.size())};
  queued.records = batch.recordCount();
  queued.answer.offsets = {base, lastOffset + 1};
  if (origin == Origin::client && settings_.timestampType == config::TimestampType::logAppendTime) {
    queued.answer.logAppendTime = batch.maxTimestamp();
  }
  next_ = lastOffset + 1;
  queuedBytes_ += bytes.size();
  if (last) queued.pending = std::move(pending);
  writes_.push_back(std::move(queued));
  if (isFirst) {  // the files alone do not tell the start any more
    storedStart_ = base;
    storeStart({});
  }
  return {};
}

bool Log::isInTransaction(ProducerId producer, int16_t epoch) const {
  auto found = producers_.producers().find(producer);
  return found != producers_.producers().end() && found->second.epoch == epoch && found->second.inTransaction();
}

uint64_t Log::guardTransaction(ProducerId producer, int16_t epoch) {
  if (isInTransaction(producer, epoch)) return 0;
  auto [place, isNew] = guards_.try_emplace(producer, Guard{lastGuard_ + 1, 0});
  if (isNew) ++lastGuard_;
  ++place->second.holders;
  return place->second.number;
}

void Log::dropGuard(ProducerId producer, uint64_t guard) {
  auto found = guards_.find(producer);
  if (found != guards_.end() && found->second.number == guard && --found->second.holders == 0) guards_.erase(found);
}

bool Log::admitsTransaction(ProducerId producer, int16_t epoch, uint64_t guard) const {
  auto found = guards_.find(producer);
  return (found != guards_.end() && found->second.number == guard) || isInTransaction(producer, epoch);
}

Result<void> Log::mayEnd(const ProducerMarker& marker, bool strict) const {
  if (auto allowed = producers_.check(marker); !allowed) return allowed;
  if (strict && isInTransaction(marker.producer, marker.epoch)) {
    return failure(Error::invalidProducerEpoch, "producer {} has begun another transaction with epoch {}",
                   marker.producer, marker.epoch);
  }
  return {};
}

// Afterwards the active segment exists and has room. What was queued may have been written for that; producer state,
// offsets and epochs are then those of the log's end.
// A start takes a gap for loss unless the file `compacted` says otherwise. That is synced in the round that makes what
// is behind the gap durable, and written over in place: half of it says that there may be gaps everywhere.
std::optional<Failure> Log::noteGaps(Offset below) {
  if (replacing_) return Failure(Error::kafkaStorageError, "a compaction writes the same note");
  try {
    FileSystem& system = home_.shard.files();
    if (!gapsBelow_) gapsBelow_ = gapsBelow(system, context_.directory);
    if (below <= *gapsBelow_) return std::nullopt;
    const bool isNew = !system.exists(path(kCompactedFile));
    FileRef file = system.open(path(kCompactedFile), OpenMode::create);
    file->write(0, asBytes(fmt::format("{}\n", below)));
    newFiles_.push_back(std::move(file));
    newNames_ |= isNew;
    gapsBelow_ = below;
  } catch (...) {
    kj::Exception reason = caughtException();
    if (!isNoSpace(reason)) home_.diskFailed("noting gaps in " + context_.directory, reason);
    return Failure(Error::kafkaStorageError, describe(reason));
  }
  return std::nullopt;
}

// `batch`: from the base that a new segment would have to its last offset.
std::optional<Failure> Log::makeRoom(uint64_t bytes, OffsetRange batch) {
  if (bytes > static_cast<uint64_t>(settings_.segmentBytes)) {
    return failure(Error::recordListTooLarge, "a batch of {} bytes does not fit into a segment of {}", bytes,
                   settings_.segmentBytes);
  }
  try {
    if (!segments_.empty()) ensureIndexes(*segments_.rbegin()->second.segment);
    if (!segments_.empty() && !mustRoll(segments_.rbegin()->second, bytes, batch.end)) return std::nullopt;
    flush();
    if (auto failure = unusable()) return failure;
    if (segments_.empty()) {
      openSegment(batch.first);
    } else {
      Segment& active = *segments_.rbegin()->second.segment;
      if (active.size() == 0 && active.base() == next_) return std::nullopt;  // the flush failed: still empty
      sealActive();
      openSegment(next_);
    }
  } catch (...) {
    kj::Exception reason = caughtException();
    if (!isNoSpace(reason)) home_.diskFailed("opening a segment of " + context_.directory, reason);
    return Failure(Error::kafkaStorageError, describe(reason));
  }
  return std::nullopt;
}

bool Log::mustRoll(const Held& active, uint64_t bytes, Offset last) {
  Segment& segment = *active.segment;
  uint64_t size = segment.size() + queuedBytes_;
  if (size == 0) return !segment.fits(bytes, last);
  if (size + bytes > static_cast<uint64_t>(settings_.segmentBytes)) return true;
  if (!segment.fits(queuedBytes_ + bytes, last)) return true;
  // Entries of the larger index, at most one per interval and per batch.
  uint64_t entries = size / std::max<uint64_t>(static_cast<uint64_t>(settings_.indexIntervalBytes), 61);
  if (entries * TimeIndexEntry::kBytes >= static_cast<uint64_t>(settings_.segmentIndexBytes)) return true;
  int64_t ageMax = settings_.segmentMs;
  if (settings_.cleanup.compacts) ageMax = std::min(ageMax, settings_.maxCompactionLagMs);
  return active.firstAppend != kNoTimestamp && home_.wall.now() - active.firstAppend > ageMax - active.rollAfterMs;
}

void Log::makeDirectory() {
  if (hasDirectory_) return;
  FileSystem& system = home_.shard.files();
  system.makeDirectory(context_.directory);
  FileRef metadata = system.open(path(kPartitionMetadataFile), OpenMode::create);
  metadata->write(0, asBytes(encodePartitionMetadata(topic_)));
  newFiles_.push_back(std::move(metadata));
  hasDirectory_ = true;
  newDirectory_ = true;
  newNames_ = true;
}

void Log::openSegment(Offset base) {
  makeDirectory();
  Held held;
  held.segment = Segment::create(context_, base);
  if (settings_.segmentJitterMs > 0) {
    held.rollAfterMs =
        static_cast<int64_t>(home_.shard.random().below(static_cast<uint64_t>(settings_.segmentJitterMs)));
  }
  if (!segments_.empty()) sealedBytes_ += segments_.rbegin()->second.segment->size();
  segments_.emplace(base, std::move(held));
  newNames_ = true;
}

// At a roll: everything queued is written, so the producer state is that at the new segment's base.
void Log::sealActive() {
  Segment& active = *segments_.rbegin()->second.segment;
  active.seal();
  sealed_.push_back(active.base());
  snapshots_.emplace_back(end_, producers_.encodeSnapshot());
  home_.syncs.request(*this);
  startSideWork();
}

void Log::endTurn() {
  endsTurn_ = false;
  flush();
  if (end_ == announced_ || offline_) return;
  announced_ = end_;
  if (observer_ != nullptr) observer_->written(end_);
  advanceDurable();
}

void Log::flush() {
  if (writes_.empty()) return;
  std::vector<Queued> writes = std::exchange(writes_, {});
  queuedBytes_ = 0;
  if (removed_ || offline_) {
    auto failure = unusable();
    for (Queued& queued : writes) {
      if (queued.pending) refuse(std::move(queued.pending), *failure);
    }
    next_ = end_;
    return;
  }
  const Offset end = end_;
  Held* active = segments_.empty() ? nullptr : &segments_.rbegin()->second;
  const uint64_t size = active == nullptr ? 0 : active->segment->size();
  int64_t records = 0;
  try {
    std::vector<Bytes> pieces;
    std::vector<BatchMark> marks;
    for (Queued& queued : writes) {
      if (queued.bytes.empty()) continue;
      pieces.push_back(queued.bytes);
      marks.push_back(queued.mark);
      records += queued.records;
      ++home_.figures.appendedBatches;
      home_.figures.appendedBytes += queued.bytes.size();
    }
    if (!pieces.empty()) active->segment->append(pieces, marks);
  } catch (...) {
    return takeBack(writes, end, size, caughtException());
  }

  end_ = next_;
  if (active != nullptr && end_ > end) {
    changed_ = true;
    active->lastAppend = home_.wall.now();
    unsyncedRecords_ += records;
    metrics_.appendedRecords.add(static_cast<uint64_t>(records));
    for (Queued& queued : writes) {
      if (queued.aborted) active->segment->noteAborted(*queued.aborted);
      metrics_.appendedBatches.add(!queued.bytes.empty());
      metrics_.appendedBytes.add(queued.bytes.size());
    }
    bool sync = settings_.durability == config::Durability::fsync || !listed_;
    if (unsyncedRecords_ >= settings_.flushMessages) {
      held_ = OffsetRange{held_ ? held_->first : end, end_};
      sync = true;
    }
    if (sync) {
      home_.syncs.request(*this);
    } else {
      armFlushTimer();
    }
    if (epochsDirty_) startSideWork();
  }
  for (Queued& queued : writes) {
    if (queued.pending) queued.pending->answer->fulfill(Result<Appended>(queued.answer));
  }
}

// The write failed: newest first, everything becomes as it was at `end`, where the active segment had `size` bytes.
void Log::takeBack(std::vector<Queued>& writes, Offset end, uint64_t size, const kj::Exception& reason) {
  for (size_t i = writes.size(); i-- > 0;) {
    if (writes[i].undo) producers_.undo(std::move(*writes[i].undo));
  }
  if (epochs_.truncateFromEnd(end)) epochsDirty_ = true;
  next_ = end;
  Segment& active = *segments_.rbegin()->second.segment;
  bool full = isNoSpace(reason);
  if (full) {
    try {
      active.truncate(size, end);
    } catch (...) {
      full = false;
      home_.diskFailed("cutting back " + active.path(), caughtException());
    }
  } else {
    home_.diskFailed("appending to " + active.path(), reason);
  }
  if (full) {
    home_.figures.refusedForSpace += writes.size();
    home_.shard.log().warning("disk-full", "no space for {} appends to {}: refused, nothing is lost ({})",
                              writes.size(), active.path(), describe(reason));
  }
  Failure answer(Error::kafkaStorageError, describe(reason));
  for (Queued& queued : writes) {
    if (queued.pending) refuse(std::move(queued.pending), answer);
  }
}

}  // namespace mq::storage

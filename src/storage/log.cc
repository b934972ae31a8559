// Log: its life, syncs, the files beside the segments, the log start, retention.
#include "storage/log.h"

#include <algorithm>

#include "base/check.h"
#include "storage/file_names.h"
#include "storage/shard_logs.h"

namespace mq::storage {
namespace {
constexpr Duration kListAgainAfter = 1s;
}

Log::Log(ShardLogs& home, TopicPartition name, TopicId topic, config::TopicSettings settings, RecoveredLog recovered)
    : home_(home),
      name_(std::move(name)),
      topic_(topic),
      settings_(std::move(settings)),
      context_{.files = home.files,
               .directory = home.options.path + "/" + fmt::format("{}", name_),
               .indexIntervalBytes = static_cast<uint32_t>(settings_.indexIntervalBytes)},
      start_(recovered.start),
      storedStart_(recovered.start),
      end_(recovered.end),
      next_(recovered.end),
      producers_(std::move(recovered.producers)),
      epochs_(std::move(recovered.epochs)),
      announced_(recovered.end),
      syncedEnd_(recovered.end),
      durableEnd_(recovered.start),
      hasDirectory_(recovered.exists),
      newDirectory_(recovered.exists && !recovered.listed),
      newNames_(recovered.exists && !recovered.listed),
      listed_(recovered.listed),
      cleanedTo_(recovered.cleanedTo <= recovered.end ? recovered.cleanedTo : recovered.start),
      cleanEpoch_(++home.cleanEpochs),
      changed_(recovered.exists && !recovered.wasClean),
      offline_(std::move(recovered.damage)),
      tasks_(home.shard.log(), "log-task-failed") {
  for (RecoveredSegment& found : recovered.segments) {
    Held held;
    held.segment = std::make_unique<Segment>(context_, found.facts);
    if (found.indexes) held.segment->adoptIndexes(*found.indexes);
    if (found.aborted) held.segment->adoptTransactions(*found.aborted);
    for (const AbortedTransaction& aborted : found.abortedUnwritten) held.segment->noteAborted(aborted);
    held.firstAppend = found.modified;
    held.lastAppend = found.modified;
    if (!segments_.empty()) sealedBytes_ += segments_.rbegin()->second.segment->size();
    segments_.emplace(found.facts.base, std::move(held));
  }
  if (recovered.epochsChanged && !offline_) {
    epochsDirty_ = true;
    startSideWork();
  }
  // The files of a log that is not listed yet may go with the name of their directory.
  if (newNames_) home_.syncs.request(*this);
  advanceDurable();
}

Log::~Log() noexcept(false) {
  home_.syncs.forget(*this);
  home_.forget(*this);
}

uint64_t Log::sizeBytes() const {
  return segments_.empty() ? 0 : sealedBytes_ + segments_.rbegin()->second.segment->size();
}

LeaderEpoch Log::lastEpoch() const { return epochs_.latest().value_or(kNoLeaderEpoch); }

void Log::setSettings(const config::TopicSettings& settings) {
  settings_ = settings;
  context_.indexIntervalBytes = static_cast<uint32_t>(settings.indexIntervalBytes);
  if (settings_.durability == config::Durability::fsync && hasUnsynced()) home_.syncs.request(*this);
  advanceDurable();
}

void Log::setHighWatermark(Offset highWatermark) {
  highWatermark_ = highWatermark;
  producers_.onHighWatermark(highWatermark);
}

// --- syncs

bool Log::hasUnsynced() const { return syncedEnd_ < end_ || newNames_ || !newFiles_.empty(); }

// Of the segments, and in taken_ how far.
std::vector<FileRef> Log::unsyncedFiles() {
  std::vector<FileRef> files;
  taken_.clear();
  for (auto at = segments_.rbegin(); at != segments_.rend(); ++at) {
    Segment& segment = *at->second.segment;
    FileRef file = segment.syncFile();
    if (file == nullptr && segment.size() > 0) break;  // so the older ones are synced as well
    if (file == nullptr) continue;
    files.push_back(std::move(file));
    taken_.push_back({segment.base(), segment.size()});
  }
  return files;
}

Unsynced Log::takeUnsynced() {
  Unsynced unsynced;
  syncing_ = true;
  unsynced.files = unsyncedFiles();
  for (FileRef& file : std::exchange(newFiles_, {})) unsynced.files.push_back(std::move(file));
  if (std::exchange(newNames_, false)) unsynced.directories.push_back(context_.directory);
  if (std::exchange(newDirectory_, false)) unsynced.directories.push_back(home_.options.path);
  takenEnd_ = end_;
  takenStable_ = lastStableOffset(highWatermark_);
  unsyncedRecords_ = 0;
  return unsynced;
}

void Log::synced() {
  syncing_ = false;
  for (const Taken& taken : taken_) {
    auto at = segments_.find(taken.base);
    if (at != segments_.end()) at->second.segment->synced(taken.size);
  }
  taken_.clear();
  syncedEnd_ = std::max(syncedEnd_, std::min(takenEnd_, end_));  // the log may have been cut meanwhile
  syncedStable_ = std::min(takenStable_, syncedEnd_);
  if (held_ && syncedEnd_ >= held_->end) held_.reset();
  if (listed_) {
    advanceDurable();
    if (!sealed_.empty()) startSideWork();
    return;
  }
  if (std::exchange(listing_, true)) return;
  // A log that began anew before it was listed has no file that begins at 0: without its start it would look damaged.
  auto started = storedStart_ < start_ ? home_.storeStart(name_, start_) : kj::Promise<void>(kj::READY_NOW);
  // Only now: what the list names has files.
  tasks_.add(started.then([this] { return home_.list(name_, topic_); })
                 .then(
                     [this] {
                       listed_ = true;
                       listing_ = false;
                       advanceDurable();
                       checkIdle();
                     },
                     [this](kj::Exception&& reason) {
                       listing_ = false;
                       dropWaiters(Offset(0), reason);
                       checkIdle();
                       listAgainLater();
                     }));
}

// There was no space for the list. What was appended stays, and its producer may send nothing but the same again, which
// is no reason for another sync.
void Log::listAgainLater() {
  if (offline_) return;
  tasks_.add(home_.shard.after(kListAgainAfter).then([this] {
    if (!listed_ && !removed_ && !offline_ && !closing_) home_.syncs.request(*this);
  }));
}

void Log::syncFailed(const kj::Exception& reason) {
  syncing_ = false;
  home_.diskFailed("syncing " + context_.directory, reason);
}

void Log::advanceDurable() {
  Offset reached = listed_ ? syncedEnd_ : Offset(0);
  if (settings_.durability == config::Durability::pageCache) {
    reached = std::max(reached, held_ ? held_->first : end_);
  }
  if (reached <= durableEnd_) return;
  durableEnd_ = reached;
  while (!waiters_.empty() && waiters_.begin()->first <= durableEnd_) {
    waiters_.begin()->second->fulfill();
    waiters_.erase(waiters_.begin());
  }
  if (observer_ != nullptr) observer_->durable(durableEnd_);
}

kj::Promise<void> Log::whenDurable(Offset end) {
  if (end <= durableEnd_) return kj::READY_NOW;
  if (auto failure = unusable(); failure && !closing_) {
    return kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__, kj::str(failure->message.c_str()));
  }
  auto paf = kj::newPromiseAndFulfiller<void>();
  waiters_.emplace(end, kj::mv(paf.fulfiller));
  return kj::mv(paf.promise);
}

// Those that wait for an end above `from`.
void Log::dropWaiters(Offset from, const kj::Exception& reason) {
  for (auto at = waiters_.upper_bound(from); at != waiters_.end(); at = waiters_.erase(at)) {
    at->second->reject(kj::cp(reason));
  }
}

void Log::armFlushTimer() {
  if (settings_.flushMs == config::TopicSettings::kUnlimited || std::exchange(flushTimerArmed_, true)) return;
  tasks_.add(home_.shard.after(std::chrono::milliseconds(settings_.flushMs)).then([this] {
    flushTimerArmed_ = false;
    if (hasUnsynced()) home_.syncs.request(*this);
  }));
}

// What the directory may promise to the next start: synced, with the epochs and the derived files of sealed segments.
std::optional<Offset> Log::durableMark() const {
  if (!listed_ || removed_ || offline_) return std::nullopt;  // what is damaged keeps the mark that showed it
  Offset mark = syncedEnd_;
  if (epochsUnsavedFrom_) mark = std::min(mark, *epochsUnsavedFrom_);
  if (!sealed_.empty()) mark = std::min(mark, sealed_.front());
  if (cutTo_) mark = std::min(mark, *cutTo_);
  return mark;
}

// --- files beside the segments

void Log::startSideWork() {
  if (sideWorking_ || removed_ || offline_) return;
  sideWorking_ = true;
  tasks_.add(sideWork());
}

// Writes producer snapshots and the epoch checkpoint, and syncs the indexes of sealed segments, until nothing is left.
// They are derived, so lack of space only means that the durable mark stays behind and a later round tries again.
Co<void> Log::sideWork() {
  co_await kj::evalLater([] {});  // after the write that the work belongs to
  bool full = false;
  while (!full && !offline_ && !removed_ && (epochsDirty_ || !snapshots_.empty() || !sealed_.empty())) {
    std::string epochs = epochsDirty_ ? epochs_.encode() : std::string();
    epochsDirty_ = false;
    auto snapshots = std::exchange(snapshots_, {});
    std::vector<Offset> sealed = sealed_;
    bool moved = !sealed.empty();
    // A clean stop trusts none of these blindly, so it need not sync them: what a power cut takes is rebuilt.
    // But a transaction index that it leaves empty would say that nothing was aborted.
    bool sync = !stopping_;
    ++jobs_;
    std::optional<kj::Exception> failed;
    try {
      co_await home_.shard.run(
          Pool::sync, [&system = home_.shard.files(), directory = context_.directory, epochs = std::move(epochs),
                       snapshots = std::move(snapshots), sealed, sync] {
            for (const auto& [offset, bytes] : snapshots) {
              if (offset.value() == 0) continue;
              FileRef file = system.open(filePath(directory, offset, kSnapshotSuffix), OpenMode::create);
              file->truncate(0);
              file->write(0, Bytes(bytes));
              if (sync) file->sync();
            }
            bool names = sync && !sealed.empty();
            for (Offset base : sealed) {
              for (std::string_view suffix : {kTransactionIndexSuffix, kOffsetIndexSuffix, kTimeIndexSuffix}) {
                if (!sync && suffix != kTransactionIndexSuffix) continue;
                std::string path = filePath(directory, base, suffix);
                if (!system.exists(path)) continue;
                FileRef file = system.open(path, OpenMode::readWrite);
                if (!sync && file->size() == 0) continue;
                file->sync();
                names = true;
              }
            }
            if (names) system.syncDirectory(directory);
            if (!epochs.empty()) system.replaceFile(directory + "/" + std::string(kLeaderEpochFile), epochs);
          });
    } catch (...) {
      failed.emplace(caughtException());
    }
    --jobs_;
    if (failed && isNoSpace(*failed)) {
      epochsDirty_ = true;
      full = true;
    } else if (failed && !removed_) {
      home_.diskFailed("writing beside " + context_.directory, *failed);
    } else if (!failed) {
      // By value: segments may have been deleted meanwhile.
      std::erase_if(sealed_, [&](Offset base) { return std::ranges::find(sealed, base) != sealed.end(); });
      if (!epochsDirty_) epochsUnsavedFrom_.reset();
      if (moved) home_.markMoved();
    }
  }
  sideFull_ = full;
  sideWorking_ = false;
  dropSegmentsBelowStart();
  checkIdle();
}

// --- the log start, retention

kj::Promise<Result<Offset>> Log::deleteRecordsTo(Offset offset) {
  flush();
  if (auto failure = unusable()) return Result<Offset>(std::move(*failure));
  if (offset > end_ || offset.value() < 0) {
    return Result<Offset>(failure(Error::offsetOutOfRange, "{} is not in [{}, {}] of {}", offset, start_, end_, name_));
  }
  if (offset <= storedStart_) return Result<Offset>(start_);
  auto paf = kj::newPromiseAndFulfiller<Result<Offset>>();
  if (offset > start_) {
    advanceStart(offset, kj::mv(paf.fulfiller));
  } else {  // asked again: the first time is not stored yet, or could not be
    storeStart(kj::mv(paf.fulfiller));
  }
  return kj::mv(paf.promise);
}

// The new start is durable before any file goes: a start that a crash forgets would leave a hole where files are gone.
void Log::advanceStart(Offset start, kj::Own<kj::PromiseFulfiller<Result<Offset>>> answer) {
  MQ_CHECK(start > start_ && start <= end_, start, start_, end_);
  start_ = start;
  if (epochs_.truncateFromStart(start_)) {
    epochsDirty_ = true;
    startSideWork();
  }
  while (!damaged_.empty() && damaged_.begin()->second <= start_) damaged_.erase(damaged_.begin());
  if (observer_ != nullptr) {
    tasks_.add(kj::evalLater([this, start] {
      if (observer_ != nullptr) observer_->startMoved(start);
    }));
  }
  storeStart(kj::mv(answer));
}

void Log::storeStart(kj::Own<kj::PromiseFulfiller<Result<Offset>>> answer) {
  if (!listed_) {  // the directory knows nothing of this log yet: first its files, then its start
    home_.syncs.request(*this);
  }
  ++jobs_;
  ++startStores_;
  const Offset start = start_;
  kj::Promise<void> ready = listed_ ? kj::Promise<void>(kj::READY_NOW) : whenDurable(end_);
  auto* waiting = answer.get();  // null: nobody waits
  tasks_.add(ready.then([this, start] { return home_.storeStart(name_, start); })
                 .then(
                     [this, start, waiting] {
                       --jobs_;
                       --startStores_;
                       storedStart_ = std::max(storedStart_, start);
                       dropSegmentsBelowStart();
                       trimming_ = false;
                       if (waiting != nullptr) waiting->fulfill(Result<Offset>(start));
                       checkIdle();
                     },
                     [this, waiting](kj::Exception&& reason) {
                       --jobs_;
                       --startStores_;
                       trimming_ = false;
                       if (waiting != nullptr)
                         waiting->fulfill(Result<Offset>(Failure(Error::kafkaStorageError, describe(reason))));
                       checkIdle();
                     })
                 .attach(kj::mv(answer)));
}

// Not before the producer snapshot behind them is safe, else what only they tell of producers would be forgotten;
// unless there is no space for it, since deleting must work on a full disk.
void Log::dropSegmentsBelowStart() {
  if (offline_ || removed_ || exclusive_ || replacing_) return;
  std::vector<std::string> paths;
  while (segments_.size() > 1 && std::next(segments_.begin())->first <= storedStart_) {
    Segment& segment = *segments_.begin()->second.segment;
    if (!sideFull_ && std::ranges::find(sealed_, segment.base()) != sealed_.end()) break;
    const uint64_t bytes = segment.size();
    sealedBytes_ -= bytes;
    Offset base = segment.base();
    std::erase(sealed_, base);
    try {
      segment.markDeleted();
    } catch (...) {
      home_.diskFailed("deleting " + segment.path(), caughtException());
      return;
    }
    for (std::string_view suffix : {kLogSuffix, kOffsetIndexSuffix, kTimeIndexSuffix, kTransactionIndexSuffix}) {
      paths.push_back(filePath(context_.directory, base, suffix) + std::string(kDeletedSuffix));
    }
    if (base.value() > 0) paths.push_back(filePath(context_.directory, base, kSnapshotSuffix));
    segments_.erase(segments_.begin());
    ++home_.figures.deletedSegments;
    metrics_.deletedBytes.add(bytes);
  }
  if (!paths.empty()) unlinkLater(std::move(paths));
}

// After file.delete.delay.ms, or at once where the space is needed. What a stop leaves over, recovery removes.
void Log::unlinkLater(std::vector<std::string> paths) {
  const bool now = trimming_ || !home_.writable;
  home_.unlinking += now;
  tasks_.add(home_.shard.after(std::chrono::milliseconds(now ? 0 : settings_.fileDeleteDelayMs))
                 .then([this, paths = std::move(paths)]() mutable {
                   return home_.shard.run(Pool::background, [&system = home_.shard.files(), paths = std::move(paths)] {
                     for (const std::string& path : paths) {
                       if (system.exists(path)) system.remove(path);
                     }
                   });
                 })
                 .then([] {},
                       [this](kj::Exception&& reason) {
                         if (!removed_) home_.shard.log().warning("unlink-failed", "{}", describe(reason));
                       })
                 .attach(kj::defer([&home = home_, now] { home.unlinking -= now; })));
}

void Log::enforceRetention() {
  if (unusable() || exclusive_ || segments_.empty()) return;
  if (!settings_.cleanup.deletes) return;
  const WallMs now = home_.wall.now();
  uint64_t left = sizeBytes();
  Offset start = start_;
  bool rollActive = false;
  for (auto at = segments_.begin(); at != segments_.end(); ++at) {
    const Segment& segment = *at->second.segment;
    bool isActive = std::next(at) == segments_.end();
    if (segment.size() == 0 && isActive) break;
    const Offset end = endOf(at);
    if (end > highWatermark_ || end > durableEnd_) break;
    bool overAge = settings_.retentionMs >= 0 && now - ageOf(at->second) > settings_.retentionMs;
    bool overSize =
        settings_.retentionBytes >= 0 && left - segment.size() >= static_cast<uint64_t>(settings_.retentionBytes);
    // Compaction may leave nothing of a segment: it goes with the first one behind it.
    bool isEmpty = segment.size() == 0;
    if (!isEmpty && !overAge && (!overSize || isActive)) break;
    left -= segment.size();
    if (!isEmpty) start = end;
    rollActive = isActive;
  }
  if (start <= start_) {
    // What could not be stored before (the disk was full) still holds up the files below it.
    if (storedStart_ < start_ && startStores_ == 0) storeStart({});
    return;
  }
  if (rollActive && !roll()) return;
  home_.shard.log().info("retention", "{}: log start moves from {} to {}", name_, start_, start);
  advanceStart(start, {});
}

std::optional<Log::Trimmable> Log::trimmable() const {
  if (unusable() || exclusive_ || trimming_ || segments_.size() < 2 || !settings_.cleanup.deletes) return std::nullopt;
  const Held& oldest = segments_.begin()->second;
  Offset end = endOf(segments_.begin());
  if (end <= start_ || end > highWatermark_ || end > durableEnd_) return std::nullopt;
  return Trimmable{oldest.lastAppend, oldest.segment->size(), end};
}

kj::Promise<bool> Log::trimTo(Offset start) {
  trimming_ = true;
  return deleteRecordsTo(start).then([](Result<Offset>&& moved) { return moved.has_value(); },
                                     [](kj::Exception&&) { return false; });  // removed meanwhile
}

void Log::expireProducers() {
  if (unusable() || exclusive_) return;
  producers_.expire(home_.wall.now(), home_.options.producerExpiration / 1ms);
}

void Log::refreshMetrics() {
  metrics_.size.set(static_cast<int64_t>(sizeBytes()));
  metrics_.segments.set(static_cast<int64_t>(segments_.size()));
}

Result<void> Log::roll() {
  flush();
  if (auto failure = unusable()) return std::move(*failure);
  if (segments_.empty() || segments_.rbegin()->second.segment->size() == 0) return {};
  try {
    ensureIndexes(*segments_.rbegin()->second.segment);
    sealActive();
    openSegment(next_);
  } catch (...) {
    kj::Exception reason = caughtException();
    if (!isNoSpace(reason)) home_.diskFailed("rolling " + context_.directory, reason);
    return Failure(Error::kafkaStorageError, describe(reason));
  }
  return {};
}

// --- the end

void Log::goOffline(const std::string& reason) {
  if (offline_) return;
  offline_ = reason;
  flush();  // refuses
  dropWaiters(Offset(-1), kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__, kj::str(reason.c_str())));
  if (observer_ != nullptr) {
    tasks_.add(kj::evalLater([this] {
      if (observer_ != nullptr) observer_->wentOffline(*offline_);
    }));
  }
}

kj::Promise<void> Log::whenIdle() {
  auto paf = kj::newPromiseAndFulfiller<void>();
  idleWaiters_.push_back(kj::mv(paf.fulfiller));
  checkIdle();
  return kj::mv(paf.promise);
}

void Log::checkIdle() {
  if (jobs_ > 0 || sideWorking_ || exclusive_ || listing_ || !pending_.empty() || !writes_.empty()) return;
  for (auto& waiter : std::exchange(idleWaiters_, {})) waiter->fulfill();
}

Co<void> Log::close() {
  closing_ = true;
  flush();
  if (observer_ != nullptr && end_ != announced_) observer_->written(announced_ = end_);
  while (hasUnsynced() && !offline_) {
    if (!segments_.empty()) home_.syncs.request(*this);
    co_await (end_ > durableEnd_ ? whenDurable(end_).catch_([](kj::Exception&&) {}) : kj::Promise<void>(kj::READY_NOW));
    if (segments_.empty() || syncedEnd_ >= end_) break;
    co_await home_.shard.after(1ms);  // page-cache: durable is not synced
  }
  co_await whenIdle();
  if (offline_ || removed_ || segments_.empty() || !changed_) co_return;
  // The state at the end beside the log, so that the next start reads no record.
  try {
    Segment& active = *segments_.rbegin()->second.segment;
    ensureIndexes(active);
    active.seal();
    stopping_ = true;
    sealed_.push_back(active.base());
    snapshots_.emplace_back(end_, producers_.encodeSnapshot());
  } catch (...) {
    home_.diskFailed("closing " + context_.directory, caughtException());
    co_return;
  }
  startSideWork();
  co_await whenIdle();
  changed_ = false;
}

Co<void> Log::abandon() {
  removed_ = true;
  flush();  // refuses
  home_.syncs.forget(*this);
  dropWaiters(Offset(-1), kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__,
                                        kj::str("the partition is being deleted")));
  co_await whenIdle();
  for (auto& [base, held] : segments_) held.segment->close();
}

}  // namespace mq::storage

// Log: reading and look-ups.
#include <algorithm>

#include "base/check.h"
#include "storage/shard_logs.h"

namespace mq::storage {

// The segment that holds `offset` or, where it is in a gap, the one before.
Log::Segments::iterator Log::segmentOf(Offset offset) {
  auto at = segments_.upper_bound(offset);
  return at == segments_.begin() ? at : std::prev(at);
}

// Derived files are checked once, when they are first needed, and rebuilt if they are wrong.
void Log::ensureIndexes(Segment& segment) {
  if (segment.indexesChecked()) return;
  IndexCounts counts;
  try {
    counts = checkIndexes(home_.shard.files(), context_.directory, segment.facts(), context_.indexIntervalBytes);
  } catch (...) {
    kj::Exception reason = caughtException();
    if (!isNoSpace(reason)) kj::throwFatalException(kj::mv(reason));
    return;  // a full disk cannot be mended on; without indexes the segment walks
  }
  if (!counts.mended.empty()) {
    home_.shard.log().warning("index-mended", "indexes of {} were mended: {}", segment.path(), counts.mended);
  }
  segment.adoptIndexes(counts);
}

// Whether the segment can be read now. A small one is made ready here; for a large one, of which the files may be cold
// and the walk over a damaged one long, that happens on a pool, and then the observer hears of it.
bool Log::indexesReady(Segment& segment) {
  if (segment.indexesChecked()) return true;
  if (replacing_ && segment.base() >= replacing_->first && segment.base() < replacing_->end)
    return false;  // observer.readable() follows
  bool isActive = &segment == segments_.rbegin()->second.segment.get();
  if (isActive || segment.size() <= home_.options.inlineCheckBytesMax || checkFailed_.contains(segment.base())) {
    ensureIndexes(segment);
    return true;
  }
  if (!checking_.insert(segment.base()).second) return false;
  struct Job {
    SegmentFacts facts;
    IndexCounts counts;
    std::optional<kj::Exception> failure;
  };
  auto job = std::make_shared<Job>(Job{segment.facts(), {}, std::nullopt});
  ++jobs_;
  home_.shard.offload(
      Pool::read,
      [job, &system = home_.shard.files(), directory = context_.directory, interval = context_.indexIntervalBytes] {
        try {
          job->counts = checkIndexes(system, directory, job->facts, interval);
        } catch (...) {
          job->failure.emplace(caughtException());
        }
      },
      // The log waits for its jobs before it goes away (whenIdle).
      [this, job] {
        --jobs_;
        checking_.erase(job->facts.base);
        if (job->failure) {
          checkFailed_.insert(job->facts.base);  // the next read meets the error itself
        } else {
          indexesScrubbed(job->facts, job->counts);
        }
        if (observer_ != nullptr) observer_->readable();
        checkIdle();
      });
  return false;
}

Result<LogSlice> Log::read(Offset from, uint32_t bytesMax, Offset upTo, bool atLeastOne) {
  if (auto failure = unusable(); failure && !closing_) return std::move(*failure);
  if (from < start_ || from > end_) {
    return failure(Error::offsetOutOfRange, "offset {} is not in [{}, {}] of {}", from, start_, end_, name_);
  }
  Offset upper = std::min(upTo, end_);
  if (!damaged_.empty()) {
    auto bad = damaged_.upper_bound(from);
    if (bad != damaged_.end()) upper = std::min(upper, bad->first);
    if (bad != damaged_.begin() && std::prev(bad)->second > from) {
      return failure(Error::corruptMessage, "the batch [{}, {}) of {} is damaged on disk", std::prev(bad)->first,
                     std::prev(bad)->second, name_);
    }
  }
  if (from >= upper || segments_.empty()) return LogSlice{.file = nullptr, .base = from, .end = from};
  try {
    for (auto at = segmentOf(from); at != segments_.end(); ++at) {
      Segment& segment = *at->second.segment;
      if (segment.base() >= upper) break;
      if (segment.size() == 0) continue;
      if (!indexesReady(segment)) break;
      auto found = segment.read({.offset = from,
                                 .upper = std::min(upper, segment.end()),
                                 .bytesMax = bytesMax,
                                 .atLeastOneBatch = atLeastOne});
      if (!found) return found.failure();
      Slice& slice = *found;
      if (slice.length == 0 && slice.firstBatchBytes == 0) continue;
      return LogSlice{.file = slice.length > 0 ? std::move(slice.file) : nullptr,
                      .position = slice.position,
                      .length = static_cast<uint32_t>(slice.length),
                      .base = slice.length > 0 ? slice.base : from,
                      .end = slice.length > 0 ? slice.end : from};
    }
  } catch (...) {
    kj::Exception reason = caughtException();
    home_.shard.log().error("read-failed", "{} at offset {}: {}", name_, from, describe(reason));
    return Failure(Error::kafkaStorageError, describe(reason));
  }
  return LogSlice{.file = nullptr, .base = from, .end = from};
}

Result<std::vector<AbortedTransaction>> Log::abortedTransactions(Offset first, Offset end) {
  if (auto failure = unusable(); failure && !closing_) return std::move(*failure);
  std::vector<AbortedTransaction> found;
  try {
    for (auto at = segmentOf(first); at != segments_.end(); ++at) {
      if (at->second.segment->collectAborted(first, end, found)) break;
    }
  } catch (...) {
    kj::Exception reason = caughtException();
    home_.shard.log().error("read-failed", "transaction index of {}: {}", name_, describe(reason));
    return Failure(Error::kafkaStorageError, describe(reason));
  }
  return found;
}

Offset Log::lastStableOffset(Offset highWatermark) const {
  auto unstable = producers_.firstUnstable();
  return unstable ? std::min(*unstable, highWatermark) : highWatermark;
}

EpochBoundary Log::epochEnd(LeaderEpoch epoch) const {
  return epochs_.endOffsetFor(epoch, end_).value_or(EpochBoundary{kNoLeaderEpoch, Offset(-1)});
}

std::vector<ProducerView> Log::producers() const {
  std::vector<ProducerView> views;
  views.reserve(producers_.size());
  for (const auto& [id, producer] : producers_.producers()) {
    views.push_back({.id = id,
                     .epoch = producer.epoch,
                     .lastSequence = producer.lastSequence(),
                     .lastTimestamp = producer.timestamp,
                     .coordinatorEpoch = producer.coordinatorEpoch,
                     .transactionStart = producer.transactionFirst});
  }
  return views;
}

kj::Promise<Result<TimestampedOffset>> Log::offsetForTime(int64_t timestamp) {
  using Answer = Result<TimestampedOffset>;
  if (auto failure = unusable(); failure && !closing_) return Answer(std::move(*failure));
  switch (timestamp) {
    case kLatestTimestamp: return Answer(TimestampedOffset{.offset = end_, .epoch = lastEpoch()});
    case kEarliestTimestamp:
    case kEarliestLocalTimestamp:
      return Answer(TimestampedOffset{.offset = start_, .epoch = epochs_.epochOf(start_).value_or(kNoLeaderEpoch)});
    case kLatestTieredTimestamp:
    case kEarliestPendingUploadTimestamp: return Answer(TimestampedOffset{});  // nothing is tiered
    default: break;
  }
  auto paf = kj::newPromiseAndFulfiller<Answer>();
  auto& answer = *paf.fulfiller;
  tasks_.add(timeLookUp(timestamp)
                 .then([&answer](Answer&& found) { answer.fulfill(kj::mv(found)); },
                       [this, &answer](kj::Exception&& reason) {
                         home_.shard.log().error("read-failed", "time look-up in {}: {}", name_, describe(reason));
                         answer.fulfill(Answer(Failure(Error::kafkaStorageError, describe(reason))));
                       })
                 .attach(kj::mv(paf.fulfiller)));
  return kj::mv(paf.promise);
}

// On Pool::read, one segment at a time, in views that stay good whatever happens to the log meanwhile.
Co<Result<TimestampedOffset>> Log::timeLookUp(int64_t timestamp) {
  const Offset from = start_;
  const Offset upper = end_;
  const bool wantMax = timestamp == kMaxTimestamp;
  struct Candidate {
    WallMs maxTimestamp;
    Offset base;
  };
  std::vector<Candidate> candidates;
  for (const auto& [base, held] : segments_) {
    const Segment& segment = *held.segment;
    if (segment.size() == 0 || segment.end() <= from) continue;
    if (wantMax || segment.maxTimestamp().value() >= timestamp) candidates.push_back({segment.maxTimestamp(), base});
  }
  if (wantMax) {
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.maxTimestamp != b.maxTimestamp ? a.maxTimestamp > b.maxTimestamp : a.base < b.base;
    });
  }
  std::optional<TimestampOffset> found;
  for (const Candidate& candidate : candidates) {
    // A segment's largest timestamp may lie below the start, so the first candidate need not have the answer.
    if (found && (!wantMax || found->timestamp >= candidate.maxTimestamp)) break;
    auto at = segments_.find(candidate.base);
    if (at == segments_.end()) continue;  // deleted meanwhile
    Segment& segment = *at->second.segment;
    ensureIndexes(segment);
    auto answer = co_await home_.shard.run(
        Pool::read, [view = segment.view(), time = WallMs(timestamp), wantMax, from, upper]() mutable {
          return wantMax ? view.findMaxTimestamp(from, upper) : view.findTimestamp(time, from, upper);
        });
    if (!answer) co_return answer.failure();
    if (*answer && (!found || (*answer)->timestamp > found->timestamp)) found = **answer;
  }
  if (!found) co_return TimestampedOffset{};
  co_return TimestampedOffset{.offset = found->offset, .timestamp = found->timestamp, .epoch = found->epoch};
}

// --- scrubbing

std::optional<Offset> Log::firstSealed() const {
  if (segments_.size() < 2) return std::nullopt;
  return segments_.begin()->first;
}

std::optional<Offset> Log::sealedAfter(Offset base) const {
  auto at = segments_.upper_bound(base);
  if (at == segments_.end() || std::next(at) == segments_.end()) return std::nullopt;
  return at->first;
}

std::optional<Log::ScrubTarget> Log::sealedForScrub(Offset base) const {
  auto at = segments_.find(base);
  if (at == segments_.end() || std::next(at) == segments_.end() || replacing_) return std::nullopt;
  const Segment& segment = *at->second.segment;
  return ScrubTarget{.replacement = at->second.replacement,
                     .path = segment.path(),
                     .directory = context_.directory,
                     .facts = segment.facts(),
                     .indexInterval = context_.indexIntervalBytes,
                     .indexesChecked = segment.indexesChecked()};
}

void Log::indexesScrubbed(const SegmentFacts& facts, const IndexCounts& counts) {
  auto at = segments_.find(facts.base);
  if (at == segments_.end() || at->second.segment->indexesChecked() || at->second.segment->size() != facts.size) return;
  if (!counts.mended.empty()) {
    home_.shard.log().warning("index-mended", "indexes of {} were mended: {}", at->second.segment->path(),
                              counts.mended);
  }
  at->second.segment->adoptIndexes(counts);
}

void Log::damageFound(const SegmentFacts& facts, OffsetRange batch, const std::string& problem) {
  auto at = segments_.find(facts.base);
  if (at == segments_.end() || at->second.segment->size() != facts.size) return;
  batch.end = std::min(batch.end, facts.end);
  if (batch.end <= start_ || !damaged_.emplace(batch.first, batch.end).second) return;
  ++home_.figures.damagedBatches;
  home_.shard.log().error("batch-damaged", "{} {}: offsets [{}, {}) are not served any more",
                          at->second.segment->path(), problem, batch.first, batch.end);
  if (observer_ != nullptr) observer_->foundDamage(batch);
}

}  // namespace mq::storage

// Log: its part of compaction: what may be cleaned, and how cleaned segments take the place of the old ones.
#include <algorithm>

#include "base/check.h"
#include "storage/file_names.h"
#include "storage/shard_logs.h"

namespace mq::storage {

Offset Log::endOf(Segments::const_iterator segment) const {
  auto next = std::next(segment);
  return next == segments_.end() ? segment->second.segment->end() : next->first;
}

// Age by the records' own time, but never younger than the broker's: a time in the future pins nothing.
WallMs Log::ageOf(const Held& held) const {
  WallMs largest = held.segment->maxTimestamp();
  return largest >= WallMs(0) ? std::min(held.lastAppend, largest) : held.lastAppend;
}

std::optional<WallMs> Log::firstTimestamp(Held& held) {
  if (held.firstTimestamp != kNoTimestamp) return held.firstTimestamp;
  auto first = held.segment->read({.offset = held.segment->base(), .upper = held.segment->end(), .bytesMax = 1});
  if (!first || first->file == nullptr) return std::nullopt;
  uint8_t header[record::Layout::kHeaderBytes];
  if (first->file->read(first->position, header) < sizeof header) return std::nullopt;
  held.firstTimestamp = record::BatchView(Bytes(header)).maxTimestamp();
  if (held.firstTimestamp < WallMs(0)) return std::nullopt;
  return held.firstTimestamp;
}

// The active segment is never cleaned, and a quiet one would never be sealed.
void Log::rollForCompaction() {
  if (unusable() || exclusive_ || segments_.empty() || !settings_.cleanup.compacts) return;
  const Held& active = segments_.rbegin()->second;
  if (active.segment->size() == 0 || active.firstAppend == kNoTimestamp) return;
  if (home_.wall.now() - active.firstAppend <= settings_.maxCompactionLagMs) return;
  if (auto rolled = roll(); !rolled) {
    home_.shard.log().warning("roll-failed", "{}: {}", name_, rolled.failure().message);
  }
}

std::optional<Log::CleanRange> Log::cleanRange() {
  if (unusable() || exclusive_ || uncleanable_ || !listed_ || !settings_.cleanup.compacts || segments_.size() < 2)
    return std::nullopt;
  CleanRange range{.dirty = std::max(cleanedTo_, start_), .uncleanable = Offset(0)};
  if (range.dirty > end_) range.dirty = start_;
  // What a record is dropped for has to be safe itself: committed, stable, and on the disk with the marker that says
  // so.
  Offset bound = lastStableOffset(highWatermark_);
  if (syncedEnd_ < end_) bound = std::min(bound, syncedStable_);
  const WallMs now = home_.wall.now();
  range.uncleanable = segments_.begin()->first;
  WallMs earliest(INT64_MAX);
  for (auto at = segments_.begin(); std::next(at) != segments_.end(); ++at) {
    const Offset end = endOf(at);
    if (end > bound) break;
    const bool isDirty = end > range.dirty;
    if (isDirty && settings_.minCompactionLagMs > 0 && now - ageOf(at->second) < settings_.minCompactionLagMs) break;
    range.uncleanable = end;
    (isDirty ? range.dirtyBytes : range.cleanBytes) += at->second.segment->size();
    if (isDirty && settings_.maxCompactionLagMs != config::TopicSettings::kUnlimited) {
      earliest = std::min(earliest, firstTimestamp(at->second).value_or(earliest));
    }
  }
  if (range.dirtyBytes == 0 || range.uncleanable <= range.dirty) return std::nullopt;
  range.isLate = earliest.value() != INT64_MAX && now - earliest > settings_.maxCompactionLagMs;
  return range;
}

std::optional<CleanPlan> Log::planClean(CleanRange range) {
  CleanPlan plan;
  plan.directory = context_.directory;
  plan.dirty = range.dirty;
  plan.uncleanable = range.uncleanable;
  plan.now = home_.wall.now();
  plan.deleteRetentionMs = settings_.deleteRetentionMs;
  plan.segmentBytesMax = static_cast<uint64_t>(settings_.segmentBytes);
  plan.indexBytesMax = static_cast<uint64_t>(settings_.segmentIndexBytes);
  plan.indexIntervalBytes = context_.indexIntervalBytes;
  for (auto& [base, held] : segments_) {
    Segment& segment = *held.segment;
    if (!segment.transactionsChecked()) return std::nullopt;
    if (base < range.uncleanable) plan.segments.push_back(segment.facts());
    if (segment.abortedCount() == 0) continue;
    segment.flushIndexes();
    plan.aborted.push_back({base, segment.abortedCount()});
  }
  for (const auto& [id, producer] : producers_.producers()) {
    LastOfProducer last{.epoch = producer.epoch};
    for (size_t i = 0; i < producer.batchCount; ++i) {
      // What is not on the disk yet may be lost, and then an earlier batch is the last.
      if (producer.batches[i].lastOffset < syncedEnd_) last.lastOffset = producer.batches[i].lastOffset;
    }
    if (producer.batchCount == 0 || (last.lastOffset.value() >= 0 && last.lastOffset < range.uncleanable)) {
      plan.producers.emplace(id, last);
    }
  }
  return plan;
}

bool Log::isReplaceable(const CleanedGroup& group) const {
  if (unusable() || exclusive_ || replacing_) return false;
  auto at = segments_.find(group.replaced.front().base);
  for (const SegmentFacts& facts : group.replaced) {
    if (at == segments_.end() || std::next(at) == segments_.end()) return false;
    if (at->first != facts.base || at->second.segment->size() != facts.size) return false;
    ++at;
  }
  return true;
}

// Somebody uses the files by their names, or is about to.
bool Log::isBusy(const CleanedGroup& group) {
  if (sideWorking_ || scrubbing_.use_count() > 1) return true;
  for (const SegmentFacts& facts : group.replaced) {
    Segment& segment = *segments_.at(facts.base).segment;
    if (checking_.contains(facts.base) || std::ranges::find(sealed_, facts.base) != sealed_.end()) return true;
    // Else a reader might have them mended while they are replaced.
    if (!segment.indexesChecked()) {
      if (!indexesReady(segment)) return true;
      if (!segment.indexesChecked()) return true;  // no space to mend them
    }
  }
  return false;
}

Co<bool> Log::replaceSegments(const CleanedGroup& group, uint64_t epoch) {
  ++jobs_;  // keeps the log here
  KJ_DEFER({
    --jobs_;
    checkIdle();
  });
  while (true) {
    if (cleanEpoch_ != epoch || !isReplaceable(group) || sideFull_) co_return false;
    if (!isBusy(group)) break;
    co_await home_.shard.after(5ms);
  }
  replacing_ = OffsetRange{group.replaced.front().base, group.replaced.back().base + 1};
  std::optional<kj::Exception> failed;
  try {
    co_await home_.shard.run(Pool::background, [&system = home_.shard.files(), directory = context_.directory, group] {
      commitGroup(system, directory, group);
    });
  } catch (...) {
    failed.emplace(caughtException());
  }
  replacing_.reset();
  gapsBelow_.reset();
  if (failed && isNoSpace(*failed)) {
    home_.shard.log().warning("disk-full", "{} is not compacted now: {}", name_, describe(*failed));
  } else if (failed) {
    home_.diskFailed("compacting " + context_.directory, *failed);
  } else if (!removed_ && !offline_) {  // else a start finishes it
    try {
      placeSegments(group);
    } catch (...) {
      home_.diskFailed("compacting " + context_.directory, caughtException());
    }
  }
  if (observer_ != nullptr) observer_->readable();
  dropSegmentsBelowStart();
  co_return !failed && !removed_ && !offline_;
}

void Log::placeSegments(const CleanedGroup& group) {
  std::vector<std::string> paths;
  Held joined;
  joined.firstAppend = segments_.at(group.replaced.front().base).firstAppend;
  for (const SegmentFacts& facts : group.replaced) {
    auto at = segments_.find(facts.base);
    joined.lastAppend = std::max(joined.lastAppend, at->second.lastAppend);
    at->second.segment->close();
    for (std::string_view suffix : {kLogSuffix, kOffsetIndexSuffix, kTimeIndexSuffix, kTransactionIndexSuffix}) {
      paths.push_back(filePath(context_.directory, facts.base, suffix) + std::string(kDeletedSuffix));
    }
    sealedBytes_ -= facts.size;
    checkFailed_.erase(facts.base);
    segments_.erase(at);
  }
  placeGroup(home_.shard.files(), context_.directory, group);
  ++replacements_;
  for (const CleanedSegment& cleaned : group.segments) {
    Held held;
    held.segment = std::make_unique<Segment>(context_, cleaned.facts);
    held.segment->adoptIndexes(cleaned.indexes);
    held.segment->adoptTransactions(cleaned.aborted);
    held.firstAppend = joined.firstAppend;
    held.lastAppend = joined.lastAppend;
    held.replacement = replacements_;
    sealedBytes_ += cleaned.facts.size;
    segments_.emplace(cleaned.facts.base, std::move(held));
  }
  unlinkLater(std::move(paths));
}

// The names are made durable first: with a replaced segment back, what is said to be clean would not be.
Co<void> Log::cleanedTo(Offset end) {
  ++jobs_;
  KJ_DEFER({
    --jobs_;
    checkIdle();
  });
  const uint64_t epoch = cleanEpoch_;
  co_await home_.shard.run(
      Pool::sync, [&system = home_.shard.files(), directory = context_.directory] { system.syncDirectory(directory); });
  if (cleanEpoch_ != epoch || unusable()) co_return;
  cleanedTo_ = end;
  co_await home_.storeCleaned(name_, end);
}

}  // namespace mq::storage

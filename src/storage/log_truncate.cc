// Log: cutting. Both ways stop the log for everything but reads below the cut; appends called meanwhile wait.
#include <algorithm>

#include "base/check.h"
#include "storage/file_names.h"
#include "storage/shard_logs.h"

namespace mq::storage {
namespace {

kj::Exception truncated(const TopicPartition& name, Offset offset) {
  return kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__,
                       kj::str(fmt::format("{} was truncated to {}", name, offset).c_str()));
}

}  // namespace

kj::Promise<Result<void>> Log::truncateTo(Offset offset) {
  flush();
  if (auto failure = unusable()) return Result<void>(std::move(*failure));
  if (offset >= end_ && !exclusive_) return Result<void>();
  if (offset < start_) {
    return Result<void>(failure(Error::offsetOutOfRange, "{} starts at {}, above {}", name_, start_, offset));
  }
  if (exclusive_) return Result<void>(failure(Error::invalidRequest, "{} is being truncated already", name_));
  auto paf = kj::newPromiseAndFulfiller<Result<void>>();
  exclusive_ = true;
  tasks_.add(truncateNow(offset, kj::mv(paf.fulfiller)));
  return kj::mv(paf.promise);
}

kj::Promise<Result<void>> Log::restartAt(Offset offset) {
  flush();
  if (auto failure = unusable()) return Result<void>(std::move(*failure));
  if (exclusive_) return Result<void>(failure(Error::invalidRequest, "{} is being truncated already", name_));
  auto paf = kj::newPromiseAndFulfiller<Result<void>>();
  exclusive_ = true;
  tasks_.add(restartNow(offset, kj::mv(paf.fulfiller)));
  return kj::mv(paf.promise);
}

// Removes segments that begin at or above `base`, highest first, so that a crash never leaves a hole, and syncs the
// directory.
Co<void> Log::removeSegmentsFrom(Offset base) {
  std::vector<Offset> bases;
  while (!segments_.empty() && segments_.rbegin()->first >= base) {
    Segment& segment = *segments_.rbegin()->second.segment;
    segment.close();
    bases.push_back(segment.base());
    std::erase(sealed_, segment.base());
    segments_.erase(std::prev(segments_.end()));
  }
  sealedBytes_ = 0;
  for (const auto& [at, held] : segments_) {
    if (at != segments_.rbegin()->first) sealedBytes_ += held.segment->size();
  }
  co_await home_.shard.run(Pool::sync, [&system = home_.shard.files(), directory = context_.directory, bases, base] {
    if (!system.exists(directory)) return;
    for (Offset segment : bases) removeFiles(system, directory, segment, "");
    for (const DirectoryEntry& entry : system.list(directory)) {
      auto parsed = parseFileName(entry.name);
      if (parsed && parsed->suffix == kSnapshotSuffix && parsed->base > base)
        system.remove(directory + "/" + entry.name);
    }
    system.syncDirectory(directory);
  });
}

Co<void> Log::truncateNow(Offset offset, kj::Own<kj::PromiseFulfiller<Result<void>>> answer) {
  std::optional<Failure> failed;
  // The batch that holds the offset may begin below it: it goes as a whole.
  try {
    Segment& holder = *segmentOf(offset)->second.segment;
    ensureIndexes(holder);
    if (holder.end() > offset && holder.base() < offset) {
      auto batch = holder.read({.offset = offset, .upper = holder.end(), .bytesMax = 1, .atLeastOneBatch = true});
      if (!batch) {
        failed = batch.failure();
      } else if (batch->length > 0) {
        offset = std::min(offset, batch->base);
      }
    }
  } catch (...) {
    failed = Failure(Error::kafkaStorageError, describe(caughtException()));
  }
  // The start may lie inside that batch, and does not go back: nothing is left above it.
  if (!failed && offset < start_) {
    co_await restartNow(start_, kj::mv(answer));
    co_return;
  }
  if (!failed) failed = co_await lowerMark(offset);
  if (failed) co_return finishCut(std::move(failed), *answer);

  // From here on nobody reads at or above the cut.
  end_ = next_ = offset;
  announced_ = std::min(announced_, end_);
  syncedEnd_ = std::min(syncedEnd_, end_);
  durableEnd_ = std::min(durableEnd_, end_);
  highWatermark_ = std::min(highWatermark_, end_);
  held_.reset();
  dropWaiters(end_, truncated(name_, offset));
  try {
    co_await removeSegmentsFrom(segments_.empty() || segments_.begin()->first < end_ ? end_
                                                                                     : segments_.begin()->first + 1);
    if (!segments_.empty()) {
      Segment& last = *segments_.rbegin()->second.segment;
      ensureIndexes(last);
      if (last.end() > end_) {
        auto position = last.positionOf(end_);
        if (!position) {
          throw kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__,
                              kj::str(position.failure().message.c_str()));
        }
        last.truncate(*position, end_);
      }
      std::vector<SegmentFacts> facts;
      for (const auto& [base, held] : segments_) facts.push_back(held.segment->facts());
      std::vector<FileRef> files = unsyncedFiles();
      producers_ = co_await home_.shard.run(
          Pool::sync, [&system = home_.shard.files(), directory = context_.directory, files = std::move(files), facts,
                       end = end_, now = home_.wall.now(), path = last.path()] {
            for (const FileRef& file : files) file->sync();
            system.open(path, OpenMode::readWrite)->sync();  // its cut, also where nothing had been appended
            return rebuildProducers(system, directory, facts, end, now);
          });
      for (const Taken& taken : taken_) {
        if (auto at = segments_.find(taken.base); at != segments_.end()) at->second.segment->synced(taken.size);
      }
    } else {
      producers_.clear();
    }
    producers_.onHighWatermark(highWatermark_);
    if (epochs_.truncateFromEnd(end_)) epochsDirty_ = true;
    if (epochsUnsavedFrom_ && *epochsUnsavedFrom_ >= end_) epochsUnsavedFrom_.reset();
    syncedEnd_ = end_;
    durableEnd_ = std::min(durableEnd_, end_);
    changed_ = true;
  } catch (...) {
    kj::Exception reason = caughtException();
    home_.diskFailed("truncating " + context_.directory, reason);
    failed = Failure(Error::kafkaStorageError, describe(reason));
  }
  finishCut(std::move(failed), *answer);
}

// Before a cut: what is under way ends, and the stored durable mark goes down first, since a log shorter than its mark
// looks like loss. A full disk may refuse that; then nothing has changed.
Co<std::optional<Failure>> Log::lowerMark(Offset mark) {
  cutTo_ = mark;
  while (sideWorking_ || listing_ || syncing_ || replacing_) co_await home_.shard.after(1ms);
  if (auto failure = unusable()) co_return std::move(failure);
  cleanEpoch_ = ++home_.cleanEpochs;
  if (!listed_) co_return std::nullopt;
  try {
    // Nor may what will be written above the cut be taken for clean.
    if (cleanedTo_ > mark) co_await home_.storeCleaned(name_, std::min(cleanedTo_, mark));
    co_await home_.storeMark(name_, *durableMark());
  } catch (...) {
    co_return Failure(Error::kafkaStorageError, describe(caughtException()));
  }
  cleanedTo_ = std::min(cleanedTo_, mark);
  uncleanable_.reset();
  co_return std::nullopt;
}

void Log::finishCut(std::optional<Failure> failed, kj::PromiseFulfiller<Result<void>>& answer) {
  exclusive_ = false;
  cutTo_.reset();
  answer.fulfill(failed ? Result<void>(std::move(*failed)) : Result<void>());
  advanceDurable();
  startSideWork();
  pump();
  checkIdle();
}

Co<void> Log::restartNow(Offset offset, kj::Own<kj::PromiseFulfiller<Result<void>>> answer) {
  // Should we stop half-way, the log is one that lost its end, not one that claims to be whole.
  std::optional<Failure> failed = co_await lowerMark(Offset(0));
  if (failed) co_return finishCut(std::move(failed), *answer);
  dropWaiters(Offset(-1), truncated(name_, offset));
  start_ = end_ = next_ = offset;
  announced_ = syncedEnd_ = durableEnd_ = highWatermark_ = offset;
  held_.reset();
  producers_.clear();
  epochs_.clear();
  epochsDirty_ = hasDirectory_;
  epochsUnsavedFrom_.reset();
  damaged_.clear();
  changed_ = true;
  try {
    co_await removeSegmentsFrom(Offset(0));
    if (listed_) co_await home_.storeStart(name_, offset);
    storedStart_ = listed_ ? offset : Offset(0);  // else it is stored with the list
  } catch (...) {
    kj::Exception reason = caughtException();
    if (!isNoSpace(reason)) home_.diskFailed("starting " + context_.directory + " anew", reason);
    failed = Failure(Error::kafkaStorageError, describe(reason));
  }
  finishCut(std::move(failed), *answer);
}

}  // namespace mq::storage

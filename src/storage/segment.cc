#include "storage/segment.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"
#include "record/records.h"
#include "storage/batch_walk.h"
#include "storage/file_names.h"

namespace mq::storage {

using record::BatchView;

namespace {

constexpr uint64_t kReserveFrom = 1_MiB;       // smaller segments: not worth a call
constexpr uint64_t kReserveBytesMax = 16_MiB;  // at a time

Failure brokenAt(const File& log, uint64_t position) {
  return failure(Error::corruptMessage, "{}: no batch begins at position {}, where one must", log.path(), position);
}

// Places the walk at the index entry, if that is what it says; else at the first batch.
bool startAt(HeaderWalk& walk, const std::optional<OffsetIndexEntry>& entry) {
  if (!entry) {
    walk.moveTo(0);
    return true;
  }
  walk.moveTo(entry->position);
  auto header = walk.current();
  if (header && header->lastOffset() == entry->offset) return true;
  walk.moveTo(0);
  return false;
}

struct Found {
  Slice slice;
  Offset endFrom{
      -1};  // the batch behind the slice is the first to reach any offset from here to slice.end; -1: unknown
};

// The one read algorithm, over any source of index entries: floorOffset(offset) is the last entry at or below an
// offset, floorPosition(position) the last at or below a position.
template <class FloorOffset, class FloorPosition>
Result<Found> readSlice(const FileRef& log, const SegmentFacts& facts, const ReadWish& wish,
                        std::optional<uint64_t> hint, FloorOffset floorOffset, FloorPosition floorPosition,
                        bool* badIndex) {
  Found found;
  Slice& slice = found.slice;
  slice.end = facts.end;
  Offset upper = std::min(wish.upper, facts.end);
  HeaderWalk walk(*log, 0, facts.size);
  if (hint)
    walk.moveTo(*hint);
  else if (!startAt(walk, floorOffset(wish.offset)))
    *badIndex = true;

  auto header = walk.current();
  while (header && header->lastOffset() < wish.offset) {
    walk.next(*header);
    header = walk.current();
  }
  if (!header) {
    if (walk.broken()) return brokenAt(*log, walk.position());
    return found;  // compaction took what there was
  }
  slice.file = log;
  slice.position = walk.position();
  slice.base = header->baseOffset();
  slice.firstBatchBytes = header->sizeBytes();
  slice.end = header->baseOffset();
  if (header->lastOffset() >= upper) return found;

  uint64_t bytesLeft = facts.size - slice.position;
  if (upper == facts.end && bytesLeft <= wish.bytesMax) {
    slice.length = bytesLeft;
    slice.end = found.endFrom = facts.end;
    return found;
  }
  if (slice.firstBatchBytes > wish.bytesMax) {
    if (!wish.atLeastOneBatch) return found;
    slice.length = slice.firstBatchBytes;
    found.endFrom = header->nextOffset();
    walk.next(*header);
  } else {
    // On to the last batch boundary that is neither too far nor behind `upper`: by the index first, then by headers.
    uint64_t positionMax = bytesLeft <= wish.bytesMax ? facts.size : slice.position + wish.bytesMax;
    auto entry = floorPosition(positionMax);
    if (entry && entry->offset >= upper) entry = floorOffset(upper - 1);
    if (entry && entry->position > slice.position) {
      uint64_t back = walk.position();
      if (!startAt(walk, entry)) {
        *badIndex = true;
        walk.moveTo(back);
      }
    }
    while ((header = walk.current())) {
      if (header->lastOffset() >= upper || walk.position() + header->sizeBytes() > positionMax) break;
      found.endFrom = header->nextOffset();
      walk.next(*header);
    }
    slice.length = walk.position() - slice.position;
  }
  if (slice.length == 0) return brokenAt(*log, walk.position());
  header = walk.current();
  // Behind a damaged header nothing is known; what comes before it may be read.
  slice.end = header ? header->baseOffset() : walk.broken() ? found.endFrom : facts.end;
  if (found.endFrom.value() < 0) found.endFrom = slice.end;
  return found;
}

}  // namespace

// --- SegmentView

Result<Slice> SegmentView::read(const ReadWish& wish) {
  FileEntries<OffsetIndexEntry> entries(offsetIndex_.get(), offsetEntries_, facts_.base);
  auto found = readSlice(
      log_, facts_, wish, std::nullopt,
      [&](Offset offset) { return entries.lastWhere([&](const auto& entry) { return entry.offset <= offset; }); },
      [&](uint64_t position) {
        return entries.lastWhere([&](const auto& entry) { return entry.position <= position; });
      },
      &badIndex_);
  if (!found) return found.failure();
  return found->slice;
}

namespace {

Failure damagedAt(const File& log, uint64_t position, std::string_view what) {
  return failure(Error::corruptMessage, "{}: the batch at position {} is damaged: {}", log.path(), position, what);
}

// Opens the batch at `position` and calls take(record) for its records until that answers false.
template <class Take>
Result<void> forEachRecord(const File& log, uint64_t position, const BatchView& header, Buffer& buffer,
                           record::Workspace& workspace, Take take) {
  if (!loadBatch(log, position, header.sizeBytes(), buffer)) return damagedAt(log, position, "the checksum is wrong");
  auto records = record::openRecords(BatchView(buffer), workspace);
  if (!records) return damagedAt(log, position, records.failure().message);
  record::RecordView record;
  while (records->next(record)) {
    if (!take(record)) return {};
  }
  if (!records->ok()) return damagedAt(log, position, records->problem());
  return {};
}

}  // namespace

Result<std::optional<TimestampOffset>> SegmentView::findTimestamp(WallMs time, Offset from, Offset upper) {
  FileEntries<OffsetIndexEntry> offsets(offsetIndex_.get(), offsetEntries_, facts_.base);
  FileEntries<TimeIndexEntry> times(timeIndex_.get(), timeEntries_, facts_.base);
  auto floorOffset = [&](Offset offset) {
    return offsets.lastWhere([&](const auto& entry) { return entry.offset <= offset; });
  };
  // No record before the entry's batch is as late as its timestamp, which is before `time`.
  auto before = times.lastWhere([&](const auto& entry) { return entry.timestamp < time; });
  HeaderWalk walk(*log_, 0, facts_.size);
  if (!startAt(walk, floorOffset(before ? before->offset : facts_.base))) badIndex_ = true;
  if (before) {
    auto header = walk.current();
    while (header && header->lastOffset() < before->offset) {
      walk.next(*header);
      header = walk.current();
    }
    if (!header || header->lastOffset() != before->offset || header->maxTimestamp() != before->timestamp) {
      badIndex_ = true;
      walk.moveTo(0);
    }
  }
  if (from > facts_.base) {
    auto entry = floorOffset(from);
    if (entry && entry->position > walk.position()) {
      uint64_t back = walk.position();
      if (!startAt(walk, entry)) {
        badIndex_ = true;
        walk.moveTo(back);
      }
    }
  }

  Buffer buffer;
  record::Workspace workspace;
  std::optional<TimestampOffset> found;
  while (auto header = walk.current()) {
    if (header->baseOffset() >= upper) return found;
    if (header->lastOffset() >= from && header->maxTimestamp() >= time) {
      auto read =
          forEachRecord(*log_, walk.position(), *header, buffer, workspace, [&](const record::RecordView& record) {
            if (record.timestamp < time || record.offset < from || record.offset >= upper) return true;
            found = TimestampOffset{record.timestamp, record.offset, header->leaderEpoch()};
            return false;
          });
      if (!read) return read.failure();
      if (found) return found;
    }
    walk.next(*header);
  }
  if (walk.broken()) return brokenAt(*log_, walk.position());
  return found;
}

Result<std::optional<TimestampOffset>> SegmentView::findMaxTimestamp(Offset from, Offset upper) {
  HeaderWalk walk(*log_, 0, facts_.size);
  Buffer buffer;
  record::Workspace workspace;
  std::optional<TimestampOffset> best;
  auto consider = [&](uint64_t position, const BatchView& header) {
    return forEachRecord(*log_, position, header, buffer, workspace, [&](const record::RecordView& record) {
      if (record.offset >= from && record.offset < upper && (!best || record.timestamp > best->timestamp))
        best = TimestampOffset{record.timestamp, record.offset, header.leaderEpoch()};
      return true;
    });
  };

  if (from <= facts_.base && upper >= facts_.end && facts_.maxTimestamp != kNoTimestamp) {
    FileEntries<OffsetIndexEntry> offsets(offsetIndex_.get(), offsetEntries_, facts_.base);
    auto entry = offsets.lastWhere([&](const auto& e) { return e.offset <= facts_.maxTimestampOffset; });
    if (!startAt(walk, entry)) badIndex_ = true;
    auto header = walk.current();
    while (header && header->lastOffset() < facts_.maxTimestampOffset) {
      walk.next(*header);
      header = walk.current();
    }
    if (header && header->lastOffset() == facts_.maxTimestampOffset && header->maxTimestamp() == facts_.maxTimestamp) {
      if (auto read = consider(walk.position(), *header); !read) return read.failure();
      if (best && best->timestamp == facts_.maxTimestamp) return best;
    }
    walk.moveTo(0);
  }
  while (auto header = walk.current()) {
    if (header->baseOffset() >= upper) return best;
    // A batch's largest timestamp may be that of a record that compaction removed, so each promising one is opened.
    bool promising = header->recordCount() > 0 && (!best || header->maxTimestamp() > best->timestamp);
    if (header->lastOffset() >= from && promising) {
      if (auto read = consider(walk.position(), *header); !read) return read.failure();
    }
    walk.next(*header);
  }
  if (walk.broken()) return brokenAt(*log_, walk.position());
  return best;
}

// --- Segment

Segment::Segment(SegmentContext& context, const SegmentFacts& facts)
    : context_(context),
      facts_(facts),
      offsetIndex_(facts.base),
      timeIndex_(facts.base),
      transactionIndex_(facts.base),
      builder_(context.indexIntervalBytes) {
  MQ_CHECK(facts.end >= facts.base, facts.base, facts.end);
  if (facts.size == 0) indexesChecked_ = transactionsChecked_ = true;
}

Segment::~Segment() = default;

std::unique_ptr<Segment> Segment::create(SegmentContext& context, Offset base) {
  auto segment =
      std::make_unique<Segment>(context, SegmentFacts{.base = base, .end = base, .maxTimestampOffset = base});
  context.files.use(segment->logSlot_, OpenMode::createNew, [&] { return segment->path(); });
  return segment;
}

std::string Segment::path() const { return filePath(context_.directory, facts_.base, kLogSuffix); }

FileRef Segment::logFile() {
  return context_.files.use(logSlot_, OpenMode::readWrite, [&] { return path(); });
}

FileRef Segment::indexFile(FileCache::Slot& slot, std::string_view suffix, size_t written) {
  if (written == 0) return nullptr;
  return context_.files.use(slot, OpenMode::create, [&] { return filePath(context_.directory, facts_.base, suffix); });
}

void Segment::resumeIndexes() {
  if (resumed_) return;
  MQ_CHECK(indexesChecked_, facts_.base);
  FileRef times = indexFile(timeSlot_, kTimeIndexSuffix, timeIndex_.written());
  FileRef offsets = indexFile(offsetSlot_, kOffsetIndexSuffix, offsetIndex_.written());
  auto lastTime = timeIndex_.last(times.get());
  auto lastOffset = offsetIndex_.last(offsets.get());
  builder_.resume(facts_.maxTimestamp, facts_.maxTimestampOffset, lastTime ? lastTime->timestamp : kNoTimestamp,
                  facts_.size - (lastOffset ? lastOffset->position : 0));
  resumed_ = true;
}

bool Segment::fits(uint64_t bytes, Offset last) const {
  return facts_.size + bytes <= INT32_MAX && last - facts_.base <= INT32_MAX;
}

// Fresh blocks, allocated a page at a time, are a fourth of what a write costs. A segment that shows that it grows gets
// them in advance: at most a fourth of its size, so that many partitions do not fill a disk with what they do not use.
void Segment::reserve(File& file, uint64_t bytes) {
  uint64_t end = facts_.size + bytes;
  if (end <= reserved_ || facts_.size < kReserveFrom) return;
  uint64_t wish = end + std::min(facts_.size / 4, kReserveBytesMax);
  reserved_ = file.reserve(wish) ? wish : end + kReserveBytesMax;  // in vain: not at each write again
}

void Segment::append(std::span<const Bytes> pieces, std::span<const BatchMark> batches) {
  if (indexesChecked_) resumeIndexes();
  builder_.setInterval(context_.indexIntervalBytes);
  uint64_t bytes = 0, marked = 0;
  for (Bytes piece : pieces) bytes += piece.size();
  Offset last = facts_.end - 1;
  for (const BatchMark& batch : batches) {
    MQ_CHECK(batch.last > last, facts_.base, batch.last, last);
    last = batch.last;
    marked += batch.size;
  }
  MQ_CHECK(bytes == marked, bytes, marked);
  MQ_CHECK(fits(bytes, last), facts_.base, facts_.size, bytes, last);

  FileRef file = logFile();
  unsynced_ = file;
  reserve(*file, bytes);
  try {
    file->write(facts_.size, pieces);
  } catch (...) {
    // Whatever came through is not ours. If even this fails the next append overwrites it, and recovery would cut it.
    try {
      reserved_ = 0;
      file->truncate(facts_.size);
    } catch (const kj::Exception&) {
    }
    throw;
  }
  for (const BatchMark& batch : batches) {
    if (indexesChecked_ && builder_.add(batch.last, batch.maxTimestamp, facts_.size, batch.size)) {
      offsetIndex_.append(builder_.offsetEntry());
      if (builder_.hasTime()) timeIndex_.append(builder_.timeEntry());
    }
    if (batch.maxTimestamp > facts_.maxTimestamp) {
      facts_.maxTimestamp = batch.maxTimestamp;
      facts_.maxTimestampOffset = batch.last;
    }
    facts_.size += batch.size;
    facts_.end = batch.last + 1;
  }
  if (offsetIndex_.shouldFlush()) flushIndexes();
}

void Segment::noteAborted(const AbortedTransaction& aborted) {
  MQ_CHECK(transactionsChecked_, facts_.base);
  transactionIndex_.append(aborted);
}

void Segment::flushIndexes() {
  auto flush = [&](auto& index, FileCache::Slot& slot, std::string_view suffix) {
    if (index.pending() > 0) index.flush(*indexFile(slot, suffix, index.count()));
  };
  flush(offsetIndex_, offsetSlot_, kOffsetIndexSuffix);
  flush(timeIndex_, timeSlot_, kTimeIndexSuffix);
  flush(transactionIndex_, transactionSlot_, kTransactionIndexSuffix);
}

void Segment::seal() {
  if (indexesChecked_) {
    resumeIndexes();
    if (builder_.close()) timeIndex_.append(builder_.timeEntry());
  }
  flushIndexes();
  // There also without entries: Kafka's tools open both indexes of a segment together, and a missing transaction index
  // means that somebody took it away.
  indexFile(offsetSlot_, kOffsetIndexSuffix, 1);
  indexFile(timeSlot_, kTimeIndexSuffix, 1);
  indexFile(transactionSlot_, kTransactionIndexSuffix, 1);
  FileRef file = logFile();
  // Only if there is something to give back: cutting changes the file's time, from which its age is told.
  if (reserved_ > facts_.size || file->size() > facts_.size) file->truncate(facts_.size);
  reserved_ = 0;
  close();
}

void Segment::truncate(uint64_t position, Offset end) {
  MQ_CHECK(position <= facts_.size && end >= facts_.base && end <= facts_.end, position, facts_.size, end, facts_.end);
  FileRef file = logFile();
  unsynced_ = file;
  file->truncate(position);
  reserved_ = 0;
  facts_.size = position;
  facts_.end = end;
  hints_ = {};
  if (transactionsChecked_) {
    transactionIndex_.truncate(indexFile(transactionSlot_, kTransactionIndexSuffix, transactionIndex_.written()).get(),
                               [&](const AbortedTransaction& entry) { return entry.last < end; });
  }
  if (!indexesChecked_) {
    facts_.maxTimestamp = kNoTimestamp;
    return;
  }
  FileRef offsets = indexFile(offsetSlot_, kOffsetIndexSuffix, offsetIndex_.written());
  FileRef times = indexFile(timeSlot_, kTimeIndexSuffix, timeIndex_.written());
  offsetIndex_.truncate(offsets.get(), [&](const OffsetIndexEntry& entry) { return entry.position < position; });
  timeIndex_.truncate(times.get(), [&](const TimeIndexEntry& entry) { return entry.offset < end; });
  auto lastOffset = offsetIndex_.last(offsets.get());
  auto lastTime = timeIndex_.last(times.get());

  // Entries cover all up to the last offset entry; what came behind it is found by its headers.
  facts_.maxTimestamp = lastTime ? lastTime->timestamp : kNoTimestamp;
  facts_.maxTimestampOffset = lastTime ? lastTime->offset : facts_.base;
  HeaderWalk walk(*file, lastOffset ? lastOffset->position : 0, facts_.size);
  while (auto header = walk.current()) {
    if (header->maxTimestamp() > facts_.maxTimestamp) {
      facts_.maxTimestamp = header->maxTimestamp();
      facts_.maxTimestampOffset = header->lastOffset();
    }
    walk.next(*header);
  }
  resumed_ = false;
  resumeIndexes();
}

void Segment::synced(uint64_t size) {
  if (size == facts_.size) unsynced_ = nullptr;
}

// --- reading

Result<Slice> Segment::read(const ReadWish& wish) {
  std::optional<uint64_t> hint;
  for (const Hint& known : hints_) {
    if (wish.offset >= known.first && wish.offset <= known.last) hint = known.position;
  }
  FileRef log = logFile();
  FileRef index;  // opened when a look-up needs it
  auto lastWhere = [&](auto before) {
    if (index == nullptr) index = indexFile(offsetSlot_, kOffsetIndexSuffix, offsetIndex_.written());
    return offsetIndex_.lastWhere(index.get(), before);
  };
  bool badIndex = false;
  auto found = readSlice(
      log, facts_, wish, hint,
      [&](Offset offset) { return lastWhere([&](const auto& entry) { return entry.offset <= offset; }); },
      [&](uint64_t position) { return lastWhere([&](const auto& entry) { return entry.position <= position; }); },
      &badIndex);
  if (badIndex) forgetIndexes();
  if (!found) return found.failure();
  if (found->slice.length > 0) {
    hints_[nextHint_] = {found->endFrom, found->slice.end, found->slice.position + found->slice.length};
    nextHint_ = (nextHint_ + 1) % hints_.size();
  }
  return found->slice;
}

Result<uint64_t> Segment::positionOf(Offset offset) {
  if (offset >= facts_.end) return facts_.size;
  auto slice = read({.offset = offset, .upper = offset});
  if (!slice) return slice.failure();
  return slice->firstBatchBytes > 0 ? slice->position : facts_.size;
}

SegmentView Segment::view() {
  flushIndexes();
  SegmentView view;
  view.facts_ = facts_;
  view.log_ = logFile();
  if (!indexesChecked_) {
    view.facts_.maxTimestamp = kNoTimestamp;  // perhaps not of all batches
  } else {
    view.offsetIndex_ = indexFile(offsetSlot_, kOffsetIndexSuffix, offsetIndex_.written());
    view.timeIndex_ = indexFile(timeSlot_, kTimeIndexSuffix, timeIndex_.written());
    view.offsetEntries_ = offsetIndex_.written();
    view.timeEntries_ = timeIndex_.written();
  }
  return view;
}

bool Segment::collectAborted(Offset first, Offset end, std::vector<AbortedTransaction>& into) {
  MQ_CHECK(transactionsChecked_, facts_.base);
  bool complete = false;
  if (transactionIndex_.count() == 0) return false;
  FileRef file = indexFile(transactionSlot_, kTransactionIndexSuffix, transactionIndex_.written());
  transactionIndex_.visitAfter(
      file.get(), [&](const AbortedTransaction& entry) { return entry.last < first; },
      [&](const AbortedTransaction& entry) {
        if (entry.overlaps(first, end)) into.push_back(entry);
        complete = entry.lastStable >= end;
        return !complete;
      });
  return complete;
}

// --- derived files

void Segment::adoptIndexes(const IndexCounts& counts) {
  offsetSlot_.close();
  timeSlot_.close();
  offsetIndex_ = OffsetIndex(facts_.base, counts.offsetEntries);
  timeIndex_ = TimeIndex(facts_.base, counts.timeEntries);
  // What was appended while the files were checked may be later.
  if (counts.maxTimestamp >= facts_.maxTimestamp) {
    facts_.maxTimestamp = counts.maxTimestamp;
    facts_.maxTimestampOffset = counts.maxTimestampOffset;
  }
  indexesChecked_ = true;
  badIndex_ = resumed_ = false;
}

void Segment::adoptTransactions(size_t count) {
  transactionSlot_.close();
  transactionIndex_ = TransactionIndex(facts_.base, count);
  transactionsChecked_ = true;
}

// The files are not believed any more; look-ups walk until checkIndexes() made them good.
void Segment::forgetIndexes() {
  offsetIndex_ = OffsetIndex(facts_.base);
  timeIndex_ = TimeIndex(facts_.base);
  indexesChecked_ = resumed_ = false;
  badIndex_ = true;
}

// --- the end

void Segment::close() {
  logSlot_.close();
  offsetSlot_.close();
  timeSlot_.close();
  transactionSlot_.close();
}

void Segment::markDeleted() {
  close();
  markFilesDeleted(context_.files.fileSystem(), context_.directory, facts_.base);
}

}  // namespace mq::storage

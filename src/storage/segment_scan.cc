#include "storage/segment_scan.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "record/records.h"
#include "storage/batch_verdict.h"
#include "storage/batch_walk.h"
#include "storage/file_names.h"

namespace mq::storage {

using record::BatchView;
using record::Layout;

namespace {

constexpr size_t kScanPiece = 256 << 10;
constexpr size_t kIndexFileBytesMax = 64 << 20;  // more than a segment of 2 GiB can need, Kafka's padding included
constexpr size_t kTransactionIndexBytesMax = 64 << 20;
constexpr size_t kSampledEntries = 8;
constexpr size_t kZerosKept = 4096;

constexpr std::array<std::string_view, 10> kStopNames = {
    "end",        "torn-tail",         "zeros",      "bad-length",         "bad-magic", "bad-crc",
    "bad-header", "offsets-backwards", "offset-gap", "offset-out-of-range"};

bool allZero(Bytes bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

FileRef openIfThere(FileSystem& system, const std::string& path) {
  return system.exists(path) ? system.open(path, OpenMode::read) : nullptr;
}

// The whole file; empty if it is missing or larger than any good one.
Buffer readDerived(FileSystem& system, const std::string& path, size_t sizeMax, std::string* problem) {
  FileRef file = openIfThere(system, path);
  if (file == nullptr) return {};
  uint64_t size = file->size();
  if (size > sizeMax) {
    *problem = fmt::format("{} bytes are too many", size);
    return {};
  }
  Buffer bytes(size);
  bytes.resize(file->read(0, bytes));
  return bytes;
}

void writeDerived(FileSystem& system, const std::string& path, Bytes bytes) {
  if (bytes.empty() && !system.exists(path)) return;
  FileRef file = system.open(path, OpenMode::create);
  if (!bytes.empty()) file->write(0, bytes);
  // Not emptied first: ext4 takes that for a file being replaced, and writes it out at close.
  if (file->size() > bytes.size()) file->truncate(bytes.size());
}

// Is `entry` what it says: the batch at its position ends with its offset?
bool agrees(const File& log, const OffsetIndexEntry& entry, uint64_t size) {
  HeaderWalk walk(log, entry.position, size);
  auto header = walk.current();
  return header && header->lastOffset() == entry.offset;
}

// Is there a batch that ends with the entry's offset and has its timestamp? `from` is at or before it.
bool agrees(const File& log, const TimeIndexEntry& entry, uint64_t from, uint64_t size) {
  HeaderWalk walk(log, from, size);
  while (auto header = walk.current()) {
    if (header->lastOffset() >= entry.offset)
      return header->lastOffset() == entry.offset && header->maxTimestamp() == entry.timestamp;
    walk.next(*header);
  }
  return false;
}

uint64_t floorPosition(const std::vector<OffsetIndexEntry>& entries, Offset offset) {
  auto behind = std::ranges::upper_bound(entries, offset, {}, &OffsetIndexEntry::offset);
  return behind == entries.begin() ? 0 : (behind - 1)->position;
}

template <class Entries, class Agrees>
bool sampleAgrees(const Entries& entries, Agrees agrees) {
  size_t step = std::max<size_t>(1, entries.size() / kSampledEntries);
  for (size_t i = 0; i < entries.size(); i += step) {
    if (!agrees(entries[i])) return false;
  }
  return entries.empty() || agrees(entries.back());
}

struct Entries {
  std::vector<OffsetIndexEntry> offsets;
  std::vector<TimeIndexEntry> times;
};

// Goes on from the entries that are kept: walks the headers from the last of both on, and closes the time index.
IndexCounts complete(FileSystem& system, const std::string& directory, const SegmentFacts& facts,
                     uint32_t intervalBytes, Entries kept, Entries onDisk, std::string problem) {
  IndexBuilder builder(intervalBytes);
  uint64_t from = 0;
  // Every time entry but the closing one was made together with an offset entry: what lies behind the last of those is
  // found again.
  Offset lastIndexed = kept.offsets.empty() ? facts.base - 1 : kept.offsets.back().offset;
  TimeIndexEntry closing{kNoTimestamp, facts.base};
  while (!kept.times.empty() && kept.times.back().offset > lastIndexed) {
    closing = kept.times.back();
    kept.times.pop_back();
  }
  TimeIndexEntry lastTime = kept.times.empty() ? TimeIndexEntry{kNoTimestamp, facts.base} : kept.times.back();
  if (!kept.offsets.empty()) {
    // A time index that is short is seen only by looking at what it may have left out.
    from = floorPosition(kept.offsets, lastTime.timestamp == kNoTimestamp ? facts.base - 1 : lastTime.offset);
  }
  uint64_t resumeAt = kept.offsets.empty() ? 0 : kept.offsets.back().position;
  builder.resume(lastTime.timestamp, lastTime.offset, lastTime.timestamp, 0);

  FileRef log = system.open(filePath(directory, facts.base, kLogSuffix), OpenMode::read);
  HeaderWalk walk(*log, from, facts.size);
  bool timesShort = false;
  while (auto header = walk.current()) {
    if (walk.position() < resumeAt) {
      // Under the entries that are kept: only the largest timestamp is of interest.
      timesShort |= header->maxTimestamp() > builder.maxTimestamp();
      if (timesShort) break;
    } else if (builder.add(header->lastOffset(), header->maxTimestamp(), walk.position(),
                           static_cast<uint32_t>(header->sizeBytes()))) {
      kept.offsets.push_back(builder.offsetEntry());
      if (builder.hasTime()) kept.times.push_back(builder.timeEntry());
    }
    walk.next(*header);
  }
  if (timesShort) {
    if (problem.empty()) problem = "the time index is short";
    return complete(system, directory, facts, intervalBytes, {}, std::move(onDisk), std::move(problem));
  }
  if (walk.broken()) {
    problem += fmt::format("{}no batch header at {}, entries end there", problem.empty() ? "" : "; ", walk.position());
    // What the closing entry said of the batches behind cannot be checked; it is kept, for look-ups by time need it.
    if (closing.timestamp > builder.maxTimestamp())
      builder.resume(closing.timestamp, closing.offset, lastTime.timestamp, 0);
  }
  if (builder.close()) kept.times.push_back(builder.timeEntry());

  IndexCounts counts{kept.offsets.size(), kept.times.size(), builder.maxTimestamp(), builder.maxTimestampOffset(), {}};
  if (problem.empty() && kept.offsets != onDisk.offsets) problem = "the offset index is short";
  if (problem.empty() && kept.times != onDisk.times) problem = "the time index is short";
  if (!problem.empty()) {
    writeDerived(system, filePath(directory, facts.base, kOffsetIndexSuffix), encodeIndex(kept.offsets, facts.base));
    writeDerived(system, filePath(directory, facts.base, kTimeIndexSuffix), encodeIndex(kept.times, facts.base));
  }
  counts.mended = std::move(problem);
  return counts;
}

}  // namespace

Verdict judgeStart(Bytes header, uint64_t left) {
  if (allZero(header)) return {ScanStop::zeros, fmt::format("zeros instead of a batch, {} bytes to the end", left)};
  auto next = record::peekBatch(header);
  switch (next.kind) {
    case record::NextBatch::Kind::whole:
      if (next.sizeBytes <= left) return {};
      return {ScanStop::tornTail, fmt::format("a batch of {} bytes, of which {} are there", next.sizeBytes, left)};
    case record::NextBatch::Kind::torn:
    case record::NextBatch::Kind::end:
      return {ScanStop::tornTail, fmt::format("{} bytes are less than a batch header", left)};
    case record::NextBatch::Kind::bad: break;
  }
  bool badMagic = header.size() > Layout::kMagic && static_cast<int8_t>(header[Layout::kMagic]) != record::kMagic;
  return {badMagic ? ScanStop::badMagic : ScanStop::badLength, std::string(next.reason)};
}

Verdict judgeHeader(const BatchView& batch, Offset base, Offset nextOffset, bool dense) {
  int32_t delta = batch.lastOffsetDelta();
  int32_t count = batch.recordCount();
  if (delta < 0 || count < 0 || count > int64_t{delta} + 1) {
    return {ScanStop::badHeader,
            fmt::format("{} records in offsets {} to {}", count, batch.baseOffset(), batch.lastOffset())};
  }
  if (!isKnown(batch.codec()))
    return {ScanStop::badHeader, fmt::format("unknown codec {}", static_cast<int>(batch.codec()))};
  if (batch.baseOffset().value() < 0 || batch.lastOffset() < batch.baseOffset()) {
    return {ScanStop::offsetOutOfRange, fmt::format("offsets {} to {}", batch.baseOffset(), batch.lastOffset())};
  }
  if (batch.baseOffset() < nextOffset) {
    return {ScanStop::offsetsBackwards, fmt::format("offset {} where {} comes next", batch.baseOffset(), nextOffset)};
  }
  if (batch.lastOffset() - base > INT32_MAX) {
    return {ScanStop::offsetOutOfRange, fmt::format("offset {} in the segment of {}", batch.lastOffset(), base)};
  }
  if (dense && batch.baseOffset() != nextOffset)
    return {ScanStop::offsetGap, fmt::format("offset {} where {} comes next", batch.baseOffset(), nextOffset)};
  return {};
}

std::string_view nameOf(ScanStop stop) { return kStopNames[static_cast<size_t>(stop)]; }

ScanResult scanSegment(const File& log, Offset base, const ScanOptions& options, const BatchVisitor& visit) {
  ScanResult result;
  result.fileSize = log.size();
  result.validEnd = options.from;
  result.nextOffset = options.nextOffset;
  uint64_t end = std::min(result.fileSize, options.sizeMax);
  FileWindow window(log, kScanPiece);
  size_t ahead = options.checkCrc ? kScanPiece : 16 << 10;
  Buffer large;

  while (result.validEnd < end) {
    uint64_t position = result.validEnd;
    uint64_t left = end - position;
    Bytes bytes = window.at(position, std::min<uint64_t>(Layout::kHeaderBytes, left), ahead);
    Verdict verdict = judgeStart(bytes, left);
    size_t size = 0;
    if (verdict.stop == ScanStop::end) {
      size = BatchView(bytes).sizeBytes();
      if (options.checkCrc) {
        if (size <= window.capacity()) {
          bytes = window.at(position, size, ahead);
          if (bytes.size() < size || !BatchView(bytes).crcOk()) verdict.stop = ScanStop::badCrc;
        } else {
          if (!loadBatch(log, position, size, large))
            verdict.stop = ScanStop::badCrc;
          else
            bytes = large;
        }
        if (verdict.stop == ScanStop::badCrc) verdict.problem = "the checksum is wrong";
      }
    }
    if (verdict.stop == ScanStop::end) verdict = judgeHeader(BatchView(bytes), base, result.nextOffset, options.dense);
    if (verdict.stop != ScanStop::end) {
      result.stop = verdict.stop;
      result.problem = fmt::format("at {}: {}", position, verdict.problem);
      break;
    }
    BatchView batch(bytes);
    if (visit) visit(batch, position);
    ++result.batches;
    if (batch.maxTimestamp() > result.maxTimestamp) {
      result.maxTimestamp = batch.maxTimestamp();
      result.maxTimestampOffset = batch.lastOffset();
    }
    result.nextOffset = batch.nextOffset();
    result.validEnd = position + size;
    if (!options.checkCrc) ahead = size > (16 << 10) ? 512 : 16 << 10;
  }
  return result;
}

SegmentFacts inspectSegment(FileSystem& system, const std::string& directory, Offset base, std::string* problem) {
  FileRef log = system.open(filePath(directory, base, kLogSuffix), OpenMode::read);
  uint64_t size = log->size();
  SegmentFacts facts{base, base, 0, kNoTimestamp, base};
  ScanOptions options{.from = 0, .nextOffset = base, .checkCrc = false};

  // Only the last entries are looked at: opening thousands of partitions reads a few blocks of each.
  auto lastOf = [&]<class Entry>(std::string_view suffix, std::type_identity<Entry>) -> std::optional<Entry> {
    FileRef file = openIfThere(system, filePath(directory, base, suffix));
    if (file == nullptr || file->size() < Entry::kBytes || file->size() % Entry::kBytes != 0) return std::nullopt;
    return FileEntries<Entry>(file.get(), file->size() / Entry::kBytes, base).at(file->size() / Entry::kBytes - 1);
  };
  auto lastOffset = lastOf(kOffsetIndexSuffix, std::type_identity<OffsetIndexEntry>());
  auto lastTime = lastOf(kTimeIndexSuffix, std::type_identity<TimeIndexEntry>());
  if (lastOffset && lastTime && lastOffset->position > 0 && lastOffset->position < size && lastOffset->offset > base &&
      lastTime->timestamp >= WallMs(0) && lastTime->offset >= base && agrees(*log, *lastOffset, size)) {
    FileRef index = system.open(filePath(directory, base, kOffsetIndexSuffix), OpenMode::read);
    auto floor = FileEntries<OffsetIndexEntry>(index.get(), index->size() / OffsetIndexEntry::kBytes, base)
                     .lastWhere([&](const OffsetIndexEntry& entry) { return entry.offset <= lastTime->offset; });
    if (agrees(*log, *lastTime, floor ? floor->position : 0, size)) {
      options.from = lastOffset->position;
      HeaderWalk walk(*log, options.from, size);
      if (auto header = walk.current()) options.nextOffset = header->baseOffset();
      facts.maxTimestamp = lastTime->timestamp;
      facts.maxTimestampOffset = lastTime->offset;
    }
  }
  ScanResult scan = scanSegment(*log, base, options);
  facts.end = scan.nextOffset;
  facts.size = scan.validEnd;
  if (scan.maxTimestamp > facts.maxTimestamp) {
    facts.maxTimestamp = scan.maxTimestamp;
    facts.maxTimestampOffset = scan.maxTimestampOffset;
  }
  *problem = std::move(scan.problem);
  return facts;
}

bool IndexBuilder::add(Offset lastOffset, WallMs maxTimestamp, uint64_t position, uint32_t size) {
  if (maxTimestamp > maxTimestamp_) {
    maxTimestamp_ = maxTimestamp;
    maxTimestampOffset_ = lastOffset;
  }
  bool makes = bytesSinceEntry_ > intervalBytes_;
  if (makes) {
    offset_ = {lastOffset, position};
    hasTime_ = close();
    bytesSinceEntry_ = 0;
  }
  bytesSinceEntry_ += size;
  return makes;
}

bool IndexBuilder::close() {
  if (maxTimestamp_ <= lastTimeEntry_) return false;
  time_ = {maxTimestamp_, maxTimestampOffset_};
  lastTimeEntry_ = maxTimestamp_;
  return true;
}

void IndexBuilder::resume(WallMs maxTimestamp, Offset maxTimestampOffset, WallMs lastTimeEntry,
                          uint64_t bytesSinceEntry) {
  maxTimestamp_ = maxTimestamp;
  maxTimestampOffset_ = maxTimestampOffset;
  lastTimeEntry_ = lastTimeEntry;
  bytesSinceEntry_ = bytesSinceEntry;
}

IndexCounts checkIndexes(FileSystem& system, const std::string& directory, const SegmentFacts& facts,
                         uint32_t intervalBytes) {
  FileRef log = system.open(filePath(directory, facts.base, kLogSuffix), OpenMode::read);
  std::string problem;
  Buffer offsetBytes =
      readDerived(system, filePath(directory, facts.base, kOffsetIndexSuffix), kIndexFileBytesMax, &problem);
  Buffer timeBytes =
      readDerived(system, filePath(directory, facts.base, kTimeIndexSuffix), kIndexFileBytesMax, &problem);
  auto offsets = decodeOffsetIndex(offsetBytes, facts.base, facts.end, facts.size);
  auto times = decodeTimeIndex(timeBytes, facts.base, facts.end);

  Entries kept;
  if (!problem.empty()) return rebuildIndexes(system, directory, facts, intervalBytes);
  if (!offsets.problem.empty()) problem = "offset index: " + offsets.problem;
  if (!times.problem.empty()) problem += (problem.empty() ? "time index: " : "; time index: ") + times.problem;
  if (problem.empty() && (offsets.zeroPadded || times.zeroPadded)) problem = "zeros behind the entries";
  kept.offsets = offsets.entries;
  kept.times = times.entries;
  // One entry that is not its batch's, and nothing in the file is believed.
  if (!sampleAgrees(kept.offsets, [&](const auto& entry) { return agrees(*log, entry, facts.size); })) {
    problem = "offset index: entries are not those of their batches";
    kept = {};
  } else if (!sampleAgrees(kept.times, [&](const auto& entry) {
               return agrees(*log, entry, floorPosition(kept.offsets, entry.offset), facts.size);
             })) {
    problem = "time index: entries are not those of their batches";
    kept = {};
  }
  return complete(system, directory, facts, intervalBytes, std::move(kept),
                  {std::move(offsets.entries), std::move(times.entries)}, std::move(problem));
}

IndexCounts rebuildIndexes(FileSystem& system, const std::string& directory, const SegmentFacts& facts,
                           uint32_t intervalBytes) {
  return complete(system, directory, facts, intervalBytes, {}, {}, "rebuilt");
}

std::optional<size_t> checkTransactionIndex(FileSystem& system, const std::string& directory,
                                            const SegmentFacts& facts) {
  std::string problem;
  Buffer bytes = readDerived(system, filePath(directory, facts.base, kTransactionIndexSuffix),
                             kTransactionIndexBytesMax, &problem);
  if (!problem.empty()) return std::nullopt;
  auto decoded = decodeTransactionIndex(bytes, facts.base, facts.end);
  if (!decoded.problem.empty() || decoded.zeroPadded) return std::nullopt;
  return decoded.entries.size();
}

std::optional<ProducerMarker> markerOf(const BatchView& batch, record::Workspace& workspace) {
  if (!batch.isControl() || !batch.hasProducerId()) return std::nullopt;
  auto control = record::readControlRecord(batch, workspace);
  if (!control) return std::nullopt;
  if (control->type != record::ControlType::abort && control->type != record::ControlType::commit) return std::nullopt;
  return ProducerMarker{.producer = batch.producerId(),
                        .epoch = batch.producerEpoch(),
                        .coordinatorEpoch = control->coordinatorEpoch,
                        .aborted = control->type == record::ControlType::abort,
                        .offset = batch.lastOffset(),
                        .timestamp = batch.maxTimestamp()};
}

std::optional<ProducerBatch> producerBatchOf(const BatchView& batch) {
  if (batch.isControl() || !batch.hasProducerId()) return std::nullopt;
  return ProducerBatch{.producer = batch.producerId(),
                       .epoch = batch.producerEpoch(),
                       .firstSequence = batch.baseSequence(),
                       .lastSequence = batch.lastSequence(),
                       .firstOffset = batch.baseOffset(),
                       .lastOffset = batch.lastOffset(),
                       .timestamp = batch.maxTimestamp(),
                       .transactional = batch.isTransactional()};
}

void replay(ProducerState& producers, const BatchView& batch, record::Workspace& workspace,
            std::optional<AbortedTransaction>* aborted) {
  if (auto data = producerBatchOf(batch))
    producers.apply(*data);
  else if (auto marker = markerOf(batch, workspace))
    producers.apply(*marker, aborted);
}

std::string keepCutTail(FileSystem& system, const std::string& directory, Offset base, uint64_t from, Offset offset) {
  FileRef log = system.open(filePath(directory, base, kLogSuffix), OpenMode::read);
  Buffer piece(kScanPiece);
  uint64_t end = log->size();
  // Preallocated pages tell nothing; a few zeros may be the end of a record.
  while (end > from) {
    size_t count = std::min<uint64_t>(piece.size(), end - from);
    count = log->read(end - count, MutableBytes(piece.data(), count));
    auto last =
        std::find_if(piece.rbegin() + (piece.size() - count), piece.rend(), [](uint8_t byte) { return byte != 0; });
    size_t zeros = last - (piece.rbegin() + (piece.size() - count));
    end -= zeros;
    if (zeros < count || count == 0) break;
  }
  if (end <= from) return {};
  end = std::min(end + kZerosKept, log->size());

  std::string path = filePath(directory, offset, kCutSuffix);
  for (int n = 1; system.exists(path); ++n) path = filePath(directory, offset, fmt::format("-{}{}", n, kCutSuffix));
  FileRef cut = system.open(path, OpenMode::createNew);
  for (uint64_t at = from; at < end;) {
    size_t count = log->read(at, MutableBytes(piece.data(), std::min<uint64_t>(piece.size(), end - at)));
    if (count == 0) break;
    cut->write(at - from, Bytes(piece.data(), count));
    at += count;
  }
  cut->sync();
  system.syncDirectory(directory);
  return path;
}

namespace {
constexpr std::array kSegmentSuffixes = {kLogSuffix, kOffsetIndexSuffix, kTimeIndexSuffix, kTransactionIndexSuffix};
}

void markFilesDeleted(FileSystem& system, const std::string& directory, Offset base) {
  for (std::string_view suffix : kSegmentSuffixes) {
    std::string path = filePath(directory, base, suffix);
    if (system.exists(path)) system.rename(path, path + std::string(kDeletedSuffix));
  }
}

void removeFiles(FileSystem& system, const std::string& directory, Offset base, std::string_view suffix) {
  for (std::string_view kind : kSegmentSuffixes) {
    std::string path = filePath(directory, base, kind) + std::string(suffix);
    if (system.exists(path)) system.remove(path);
  }
}

}  // namespace mq::storage

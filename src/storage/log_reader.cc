#include "storage/log_reader.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "record/records.h"
#include "storage/batch_verdict.h"
#include "storage/batch_walk.h"
#include "storage/file_names.h"
#include "storage/partition_metadata.h"

namespace mq::storage {

using record::BatchView;
using record::Layout;

namespace {

constexpr size_t kDerivedBytesMax = 64 << 20;
constexpr size_t kTextBytesMax = 16 << 20;
constexpr std::string_view kMetadataSnapshotSuffix = ".checkpoint";

// Indexes are read without knowing their log: whatever their fields can hold is taken, `agree` finds the rest.
constexpr int64_t kOffsetsMax = int64_t{INT32_MAX} + 1;

Offset endFor(Offset base) { return base.value() > INT64_MAX - kOffsetsMax ? Offset(INT64_MAX) : base + kOffsetsMax; }

bool isLogLike(LogFileKind kind) { return kind == LogFileKind::log || kind == LogFileKind::metadataSnapshot; }

}  // namespace

LogFileKind kindOf(std::string_view name) {
  if (name == kLeaderEpochFile) return LogFileKind::leaderEpochs;
  if (name == kPartitionMetadataFile) return LogFileKind::partitionMetadata;
  if (name.ends_with(kDeletedSuffix)) return LogFileKind::deleted;
  auto parsed = parseFileName(name);
  if (!parsed) return LogFileKind::other;
  std::string_view suffix = parsed->suffix;
  if (suffix == kLogSuffix) return LogFileKind::log;
  if (suffix == kOffsetIndexSuffix) return LogFileKind::offsetIndex;
  if (suffix == kTimeIndexSuffix) return LogFileKind::timeIndex;
  if (suffix == kTransactionIndexSuffix) return LogFileKind::transactionIndex;
  if (suffix == kSnapshotSuffix) return LogFileKind::snapshot;
  if (suffix.ends_with(kCutSuffix)) return LogFileKind::cut;
  if (suffix.ends_with(kMetadataSnapshotSuffix)) return LogFileKind::metadataSnapshot;
  return LogFileKind::other;
}

LogReader::LogReader(FileSystem& system, std::string directory) : system_(system), directory_(std::move(directory)) {
  for (DirectoryEntry& entry : system_.list(directory_)) {
    if (entry.isDirectory) continue;
    LogFileName file{entry.name, kindOf(entry.name), Offset(0), entry.size};
    if (auto parsed = parseFileName(entry.name)) file.base = parsed->base;
    files_.push_back(std::move(file));
  }
}

void LogReader::problem(const LogFileName& file, uint64_t position, std::string what) {
  problems_.push_back({file.name, position, std::move(what)});
}

std::string LogReader::load(const LogFileName& file, size_t sizeMax) {
  FileRef open = system_.open(pathOf(file), OpenMode::read);
  uint64_t size = open->size();
  if (size > sizeMax) {
    problem(file, 0, fmt::format("{} bytes, more than such a file can have", size));
    return {};
  }
  std::string content(size, '\0');
  content.resize(open->read(0, {reinterpret_cast<uint8_t*>(content.data()), content.size()}));
  return content;
}

LogFileSummary LogReader::readLog(const LogFileName& file, const std::function<void(const DumpedBatch&)>& visit) {
  FileRef log = system_.open(pathOf(file), OpenMode::read);
  LogFileSummary summary;
  summary.size = log->size();
  summary.nextOffset = file.base;
  Offset base = file.kind == LogFileKind::metadataSnapshot ? Offset(0) : file.base;
  if (file.kind == LogFileKind::metadataSnapshot) summary.nextOffset = base;
  FileWindow window(*log, 64 << 10);
  Buffer buffer;
  uint64_t position = 0;
  while (position < summary.size) {
    uint64_t left = summary.size - position;
    Bytes header = window.at(position, std::min<uint64_t>(Layout::kHeaderBytes, left), 64 << 10);
    Verdict verdict = judgeStart(header, left);
    if (!verdict) {
      problem(file, position, fmt::format("{} bytes behind the last whole batch: {}", left, verdict.problem));
      summary.trailingBytes = left;
      break;
    }
    BatchView batch(header);
    size_t size = batch.sizeBytes();
    verdict = judgeHeader(batch, base, summary.nextOffset, false);
    bool intact = loadBatch(*log, position, size, buffer);
    if (!intact)
      verdict = {ScanStop::badCrc, "the checksum is wrong"};
    else
      batch = BatchView(buffer);
    if (!verdict) {
      problem(file, position, verdict.problem);
      // A length that is wrong leads nowhere; then what follows is no batch that can be found.
      uint64_t next = position + size;
      if (next < summary.size) {
        uint64_t behind = summary.size - next;
        Bytes after = window.at(next, std::min<uint64_t>(Layout::kHeaderBytes, behind), 64 << 10);
        if (!judgeStart(after, behind)) {
          problem(file, position, fmt::format("its length of {} leads to no other batch", size));
          summary.trailingBytes = left;
          break;
        }
        if (!intact) batch = BatchView(header = window.at(position, Layout::kHeaderBytes, Layout::kHeaderBytes));
      }
      ++summary.badBatches;
    }
    ++summary.batches;
    if (visit) visit({batch, position, bool(verdict), verdict.problem});
    // Offsets of a bad batch are believed only if they lead forward, so that one flipped bit makes one problem.
    if (verdict || verdict.stop == ScanStop::badCrc) {
      if (batch.nextOffset() > summary.nextOffset && batch.nextOffset() - base <= kOffsetsMax)
        summary.nextOffset = batch.nextOffset();
    }
    position += size;
  }
  return summary;
}

namespace {

template <class Entry>
std::vector<Entry> take(DecodedIndex<Entry>&& decoded, const auto& report) {
  if (!decoded.problem.empty()) report(decoded.entries.size() * Entry::kBytes, decoded.problem);
  return std::move(decoded.entries);
}

}  // namespace

std::vector<OffsetIndexEntry> LogReader::readOffsetIndex(const LogFileName& file, bool agree) {
  std::string content = load(file, kDerivedBytesMax);
  auto entries = take(decodeOffsetIndex(asBytes(content), file.base, endFor(file.base), UINT32_MAX),
                      [&](uint64_t at, const std::string& what) { problem(file, at, what); });
  std::string logPath = filePath(directory_, file.base, kLogSuffix);
  if (!agree || !system_.exists(logPath)) return entries;
  FileRef log = system_.open(logPath, OpenMode::read);
  HeaderWalk walk(*log, 0, log->size());
  for (size_t i = 0; i < entries.size(); ++i) {
    walk.moveTo(entries[i].position);
    auto header = walk.current();
    if (header && header->lastOffset() == entries[i].offset) continue;
    problem(
        file, i * OffsetIndexEntry::kBytes,
        fmt::format("entry {}: no batch that ends with {} begins at {}", i, entries[i].offset, entries[i].position));
  }
  return entries;
}

std::vector<TimeIndexEntry> LogReader::readTimeIndex(const LogFileName& file, bool agree) {
  std::string content = load(file, kDerivedBytesMax);
  auto entries = take(decodeTimeIndex(asBytes(content), file.base, endFor(file.base)),
                      [&](uint64_t at, const std::string& what) { problem(file, at, what); });
  std::string logPath = filePath(directory_, file.base, kLogSuffix);
  // As a killed broker leaves it behind: preallocated, and nothing written yet.
  bool blank = content.find_first_not_of('\0') == std::string::npos;
  if (!agree || blank || !system_.exists(logPath)) return entries;
  FileRef log = system_.open(logPath, OpenMode::read);
  HeaderWalk walk(*log, 0, log->size());
  auto header = walk.current();
  for (size_t i = 0; i < entries.size(); ++i) {
    while (header && header->lastOffset() < entries[i].offset) {
      walk.next(*header);
      header = walk.current();
    }
    if (header && header->lastOffset() == entries[i].offset && header->maxTimestamp() == entries[i].timestamp) continue;
    problem(file, i * TimeIndexEntry::kBytes,
            fmt::format("entry {}: no batch that ends with {} has the timestamp {}", i, entries[i].offset,
                        entries[i].timestamp));
  }
  return entries;
}

std::vector<AbortedTransaction> LogReader::readTransactionIndex(const LogFileName& file) {
  std::string content = load(file, kDerivedBytesMax);
  auto decoded = decodeTransactionIndex(asBytes(content), file.base, endFor(file.base));
  if (decoded.zeroPadded)
    problem(file, decoded.entries.size() * AbortedTransaction::kBytes, "zeros behind the entries");
  return take(std::move(decoded), [&](uint64_t at, const std::string& what) { problem(file, at, what); });
}

ProducerState LogReader::readSnapshot(const LogFileName& file) {
  ProducerState state;
  std::string content = load(file, kDerivedBytesMax);
  if (auto decoded = state.decodeSnapshot(asBytes(content)); !decoded) problem(file, 0, decoded.failure().message);
  return state;
}

LeaderEpochs LogReader::readLeaderEpochs(const LogFileName& file) {
  auto decoded = LeaderEpochs::decode(load(file, kTextBytesMax));
  if (decoded) return *std::move(decoded);
  problem(file, 0, decoded.failure().message);
  return {};
}

std::optional<TopicId> LogReader::readPartitionMetadata(const LogFileName& file) {
  auto decoded = decodePartitionMetadata(load(file, kTextBytesMax));
  if (decoded) return *decoded;
  problem(file, 0, decoded.failure().message);
  return std::nullopt;
}

void LogReader::verify() {
  record::Workspace workspace;
  std::map<Offset, const LogFileName*> logs;
  Offset end{0};
  bool compacted = false;  // gaps are as they should be
  struct Border {
    const LogFileName* file;
    Offset before;
  };
  std::vector<Border> borders;

  for (const LogFileName& file : files_) {
    if (!isLogLike(file.kind)) continue;
    if (file.kind == LogFileKind::log) {
      if (!logs.empty() && file.base < end)
        problem(file, 0, fmt::format("begins below {}, the end of the segment before it", end));
      if (!logs.empty() && file.base > end) borders.push_back({&file, end});
      logs.emplace(file.base, &file);
    }
    Offset next = file.base;
    auto summary = readLog(file, [&](const DumpedBatch& dumped) {
      if (!dumped.good) return;
      const BatchView& batch = dumped.batch;
      compacted |= batch.baseOffset() > next || batch.recordCount() <= batch.lastOffsetDelta();
      next = batch.nextOffset();
      auto records = record::openRecords(batch, workspace);
      if (!records) return problem(file, dumped.position, records.failure().message);
      record::RecordView record;
      while (records->next(record)) {
      }
      if (!records->ok()) problem(file, dumped.position, std::string(records->problem()));
    });
    if (file.kind == LogFileKind::log) end = std::max(end, summary.nextOffset);
  }
  if (!compacted) {
    for (const Border& border : borders)
      problem(*border.file, 0,
              fmt::format("offsets {} to {} are missing before it", border.before, border.file->base - 1));
  }

  for (const LogFileName& file : files_) {
    bool derived = file.kind == LogFileKind::offsetIndex || file.kind == LogFileKind::timeIndex ||
                   file.kind == LogFileKind::transactionIndex;
    if (derived && !logs.contains(file.base)) problem(file, 0, "an index without its log");
    switch (file.kind) {
      case LogFileKind::offsetIndex: readOffsetIndex(file, true); break;
      case LogFileKind::timeIndex: readTimeIndex(file, true); break;
      case LogFileKind::transactionIndex: readTransactionIndex(file); break;
      case LogFileKind::snapshot: {
        if (file.base > end) problem(file, 0, fmt::format("of offset {}, past the log's end {}", file.base, end));
        ProducerState state = readSnapshot(file);
        for (const auto& [id, producer] : state.producers()) {
          if (producer.lastOffset() < file.base && producer.transactionFirst < file.base) continue;
          problem(file, 0,
                  fmt::format("producer {} has a batch at {}, not below the snapshot's offset", id,
                              std::max(producer.lastOffset(), producer.transactionFirst)));
        }
        break;
      }
      case LogFileKind::leaderEpochs: {
        LeaderEpochs epochs = readLeaderEpochs(file);
        if (!epochs.entries().empty() && epochs.entries().back().start > end) {
          problem(file, 0,
                  fmt::format("epoch {} starts at {}, past the log's end {}", epochs.entries().back().epoch,
                              epochs.entries().back().start, end));
        }
        break;
      }
      case LogFileKind::partitionMetadata: readPartitionMetadata(file); break;
      default: break;
    }
  }
}

}  // namespace mq::storage

#include "storage/recovery.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/check.h"
#include "record/batch.h"
#include "runtime/coro.h"
#include "runtime/tasks.h"
#include "storage/clean_job.h"
#include "storage/file_names.h"
#include "storage/partition_metadata.h"

namespace mq::storage {
namespace {

using record::BatchView;

constexpr size_t kSnapshotBytesMax = 256_MiB;
constexpr size_t kEpochFileBytesMax = 16_MiB;
constexpr size_t kMetadataBytesMax = 64_KiB;
constexpr size_t kControlBatchBytesMax = 64_KiB;

// Replays batches that may have been read as headers alone: a control batch is fetched whole. Producers age by when we
// took their batches in, which is not known any more: `appended` stands in for it.
class Replay {
 public:
  Replay(ProducerState& producers, WallMs appended) : producers_(producers), appended_(appended) {}

  std::optional<AbortedTransaction> add(const File& log, const BatchView& batch, uint64_t position) {
    if (!batch.hasProducerId()) return std::nullopt;
    if (auto data = producerBatchOf(batch)) {
      if (!batch.isLogAppendTime()) data->timestamp = appended_;
      producers_.apply(*data);
      return std::nullopt;
    }
    if (batch.sizeBytes() > kControlBatchBytesMax) return std::nullopt;
    Buffer whole(batch.sizeBytes());
    if (log.read(position, whole) < whole.size()) return std::nullopt;
    auto marker = markerOf(BatchView(whole), workspace_);
    if (!marker) return std::nullopt;
    marker->timestamp = appended_;
    std::optional<AbortedTransaction> aborted;
    producers_.apply(*marker, &aborted);
    return aborted;
  }

 private:
  ProducerState& producers_;
  WallMs appended_;
  record::Workspace workspace_;
};

// What the directory holds, as names.
struct Found {
  std::vector<Offset> bases;  // of .log files, growing
  std::vector<Offset> snapshots;
  std::vector<Offset> orphans;  // of derived files without a log
};

// No log of ours is older (2020): a time below is that of a clock that had not been set.
constexpr WallMs kCredibleFrom{1'577'836'800'000};

class Recovery {
 public:
  Recovery(FileSystem& files, const std::string& directory, const RecoverySettings& settings,
           RecoveryProgress* progress)
      : files_(files), directory_(directory), settings_(settings), progress_(progress) {}

  RecoveredLog run() {
    log_.exists = files_.exists(directory_);
    log_.start = log_.end = settings_.start;
    if (!log_.exists) return std::move(log_);
    checkMetadata();
    if (log_.damage) return std::move(log_);
    gapsBelow_ = settings_.gapsAllowed ? Offset(INT64_MAX) : gapsBelow(files_, directory_);
    finishReplacements();
    Found found = survey();
    dropBelowStart(found);
    loadEpochs();

    if (!found.bases.empty() && found.bases.front() > settings_.start && settings_.mark > settings_.start) {
      damage("{}: the log starts at {}, but its first segment is {}: the records between are missing", directory_,
             settings_.start, fileName(found.bases.front(), kLogSuffix));
    }
    size_t first = firstToScan(found.bases);
    const bool clean = settings_.clean && !found.bases.empty() && found.bases.back() <= settings_.mark;
    size_t trusted = clean ? found.bases.size() - 1 : first;
    for (size_t i = 0; i < trusted && !log_.damage; ++i) inspect(found.bases[i], found.bases[i + 1]);
    if (!log_.damage && !found.bases.empty() && !(clean && resumeClean(found.bases.back()))) {
      log_.segments.resize(std::min(first, log_.segments.size()));
      log_.end = log_.segments.empty() ? settings_.start : log_.segments.back().facts.end;
      scanFrom(found.bases, first);
    }
    if (!log_.damage) settleEnd();
    if (log_.damage) return std::move(log_);
    checkTransactions();
    for (Offset snapshot : found.snapshots) {
      if (snapshot > log_.end) removeFile(fileName(snapshot, kSnapshotSuffix));
    }
    if (changedNames_) files_.syncDirectory(directory_);
    finishEpochs();
    return std::move(log_);
  }

 private:
  template <class... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    log_.notes.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void damage(fmt::format_string<Args...> format, Args&&... args) {
    if (!log_.damage) log_.damage = fmt::format(format, std::forward<Args>(args)...);
  }
  std::string pathOf(Offset base, std::string_view suffix) const { return filePath(directory_, base, suffix); }
  void removeFile(const std::string& name) {
    files_.remove(directory_ + "/" + name);
    changedNames_ = true;
  }
  void renameFile(const std::string& from, const std::string& to) {
    files_.rename(directory_ + "/" + from, directory_ + "/" + to);
    changedNames_ = true;
  }

  void checkMetadata() {
    if (!settings_.topic) return;
    std::string path = directory_ + "/" + std::string(kPartitionMetadataFile);
    std::string problem = "is missing";
    if (files_.exists(path)) {
      auto topic = decodePartitionMetadata(files_.readFile(path, kMetadataBytesMax));
      if (topic && *topic == *settings_.topic) return;
      if (topic) return damage("{} belongs to topic id {}, not to {}", directory_, *topic, *settings_.topic);
      problem = "is damaged (" + topic.failure().message + ")";
    }
    unlessFull([&] { files_.replaceFile(path, encodePartitionMetadata(*settings_.topic)); });
    note("{} {} and is written anew", path, problem);
  }

  // `.deleted` and `.cleaned` were on their way out or never finished. `.log.swap` files are whole replacements for the
  // segments they cover, put in place if they are sound and set aside otherwise; but beside a `.cleaned` log at or
  // below them they are only a part of what was to be put in place, and go.
  void finishReplacements() {
    Offset unfinished(INT64_MAX);
    std::vector<std::string> leftovers;
    std::vector<Offset> swaps;
    std::vector<std::string> swapNames;
    for (const DirectoryEntry& entry : files_.list(directory_)) {
      if (entry.isDirectory) continue;
      auto name = parseFileName(entry.name);
      if (entry.name.ends_with(kDeletedSuffix) || entry.name.ends_with(kCleanedSuffix)) {
        leftovers.push_back(entry.name);
        if (name && name->suffix == ".log.cleaned") unfinished = std::min(unfinished, name->base);
      } else if (entry.name.ends_with(kSwapSuffix)) {
        swapNames.push_back(entry.name);
        if (name && name->suffix == ".log.swap") swaps.push_back(name->base);
      }
    }
    bool isPart = !swaps.empty() && swaps.front() >= unfinished;
    if (isPart || swaps.empty()) {
      for (const std::string& name : swapNames) removeFile(name);
      if (isPart) {
        note("{}: compaction had not finished; its {} segments are removed", directory_, swaps.size());
        files_.syncDirectory(directory_);  // before the file that tells so goes
      }
      swaps.clear();
    }
    for (const std::string& name : leftovers) {
      removeFile(name);
      note("{}/{} was left by an earlier stop and is removed", directory_, name);
    }
    if (!swaps.empty()) placeSwaps(swaps);
  }

  void placeSwaps(const std::vector<Offset>& swaps) {
    std::vector<Offset> ends;
    for (Offset base : swaps) {
      std::string name = fileName(base, kLogSuffix);
      FileRef swap = files_.open(directory_ + "/" + name + std::string(kSwapSuffix), OpenMode::read);
      ScanResult scan = scanSegment(*swap, base, {.nextOffset = base});
      if (scan.stop != ScanStop::end && files_.exists(pathOf(swaps.front(), kLogSuffix))) {
        for (Offset aside : swaps) {
          std::string kept = fileName(aside, kLogSuffix) + std::string(kSwapSuffix);
          renameFile(kept, kept + std::string(kCutSuffix));
        }
        note("{}/{}.swap is damaged ({}) and is set aside", directory_, name, scan.problem);
        ends.clear();
        break;
      }
      ends.push_back(std::max(scan.nextOffset, base + 1));
    }
    if (!ends.empty()) {
      // A segment between two that belong together is covered like one inside them.
      for (size_t i = 0; i + 1 < ends.size(); ++i) ends[i] = swaps[i + 1];
      for (const DirectoryEntry& entry : files_.list(directory_)) {
        auto parsed = parseFileName(entry.name);
        if (!parsed || parsed->base < swaps.front() || parsed->base >= ends.back()) continue;
        bool replaced = parsed->suffix == kLogSuffix || parsed->suffix == kOffsetIndexSuffix ||
                        parsed->suffix == kTimeIndexSuffix || parsed->suffix == kTransactionIndexSuffix;
        if (replaced) removeFile(entry.name);
      }
    }
    // Logs last: while one is missing here, the next start does all this again.
    std::vector<std::string> logs;
    for (const DirectoryEntry& entry : files_.list(directory_)) {
      if (!entry.name.ends_with(kSwapSuffix)) continue;
      std::string target = entry.name.substr(0, entry.name.size() - kSwapSuffix.size());
      auto parsed = parseFileName(target);
      bool placed = parsed && !ends.empty() && std::ranges::find(swaps, parsed->base) != swaps.end();
      if (!placed) {
        removeFile(entry.name);
      } else if (parsed->suffix == kLogSuffix) {
        logs.push_back(target);
      } else {
        renameFile(entry.name, target);
      }
    }
    for (auto log = logs.rbegin(); log != logs.rend(); ++log) {
      renameFile(*log + std::string(kSwapSuffix), *log);
      note("{}/{}.swap was whole and replaces what it covers", directory_, *log);
    }
  }

  Found survey() {
    Found found;
    std::vector<std::string> derived;
    for (const DirectoryEntry& entry : files_.list(directory_)) {
      if (entry.isDirectory) continue;
      auto name = parseFileName(entry.name);
      if (!name) continue;
      if (name->suffix == kLogSuffix) {
        found.bases.push_back(name->base);
        bool credible = entry.modified >= kCredibleFrom && entry.modified <= settings_.now;
        modified_[name->base] = credible ? entry.modified : settings_.now;
      } else if (name->suffix == kSnapshotSuffix) {
        found.snapshots.push_back(name->base);
      } else if (name->suffix == kOffsetIndexSuffix || name->suffix == kTimeIndexSuffix ||
                 name->suffix == kTransactionIndexSuffix) {
        derived.push_back(entry.name);
        if (name->suffix == kTransactionIndexSuffix) transactionIndexBytes_[name->base] = entry.size;
      }
    }
    for (const std::string& name : derived) {
      if (std::ranges::binary_search(found.bases, parseFileName(name)->base)) continue;
      note("{}/{} has no log and is removed", directory_, name);
      removeFile(name);
    }
    return found;
  }

  // What a stop left over of segments that the stored start had passed.
  void dropBelowStart(Found& found) {
    while (found.bases.size() > 1 && found.bases[1] <= settings_.start) {
      note("{} lies below the log start {} and is removed", pathOf(found.bases.front(), kLogSuffix), settings_.start);
      removeFiles(files_, directory_, found.bases.front(), "");
      changedNames_ = true;
      found.bases.erase(found.bases.begin());
    }
  }

  void loadEpochs() {
    std::string path = directory_ + "/" + std::string(kLeaderEpochFile);
    if (!files_.exists(path)) {
      epochsLost_ = true;
      return;
    }
    auto decoded = LeaderEpochs::decode(files_.readFile(path, kEpochFileBytesMax));
    if (decoded) {
      log_.epochs = std::move(*decoded);
      epochsOnDisk_ = log_.epochs.entries();
      epochsLost_ = log_.epochs.entries().empty();
    } else {
      note("{} is damaged ({}) and is rebuilt", path, decoded.failure().message);
      epochsLost_ = true;
    }
  }

  // The segment that holds what is just below the mark: what lies before it was sealed and is safe whole, with its
  // indexes.
  size_t firstToScan(const std::vector<Offset>& bases) const {
    auto behind = std::ranges::lower_bound(bases, settings_.mark);
    return behind == bases.begin() ? 0 : static_cast<size_t>(behind - bases.begin()) - 1;
  }

  void add(const SegmentFacts& facts) {
    log_.segments.push_back({.facts = facts, .modified = modified_.at(facts.base), .indexes = {}, .aborted = {}});
    log_.end = facts.end;
  }

  // A sealed segment below the mark: its headers have to lead to its end, and its end to the next segment.
  void inspect(Offset base, Offset next) {
    std::string problem;
    SegmentFacts facts = inspectSegment(files_, directory_, base, &problem);
    if (!problem.empty()) {
      return damage("{} is damaged below the durable mark {}, behind offset {}: {}", pathOf(base, kLogSuffix),
                    settings_.mark, facts.end, problem);
    }
    if (!joins(facts.end, next)) {
      return damage("{} ends at offset {}, but the next segment is {}: {} records are missing",
                    pathOf(base, kLogSuffix), facts.end, fileName(next, kLogSuffix), next - facts.end);
    }
    if (epochsLost_) {
      FileRef log = files_.open(pathOf(base, kLogSuffix), OpenMode::read);
      scanSegment(
          *log, base, {.nextOffset = base, .sizeMax = facts.size, .checkCrc = false},
          [&](const BatchView& batch, uint64_t) { log_.epochs.assign(batch.leaderEpoch(), batch.baseOffset()); });
    }
    add(facts);
  }

  std::vector<SegmentFacts> factsBelow(Offset base) const {
    std::vector<SegmentFacts> facts;
    for (const RecoveredSegment& segment : log_.segments) {
      if (segment.facts.base < base) facts.push_back(segment.facts);
    }
    return facts;
  }

  // After a clean stop: the active segment's headers from its last index entry on, the checksum of its last batch, the
  // snapshot at its end. False: something is not as a clean stop leaves it, and the segment is scanned.
  bool resumeClean(Offset base) {
    if (epochsLost_ && settings_.mark > settings_.start) return false;
    std::string problem;
    SegmentFacts facts = inspectSegment(files_, directory_, base, &problem);
    if (!problem.empty() || facts.end != settings_.mark) return false;
    if (!lastBatchGood(facts)) return false;
    if (log_.segments.empty() ? false : !joins(log_.segments.back().facts.end, base)) return false;
    std::string snapshot = pathOf(facts.end, kSnapshotSuffix);
    if (facts.end.value() > 0) {
      if (!files_.exists(snapshot)) return false;
      if (!log_.producers.decodeSnapshot(asBytes(files_.readFile(snapshot, kSnapshotBytesMax)))) return false;
    }
    add(facts);
    log_.wasClean = true;
    return true;
  }

  bool joins(Offset end, Offset next) const { return end == next || (end < next && next <= gapsBelow_); }

  bool lastBatchGood(const SegmentFacts& facts) {
    if (facts.size == 0) return true;
    FileRef log = files_.open(pathOf(facts.base, kLogSuffix), OpenMode::read);
    uint64_t from = 0;
    std::string indexPath = pathOf(facts.base, kOffsetIndexSuffix);
    if (files_.exists(indexPath)) {
      FileRef index = files_.open(indexPath, OpenMode::read);
      size_t entries = index->size() / OffsetIndexEntry::kBytes;
      // The last entry's batch is at most one interval before the end, or the last itself.
      if (entries > 0) from = FileEntries<OffsetIndexEntry>(index.get(), entries, facts.base).at(entries - 1).position;
      if (from >= facts.size) return false;
    }
    ScanResult scan = scanSegment(*log, facts.base, {.from = from, .nextOffset = facts.base, .sizeMax = facts.size});
    return scan.stop == ScanStop::end && scan.nextOffset == facts.end;
  }

  // From the segment that holds the mark on: headers below the mark, whole batches from it on.
  void scanFrom(const std::vector<Offset>& bases, size_t first) {
    if (bases.empty()) return;
    log_.producers = rebuildProducers(files_, directory_, factsBelow(bases[first]), bases[first], settings_.now);
    log_.epochs.truncateFromEnd(bases[first]);
    for (size_t i = first; i < bases.size(); ++i) {
      Offset base = bases[i];
      if (i > 0 && !joins(log_.end, base)) {
        if (log_.end < settings_.mark) {
          return damage(
              "{} begins at offset {}, but the log before it ends at {}: {} records are missing below the "
              "durable mark {}",
              pathOf(base, kLogSuffix), base, log_.end, base - log_.end, settings_.mark);
        }
        note("{}: records [{}, {}) are missing above the durable mark {}", directory_, log_.end, base, settings_.mark);
        return setAside(bases, i);
      }
      if (!scanOne(base, i + 1 == bases.size())) return log_.damage ? void() : setAside(bases, i + 1);
    }
  }

  // False: the log ends in this segment, whatever follows.
  bool scanOne(Offset base, bool isLast) {
    FileRef log = files_.open(pathOf(base, kLogSuffix), OpenMode::readWrite);
    SegmentFacts facts{.base = base, .end = base};
    Replay replay(log_.producers, settings_.now);
    std::vector<AbortedTransaction> aborted;
    auto take = [&](const BatchView& batch, uint64_t position) {
      if (auto entry = replay.add(*log, batch, position)) aborted.push_back(*entry);
      log_.epochs.assign(batch.leaderEpoch(), batch.baseOffset());
      facts.end = batch.nextOffset();
      facts.size = position + batch.sizeBytes();
      if (batch.maxTimestamp() > facts.maxTimestamp) {
        facts.maxTimestamp = batch.maxTimestamp();
        facts.maxTimestampOffset = batch.lastOffset();
      }
    };
    const bool dense = base >= gapsBelow_;
    ScanResult scan{.validEnd = 0, .nextOffset = base};
    if (base < settings_.mark) {
      bool below = true;  // the walk goes on past the mark, but only what is below counts
      ScanResult headers = scanSegment(*log, base, {.nextOffset = base, .checkCrc = settings_.clean, .dense = dense},
                                       [&](const BatchView& batch, uint64_t position) {
                                         below = below && batch.nextOffset() <= settings_.mark;
                                         if (below) take(batch, position);
                                       });
      if (facts.end < settings_.mark && headers.stop != ScanStop::end) {
        damage("{} is damaged below the durable mark {}, at byte {}, behind offset {}: {}", pathOf(base, kLogSuffix),
               settings_.mark, headers.validEnd, facts.end, headers.problem);
        add(facts);
        return false;
      }
    }
    scan =
        scanSegment(*log, base, {.from = facts.size, .nextOffset = facts.end, .checkCrc = true, .dense = dense}, take);
    log_.scannedBytes += scan.validEnd;
    if (progress_ != nullptr) *progress_ += scan.fileSize;

    bool cut = scan.stop != ScanStop::end;
    if (cut) {
      uint64_t size = scan.fileSize;
      std::string kept = keepCutTail(files_, directory_, base, facts.size, facts.end);
      note("{} was cut from {} to {} bytes, the log ends at offset {}: {}. {}", pathOf(base, kLogSuffix), size,
           facts.size, facts.end, scan.problem,
           kept.empty() ? "What was cut is all zeros." : "What was cut is kept in " + kept);
      log_.cutBytes += size - facts.size;
      log->truncate(facts.size);
      changedNames_ = true;
    }
    // Up to the mark all was synced, first the names, then the bytes.
    if (cut || facts.end > settings_.mark) log->sync();
    if (base >= settings_.mark) changedNames_ = true;
    add(facts);
    RecoveredSegment& segment = log_.segments.back();
    // That nothing was aborted is written down when a segment is sealed, not before.
    if (isLast && aborted.empty() && !transactionIndexBytes_.contains(base)) {
      segment.aborted = 0;
    } else {
      writeAborted(segment, std::move(aborted));
    }
    unlessFull([&] { segment.indexes = checkIndexes(files_, directory_, facts, settings_.indexIntervalBytes); });
    return !cut;
  }

  // False: the disk is full. What is derived must not keep a log from coming up.
  template <class Write>
  bool unlessFull(Write write) {
    try {
      write();
      return true;
    } catch (...) {
      kj::Exception reason = caughtException();
      if (!isNoSpace(reason)) kj::throwFatalException(kj::mv(reason));
      note("{} has to do without some of its derived files: {}", directory_, describe(reason));
      return false;
    }
  }

  // An empty index says that nothing was aborted, so an unfinished one must never be found: whole or not at all.
  void writeAborted(RecoveredSegment& segment, std::vector<AbortedTransaction> aborted) {
    std::string path = pathOf(segment.facts.base, kTransactionIndexSuffix);
    segment.aborted = aborted.size();
    bool written = unlessFull([&] {
      if (aborted.empty()) {
        FileRef file = files_.open(path, OpenMode::create);
        if (file->size() > 0) file->truncate(0);
      } else {
        files_.replaceFile(path, asText(encodeIndex(aborted)));
      }
    });
    if (written) return;
    if (files_.exists(path)) files_.remove(path);
    segment.aborted = 0;
    segment.abortedUnwritten = std::move(aborted);
  }

  // Each segment that was sealed or stopped cleanly has a transaction index, if only an empty one: where it is missing
  // or damaged it is made anew, since without it readers would take aborted records for committed ones.
  void checkTransactions() {
    for (RecoveredSegment& segment : log_.segments) {
      if (segment.aborted || segment.facts.size == 0) continue;
      const Offset base = segment.facts.base;
      auto bytes = transactionIndexBytes_.find(base);
      if (bytes != transactionIndexBytes_.end()) {
        segment.aborted = bytes->second == 0 ? 0 : checkTransactionIndex(files_, directory_, segment.facts);
        if (segment.aborted) continue;
      }
      ProducerState producers = rebuildProducers(files_, directory_, factsBelow(base), base, settings_.now);
      Replay replay(producers, settings_.now);
      std::vector<AbortedTransaction> aborted;
      FileRef log = files_.open(pathOf(base, kLogSuffix), OpenMode::read);
      scanSegment(*log, base, {.nextOffset = base, .sizeMax = segment.facts.size, .checkCrc = false},
                  [&](const BatchView& batch, uint64_t position) {
                    if (auto entry = replay.add(*log, batch, position)) aborted.push_back(*entry);
                  });
      bool missing = bytes == transactionIndexBytes_.end();
      if (!missing || !aborted.empty()) {
        note("{} {} and is written anew: {} aborted transactions", pathOf(base, kTransactionIndexSuffix),
             missing ? "is missing" : "is damaged", aborted.size());
      }
      writeAborted(segment, std::move(aborted));
    }
  }

  void setAside(const std::vector<Offset>& bases, size_t from) {
    // Highest first: a crash on the way leaves no hole.
    for (size_t i = bases.size(); i-- > from;) {
      uint64_t size = files_.open(pathOf(bases[i], kLogSuffix), OpenMode::read)->size();
      std::string name = fileName(bases[i], kLogSuffix);
      std::string kept = name + std::string(kCutSuffix);
      for (int n = 1; files_.exists(directory_ + "/" + kept); ++n) kept = fmt::format("{}-{}{}", name, n, kCutSuffix);
      renameFile(name, kept);
      removeFiles(files_, directory_, bases[i], "");
      log_.cutBytes += size;
      note("{} lies behind the end of the log at offset {}: its {} bytes are kept in {}", pathOf(bases[i], kLogSuffix),
           log_.end, size, kept);
    }
  }

  // The log start and the durable mark have to lie within what was found.
  void settleEnd() {
    if (!log_.segments.empty()) log_.start = std::max(log_.start, log_.segments.front().facts.base);
    if (log_.end >= log_.start && log_.end >= settings_.mark) return;
    if (log_.end < settings_.mark && settings_.mark > log_.start) {
      return damage("{} ends at offset {}, below its durable mark {}: {} records are missing", directory_, log_.end,
                    settings_.mark, settings_.mark - std::max(log_.end, log_.start));
    }
    if (log_.end >= log_.start) return;
    note("{} ends at offset {}, below its start {}: it goes on at its start", directory_, log_.end, log_.start);
    for (const RecoveredSegment& segment : log_.segments) removeFiles(files_, directory_, segment.facts.base, "");
    log_.segments.clear();
    log_.end = log_.start;
    log_.producers.clear();
    changedNames_ = true;
  }

  void finishEpochs() {
    log_.epochs.truncateFromEnd(log_.end);
    log_.epochsChanged = log_.epochs.entries() != epochsOnDisk_;
  }

  FileSystem& files_;
  const std::string& directory_;
  const RecoverySettings& settings_;
  RecoveryProgress* progress_;
  Offset gapsBelow_{0};
  RecoveredLog log_;
  std::map<Offset, WallMs> modified_;                 // of .log files, by base: when they were last appended to
  std::map<Offset, uint64_t> transactionIndexBytes_;  // of .txnindex files, by base
  std::vector<EpochStart> epochsOnDisk_;
  bool epochsLost_ = false;
  bool changedNames_ = false;
};

}  // namespace

ProducerState rebuildProducers(FileSystem& files, const std::string& directory,
                               const std::vector<SegmentFacts>& segments, Offset end, WallMs now) {
  ProducerState producers;
  if (segments.empty() && end.value() == 0) return producers;
  std::vector<Offset> snapshots;
  for (const DirectoryEntry& entry : files.list(directory)) {
    auto name = parseFileName(entry.name);
    if (name && name->suffix == kSnapshotSuffix && name->base <= end) snapshots.push_back(name->base);
  }
  Offset from = segments.empty() ? end : segments.front().base;
  for (size_t i = snapshots.size(); i-- > 0;) {
    // An older one knows nothing of what was deleted since: it would hold transactions open whose markers are gone.
    if (snapshots[i] < from) break;
    std::string bytes = files.readFile(filePath(directory, snapshots[i], kSnapshotSuffix), kSnapshotBytesMax);
    if (!producers.decodeSnapshot(asBytes(bytes))) continue;
    from = snapshots[i];
    break;
  }
  Replay replay(producers, now);
  for (const SegmentFacts& segment : segments) {
    if (segment.end <= from || segment.size == 0 || segment.base >= end) continue;
    FileRef log = files.open(filePath(directory, segment.base, kLogSuffix), OpenMode::read);
    scanSegment(*log, segment.base, {.nextOffset = segment.base, .sizeMax = segment.size, .checkCrc = false},
                [&](const BatchView& batch, uint64_t position) {
                  if (batch.baseOffset() >= from && batch.baseOffset() < end) replay.add(*log, batch, position);
                });
  }
  return producers;
}

RecoveredLog recoverLog(FileSystem& files, const std::string& directory, const RecoverySettings& settings,
                        RecoveryProgress* progress) {
  return Recovery(files, directory, settings, progress).run();
}

}  // namespace mq::storage

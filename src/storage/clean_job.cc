#include "storage/clean_job.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "runtime/coro.h"
#include "runtime/tasks.h"
#include "storage/batch_walk.h"
#include "storage/file_names.h"
#include "storage/text_lines.h"

namespace mq::storage {

using record::BatchView;
using record::Layout;

namespace {

constexpr size_t kIoBytesMin = 64_KiB;
// Files are renamed on the loop.
constexpr size_t kGroupSegmentsMax = 64;
constexpr std::array kDerivedSuffixes = {kOffsetIndexSuffix, kTimeIndexSuffix, kTransactionIndexSuffix};

size_t placesFor(const CleanPlan& plan) {
  uint64_t records = 0;
  for (const SegmentFacts& segment : plan.segments) {
    if (segment.end > plan.dirty) records += static_cast<uint64_t>(segment.end - std::max(segment.base, plan.dirty));
  }
  auto wanted = static_cast<uint64_t>(static_cast<double>(records) / std::max(plan.loadFactor, 0.01)) + 2;
  return std::min<uint64_t>(plan.mapBytes / KeyMap::kPlaceBytes, wanted);
}

}  // namespace

// --- reading: the batches of one segment, each with its checksum taken

class CleanJob::Source {
 public:
  Source(FileSystem& files, const std::string& directory, const SegmentFacts& facts, size_t ioBytes)
      : facts_(facts),
        log_(files.open(filePath(directory, facts.base, kLogSuffix), OpenMode::read)),
        window_(*log_, std::max(ioBytes, kIoBytesMin)) {}

  uint64_t position() const { return position_; }
  void moveTo(uint64_t position) { position_ = position; }

  // The batch at position(), which moves behind it. nullopt: the end. Those that end below `from` are passed over.
  Result<std::optional<BatchView>> next(Offset from) {
    while (position_ < facts_.size) {
      const uint64_t left = facts_.size - position_;
      Bytes bytes = window_.at(position_, std::min<uint64_t>(Layout::kHeaderBytes, left), window_.capacity());
      auto header = record::peekBatch(bytes);
      if (header.kind != record::NextBatch::Kind::whole || header.sizeBytes > left) return damaged("no batch begins");
      const size_t size = header.sizeBytes;
      if (BatchView(bytes).lastOffset() < from) {
        position_ += size;
        continue;
      }
      if (size <= window_.capacity()) {
        bytes = window_.at(position_, size, window_.capacity());
        if (bytes.size() < size || !BatchView(bytes).crcOk()) return damaged("the checksum is wrong");
      } else if (loadBatch(*log_, position_, size, large_)) {
        bytes = large_;
      } else {
        return damaged("the checksum is wrong");
      }
      BatchView batch(bytes.first(size));
      if (batch.lastOffsetDelta() < 0 || batch.recordCount() < 0) return damaged("no batch begins");
      position_ += size;
      return batch;
    }
    return std::nullopt;
  }

 private:
  Failure damaged(std::string_view what) const {
    return failure(Error::corruptMessage, "{}: at byte {}: {}", log_->path(), position_, what);
  }

  SegmentFacts facts_;
  FileRef log_;
  FileWindow window_;
  Buffer large_;
  uint64_t position_ = 0;
};

// --- writing: one *.cleaned segment

class CleanJob::Writer {
 public:
  Writer(FileSystem& files, const CleanPlan& plan, Offset base)
      : files_(files),
        plan_(plan),
        builder_(plan.indexIntervalBytes),
        facts_{.base = base, .end = base, .maxTimestampOffset = base},
        log_(files.open(pathOf(kLogSuffix), OpenMode::create)) {
    log_->truncate(0);
  }

  bool fits(const BatchView& batch) const {
    const uint64_t size = facts_.size + batch.sizeBytes();
    if (size > INT32_MAX || batch.lastOffset() - facts_.base > INT32_MAX) return false;
    const bool isFull =
        size > plan_.segmentBytesMax || (times_.size() + 2) * TimeIndexEntry::kBytes > plan_.indexBytesMax;
    return facts_.size == 0 || !isFull;
  }

  void add(const BatchView& batch) {
    Bytes bytes = batch.whole();
    if (builder_.add(batch.lastOffset(), batch.maxTimestamp(), facts_.size, static_cast<uint32_t>(bytes.size()))) {
      offsets_.push_back(builder_.offsetEntry());
      if (builder_.hasTime()) times_.push_back(builder_.timeEntry());
    }
    facts_.size += bytes.size();
    facts_.end = batch.nextOffset();
    pending_.insert(pending_.end(), bytes.begin(), bytes.end());
    if (pending_.size() >= std::max(plan_.ioBytes, kIoBytesMin)) flush();
  }

  Offset base() const { return facts_.base; }
  void addAborted(const AbortedTransaction& aborted) { aborted_.push_back(aborted); }

  // Everything written and synced.
  CleanedSegment finish() {
    flush();
    log_->sync();
    if (builder_.close()) times_.push_back(builder_.timeEntry());
    facts_.maxTimestamp = builder_.maxTimestamp();
    if (facts_.maxTimestamp != kNoTimestamp) facts_.maxTimestampOffset = builder_.maxTimestampOffset();
    write(kOffsetIndexSuffix, encodeIndex(offsets_, facts_.base));
    write(kTimeIndexSuffix, encodeIndex(times_, facts_.base));
    write(kTransactionIndexSuffix, encodeIndex(aborted_));
    return {.facts = facts_,
            .indexes = {.offsetEntries = offsets_.size(),
                        .timeEntries = times_.size(),
                        .maxTimestamp = facts_.maxTimestamp,
                        .maxTimestampOffset = facts_.maxTimestampOffset,
                        .mended = {}},
            .aborted = aborted_.size()};
  }

 private:
  std::string pathOf(std::string_view suffix) const {
    return filePath(plan_.directory, facts_.base, suffix) + std::string(kCleanedSuffix);
  }
  void flush() {
    if (pending_.empty()) return;
    log_->write(facts_.size - pending_.size(), Bytes(pending_));
    pending_.clear();
  }
  void write(std::string_view suffix, const Buffer& bytes) {
    FileRef file = files_.open(pathOf(suffix), OpenMode::create);
    file->truncate(0);
    if (!bytes.empty()) file->write(0, Bytes(bytes));
    file->sync();
  }

  FileSystem& files_;
  const CleanPlan& plan_;
  IndexBuilder builder_;
  SegmentFacts facts_;
  FileRef log_;
  Buffer pending_;
  std::vector<OffsetIndexEntry> offsets_;
  std::vector<TimeIndexEntry> times_;
  std::vector<AbortedTransaction> aborted_;
};

// --- CleanJob

CleanJob::CleanJob(FileSystem& files, CleanPlan plan)
    : files_(files), plan_(std::move(plan)), keys_(placesFor(plan_), plan_.loadFactor, plan_.seed) {
  MQ_CHECK(!plan_.segments.empty());
}

CleanJob::~CleanJob() = default;

Offset CleanJob::end() const { return mapping_ ? mapping_->end() : plan_.dirty; }

CleanJob::Figures CleanJob::figures() const {
  Figures figures = figures_;
  if (filtering_) figures.records = filtering_->figures();
  return figures;
}

Result<CleanJob::State> CleanJob::step(uint64_t bytes) {
  MQ_CHECK(state_ != State::done);
  Result<void> stepped = state_ == State::mapping ? map(bytes) : filter(bytes);
  if (!stepped) return stepped.failure();
  return state_;
}

namespace {

// What reading throws says that this log cannot be cleaned; what writing throws is a matter of the whole disk.
template <class Read>
auto reading(Read read) -> decltype(read()) {
  try {
    return read();
  } catch (...) {
    return Failure(Error::kafkaStorageError, describe(caughtException()));
  }
}

}  // namespace

// Those that overlap [from, uncleanable).
Result<std::vector<AbortedTransaction>> CleanJob::readAborted(Offset from) {
  std::vector<AbortedTransaction> found;
  for (const CleanPlan::Aborted& index : plan_.aborted) {
    Buffer bytes(index.count * AbortedTransaction::kBytes);
    FileRef file = files_.open(filePath(plan_.directory, index.base, kTransactionIndexSuffix), OpenMode::read);
    if (file->read(0, bytes) < bytes.size()) return failure(Error::corruptMessage, "{} is short", file->path());
    auto decoded = decodeTransactionIndex(bytes, index.base, Offset(INT64_MAX));
    if (!decoded.problem.empty() || decoded.entries.size() != index.count)
      return failure(Error::corruptMessage, "{}: {}", file->path(), decoded.problem);
    for (const AbortedTransaction& entry : decoded.entries) {
      if (entry.overlaps(from, plan_.uncleanable)) found.push_back(entry);
    }
  }
  return found;
}

Result<void> CleanJob::map(uint64_t bytes) {
  if (!mapping_) {
    // Beside one that an earlier clean left over, recovery would take what we commit for a part.
    discardCleaned(files_, plan_.directory);
    auto aborted = reading([&] { return readAborted(plan_.dirty); });
    if (!aborted) return aborted.failure();
    mapping_ = std::make_unique<KeyPass>(keys_, std::move(*aborted), plan_.dirty);
    // The one before the first that begins above.
    while (at_ + 1 < plan_.segments.size() && plan_.segments[at_ + 1].base <= plan_.dirty) ++at_;
  }
  const uint64_t until = done() + bytes;
  bool isFull = false;
  while (at_ < plan_.segments.size() && !isFull) {
    if (done() >= until) return {};
    auto batch = reading([&] {
      if (!source_) source_ = std::make_unique<Source>(files_, plan_.directory, plan_.segments[at_], plan_.ioBytes);
      return source_->next(plan_.dirty);
    });
    if (!batch) return batch.failure();
    if (*batch) {
      figures_.readBytes += (*batch)->sizeBytes();
      auto added = mapping_->add(**batch, workspace_);
      if (!added) return added.failure();
      isFull = !*added;
    } else {
      source_.reset();
      ++at_;
      mapping_->reached(at_ < plan_.segments.size() ? plan_.segments[at_].base : plan_.uncleanable);
    }
  }
  source_.reset();
  std::erase_if(plan_.segments, [&](const SegmentFacts& segment) { return segment.base >= end(); });
  auto aborted = reading([&] { return readAborted(plan_.segments.empty() ? end() : plan_.segments.front().base); });
  if (!aborted) return aborted.failure();
  filtering_ = std::make_unique<FilterPass>(keys_, std::move(*aborted),
                                            FilterRules{.now = plan_.now,
                                                        .deleteRetentionMs = plan_.deleteRetentionMs,
                                                        .mapped = end(),
                                                        .uncleanable = plan_.uncleanable,
                                                        .producers = std::move(plan_.producers)});
  at_ = 0;
  state_ = State::filtering;
  return {};
}

void CleanJob::nextGroup() {
  group_ = {.uncleanable = plan_.uncleanable};
  writers_.clear();
  filtering_->takeAborted();
  if (at_ == plan_.segments.size()) {
    state_ = State::done;
    return;
  }
  state_ = State::filtering;
  const SegmentFacts& first = plan_.segments[at_];
  uint64_t size = 0;
  for (size_t i = at_; i < plan_.segments.size() && group_.replaced.size() < kGroupSegmentsMax; ++i) {
    const SegmentFacts& segment = plan_.segments[i];
    size += segment.size;
    const bool fits = size <= plan_.segmentBytesMax && segment.end - first.base <= INT32_MAX;
    if (i > at_ && !fits) break;
    group_.replaced.push_back(segment);
  }
  groupLeft_ = group_.replaced.size();
  if (groupLeft_ > 1) startWriting();
}

void CleanJob::startWriting() {
  writers_.push_back(std::make_unique<Writer>(files_, plan_, group_.replaced.front().base));
}

void CleanJob::write(Bytes bytes) {
  while (!bytes.empty()) {
    BatchView batch(bytes);
    if (!writers_.back()->fits(batch)) writers_.push_back(std::make_unique<Writer>(files_, plan_, batch.baseOffset()));
    writers_.back()->add(batch);
    figures_.writtenBytes += batch.sizeBytes();
    bytes = bytes.subspan(batch.sizeBytes());
  }
}

void CleanJob::finishGroup() {
  if (writers_.empty()) return nextGroup();
  size_t in = 0;  // each entry belongs to the segment that has its marker
  for (const AbortedTransaction& aborted : filtering_->takeAborted()) {
    while (in + 1 < writers_.size() && writers_[in + 1]->base() <= aborted.last) ++in;
    writers_[in]->addAborted(aborted);
  }
  for (auto& writer : writers_) group_.segments.push_back(writer->finish());
  writers_.clear();
  state_ = State::group;
}

Result<void> CleanJob::filter(uint64_t bytes) {
  const uint64_t until = done() + bytes;
  if (state_ == State::group || group_.replaced.empty()) nextGroup();
  while (state_ == State::filtering && done() < until) {
    if (!source_) {
      if (groupLeft_ == 0) {
        finishGroup();
        continue;
      }
      auto opened = reading([&]() -> Result<void> {
        source_ = std::make_unique<Source>(files_, plan_.directory, plan_.segments[at_], plan_.ioBytes);
        return {};
      });
      if (!opened) return opened.failure();
      ++at_;
      --groupLeft_;
    }
    const uint64_t position = source_->position();
    auto batch = reading([&] { return source_->next(Offset(0)); });
    if (!batch) return batch.failure();
    if (!*batch) {
      source_.reset();
      continue;
    }
    figures_.readBytes += (*batch)->sizeBytes();
    rewritten_.clear();
    auto fate = filtering_->filter(**batch, workspace_, rewritten_);
    if (!fate) {
      return failure(fate.errorCode(), "the batch at offset {}: {}", (*batch)->baseOffset(), fate.failure().message);
    }
    if (writers_.empty()) {
      if (*fate == FilterPass::Fate::kept) continue;
      startWriting();
      // Up to here nothing changed.
      Source again(files_, plan_.directory, group_.replaced.front(), plan_.ioBytes);
      while (again.position() < position) {
        auto before = reading([&] { return again.next(Offset(0)); });
        if (!before) return before.failure();
        if (!*before) break;
        figures_.readBytes += (*before)->sizeBytes();
        write((*before)->whole());
      }
    }
    if (*fate == FilterPass::Fate::kept) write((*batch)->whole());
    if (*fate == FilterPass::Fate::rewritten) write(Bytes(rewritten_));
  }
  return {};
}

// --- files

Offset gapsBelow(FileSystem& files, const std::string& directory) {
  std::string path = directory + "/" + std::string(kCompactedFile);
  if (!files.exists(path)) return Offset(0);
  std::string text = files.readFile(path, 64_KiB);
  auto offset =
      text.ends_with('\n') ? parseNumber(std::string_view(text).substr(0, text.size() - 1), INT64_MAX) : std::nullopt;
  return Offset(offset.value_or(INT64_MAX));
}

void commitGroup(FileSystem& files, const std::string& directory, const CleanedGroup& group) {
  if (gapsBelow(files, directory) < group.uncleanable) {
    files.replaceFile(directory + "/" + std::string(kCompactedFile), fmt::format("{}\n", group.uncleanable));
  }
  auto swap = [&](Offset base, std::string_view suffix) {
    std::string path = filePath(directory, base, suffix);
    files.rename(path + std::string(kCleanedSuffix), path + std::string(kSwapSuffix));
  };
  // A snapshot before a marker that goes would hold its transaction open for ever. The one behind the group tells all
  // that these did; a clean stop may have left it unsynced.
  std::vector<std::string> outdated;
  for (const DirectoryEntry& entry : files.list(directory)) {
    auto name = parseFileName(entry.name);
    if (!name || name->suffix != kSnapshotSuffix) continue;
    if (name->base > group.replaced.back().base) {
      files.open(directory + "/" + entry.name, OpenMode::readWrite)->sync();
      break;
    }
    outdated.push_back(directory + "/" + entry.name);
  }
  for (const std::string& path : outdated) files.remove(path);
  try {
    for (auto segment = group.segments.rbegin(); segment != group.segments.rend(); ++segment) {
      for (std::string_view suffix : kDerivedSuffixes) swap(segment->facts.base, suffix);
      swap(segment->facts.base, kLogSuffix);
    }
  } catch (...) {
    kj::Exception reason = caughtException();
    if (isNoSpace(reason)) {
      for (const CleanedSegment& segment : group.segments)
        removeFiles(files, directory, segment.facts.base, kSwapSuffix);
    }
    kj::throwFatalException(kj::mv(reason));
  }
  files.syncDirectory(directory);
}

void placeGroup(FileSystem& files, const std::string& directory, const CleanedGroup& group) {
  for (const SegmentFacts& segment : group.replaced) markFilesDeleted(files, directory, segment.base);
  for (const CleanedSegment& segment : group.segments) {
    auto place = [&](std::string_view suffix) {
      std::string path = filePath(directory, segment.facts.base, suffix);
      files.rename(path + std::string(kSwapSuffix), path);
    };
    for (std::string_view suffix : kDerivedSuffixes) place(suffix);
    place(kLogSuffix);
  }
}

void discardGroup(FileSystem& files, const std::string& directory, const CleanedGroup& group) {
  for (const CleanedSegment& segment : group.segments) {
    removeFiles(files, directory, segment.facts.base, kCleanedSuffix);
  }
}

void discardCleaned(FileSystem& files, const std::string& directory) {
  if (!files.exists(directory)) return;
  for (const DirectoryEntry& entry : files.list(directory)) {
    if (!entry.isDirectory && entry.name.ends_with(kCleanedSuffix)) files.remove(directory + "/" + entry.name);
  }
}

}  // namespace mq::storage

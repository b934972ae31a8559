#include "controller/raft_log.h"

#include <algorithm>
#include <set>
#include <utility>

#include <kj/debug.h>

#include "base/check.h"

namespace mq::controller {

using namespace log_format;

namespace {

constexpr size_t kZerosBytes = 64 << 10;
constexpr size_t kSnapshotsKept = 2;
constexpr int64_t kUnknownTerm = -1;
constexpr std::string_view kRestore = "restore the directory from a copy; nothing in it was changed";

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__,
                      kj::heapString(fmt::format(format, std::forward<Args>(args)...).c_str()));
}

std::string parentOf(const std::string& path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

bool isZero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
}

Buffer readWhole(const File& file) {
  Buffer bytes(file.size());
  bytes.resize(file.read(0, bytes));
  return bytes;
}

void writeZeros(File& file, uint64_t from, uint64_t to) {
  Buffer zeros(std::min<uint64_t>(kZerosBytes, to - from));
  for (uint64_t at = from; at < to; at += zeros.size())
    file.write(at, Bytes(zeros).first(std::min<uint64_t>(zeros.size(), to - at)));
}

// False when the disk is full; other failures are thrown on.
template <class Body>
bool hasSpaceFor(Body body) {
  try {
    body();
    return true;
  } catch (const kj::Exception& e) {
    if (!isNoSpace(e)) throw;
    return false;
  }
}

}  // namespace

RaftLog::RaftLog(FileSystem& files, Logger& log, RaftLogOptions options)
    : files_(files), log_(log), options_(std::move(options)) {}

std::unique_ptr<RaftLog> RaftLog::load(FileSystem& files, Logger& logger, RaftLogOptions options) {
  std::unique_ptr<RaftLog> log(new RaftLog(files, logger, std::move(options)));
  const std::string& directory = log->options_.directory;
  std::vector<DirectoryEntry> entries;
  if (files.exists(directory)) entries = files.list(directory);
  // The state is written last when a log is made: without it, and without anything that a made log would hold, a crash
  // interrupted the making, and it starts over.
  bool hasState = files.exists(log->pathOf("state"));
  bool hasContent = false;
  for (auto& entry : entries) {
    hasContent = hasContent || parseSnapshotName(entry.name);
    if (auto number = parseSegmentName(entry.name)) {
      Buffer bytes = readWhole(*files.open(log->pathOf(entry.name), OpenMode::read));
      hasContent = hasContent || *number != 1 || findFrame(*number, 0, bytes);
    }
  }
  if (hasState) {
    Buffer bytes = readWhole(*files.open(log->pathOf("state"), OpenMode::read));
    bool readable = decodeState(bytes) ||
                    (bytes.size() > kStateSecondCopyAt && decodeState(Bytes(bytes).subspan(kStateSecondCopyAt)));
    hasState = readable || hasContent;
  } else if (hasContent) {
    refuse("{} is missing, but its metadata log is there: {}", log->pathOf("state"), kRestore);
  }
  if (!hasState && log->options_.mustExist)
    refuse("the metadata log {} is missing or empty, but this data directory holds partitions: {}", directory,
           kRestore);
  if (hasState)
    log->recover(entries);
  else
    log->make();
  return log;
}

void RaftLog::make() {
  isNew_ = true;
  // The name of each directory made here has to last, up to one that was there before.
  std::vector<std::string> parents = {parentOf(options_.directory)};
  while (!files_.exists(parents.back())) parents.push_back(parentOf(parents.back()));
  files_.makeDirectory(options_.directory);
  for (auto& parent : parents) files_.syncDirectory(parent);
  terms_ = {{0, 0}};
  segments_.push_back(createSegment(1));
  files_.syncDirectory(options_.directory);
  state_.node = options_.node;
  state_.directory = options_.newDirectoryId;
  state_.activeSegment = 1;
  stateFile_ = files_.open(pathOf("state"), OpenMode::create);
  writeState();
  files_.syncDirectory(options_.directory);
}

void RaftLog::recover(const std::vector<DirectoryEntry>& entries) {
  recoverState();
  recoverSnapshots(entries);
  std::set<int64_t> numbers;
  for (auto& entry : entries)
    if (auto number = parseSegmentName(entry.name)) numbers.insert(*number);
  int64_t active = state_.activeSegment;
  if (!numbers.contains(active)) refuse("{} is missing: {}", pathOf(segmentName(active)), kRestore);
  // A roll makes the next segment before the state names it.
  for (auto at = numbers.upper_bound(active); at != numbers.end(); at = numbers.erase(at)) {
    std::string path = pathOf(segmentName(*at));
    if (findFrame(*at, 0, readWhole(*files_.open(path, OpenMode::read))))
      refuse("{} has entries, but {} says that {} is the last segment: {}", path, pathOf("state"), segmentName(active),
             kRestore);
    repairs_.push_back([this, path] { files_.remove(path); });
  }
  // Segments below a gap are leftovers of dropping what snapshots cover, or one in between is lost: see below.
  int64_t first = active;
  while (numbers.contains(first - 1)) --first;
  for (int64_t number = first; number <= active; ++number) recoverSegment(number, number == active);

  SnapshotId newest = snapshot();
  int64_t base = firstIndex() - 1;
  if (base > newest.index) {
    first = segments_.front().number;
    std::string missing = first > 1 ? pathOf(segmentName(first - 1)) + " and what is before it" : "the beginning";
    if (newest.index == 0)
      refuse("the metadata log in {} begins at entry {}, without a snapshot: {} is missing: {}", options_.directory,
             base + 1, missing, kRestore);
    refuse("entries {} to {} of the metadata log in {} are missing ({}): {}", newest.index + 1, base,
           options_.directory, missing, kRestore);
  }
  for (auto number : numbers)
    if (number < segments_.front().number) files_.remove(pathOf(segmentName(number)));
  for (auto& entry : entries)
    if (entry.name.ends_with(".tmp")) files_.remove(pathOf(entry.name));
  for (auto& repair : repairs_) repair();
  repairs_.clear();
  for (auto& frame : frames_)
    if (frame.end > newest.index + 1) bytesSinceSnapshot_ += frame.bytes;
  for (auto& segment : segments_) segment.file->sync();
  files_.syncDirectory(options_.directory);
  // install() ended between writing its snapshot and replacing the log.
  if (last_.index < newest.index || (newest.index > 0 && termAt(newest.index).value_or(newest.term) != newest.term)) {
    if (!restartBehind(newest))
      refuse("no space in {} to finish taking over a snapshot: free some", options_.directory);
  }
  setAside(segments_.back(), segments_.back().end + options_.reserveBytes);
}

void RaftLog::recoverState() {
  std::string path = pathOf("state");
  stateFile_ = files_.open(path, OpenMode::readWrite);
  Buffer bytes = readWhole(*stateFile_);
  auto first = decodeState(bytes);
  auto second = decodeState(bytes.size() > kStateSecondCopyAt ? Bytes(bytes).subspan(kStateSecondCopyAt) : Bytes());
  if (!first && !second) refuse("{} is damaged in both copies: {}: {}", path, first.error(), kRestore);
  // The first copy is written first, so it is never the older one.
  state_ = first ? *first : *second;
  if (state_.node != options_.node)
    refuse(
        "the metadata log in {} belongs to node {}, and this is node {}: start with --node-id {}, or give another "
        "--data-dir",
        options_.directory, state_.node, options_.node, state_.node);
  repairs_.push_back([this, path, isWhole = first && second && *first == *second] {
    if (isWhole) return stateFile_->sync();
    log_.warning("metadata-state-repaired", "{}: one of its two copies was torn or damaged; written again", path);
    writeState();
  });
}

void RaftLog::recoverSnapshots(const std::vector<DirectoryEntry>& entries) {
  for (auto& entry : entries)
    if (auto id = parseSnapshotName(entry.name)) snapshots_.push_back(*id);
  std::sort(snapshots_.begin(), snapshots_.end());
  while (!snapshots_.empty()) {
    try {
      loadSnapshot(snapshots_.back());
      return;
    } catch (const kj::Exception& e) {
      std::string path = pathOf(snapshotName(snapshots_.back()));
      repairs_.push_back([this, path, why = std::string(e.getDescription().cStr())] {
        log_.error("metadata-snapshot-damaged",
                   "{}: set aside; the snapshot before it and the log have the same content", why);
        files_.rename(path, path + ".damaged");
      });
      snapshots_.pop_back();
    }
  }
}

void RaftLog::recoverSegment(int64_t number, bool isActive) {
  std::string path = pathOf(segmentName(number));
  FileRef file = files_.open(path, isActive ? OpenMode::readWrite : OpenMode::read);
  Buffer bytes = readWhole(*file);
  auto header = decodeSegmentHeader(bytes);
  if (!header) refuse("{}: {}: {}", path, header.error(), kRestore);
  if (header->number != number) refuse("{}: its header says that it is segment {}: {}", path, header->number, kRestore);

  SnapshotId before{header->nextIndex - 1, header->previousTerm};
  if (segments_.empty()) {
    last_ = before;
    terms_ = {{before.index, before.term}};
  } else if (before != last_) {
    // Only install() leaves out entries, and a snapshot stands for them: that one, or a later one when what was dropped
    // since has come back.
    if (snapshot().index < before.index)
      refuse("{} follows entry {} of term {}, but the segment before it ends at entry {} of term {}: {}", path,
             before.index, before.term, last_.index, last_.term, kRestore);
    segments_.clear();
    frames_.clear();
    last_ = before;
    terms_ = {{before.index, before.term}};
  }

  uint64_t position = kSegmentHeaderBytes, lastFrame = 0;
  while (auto frame = decodeFrame(number, position, Bytes(bytes).subspan(position))) {
    take(*frame, number, position, path);
    lastFrame = position;
    position += frame->bytes();
  }
  Bytes rest = Bytes(bytes).subspan(position);
  if (!isZero(rest)) {
    if (auto next = findFrame(number, position, rest))
      refuse("{} is damaged at byte {}: a whole frame follows at byte {}, so this is no torn end: {}", path, position,
             position + *next, kRestore);
    if (!isActive) refuse("{} is damaged at byte {}, and a later segment follows: {}", path, position, kRestore);
    uint64_t torn = rest.size();
    while (rest[torn - 1] == 0) --torn;
    repairs_.push_back([this, file, path, position, torn] {
      log_.warning("metadata-tail-cut", "{}: {} bytes of a frame that was never acknowledged cut at byte {}", path,
                   torn, position);
      writeZeros(*file, position, position + torn);
    });
  }
  // The last frame may be only in the page cache, and after a failed sync not even dirty: make it dirty, then sync.
  if (isActive && lastFrame != 0) {
    Buffer frame(bytes.begin() + static_cast<std::ptrdiff_t>(lastFrame),
                 bytes.begin() + static_cast<std::ptrdiff_t>(position));
    repairs_.push_back([file, lastFrame, frame = std::move(frame)] { file->write(lastFrame, Bytes(frame)); });
  }
  segments_.push_back({number, std::move(file), position});
}

void RaftLog::take(const Frame& frame, int64_t segment, uint64_t position, const std::string& path) {
  if (frame.count == 0) return;
  if (frame.first > last_.index + 1)
    refuse("{}: the frame at byte {} begins with entry {}, but entry {} is next: {}", path, position, frame.first,
           last_.index + 1, kRestore);
  // A suffix is replaced that began in segments dropped since: their snapshot stands for what is before.
  if (frame.first <= terms_.front().index) {
    frames_.clear();
    terms_ = {{frame.first - 1, kUnknownTerm}};
  }
  while (!frames_.empty() && frames_.back().first >= frame.first) frames_.pop_back();
  if (!frames_.empty()) frames_.back().end = std::min(frames_.back().end, frame.first);
  while (terms_.size() > 1 && terms_.back().index >= frame.first) terms_.pop_back();
  for (auto& entry : entriesOf(frame)) {
    if (entry.term < terms_.back().term)
      refuse("{}: entry {} in the frame at byte {} goes back from term {} to {}: {}", path, entry.index, position,
             terms_.back().term, entry.term, kRestore);
    if (entry.term > terms_.back().term) terms_.push_back({entry.index, entry.term});
    last_ = {entry.index, entry.term};
  }
  frames_.push_back({frame.first, frame.first + frame.count, segment, position, static_cast<uint32_t>(frame.bytes())});
}

int64_t RaftLog::firstIndex() const { return frames_.empty() ? last_.index + 1 : frames_.front().first; }

std::optional<int64_t> RaftLog::termAt(int64_t index) const {
  if (index > last_.index || index < terms_.front().index) return std::nullopt;
  auto after =
      std::upper_bound(terms_.begin(), terms_.end(), index, [](int64_t i, const TermStart& t) { return i < t.index; });
  int64_t term = std::prev(after)->term;
  return term == kUnknownTerm ? std::nullopt : std::optional(term);
}

const RaftLog::Segment& RaftLog::segmentOf(int64_t number) const {
  int64_t at = number - segments_.front().number;
  MQ_CHECK(at >= 0 && at < static_cast<int64_t>(segments_.size()), number);
  return segments_[static_cast<size_t>(at)];
}

std::vector<LogEntry> RaftLog::read(int64_t from, int64_t end, size_t bytesMax) const {
  MQ_CHECK(from >= firstIndex() && from < end, from, firstIndex(), end);
  MQ_CHECK(end <= last_.index + 1, end, last_.index);
  auto ref =
      std::upper_bound(frames_.begin(), frames_.end(), from, [](int64_t i, const FrameRef& f) { return i < f.end; });
  std::vector<LogEntry> entries;
  size_t taken = 0;
  for (; ref != frames_.end() && ref->first < end; ++ref) {
    const Segment& segment = segmentOf(ref->segment);
    Buffer bytes(ref->bytes);
    bytes.resize(segment.file->read(ref->position, bytes));
    auto frame = decodeFrame(ref->segment, ref->position, bytes);
    if (!frame)
      refuse("{}: the frame at byte {} was whole when the log was opened and is damaged now", segment.file->path(),
             ref->position);
    for (auto& entry : entriesOf(*frame)) {
      if (entry.index < from || entry.index >= std::min(end, ref->end)) continue;
      if (!entries.empty() && taken + entry.data.size() > bytesMax) return entries;
      taken += entry.data.size();
      entries.push_back({entry.index, entry.term, entry.type, Buffer(entry.data.begin(), entry.data.end())});
    }
  }
  return entries;
}

template <class Body>
auto RaftLog::guarded(Body body) {
  MQ_CHECK(!closed_);
  if (broken_) refuse("the metadata log in {} failed earlier: restart mq", options_.directory);
  try {
    return body();
  } catch (...) {
    broken_ = true;
    throw;
  }
}

Space RaftLog::append(std::span<const LogEntry> entries) {
  return guarded([&] {
    if (!entries.empty()) {
      MQ_CHECK(entries.front().index <= last_.index + 1, entries.front().index, last_.index);
      MQ_CHECK(entries.front().index > snapshot().index, entries.front().index, snapshot().index);
    }
    if (segments_.back().end >= options_.segmentBytes) roll();
    Segment& active = segments_.back();
    size_t bytes = entries.empty() ? 0 : frameBytes(entries);
    bool plenty = setAside(active, active.end + bytes + options_.reserveBytes);
    if (entries.empty()) return plenty ? Space::plenty : Space::low;
    if (!plenty && active.file->size() < active.end + bytes) return Space::none;
    Buffer frame = encodeFrame(active.number, active.end, entries.front().index, entries);
    active.file->write(active.end, Bytes(frame));
    active.file->sync();
    take(*decodeFrame(active.number, active.end, frame), active.number, active.end, active.file->path());
    active.end += frame.size();
    bytesSinceSnapshot_ += frame.size();
    return plenty ? Space::plenty : Space::low;
  });
}

// Makes sure that the file has zeros up to `size`, and some more so that this is rare. False: no space; the file is as
// it was.
bool RaftLog::setAside(Segment& segment, uint64_t size) {
  uint64_t present = segment.file->size();
  if (present >= size) return true;
  if (hasSpaceFor([&] { writeZeros(*segment.file, present, size + options_.reserveBytes); })) return true;
  segment.file->truncate(present);
  return false;
}

RaftLog::Segment RaftLog::createSegment(int64_t number) {
  std::string path = pathOf(segmentName(number));
  Segment segment{number, files_.open(path, OpenMode::create), kSegmentHeaderBytes};
  Buffer header = encodeSegmentHeader({number, last_.index + 1, last_.term});
  if (!hasSpaceFor([&] {
        segment.file->truncate(0);
        segment.file->write(0, Bytes(header));
        writeZeros(*segment.file, header.size(), header.size() + 2 * options_.reserveBytes);
        segment.file->sync();
      })) {
    segment.file = nullptr;
    files_.remove(path);
    throw kj::Exception(kj::Exception::Type::OVERLOADED, __FILE__, __LINE__, kj::str("no space for ", path.c_str()));
  }
  return segment;
}

// The next segment becomes active. False: no space, so the present one has to go on.
bool RaftLog::roll() {
  std::optional<Segment> next;
  if (!hasSpaceFor([&] { next = createSegment(segments_.back().number + 1); })) return false;
  files_.syncDirectory(options_.directory);
  state_.activeSegment = next->number;
  writeState();
  segments_.back().file->truncate(segments_.back().end);  // gives the unused zeros back
  segments_.push_back(std::move(*next));
  return true;
}

void RaftLog::saveHardState(const HardState& hard) {
  guarded([&] {
    MQ_CHECK(hard.term >= state_.hard.term, hard.term, state_.hard.term);
    state_.hard = hard;
    writeState();
  });
}

// One copy after the other, so that at each moment one of them is whole: the old one or the new one.
void RaftLog::writeState() {
  ++state_.sequence;
  Buffer copy = encodeState(state_);
  for (uint64_t at : {uint64_t{0}, kStateSecondCopyAt}) {
    stateFile_->write(at, Bytes(copy));
    stateFile_->sync();
  }
}

bool RaftLog::writeSnapshotFile(SnapshotId id, Bytes data) {
  std::string path = pathOf(snapshotName(id)), temporary = path + ".tmp";
  bool written = hasSpaceFor([&] {
    FileRef file = files_.open(temporary, OpenMode::create);
    file->truncate(0);
    Buffer header = encodeSnapshotHeader({id, data.size()});
    file->write(0, Bytes(header));
    uint64_t position = header.size();
    for (int64_t number = 0; !data.empty(); ++number) {
      Bytes piece = data.first(std::min(kSnapshotChunkBytes, data.size()));
      Buffer chunk = encodeSnapshotChunk(number, piece);
      file->write(position, Bytes(chunk));
      position += chunk.size();
      data = data.subspan(piece.size());
    }
    file->sync();
  });
  if (!written) {
    if (files_.exists(temporary)) files_.remove(temporary);
    return false;
  }
  files_.rename(temporary, path);
  files_.syncDirectory(options_.directory);
  return true;
}

Snapshot RaftLog::loadSnapshot(SnapshotId id) const {
  std::string path = pathOf(snapshotName(id));
  FileRef file = files_.open(path, OpenMode::read);
  Buffer bytes = readWhole(*file);
  auto header = decodeSnapshotHeader(bytes);
  if (!header) refuse("{}: {}", path, header.error());
  if (header->id != id)
    refuse("{}: its header says that it holds entry {} of term {}", path, header->id.index, header->id.term);
  if (header->dataBytes > bytes.size() || snapshotFileBytes(header->dataBytes) != bytes.size())
    refuse("{} has {} bytes instead of {}", path, bytes.size(), snapshotFileBytes(header->dataBytes));
  Snapshot snapshot{id, {}};
  snapshot.data.reserve(header->dataBytes);
  Bytes rest = Bytes(bytes).subspan(kSnapshotHeaderBytes);
  for (int64_t number = 0; !rest.empty(); ++number) {
    Bytes chunk = rest.first(std::min(rest.size(), kSnapshotChunkBytes + 4));
    auto data = decodeSnapshotChunk(number, chunk);
    if (!data) refuse("{}: {}", path, data.error());
    snapshot.data.insert(snapshot.data.end(), data->begin(), data->end());
    rest = rest.subspan(chunk.size());
  }
  return snapshot;
}

std::optional<Snapshot> RaftLog::readSnapshot() const {
  if (snapshots_.empty()) return std::nullopt;
  return loadSnapshot(snapshots_.back());
}

bool RaftLog::saveSnapshot(SnapshotId id, Bytes data) {
  return guarded([&] {
    MQ_CHECK(id.index > snapshot().index, id.index, snapshot().index);
    MQ_CHECK(termAt(id.index) == id.term, id.index, id.term);
    if (!writeSnapshotFile(id, data)) return false;
    snapshots_.push_back(id);
    bytesSinceSnapshot_ = 0;
    for (auto frame = frames_.rbegin(); frame != frames_.rend() && frame->end > id.index + 1; ++frame)
      bytesSinceSnapshot_ += frame->bytes;
    dropOld();
    return true;
  });
}

// What the older of the two newest snapshots covers.
void RaftLog::dropOld() {
  while (snapshots_.size() > kSnapshotsKept) {
    files_.remove(pathOf(snapshotName(snapshots_.front())));
    snapshots_.erase(snapshots_.begin());
  }
  if (snapshots_.size() < kSnapshotsKept) return;
  int64_t covered = snapshots_.front().index;
  while (segments_.size() > 1) {
    int64_t number = segments_.front().number, lastIndex = 0;
    size_t count = 0;
    for (; count < frames_.size() && frames_[count].segment == number; ++count) lastIndex = frames_[count].end - 1;
    if (lastIndex > covered) break;
    if (count > 0) {
      auto term = termAt(lastIndex);
      frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(count));
      while (terms_.size() > 1 && terms_[1].index <= lastIndex) terms_.erase(terms_.begin());
      terms_.front() = {lastIndex, term.value_or(kUnknownTerm)};
    }
    segments_.front().file = nullptr;
    files_.remove(pathOf(segmentName(number)));
    segments_.pop_front();
  }
}

bool RaftLog::install(SnapshotId id, Bytes data) {
  return guarded([&] {
    MQ_CHECK(id.index > snapshot().index, id.index, snapshot().index);
    if (!writeSnapshotFile(id, data)) return false;
    if (restartBehind(id)) return true;
    files_.remove(pathOf(snapshotName(id)));
    files_.syncDirectory(options_.directory);  // or the next start would finish what we say was not done
    return false;
  });
}

// The log is empty and goes on behind the snapshot, which is on the disk. False: no space, nothing changed.
bool RaftLog::restartBehind(SnapshotId start) {
  SnapshotId before = std::exchange(last_, start);
  std::optional<Segment> next;
  if (!hasSpaceFor([&] { next = createSegment(segments_.back().number + 1); })) {
    last_ = before;
    return false;
  }
  files_.syncDirectory(options_.directory);
  state_.activeSegment = next->number;
  writeState();
  for (auto& segment : segments_) {
    segment.file = nullptr;
    files_.remove(pathOf(segmentName(segment.number)));
  }
  segments_.clear();
  segments_.push_back(std::move(*next));
  frames_.clear();
  terms_ = {{start.index, start.term}};
  bytesSinceSnapshot_ = 0;
  for (auto id : snapshots_)
    if (id != start) files_.remove(pathOf(snapshotName(id)));
  snapshots_ = {start};
  return true;
}

void RaftLog::close() {
  guarded([&] {
    Segment& active = segments_.back();
    Buffer mark = encodeFrame(active.number, active.end, last_.index + 1, {});
    if (setAside(active, active.end + mark.size())) {
      active.file->write(active.end, Bytes(mark));
      active.file->sync();
    }
    closed_ = true;
  });
}

}  // namespace mq::controller

#include "controller/raft_log.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <map>

#include <kj/debug.h>

#include "base/crc32c.h"
#include "sim_disk.h"

using namespace mq;
using namespace mq::controller;
using namespace mq::controller::log_format;
using mq::sim::DiskOperation;
using mq::sim::SimDisk;

namespace {

constexpr const char* kDirectory = "/data/metadata";

class Lines : public Logger {
 public:
  bool enabled(LogLevel) const override { return true; }
  void write(LogLevel, std::string_view event, std::string_view line) override {
    text += fmt::format("{}: {}\n", event, line);
  }
  std::string text;
};

Buffer bytesOf(std::string_view text) { return {text.begin(), text.end()}; }

LogEntry entry(int64_t index, int64_t term, std::string_view data) {
  return {index, term, EntryType::records, bytesOf(data)};
}

std::string whyNot(const std::function<void()>& body) {
  try {
    body();
  } catch (const kj::Exception& e) {
    return e.getDescription().cStr();
  }
  return "";
}

// A disk and, in turn, the processes that open the log on it.
struct Rig {
  explicit Rig(uint64_t seed = 1) : disk(Prng(seed)) {
    boot();
    files->makeDirectory("/data");
    files->syncDirectory("/");
  }

  void boot() {
    log = nullptr;
    frozen = std::make_shared<bool>(false);
    files = disk.mount(frozen, ++process);
  }
  void powerCut() {
    *frozen = true;
    log = nullptr;
    disk.setFault(nullptr);
    disk.loseUnsynced();
    boot();
  }
  void kill() {
    *frozen = true;
    boot();
  }
  RaftLog& open(bool mustExist = false, int32_t node = 1) {
    log = nullptr;
    log = RaftLog::load(*files, lines,
                        {.directory = kDirectory,
                         .node = NodeId(node),
                         .newDirectoryId = Uuid::fromHalves(7, process),
                         .mustExist = mustExist,
                         .segmentBytes = 1500,
                         .reserveBytes = 600});
    return *log;
  }
  std::string whyRefused() {
    return whyNot([&] { open(); });
  }
  void append(std::vector<LogEntry> entries) { CHECK(log->append(entries) == Space::plenty); }

  std::string path(std::string_view name) const { return fmt::format("{}/{}", kDirectory, name); }
  std::string content(std::string_view name) { return files->readFile(path(name), 1 << 20); }
  void put(std::string_view name, std::string_view bytes) {
    auto file = files->open(path(name), OpenMode::create);
    file->truncate(0);
    file->write(0, asBytes(bytes));
    file->sync();
    files->syncDirectory(kDirectory);
  }
  std::vector<std::string> names() {
    std::vector<std::string> names;
    for (auto& e : files->list(kDirectory)) names.push_back(e.name);
    return names;
  }

  SimDisk disk;
  Lines lines;
  std::shared_ptr<bool> frozen;
  std::unique_ptr<FileSystem> files;
  std::unique_ptr<RaftLog> log;
  int64_t process = 0;
};

// What a log holds, as far as its user can tell: hard state, snapshot, and the entries behind it.
std::string contentOf(const RaftLog& log) {
  CHECK(log.firstIndex() <= log.snapshot().index + 1);
  CHECK(log.lastIndex() >= log.snapshot().index);
  std::string text = fmt::format("term {} vote {}\n", log.hardState().term, log.hardState().vote);
  if (auto snapshot = log.readSnapshot())
    text += fmt::format("snapshot {}-{} {:08x}\n", snapshot->id.index, snapshot->id.term, crc32c(snapshot->data));
  int64_t end = log.lastIndex() + 1;
  for (int64_t next = log.snapshot().index + 1; next < end;) {
    for (auto& e : log.read(next, end, 700)) {
      CHECK(e.index == next++);
      CHECK(log.termAt(e.index) == e.term);
      text += fmt::format("{} {} {:08x}\n", e.index, e.term, crc32c(e.data));
    }
  }
  return text;
}

}  // namespace

TEST_CASE("A frame is byte for byte as the example in the format says, and whole only at its place") {
  std::vector<LogEntry> entries = {{7, 2, EntryType::records, bytesOf("hi")}, {8, 2, EntryType::noop, {}}};
  Buffer frame = encodeFrame(1, 40, 7, entries);
  std::string hex;
  for (uint8_t b : frame) hex += fmt::format("{:02x}", b);
  CHECK(hex ==
        "4d514652"
        "d2bda591"
        "0000001c"
        "00000002"
        "0000000000000007"
        "0000000000000002"
        "01"
        "00000002"
        "6869"
        "0000000000000002"
        "00"
        "00000000");
  CHECK(decodeFrame(1, 40, frame));
  CHECK_FALSE(decodeFrame(1, 41, frame));
  CHECK_FALSE(decodeFrame(2, 40, frame));
  for (size_t size = 0; size < frame.size(); ++size) CHECK_FALSE(decodeFrame(1, 40, Bytes(frame).first(size)));
}

TEST_CASE("Names of segments and snapshots parse back, and nothing else does") {
  CHECK(segmentName(7) == "0000000007.log");
  CHECK(parseSegmentName("0000000007.log") == 7);
  CHECK_FALSE(parseSegmentName("7.log"));
  CHECK_FALSE(parseSegmentName("0000000007.log.tmp"));
  CHECK(snapshotName({42, 7}) == "00000000000000000042-7.snapshot");
  CHECK(parseSnapshotName("00000000000000000042-7.snapshot") == SnapshotId{42, 7});
  CHECK_FALSE(parseSnapshotName("00000000000000000042.snapshot"));
  CHECK_FALSE(parseSnapshotName("00000000000000000042-7.snapshot.tmp"));
}

TEST_CASE("What was appended and saved is there after a power cut, in order and unchanged") {
  Rig rig;
  rig.open();
  CHECK(rig.log->isNew());
  CHECK(rig.log->lastIndex() == 0);
  CHECK(rig.log->firstIndex() == 1);
  Uuid directory = rig.log->directoryId();
  rig.log->saveHardState({3, NodeId(1)});
  rig.append({entry(1, 3, "a"), entry(2, 3, "")});
  rig.append({entry(3, 3, std::string(2000, 'x'))});
  rig.append({entry(4, 4, "d")});
  std::string before = contentOf(*rig.log);
  rig.powerCut();
  rig.open(true);
  CHECK_FALSE(rig.log->isNew());
  CHECK(rig.log->directoryId() == directory);
  CHECK(contentOf(*rig.log) == before);
  CHECK(rig.log->termAt(0) == 0);
  CHECK(rig.log->termAt(3) == 3);
  CHECK_FALSE(rig.log->termAt(5));
}

TEST_CASE("A lower index replaces the suffix, across frames and segments, and stays replaced") {
  Rig rig;
  rig.open();
  for (int64_t i = 1; i <= 8; ++i) rig.append({entry(i, 1, std::string(500, 'a'))});
  rig.append({entry(3, 2, "new"), entry(4, 2, "newer")});
  CHECK(rig.log->lastIndex() == 4);
  CHECK(rig.log->read(2, 5, 1 << 20).size() == 3);
  CHECK(asText(rig.log->read(3, 4, 1)[0].data) == "new");
  std::string before = contentOf(*rig.log);
  rig.powerCut();
  rig.open();
  CHECK(contentOf(*rig.log) == before);
  rig.append({entry(5, 2, "e")});
}

TEST_CASE("A read is bounded in bytes, but gives at least one entry") {
  Rig rig;
  rig.open();
  rig.append(
      {entry(1, 1, std::string(100, 'a')), entry(2, 1, std::string(100, 'b')), entry(3, 1, std::string(100, 'c'))});
  CHECK(rig.log->read(1, 4, 0).size() == 1);
  CHECK(rig.log->read(1, 4, 200).size() == 2);
  CHECK(rig.log->read(2, 4, 1000).size() == 2);
  CHECK(rig.log->read(2, 3, 1000).size() == 1);
}

TEST_CASE("A last frame torn at any byte is cut, and the log goes on behind the one before") {
  Rig original;
  original.open();
  original.append({entry(1, 1, "one"), entry(2, 1, "two")});
  original.append({entry(3, 1, "three")});
  std::string kept = contentOf(*original.log);
  size_t from = kSegmentHeaderBytes + 2 * kFrameHeaderBytes + 3 * kEntryHeaderBytes + 11;
  original.append({entry(4, 1, "the last one")});
  std::string all = contentOf(*original.log);
  size_t to = from + kFrameHeaderBytes + kEntryHeaderBytes + 12;
  std::string state = original.content("state"), segment = original.content("0000000001.log");
  for (size_t cut = from; cut <= to; ++cut) {
    for (bool zeros : {false, true}) {  // the rest of the frame was never written, or the file ends there
      CAPTURE(cut);
      Rig rig;
      rig.files->makeDirectory(kDirectory);
      rig.files->syncDirectory("/data");
      rig.put("state", state);
      std::string torn = segment.substr(0, cut);
      if (zeros) torn.resize(segment.size(), '\0');
      rig.put("0000000001.log", torn);
      rig.open();
      CHECK(contentOf(*rig.log) == (cut == to ? all : kept));
      CHECK(rig.lines.text.empty() == (cut == to || cut == from));
      rig.append({entry(rig.log->lastIndex() + 1, 2, "behind")});
      std::string after = contentOf(*rig.log);
      rig.powerCut();
      rig.lines.text.clear();
      rig.open();
      CHECK(contentOf(*rig.log) == after);
      CHECK(rig.lines.text.empty());
    }
  }
}

TEST_CASE("Any flipped bit before the last frame refuses to start, names file and byte, and changes nothing") {
  Rig rig;
  rig.open();
  rig.append({entry(1, 1, "one"), entry(2, 1, "two")});
  size_t lastFrame = kSegmentHeaderBytes + kFrameHeaderBytes + 2 * kEntryHeaderBytes + 6;
  rig.append({entry(3, 1, "three")});
  rig.kill();
  for (size_t at = 0; at < lastFrame; ++at) {
    for (unsigned bit : {0u, 3u, 7u}) {
      CAPTURE(at);
      // Bytes 10 to 15 of the header are reserved, but under its checksum like the rest.
      REQUIRE(rig.disk.flipBit(rig.path("0000000001.log"), at, bit));
      std::string before = rig.content("0000000001.log");
      std::string why = rig.whyRefused();
      CHECK(why.find("/data/metadata/0000000001.log") == 0);
      if (at >= kSegmentHeaderBytes)
        CHECK(why.find(fmt::format("is damaged at byte {}: a whole frame follows at byte {}", kSegmentHeaderBytes,
                                   lastFrame)) != why.npos);
      CHECK(rig.content("0000000001.log") == before);
      REQUIRE(rig.disk.flipBit(rig.path("0000000001.log"), at, bit));
    }
  }
  rig.open();
  CHECK(rig.log->lastIndex() == 3);
}

TEST_CASE("After a clean close a flipped bit in the last frame is told from a torn one") {
  Rig rig;
  rig.open();
  rig.append({entry(1, 1, "one")});
  rig.log->close();
  rig.boot();
  REQUIRE(rig.disk.flipBit(rig.path("0000000001.log"), kSegmentHeaderBytes + 30, 1));
  CHECK(rig.whyRefused().find("a whole frame follows") != std::string::npos);
  REQUIRE(rig.disk.flipBit(rig.path("0000000001.log"), kSegmentHeaderBytes + 30, 1));
  rig.open();
  rig.append({entry(2, 1, "two")});
  CHECK(rig.log->lastIndex() == 2);
}

TEST_CASE("Damage in a sealed segment refuses to start") {
  Rig rig;
  rig.open();
  for (int64_t i = 1; i <= 6; ++i) rig.append({entry(i, 1, std::string(600, 'a'))});
  REQUIRE(rig.files->exists(rig.path("0000000002.log")));
  rig.kill();
  std::string sealed = rig.content("0000000001.log");
  SUBCASE("a bit in its last frame") {
    REQUIRE(rig.disk.flipBit(rig.path("0000000001.log"), sealed.size() - 1, 0));
    CHECK(rig.whyRefused().find("0000000001.log is damaged at byte") != std::string::npos);
  }
  SUBCASE("cut short at a frame") {
    rig.put("0000000001.log", sealed.substr(0, kSegmentHeaderBytes));
    CHECK(rig.whyRefused().find(
              "0000000002.log follows entry 3 of term 1, but the segment before it ends at entry 0 of term 0") !=
          std::string::npos);
  }
  SUBCASE("gone") {
    rig.files->remove(rig.path("0000000001.log"));
    CHECK(rig.whyRefused().find("begins at entry 4, without a snapshot: /data/metadata/0000000001.log") !=
          std::string::npos);
  }
  SUBCASE("swapped with another") {
    rig.put("0000000001.log", rig.content("0000000002.log"));
    CHECK(rig.whyRefused().find("0000000001.log: its header says that it is segment 2") != std::string::npos);
  }
}

TEST_CASE("A missing last segment or state refuses to start, and so does another node's log") {
  Rig rig;
  rig.open();
  for (int64_t i = 1; i <= 6; ++i) rig.append({entry(i, 1, std::string(600, 'a'))});
  rig.kill();
  std::string active;
  for (auto& name : rig.names())
    if (parseSegmentName(name)) active = name;
  SUBCASE("segment") {
    rig.files->remove(rig.path(active));
    CHECK(rig.whyRefused().find(active + " is missing") != std::string::npos);
  }
  SUBCASE("state") {
    rig.files->remove(rig.path("state"));
    CHECK(rig.whyRefused().find("/data/metadata/state is missing, but its metadata log is there") == 0);
  }
  SUBCASE("everything, where a log must be") {
    for (auto& name : rig.names()) rig.files->remove(rig.path(name));
    CHECK(whyNot([&] { rig.open(true); }).find("holds partitions") != std::string::npos);
  }
  SUBCASE("node") {
    CHECK(whyNot([&] { rig.open(false, 2); }) ==
          "the metadata log in /data/metadata belongs to node 1, and this is node 2: start with --node-id 1, or give "
          "another --data-dir");
  }
}

TEST_CASE("One damaged copy of the state is repaired, two are refused") {
  Rig rig;
  rig.open();
  rig.log->saveHardState({9, NodeId(1)});
  rig.append({entry(1, 9, "one")});
  rig.kill();
  for (uint64_t copy : {uint64_t{0}, kStateSecondCopyAt}) {
    for (size_t at = 0; at < kStateCopyBytes; ++at) {
      CAPTURE(at);
      REQUIRE(rig.disk.flipBit(rig.path("state"), copy + at, 2));
      rig.open();
      CHECK(rig.log->hardState() == HardState{9, NodeId(1)});
      rig.kill();
      CHECK(rig.content("state").substr(0, kStateCopyBytes) == rig.content("state").substr(kStateSecondCopyAt));
    }
  }
  rig.disk.flipBit(rig.path("state"), 20, 0);
  rig.disk.flipBit(rig.path("state"), kStateSecondCopyAt + 20, 1);
  CHECK(rig.whyRefused().find("/data/metadata/state is damaged in both copies") == 0);
}

TEST_CASE("A format of a newer mq is refused and left alone") {
  Rig rig;
  rig.open();
  rig.append({entry(1, 1, "one")});
  rig.kill();
  std::string segment = rig.content("0000000001.log");
  segment[9] = 2;
  std::string header = segment.substr(0, kSegmentHeaderBytes);
  storeBigEndian(reinterpret_cast<uint8_t*>(segment.data()) + 4, crc32c(asBytes(header).subspan(8)));
  rig.put("0000000001.log", segment);
  CHECK(rig.whyRefused().find("it has format 2, and this mq knows format 1 only: start a newer mq") !=
        std::string::npos);
  CHECK(rig.content("0000000001.log") == segment);
}

TEST_CASE("Snapshots drop the log behind the older of the last two, and a damaged newest one does not matter") {
  Rig rig;
  rig.open();
  std::map<int64_t, std::string> states;
  for (int64_t i = 1; i <= 40; ++i) {
    rig.append({entry(i, 1, std::string(300, 'a'))});
    if (i % 10 == 0) {
      states[i] = std::string(static_cast<size_t>(70000 * (i / 10)), static_cast<char>('a' + i / 10));
      CHECK(rig.log->saveSnapshot({i, 1}, asBytes(states[i])));
      CHECK(rig.log->bytesSinceSnapshot() == 0);
    }
  }
  CHECK(rig.log->snapshot() == SnapshotId{40, 1});
  CHECK(rig.log->firstIndex() > 20);
  CHECK(rig.log->firstIndex() <= 31);
  rig.append({entry(41, 1, "behind")});
  std::string before = contentOf(*rig.log);
  rig.powerCut();
  rig.open();
  CHECK(contentOf(*rig.log) == before);
  rig.kill();

  auto newest = snapshotName({40, 1}), older = snapshotName({30, 1});
  SUBCASE("a bit flipped in the newest") {
    rig.disk.flipBit(rig.path(newest), 100000, 4);
    rig.open();
    CHECK(rig.log->snapshot() == SnapshotId{30, 1});
    CHECK(asText(rig.log->readSnapshot()->data) == states[30]);
    CHECK(rig.log->lastIndex() == 41);
    CHECK(rig.lines.text.find("metadata-snapshot-damaged: " + rig.path(newest) +
                              ": the checksum of its chunk 1 is wrong") != std::string::npos);
    CHECK(rig.files->exists(rig.path(newest + ".damaged")));
    CHECK(rig.log->saveSnapshot({41, 1}, asBytes("x")));
  }
  SUBCASE("the newest gone") {
    rig.files->remove(rig.path(newest));
    rig.open();
    CHECK(rig.log->snapshot() == SnapshotId{30, 1});
    CHECK(rig.log->lastIndex() == 41);
  }
  SUBCASE("the older one gone") {
    rig.files->remove(rig.path(older));
    rig.open();
    CHECK(contentOf(*rig.log) == before);
  }
  SUBCASE("both gone") {
    rig.files->remove(rig.path(newest));
    rig.files->remove(rig.path(older));
    CHECK(rig.whyRefused().find("without a snapshot") != std::string::npos);
  }
  SUBCASE("any byte of the newest changed") {
    std::string whole = rig.content(newest);
    for (size_t at = 0; at < whole.size(); at += at < kSnapshotHeaderBytes ? 1 : 4999) {
      CAPTURE(at);
      rig.disk.flipBit(rig.path(newest), at, 0);
      rig.open();
      CHECK(rig.log->snapshot() == SnapshotId{30, 1});
      rig.kill();
      rig.files->remove(rig.path(newest + ".damaged"));
      rig.put(newest, whole);
    }
  }
}

TEST_CASE("An installed snapshot replaces the log, and the log goes on behind it") {
  Rig rig;
  rig.open();
  for (int64_t i = 1; i <= 5; ++i) rig.append({entry(i, 1, std::string(500, 'a'))});
  CHECK(rig.log->install({100, 4}, asBytes("state")));
  CHECK(rig.log->lastIndex() == 100);
  CHECK(rig.log->lastTerm() == 4);
  CHECK(rig.log->firstIndex() == 101);
  CHECK(rig.log->termAt(100) == 4);
  rig.append({entry(101, 4, "next")});
  std::string before = contentOf(*rig.log);
  rig.powerCut();
  rig.open();
  CHECK(contentOf(*rig.log) == before);
}

TEST_CASE("A full disk is noticed before anything is written; what is set aside still takes frames") {
  Rig rig;
  rig.open();
  rig.append({entry(1, 1, "one")});
  rig.disk.setCapacity(rig.disk.used());
  int64_t next = 2;
  Space space = Space::plenty;
  while (space != Space::none) {
    std::vector<LogEntry> entries = {entry(next, 1, std::string(100, 'b'))};
    space = rig.log->append(entries);
    if (space != Space::none) ++next;
  }
  CHECK(next > 5);
  CHECK(rig.log->lastIndex() == next - 1);
  CHECK_FALSE(rig.log->saveSnapshot({next - 1, 1}, asBytes(std::string(5000, 's'))));
  CHECK_FALSE(rig.log->install({500, 2}, asBytes(std::string(5000, 's'))));
  rig.log->saveHardState({5, NodeId(1)});
  std::string before = contentOf(*rig.log);
  rig.powerCut();
  rig.open();
  CHECK(contentOf(*rig.log) == before);
  rig.disk.setCapacity(1 << 20);
  rig.append({entry(next, 1, std::string(100, 'b'))});
}

TEST_CASE("A failed write or sync is final for the process; the next one finds all that was acknowledged") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    DiskOperation failing = seed % 2 ? DiskOperation::write : DiskOperation::sync;
    Rig rig(seed);
    rig.open();
    rig.append({entry(1, 1, "one")});
    std::string before = contentOf(*rig.log);
    rig.disk.setFault([&](DiskOperation operation, const std::string&) { return operation == failing ? EIO : 0; });
    std::vector<LogEntry> entries = {entry(2, 1, "two")};
    CHECK(whyNot([&] { rig.log->append(entries); }).find("0000000001.log") != std::string::npos);
    rig.disk.setFault(nullptr);
    CHECK(whyNot([&] { rig.log->append(entries); }) == "the metadata log in /data/metadata failed earlier: restart mq");
    CHECK(whyNot([&] { rig.log->saveHardState({8, NodeId(1)}); }).find("failed earlier") != std::string::npos);
    rig.kill();
    rig.open();
    CHECK(contentOf(*rig.log).substr(0, before.size()) == before);
    // What the new process has taken in survives a power cut, although its first sync failed.
    std::string taken = contentOf(*rig.log);
    rig.powerCut();
    rig.open();
    CHECK(contentOf(*rig.log) == taken);
  }
}

namespace {

// A random user of a log and what it may expect to find after a crash: the state before the operation under way, or
// the one after it.
class Model {
 public:
  explicit Model(Prng random) : random_(random) {}

  struct State {
    HardState hard;
    SnapshotId snapshot;
    uint32_t snapshotCrc = 0;
    std::map<int64_t, std::pair<int64_t, uint32_t>> entries;  // index: term, CRC of data
    int64_t lastIndex() const { return entries.empty() ? snapshot.index : entries.rbegin()->first; }
    int64_t termOf(int64_t index) const { return index == snapshot.index ? snapshot.term : entries.at(index).first; }
    std::string print() const {
      std::string text = fmt::format("term {} vote {}\n", hard.term, hard.vote);
      if (snapshot.index > 0)
        text += fmt::format("snapshot {}-{} {:08x}\n", snapshot.index, snapshot.term, snapshotCrc);
      for (auto& [index, e] : entries)
        if (index > snapshot.index) text += fmt::format("{} {} {:08x}\n", index, e.first, e.second);
      return text;
    }
  };

  // One operation. `after` holds its outcome before it is begun, and becomes `before` once it has returned.
  void step(RaftLog& log) {
    after = before;
    int64_t last = before.lastIndex();
    switch (random_.below(12)) {
      case 0:
        after.hard = {before.hard.term + static_cast<int64_t>(random_.below(3)),
                      NodeId(static_cast<int32_t>(random_.below(3)))};
        log.saveHardState(after.hard);
        break;
      case 1: {
        if (last == before.snapshot.index) break;
        int64_t index = before.snapshot.index + 1 +
                        static_cast<int64_t>(random_.below(static_cast<uint64_t>(last - before.snapshot.index)));
        Buffer data = bytes(3000);
        after.snapshot = {index, before.termOf(index)};
        after.snapshotCrc = crc32c(data);
        if (!log.saveSnapshot(after.snapshot, data)) after = before;
        break;
      }
      case 2: {
        if (!random_.chance(1, 4)) break;
        Buffer data = bytes(3000);
        int64_t term = before.hard.term + static_cast<int64_t>(random_.below(2));
        after.snapshot = {last + 1 + static_cast<int64_t>(random_.below(20)),
                          std::max(term, last > 0 ? before.termOf(last) : 0)};
        after.snapshotCrc = crc32c(data);
        after.entries.clear();
        if (!log.install(after.snapshot, data)) after = before;
        break;
      }
      case 3: log.append({}); break;
      default: {
        int64_t first = last + 1;
        // A conflict: back to some entry behind the snapshot, in a newer term.
        if (random_.chance(1, 6) && last > before.snapshot.index)
          first = before.snapshot.index + 1 +
                  static_cast<int64_t>(random_.below(static_cast<uint64_t>(last - before.snapshot.index)));
        int64_t term = last == 0 ? 1 : before.termOf(last) + (first <= last || random_.chance(1, 5));
        after.entries.erase(after.entries.lower_bound(first), after.entries.end());
        std::vector<LogEntry> entries;
        for (uint64_t n = random_.between(1, 4); n > 0; --n, ++first) {
          entries.push_back({first, term, EntryType::records, bytes(400)});
          after.entries[first] = {term, crc32c(entries.back().data)};
        }
        if (log.append(entries) == Space::none) after = before;
      }
    }
    before = after;
  }
  // Which of the two a crash has left. Fails the test when it is neither.
  void settle(const RaftLog& log) {
    std::string found = contentOf(log);
    if (found == after.print()) before = after;
    CHECK(found == before.print());
    after = before;
  }

  State before, after;

 private:
  Buffer bytes(uint64_t sizeMax) {
    Buffer bytes(random_.below(sizeMax));
    for (auto& b : bytes) b = static_cast<uint8_t>(random_.next());
    return bytes;
  }
  Prng random_;
};

// The power goes with disk operation number `at` (from 0); true when it did within the body.
template <class Body>
bool withPowerCutAt(Rig& rig, uint64_t at, Body body) {
  uint64_t count = 0;
  rig.disk.setFault([&](DiskOperation, const std::string&) {
    if (count++ != at) return 0;
    *rig.frozen = true;
    return EIO;
  });
  bool cut = false;
  try {
    body();
  } catch (const kj::Exception&) {
    cut = true;
    CHECK(*rig.frozen);
  }
  cut = cut || *rig.frozen;
  rig.disk.setFault(nullptr);
  if (cut) rig.powerCut();
  return cut;
}

}  // namespace

TEST_CASE("Power cut at every disk operation of a life: acknowledged entries and votes are never lost") {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    for (uint64_t at = 0;; ++at) {
      CAPTURE(seed);
      CAPTURE(at);
      Rig rig(seed * 1000 + at);
      Model model{Prng(seed)};
      bool cut = withPowerCutAt(rig, at, [&] {
        rig.open();
        for (int i = 0; i < 25; ++i) model.step(*rig.log);
        rig.log->close();
      });
      rig.boot();
      rig.open();
      model.settle(*rig.log);
      for (int i = 0; i < 3; ++i) model.step(*rig.log);
      CHECK(contentOf(*rig.log) == model.before.print());
      if (!cut) break;
    }
  }
}

TEST_CASE("Random lives with power cuts, kills, full disks and crashes while recovering") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Rig rig(seed);
    Prng random(seed * 77);
    Model model{random.fork()};
    for (int life = 0; life < 12; ++life) {
      CAPTURE(life);
      // Recovery itself is interrupted now and then.
      if (random.chance(1, 3)) withPowerCutAt(rig, random.below(40), [&] { rig.open(); });
      rig.boot();
      REQUIRE(rig.whyRefused() == "");
      model.settle(*rig.log);
      if (random.chance(1, 4)) rig.disk.setCapacity(rig.disk.used() + random.below(4000));
      bool cut = withPowerCutAt(rig, random.chance(1, 5) ? UINT64_MAX : random.below(200), [&] {
        for (uint64_t steps = random.below(30); steps > 0; --steps) model.step(*rig.log);
        if (random.chance(1, 2)) rig.log->close();
      });
      rig.disk.setCapacity(UINT64_MAX);
      if (!cut && random.chance(1, 2)) rig.powerCut();
      if (rig.log) rig.kill();
    }
    CHECK(rig.disk.changesAfterCrash() == 0);
  }
}

#include "storage/segment_scan.h"

#include <doctest/doctest.h>

#include "batches.h"
#include "fixtures.h"
#include "runtime/uv/file_system.h"
#include "storage/file_names.h"

using namespace mq;
using namespace mq::storage;
using namespace mq::storage::test;

namespace {

struct Directory : TestDirectory {
  std::unique_ptr<FileSystem> system = realFileSystem();
  Offset base{100};
  Buffer log;
  std::vector<uint64_t> starts;
  Offset next = base;

  void add(const TestBatch& batch) {
    starts.push_back(log.size());
    log.insert(log.end(), batch.bytes.begin(), batch.bytes.end());
    next = batch.mark.last + 1;
  }
  void add(int records, size_t valueBytes = 10) {
    add(makeBatch(next, {.records = records, .valueBytes = valueBytes}));
  }
  FileRef write() {
    FileRef file = system->open(filePath(path(), base, kLogSuffix), OpenMode::create);
    file->truncate(0);
    file->write(0, log);
    return file;
  }
  ScanResult scan(ScanOptions options = {}) {
    options.nextOffset = std::max(options.nextOffset, base);
    return scanSegment(*write(), base, options);
  }
  std::string summary(ScanOptions options = {}) {
    ScanResult result = scan(options);
    return fmt::format("{} good, next {}, {} at {}", result.batches, result.nextOffset, nameOf(result.stop),
                       result.validEnd == log.size()
                           ? "end"
                           : fmt::format("{}", std::ranges::find(starts, result.validEnd) - starts.begin()));
  }
};

}  // namespace

TEST_CASE("a whole log is good to its end, small and large batches alike") {
  Directory d;
  d.add(3);
  d.add(1, 300'000);    // larger than a piece of reading
  d.add(1, 2'000'000);  // larger than is loaded unproved
  d.add(2);
  CHECK(d.summary() == "4 good, next 107, end at end");
  CHECK(d.summary({.checkCrc = false}) == "4 good, next 107, end at end");
  CHECK(d.summary({.dense = true}) == "4 good, next 107, end at end");
  size_t seen = 0;
  uint64_t bytes = 0;
  scanSegment(*d.write(), d.base, {.nextOffset = d.base}, [&](const record::BatchView& batch, uint64_t position) {
    CHECK(position == d.starts[seen++]);
    CHECK(batch.isWhole());
    bytes += batch.sizeBytes();
  });
  CHECK(bytes == d.log.size());
}

TEST_CASE("a log that ends inside a batch is torn there, wherever the cut is") {
  Directory d;
  d.add(3);
  d.add(2, 100);
  Buffer whole = d.log;
  // Fewer bytes than tell an offset from zeros are zeros.
  for (size_t size = d.starts[1] + 8; size < whole.size(); ++size) {
    d.log.resize(size);
    std::copy_n(whole.begin(), size, d.log.begin());
    CHECK(d.summary() == "1 good, next 103, torn-tail at 1");
  }
}

TEST_CASE("each kind of damage is named, and the log is good up to it") {
  Directory d;
  d.add(3);
  d.add(2, 100);
  d.add(1);
  size_t at = d.starts[1];

  SUBCASE("zeros to the end") {
    std::fill(d.log.begin() + at, d.log.end(), 0);
    CHECK(d.summary() == "1 good, next 103, zeros at 1");
  }
  SUBCASE("a few zeros behind the end") {
    d.log.resize(d.log.size() + 5);
    d.starts.push_back(d.log.size() - 5);
    CHECK(d.summary() == "3 good, next 106, zeros at 3");
  }
  SUBCASE("a flipped bit in the records") {
    d.log[at + 80] ^= 4;
    CHECK(d.summary() == "1 good, next 103, bad-crc at 1");
    CHECK(d.summary({.checkCrc = false}) == "3 good, next 106, end at end");
  }
  SUBCASE("a flipped bit in the checksum") {
    d.log[at + 18] ^= 4;
    CHECK(d.summary() == "1 good, next 103, bad-crc at 1");
  }
  SUBCASE("a length below a header's") {
    storeBigEndian(d.log.data() + at + 8, 48);
    CHECK(d.summary() == "1 good, next 103, bad-length at 1");
  }
  SUBCASE("a length of nearly two gigabytes") {
    storeBigEndian(d.log.data() + at + 8, INT32_MAX);
    CHECK(d.summary() == "1 good, next 103, torn-tail at 1");
  }
  SUBCASE("another magic") {
    d.log[at + 16] = 3;
    CHECK(d.summary() == "1 good, next 103, bad-magic at 1");
  }
  SUBCASE("an offset that goes back") {
    record::setBaseOffset(MutableBytes(d.log).subspan(at), Offset(102));
    CHECK(d.summary() == "1 good, next 103, offsets-backwards at 1");
  }
  SUBCASE("a gap, where none may be") {
    record::setBaseOffset(MutableBytes(d.log).subspan(at), Offset(104));
    CHECK(d.summary({.dense = true}) == "1 good, next 103, offset-gap at 1");
    CHECK(d.summary() == "2 good, next 106, offsets-backwards at 2");
  }
  SUBCASE("an offset that no index of this segment could hold") {
    record::setBaseOffset(MutableBytes(d.log).subspan(at), d.base + (int64_t{1} << 40));
    CHECK(d.summary() == "1 good, next 103, offset-out-of-range at 1");
    record::setBaseOffset(MutableBytes(d.log).subspan(at), Offset(INT64_MAX));
    CHECK(d.summary() == "1 good, next 103, offset-out-of-range at 1");
  }
  SUBCASE("the last batch twice") {
    Buffer again(d.log.begin() + d.starts[2], d.log.end());
    d.starts.push_back(d.log.size());
    d.log.insert(d.log.end(), again.begin(), again.end());
    CHECK(d.summary() == "3 good, next 106, offsets-backwards at 3");
  }
}

TEST_CASE("a scan can begin at any batch and end at any position") {
  Directory d;
  for (int i = 0; i < 5; ++i) d.add(2);
  CHECK(d.summary({.from = d.starts[3], .nextOffset = Offset(106)}) == "2 good, next 110, end at end");
  CHECK(d.summary({.sizeMax = d.starts[2]}) == "2 good, next 104, end at 2");
  CHECK(d.summary({.sizeMax = d.starts[2] + 30}) == "2 good, next 104, torn-tail at 2");
}

TEST_CASE("the tail that is cut is kept beside the log, without the zeros of preallocation") {
  Directory d;
  d.add(3);
  d.add(2, 1000);
  d.log[d.starts[1] + 70] ^= 1;
  size_t size = d.log.size();
  d.log.resize(size + 300'000);
  d.write();
  std::string kept = keepCutTail(*d.system, d.path(), d.base, d.starts[1], Offset(103));
  CHECK(kept == d / "00000000000000000103.cut");
  std::string content = d.system->readFile(kept, 1 << 20);
  CHECK(content.size() < size - d.starts[1] + 5000);
  CHECK(content == asText(Bytes(d.log).subspan(d.starts[1], content.size())));
  CHECK(content.size() >= size - d.starts[1]);
  CHECK(keepCutTail(*d.system, d.path(), d.base, d.starts[1], Offset(103)) == d / "00000000000000000103-1.cut");
  CHECK(keepCutTail(*d.system, d.path(), d.base, size, Offset(105)) == "");
}

TEST_CASE("indexes rebuilt from Kafka's logs are Kafka's indexes, byte for byte") {
  struct Case {
    const char* fixture;
    const char* directory;
    uint32_t intervalBytes = 1024;
  };
  auto system = realFileSystem();
  size_t compared = 0;
  for (auto [name, dir, intervalBytes] :
       {Case{"plain", "plain-0"}, Case{"plain", "plain-lat-0"}, Case{"plain", "plain-kcat-0", 4096},
        Case{"txn", "txn-0"}, Case{"txn", "txn-1"}, Case{"delrec", "delrec-0"}, Case{"compact-1-before", "compact-0"},
        Case{"datadir", "compact-txn-0"}}) {
    Fixture fixture(name);
    std::string path = fixture / dir;
    for (const DirectoryEntry& entry : system->list(path)) {
      auto parsed = parseFileName(entry.name);
      if (!parsed || parsed->suffix != kLogSuffix || entry.size == 0) continue;
      CAPTURE(path);
      CAPTURE(entry.name);
      std::string index = filePath(path, parsed->base, kOffsetIndexSuffix),
                  times = filePath(path, parsed->base, kTimeIndexSuffix);
      std::string indexBefore = system->readFile(index, 1 << 20), timesBefore = system->readFile(times, 1 << 20);
      std::string problem;
      SegmentFacts facts = inspectSegment(*system, path, parsed->base, &problem);
      CHECK(problem == "");
      CHECK(facts.size == entry.size);

      IndexCounts checked = checkIndexes(*system, path, facts, intervalBytes);
      CHECK(checked.mended == "");
      CHECK(checked.maxTimestamp == facts.maxTimestamp);
      CHECK(checked.maxTimestampOffset == facts.maxTimestampOffset);
      rebuildIndexes(*system, path, facts, intervalBytes);
      CHECK(system->readFile(index, 1 << 20) == indexBefore);
      CHECK(system->readFile(times, 1 << 20) == timesBefore);

      // Whatever is done to them, a check brings them back.
      auto damage = [&](const std::string& file, auto change) {
        std::string bytes = system->readFile(file, 1 << 20);
        change(bytes);
        system->replaceFile(file, bytes);
        CHECK(!checkIndexes(*system, path, facts, intervalBytes).mended.empty());
        CHECK(system->readFile(index, 1 << 20) == indexBefore);
        CHECK(system->readFile(times, 1 << 20) == timesBefore);
      };
      for (auto& file : {index, times}) {
        if (system->readFile(file, 1 << 20).empty()) continue;
        size_t one = file == index ? 8 : 12;
        damage(file, [](std::string& bytes) { bytes.clear(); });
        damage(file, [&](std::string& bytes) { bytes.resize(bytes.size() - one); });
        damage(file, [](std::string& bytes) { bytes.resize(bytes.size() - 3); });
        damage(file, [](std::string& bytes) { bytes.resize(bytes.size() + 4096); });
        damage(file, [](std::string& bytes) { std::ranges::fill(bytes, '\0'); });
        damage(file, [](std::string& bytes) { std::ranges::fill(bytes, '\x5a'); });
        damage(file, [](std::string& bytes) { bytes[bytes.size() - 1] ^= 1; });
        damage(file, [](std::string& bytes) { bytes[7] ^= 2; });
        damage(file, [&](std::string& bytes) { bytes += std::string(one, '\x01'); });
      }
      ++compared;
    }
  }
  CHECK(compared == 40);
}

TEST_CASE("producer state replayed from Kafka's logs makes Kafka's snapshots") {
  auto system = realFileSystem();
  Fixture fixture("txn");
  std::string path = fixture / "txn-0";
  ProducerState producers;
  record::Workspace workspace;
  size_t compared = 0;
  for (const DirectoryEntry& entry : system->list(path)) {
    auto parsed = parseFileName(entry.name);
    if (!parsed || parsed->suffix != kLogSuffix) continue;
    std::string snapshot = filePath(path, parsed->base, kSnapshotSuffix);
    if (system->exists(snapshot)) {
      CAPTURE(entry.name);
      ProducerState theirs;
      REQUIRE(theirs.decodeSnapshot(asBytes(system->readFile(snapshot, 1 << 20))).has_value());
      for (auto& [id, producer] : theirs.producers()) {
        REQUIRE(producers.producers().contains(id));
        const ProducerState::Producer& ours = producers.producers().at(id);
        CHECK(ours.epoch == producer.epoch);
        CHECK(ours.lastSequence() == producer.lastSequence());
        CHECK(ours.lastOffset() == producer.lastOffset());
        CHECK(ours.timestamp == producer.timestamp);
        CHECK(ours.coordinatorEpoch == producer.coordinatorEpoch);
        CHECK(ours.transactionFirst == producer.transactionFirst);
        ++compared;
      }
    }
    FileRef log = system->open(filePath(path, parsed->base, kLogSuffix), OpenMode::read);
    scanSegment(*log, parsed->base, {.nextOffset = parsed->base},
                [&](const record::BatchView& batch, uint64_t) { replay(producers, batch, workspace); });
  }
  CHECK(compared > 5);
}

TEST_CASE("removing or marking a segment's files takes all of them and nothing else") {
  TestDirectory directory;
  auto system = realFileSystem();
  for (auto suffix : {".log", ".index", ".timeindex", ".txnindex", ".snapshot"})
    for (int base : {0, 7}) system->open(filePath(directory.path(), Offset(base), suffix), OpenMode::create);
  markFilesDeleted(*system, directory.path(), Offset(7));
  removeFiles(*system, directory.path(), Offset(0), "");
  std::string names;
  for (auto& entry : system->list(directory.path())) names += entry.name.substr(19) + " ";
  CHECK(names == "0.snapshot 7.index.deleted 7.log.deleted 7.snapshot 7.timeindex.deleted 7.txnindex.deleted ");
  removeFiles(*system, directory.path(), Offset(7), kDeletedSuffix);
  CHECK(system->list(directory.path()).size() == 2);
}

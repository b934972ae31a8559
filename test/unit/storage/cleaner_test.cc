// The core of compaction against hand-made logs, and against what Kafka's own cleaner left of the same files.
#include "storage/cleaner.h"

#include <doctest/doctest.h>

#include <set>

#include "fixtures.h"
#include "record/builder.h"
#include "record/records.h"
#include "runtime/uv/file_system.h"
#include "storage/clean_job.h"
#include "storage/file_names.h"
#include "storage/recovery.h"

using namespace mq;
using namespace mq::storage;
using mq::storage::test::Fixture;
using record::BatchView;

namespace {

constexpr WallMs kNow{1'000'000};

struct Put {
  std::string key;
  std::optional<std::string> value;
};

// A log in memory, and one clean of it.
class Bench {
 public:
  explicit Bench(size_t places = 1000) : keys_(places, 1.0, 7) {}

  Bench& put(std::vector<Put> puts, record::BatchOptions options = {}) {
    options.baseOffset = next_;
    record::BatchBuilder builder(options);
    for (const Put& put : puts) {
      record::NewRecord record{.timestamp = WallMs(500)};
      if (put.key != "-") record.key = asBytes(put.key);
      if (put.value) record.value = asBytes(*put.value);
      builder.add(record);
    }
    add(builder.build(workspace_));
    return *this;
  }
  Bench& data(int64_t producer, std::vector<Put> puts, int32_t sequence = 0) {
    return put(
        std::move(puts),
        {.producerId = ProducerId(producer), .producerEpoch = 0, .baseSequence = sequence, .isTransactional = true});
  }
  Bench& end(int64_t producer, bool commits, int64_t first) {
    if (!commits) aborted_.push_back({ProducerId(producer), Offset(first), next_, next_ + 1});
    add(record::endTxnMarker(commits ? record::ControlType::commit : record::ControlType::abort, ProducerId(producer),
                             0, 0, WallMs(500), next_));
    return *this;
  }

  // The log becomes what the clean leaves of it.
  std::string clean(WallMs now = kNow, std::map<ProducerId, LastOfProducer> producers = {}, bool keepsLast = false) {
    KeyPass mapping(keys_, aborted_, dirty_);
    for (const Buffer& batch : log_) {
      auto added = mapping.add(BatchView(batch), workspace_);
      REQUIRE(added.has_value());
      if (!*added) break;
    }
    dirty_ = mapping.end();
    FilterPass filter(keys_, aborted_,
                      {.now = now,
                       .deleteRetentionMs = 1000,
                       .mapped = mapping.end(),
                       .uncleanable = keepsLast ? next_ : Offset(INT64_MAX),
                       .producers = std::move(producers)});
    std::vector<Buffer> left;
    for (const Buffer& batch : log_) {
      Buffer out;
      auto fate = filter.filter(BatchView(batch), workspace_, out);
      REQUIRE(fate.has_value());
      if (*fate == FilterPass::Fate::kept) out = batch;
      if (*fate != FilterPass::Fate::dropped) left.push_back(out);
    }
    log_ = std::move(left);
    aborted_ = filter.takeAborted();
    keyless = filter.figures().keyless;
    return print();
  }

  // "0..2[0:a=1 2:b=null]!5000 3..3*commit"
  std::string print() {
    std::string text;
    for (const Buffer& bytes : log_) {
      BatchView batch(bytes);
      REQUIRE(batch.crcOk());
      text += fmt::format("{}{}..{}", text.empty() ? "" : " ", batch.baseOffset(), batch.lastOffset());
      if (batch.isControl()) {
        auto control = record::readControlRecord(batch, workspace_);
        text += control->type == record::ControlType::abort ? "*abort" : "*commit";
      } else {
        auto records = record::openRecords(batch, workspace_);
        record::RecordView record;
        std::string inside;
        while (records->next(record)) {
          CHECK((batch.isLogAppendTime() || record.timestamp == WallMs(500)));
          inside += fmt::format("{}{}:{}={}", inside.empty() ? "" : " ", record.offset, asText(*record.key),
                                record.value ? std::string(asText(*record.value)) : "null");
        }
        CHECK(records->ok());
        text += "[" + inside + "]";
      }
      if (batch.deleteHorizon()) text += fmt::format("!{}", *batch.deleteHorizon());
    }
    return text;
  }
  const std::vector<AbortedTransaction>& aborted() const { return aborted_; }
  const std::vector<Buffer>& log() const { return log_; }
  uint64_t keyless = 0;

 private:
  void add(Buffer batch) {
    next_ = BatchView(batch).nextOffset();
    log_.push_back(std::move(batch));
  }

  record::Workspace workspace_;
  KeyMap keys_;
  std::vector<Buffer> log_;
  std::vector<AbortedTransaction> aborted_;
  Offset next_{0};
  Offset dirty_{0};
};

}  // namespace

TEST_CASE("cleaner: the last record of a key stays at its offset; an empty value is a value, an empty key a key") {
  Bench bench;
  bench.put({{"a", "1"}, {"b", "1"}, {"a", "2"}}).put({{"", "x"}, {"b", ""}}).put({{"", "y"}});
  CHECK(bench.clean() == "0..2[2:a=2] 3..4[4:b=] 5..5[5:=y]");
}

TEST_CASE("cleaner: a tombstone gets its horizon at the first clean and goes at the first one behind it") {
  Bench bench;
  bench.put({{"a", "1"}}).put({{"a", std::nullopt}, {"b", "1"}});
  CHECK(bench.clean(kNow) == "1..2[1:a=null 2:b=1]!1001000");
  CHECK(bench.clean(kNow + 999) == "1..2[1:a=null 2:b=1]!1001000");
  bench.put({{"c", std::nullopt}});
  CHECK(bench.clean(kNow + 1000) == "1..2[2:b=1]!1001000 3..3[3:c=null]!1002000");
}

TEST_CASE("cleaner: a delete.retention.ms without end does not overflow into one that is over") {
  Buffer tombstone;
  record::Workspace workspace;
  record::BatchBuilder builder({});
  builder.add({.timestamp = WallMs(1), .key = asBytes(std::string_view("k"))});
  tombstone = builder.build(workspace);
  KeyMap keys(10, 1, 1);
  KeyPass mapping(keys, {}, Offset(0));
  REQUIRE(mapping.add(BatchView(tombstone), workspace).has_value());
  FilterPass filter(keys, {},
                    {.now = kNow, .deleteRetentionMs = INT64_MAX, .mapped = Offset(1), .uncleanable = Offset(9)});
  Buffer out;
  CHECK(*filter.filter(BatchView(tombstone), workspace, out) == FilterPass::Fate::rewritten);
  CHECK(BatchView(out).deleteHorizon() == WallMs(INT64_MAX));
}

TEST_CASE("cleaner: records without a key go and are counted") {
  Bench bench;
  bench.put({{"-", "1"}, {"a", "1"}});
  CHECK(bench.clean() == "0..1[1:a=1]");
  CHECK(bench.keyless == 1);
}

TEST_CASE("cleaner: aborted records go; a marker stays while there was data, then until its horizon") {
  Bench bench;
  bench.put({{"a", "0"}}).data(1, {{"a", "1"}}).end(1, false, 1).data(2, {{"b", "1"}}).end(2, true, 3);
  CHECK(bench.clean(kNow) == "0..0[0:a=0] 2..2*abort 3..3[3:b=1] 4..4*commit");
  REQUIRE(bench.aborted().size() == 1);
  bench.put({{"b", "2"}});
  CHECK(bench.clean(kNow) == "0..0[0:a=0] 2..2*abort!1001000 4..4*commit 5..5[5:b=2]");
  CHECK(bench.aborted().empty());
  CHECK(bench.clean(kNow + 500) == "0..0[0:a=0] 2..2*abort!1001000 4..4*commit!1001500 5..5[5:b=2]");
  CHECK(bench.clean(kNow + 1000) == "0..0[0:a=0] 4..4*commit!1001500 5..5[5:b=2]");
  CHECK(bench.clean(kNow + 1500) == "0..0[0:a=0] 5..5[5:b=2]");
}

TEST_CASE("cleaner: markers are never compacted by their key") {
  Bench bench;
  for (int i = 0; i < 4; ++i) {
    bench.data(1, {{fmt::format("k{}", i), "1"}}).end(1, i % 2 == 0, i * 2);
  }
  CHECK(bench.clean() == "0..0[0:k0=1] 1..1*commit 3..3*abort 4..4[4:k2=1] 5..5*commit 7..7*abort");
}

TEST_CASE("cleaner: a live producer keeps its last sequence, or the marker with its epoch; the log keeps its end") {
  Bench bench;
  bench.put({{"a", "1"}, {"b", "1"}},
            {.codec = record::Codec::lz4, .producerId = ProducerId(5), .producerEpoch = 3, .baseSequence = 7});
  bench.put({{"a", "2"}}).put({{"b", "2"}}).put({{"-", "1"}});
  std::map<ProducerId, LastOfProducer> live{{ProducerId(5), {Offset(1), 3}}};
  CHECK(bench.clean(kNow, live, true) == "0..1[] 2..2[2:a=2] 3..3[3:b=2] 4..4[]");
  BatchView empty(bench.log()[0]);
  CHECK(empty.lastSequence() == 8);
  CHECK(empty.producerEpoch() == 3);
  CHECK(empty.maxTimestamp() == WallMs(500));
  CHECK(empty.sizeBytes() == record::Layout::kHeaderBytes);
  CHECK(bench.clean(kNow, live, true) == "0..1[] 2..2[2:a=2] 3..3[3:b=2] 4..4[]");
  CHECK(bench.clean(kNow) == "2..2[2:a=2] 3..3[3:b=2]");

  Bench markers;
  markers.put({{"a", "1"}}).end(6, true, 1).put({{"a", "2"}});
  std::map<ProducerId, LastOfProducer> fenced{{ProducerId(6), {Offset(-1), 0}}};
  CHECK(markers.clean(kNow, fenced) == "1..1*commit!1001000 2..2[2:a=2]");
  CHECK(markers.clean(kNow + 5000, fenced) == "1..1*commit!1001000 2..2[2:a=2]");
  CHECK(markers.clean(kNow + 5000) == "2..2[2:a=2]");
}

TEST_CASE("cleaner: codec and append time stay in a batch that is rewritten; one that is whole stays byte for byte") {
  for (record::Codec codec :
       {record::Codec::none, record::Codec::gzip, record::Codec::snappy, record::Codec::lz4, record::Codec::zstd}) {
    Bench bench;
    bench.put({{"a", "1"}, {"b", std::string(500, 'x')}}, {.codec = codec, .appendTime = WallMs(900)});
    bench.put({{"a", "2"}}, {.codec = codec});
    Buffer second = bench.log()[1];
    bench.clean();
    BatchView batch(bench.log()[0]);
    CHECK(batch.codec() == codec);
    CHECK(batch.isLogAppendTime());
    CHECK(batch.maxTimestamp() == WallMs(900));
    CHECK(batch.recordCount() == 1);
    CHECK(bench.log()[1] == second);
  }
}

TEST_CASE("cleaner: what does not fit into the map is left to the next clean, also within one batch") {
  Bench bench(4);  // holds three keys
  std::vector<Put> puts;
  for (int i = 0; i < 8; ++i) puts.push_back({fmt::format("k{}", i), "1"});
  bench.put(puts).put({{"k0", "2"}, {"k4", "2"}, {"k7", "2"}});
  CHECK(bench.clean() == "0..7[0:k0=1 1:k1=1 2:k2=1 3:k3=1 4:k4=1 5:k5=1 6:k6=1 7:k7=1] 8..10[8:k0=2 9:k4=2 10:k7=2]");
}

TEST_CASE("KeyMap: holds what it was given, the last offset of each, up to its load") {
  KeyMap keys(100, 0.5, 3);
  size_t held = 0;
  for (int i = 0; i < 100; ++i) {
    std::string key = fmt::format("key {}", i);
    held += keys.put(asBytes(key), Offset(i));
  }
  CHECK(held == 50);
  CHECK(keys.size() == 50);
  std::string known = "key 3", unknown = "key 70";
  CHECK(keys.put(asBytes(known), Offset(1000)));
  CHECK(keys.find(asBytes(known)) == Offset(1000));
  CHECK(keys.find(asBytes(unknown)) == Offset(-1));
  KeyMap smallest(0, 0, 1);
  CHECK(smallest.put(asBytes(known), Offset(0)));
  CHECK_FALSE(smallest.put(asBytes(unknown), Offset(1)));
}

namespace {

struct KafkaLog {
  std::vector<std::string> batches;
  std::vector<AbortedTransaction> aborted;
};

// The batches that begin below `limit`, and the aborted transactions whose markers do.
KafkaLog readLog(FileSystem& files, const std::string& directory, Offset limit) {
  KafkaLog found;
  record::Workspace workspace;
  for (const DirectoryEntry& entry : files.list(directory)) {
    auto name = parseFileName(entry.name);
    if (!name || name->base >= limit) continue;
    if (name->suffix == kTransactionIndexSuffix) {
      std::string bytes = files.readFile(directory + "/" + entry.name, 1_MiB);
      for (const auto& one : decodeTransactionIndex(asBytes(bytes), name->base, Offset(INT64_MAX)).entries) {
        found.aborted.push_back(one);
      }
    }
    if (name->suffix != kLogSuffix) continue;
    FileRef log = files.open(directory + "/" + entry.name, OpenMode::read);
    ScanResult scan = scanSegment(*log, name->base, {.nextOffset = name->base}, [&](const BatchView& batch, uint64_t) {
      if (batch.baseOffset() >= limit) return;
      std::string line = fmt::format(
          "{}..{} attributes {} epoch {} producer {}/{}/{} max {} horizon {}:", batch.baseOffset(), batch.lastOffset(),
          batch.attributes(), batch.leaderEpoch(), batch.producerId(), batch.producerEpoch(), batch.baseSequence(),
          batch.maxTimestamp(), batch.deleteHorizon().value_or(kNoTimestamp));
      auto records = record::openRecords(batch, workspace);
      record::RecordView record;
      while (records && records->next(record)) {
        line += fmt::format(" {}@{} {}={}", record.offset, record.timestamp,
                            record.key ? static_cast<int64_t>(record.key->size()) : -1,
                            record.value ? std::string(asText(*record.value)) : "null");
      }
      found.batches.push_back(line);
    });
    CHECK(scan.stop == ScanStop::end);
  }
  return found;
}

void cleanLikeKafka(FileSystem& files, const std::string& directory, Offset dirty, Offset uncleanable, WallMs now,
                    int64_t deleteRetentionMs) {
  CleanPlan plan{.directory = directory,
                 .dirty = dirty,
                 .uncleanable = uncleanable,
                 .now = now,
                 .deleteRetentionMs = deleteRetentionMs,
                 .segmentBytesMax = 6144,
                 .indexBytesMax = 10_MiB,
                 .indexIntervalBytes = 1024,
                 .mapBytes = 1_MiB,
                 .seed = 5};
  ProducerState producers;
  for (const DirectoryEntry& entry : files.list(directory)) {
    auto name = parseFileName(entry.name);
    if (!name || name->base > uncleanable) continue;
    if (name->suffix == kSnapshotSuffix) {
      REQUIRE(producers.decodeSnapshot(asBytes(files.readFile(directory + "/" + entry.name, 1_MiB))).has_value());
    }
    if (name->base == uncleanable) continue;
    if (name->suffix == kTransactionIndexSuffix)
      plan.aborted.push_back({name->base, entry.size / AbortedTransaction::kBytes});
    if (name->suffix != kLogSuffix) continue;
    FileRef log = files.open(directory + "/" + entry.name, OpenMode::read);
    ScanResult scan = scanSegment(*log, name->base, {.nextOffset = name->base});
    plan.segments.push_back({.base = name->base, .end = scan.nextOffset, .size = scan.validEnd});
  }
  for (const auto& [id, producer] : producers.producers())
    plan.producers.emplace(id, LastOfProducer{producer.lastOffset(), producer.epoch});

  CleanJob job(files, plan);
  while (job.state() != CleanJob::State::done) {
    auto stepped = job.step(500);
    REQUIRE_MESSAGE(stepped.has_value(), (stepped ? "" : stepped.failure().message));
    if (job.state() != CleanJob::State::group) continue;
    commitGroup(files, directory, job.group());
    placeGroup(files, directory, job.group());
    // One of these could hold a transaction open of which the marker is gone.
    for (const DirectoryEntry& entry : files.list(directory)) {
      auto name = parseFileName(entry.name);
      if (name && name->suffix == kSnapshotSuffix) CHECK(name->base > job.group().replaced.back().base);
    }
    for (const CleanedSegment& cleaned : job.group().segments) {
      IndexCounts counts = checkIndexes(files, directory, cleaned.facts, 1024);
      CHECK(counts.mended == "");
      CHECK(counts.offsetEntries == cleaned.indexes.offsetEntries);
      CHECK(counts.timeEntries == cleaned.indexes.timeEntries);
      CHECK(checkTransactionIndex(files, directory, cleaned.facts) == cleaned.aborted);
    }
  }
  CHECK(job.end() == uncleanable);
}

}  // namespace

TEST_CASE("cleaner: leaves of Kafka's files what Kafka left of them") {
  auto files = realFileSystem();
  struct Case {
    std::string before, after, partition;
    int64_t dirty, uncleanable, limit, now;
    int64_t firstUncleanable = 0, firstNow = 0;  // of a clean before that
  };
  // Kafka cleaned what came behind, too; it has other keys. The times are those of its delete horizons.
  for (const Case& one : std::vector<Case>{
           {"compact-1-before", "compact-2-cleaned", "compact-0", 437, 490, 490, 1795958835564, 437, 1795958834440},
           {"compact-1-before", "compact-2-cleaned", "compact-txn-0", 0, 156, 156, 1795958835564},
           {"compact-2-cleaned", "compact-3-tombstones-gone", "compact-0", 554, 562, 562, 1795958873899},
           {"compact-2-cleaned", "compact-3-tombstones-gone", "compact-txn-0", 220, 228, 228, 1795958873899},
       }) {
    INFO(one.before, " ", one.partition);
    Fixture ours(one.before), kafkas(one.after);
    const std::string directory = ours / one.partition;
    KafkaLog was = readLog(*files, directory, Offset(one.limit));
    if (one.firstUncleanable > 0) {
      cleanLikeKafka(*files, directory, Offset(0), Offset(one.firstUncleanable), WallMs(one.firstNow), 1000);
    }
    cleanLikeKafka(*files, directory, Offset(one.dirty), Offset(one.uncleanable), WallMs(one.now), 1000);
    KafkaLog is = readLog(*files, directory, Offset(one.limit));
    KafkaLog expected = readLog(*files, kafkas / one.partition, Offset(one.limit));
    CHECK(was.batches != is.batches);
    REQUIRE(is.batches.size() == expected.batches.size());
    for (size_t i = 0; i < is.batches.size(); ++i) CHECK(is.batches[i] == expected.batches[i]);
    CHECK(is.aborted == expected.aborted);
    for (const DirectoryEntry& entry : files->list(directory)) {
      CHECK_FALSE(entry.name.ends_with(kCleanedSuffix));
      CHECK_FALSE(entry.name.ends_with(kSwapSuffix));
    }
  }
}

TEST_CASE("cleaner: a clean that stops between any two steps of putting segments in place is finished or undone") {
  auto files = realFileSystem();
  record::Workspace workspace;
  auto makeLog = [&](const std::string& path, std::vector<int64_t> offsets, std::string_view value) {
    FileRef log = files->open(path, OpenMode::create);
    uint64_t at = 0;
    for (int64_t offset : offsets) {
      record::BatchBuilder builder({.baseOffset = Offset(offset)});
      std::string key = fmt::format("{}", offset);
      builder.add({.timestamp = WallMs(1), .key = asBytes(key), .value = asBytes(value)});
      Buffer batch = builder.build(workspace);
      log->write(at, Bytes(batch));
      at += batch.size();
    }
  };
  const std::vector<std::string_view> derived{kOffsetIndexSuffix, kTimeIndexSuffix, kTransactionIndexSuffix};
  // Segments 0 (0..9) and 10 (10..19) become 0 (3, 5) and 12 (12, 19); 20 is active.
  for (int steps = 0; steps <= 18; ++steps) {
    INFO("stopped after ", steps, " steps");
    TestDirectory directory;
    auto path = [&](int64_t base, std::string_view suffix) { return filePath(directory.path(), Offset(base), suffix); };
    makeLog(path(0, ".log"), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "old");
    makeLog(path(10, ".log"), {10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, "old");
    makeLog(path(20, ".log"), {20}, "old");
    makeLog(path(0, ".log.cleaned"), {3, 5}, "new");
    makeLog(path(12, ".log.cleaned"), {12, 19}, "new");
    for (std::string_view suffix : derived) {
      for (int64_t base : {0, 12}) files->open(path(base, suffix) + ".cleaned", OpenMode::create);
    }
    files->replaceFile(directory / kCompactedFile, "20\n");
    std::vector<std::pair<std::string, std::string>> renames;  // as commitGroup and placeGroup do them
    for (int64_t base : {12, 0}) {
      for (std::string_view suffix : derived)
        renames.emplace_back(path(base, suffix) + ".cleaned", path(base, suffix) + ".swap");
      renames.emplace_back(path(base, ".log.cleaned"), path(base, ".log.swap"));
    }
    for (int64_t base : {0, 10}) renames.emplace_back(path(base, ".log"), path(base, ".log.deleted"));
    for (int64_t base : {0, 12}) {
      for (std::string_view suffix : derived) renames.emplace_back(path(base, suffix) + ".swap", path(base, suffix));
      renames.emplace_back(path(base, ".log.swap"), path(base, ".log"));
    }
    REQUIRE(renames.size() == 18);
    for (int i = 0; i < steps; ++i)
      files->rename(renames[static_cast<size_t>(i)].first, renames[static_cast<size_t>(i)].second);

    RecoveredLog recovered = recoverLog(*files, directory.path(), {.mark = Offset(20), .now = WallMs(1)});
    REQUIRE_MESSAGE(!recovered.damage, recovered.damage.value_or(""));
    CHECK(recovered.end == Offset(21));
    std::string bases;
    for (const RecoveredSegment& segment : recovered.segments) bases += fmt::format("{} ", segment.facts.base);
    CHECK(bases == (steps < 8 ? "0 10 20 " : "0 12 20 "));
    for (const DirectoryEntry& entry : files->list(directory.path())) {
      CHECK_FALSE(entry.name.ends_with(kCleanedSuffix));
      CHECK_FALSE(entry.name.ends_with(kSwapSuffix));
      CHECK_FALSE(entry.name.ends_with(kDeletedSuffix));
    }
  }
}

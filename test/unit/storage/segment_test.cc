#include "storage/segment.h"

#include <doctest/doctest.h>

#include <functional>

#include "batches.h"
#include "fixtures.h"
#include "runtime/uv/file_system.h"
#include "storage/file_names.h"

using namespace mq;
using namespace mq::storage;
using namespace mq::storage::test;

namespace {

struct World : TestDirectory {
  std::unique_ptr<FileSystem> system = realFileSystem();
  FileCache cache{*system, 8};
  SegmentContext context{.files = cache, .directory = path(), .indexIntervalBytes = 200};

  // As a restart finds it.
  std::unique_ptr<Segment> reopen(Offset base) {
    std::string problem;
    SegmentFacts facts = inspectSegment(*system, path(), base, &problem);
    CHECK(problem == "");
    auto segment = std::make_unique<Segment>(context, facts);
    segment->adoptIndexes(checkIndexes(*system, path(), facts, context.indexIntervalBytes));
    segment->adoptTransactions(checkTransactionIndex(*system, path(), facts).value());
    return segment;
  }
};

// What a read must answer, by going through all batches.
std::string expectedRead(const std::vector<TestBatch>& batches, const ReadWish& wish, Offset end) {
  Offset upper = std::min(wish.upper, end);
  uint64_t position = 0;
  size_t at = 0;
  for (; at < batches.size() && batches[at].mark.last < wish.offset; ++at) position += batches[at].mark.size;
  if (at == batches.size()) return "none";
  uint64_t length = 0;
  size_t next = at;
  for (; next < batches.size() && batches[next].mark.last < upper; ++next) {
    bool first = next == at && wish.atLeastOneBatch;
    if (length + batches[next].mark.size > wish.bytesMax && !first) break;
    length += batches[next].mark.size;
    if (length > wish.bytesMax) {
      ++next;
      break;
    }
  }
  Offset sliceEnd = next < batches.size() ? batches[next].base : end;
  return fmt::format("{}+{} base {} end {}", position, length, batches[at].base, sliceEnd);
}

std::string show(const Result<Slice>& slice) {
  if (!slice) return slice.failure().message;
  if (slice->file == nullptr) return "none";
  return fmt::format("{}+{} base {} end {}", slice->position, slice->length, slice->base, slice->end);
}

}  // namespace

TEST_CASE("reads answer whole batches within their bounds, from memory, files, after a restart, and in a view") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    Prng random(seed);
    World world;
    world.context.indexIntervalBytes = static_cast<uint32_t>(random.below(2000));
    bool gaps = random.below(2) == 0;
    auto segment = Segment::create(world.context, Offset(50));
    std::vector<TestBatch> batches;
    for (int round = 0; round < 40; ++round) {
      std::vector<TestBatch> some;
      Offset next = segment->end();
      for (uint64_t n = 1 + random.below(5); n > 0; --n) {
        if (gaps) next += static_cast<int64_t>(random.below(3));
        size_t valueBytes = random.below(20) == 0 ? 20'000 : random.below(200);
        some.push_back(makeBatch(next, {.records = static_cast<int>(1 + random.below(4)), .valueBytes = valueBytes}));
        next = some.back().mark.last + 1;
      }
      appendTo(*segment, some);
      batches.insert(batches.end(), some.begin(), some.end());
      if (random.below(5) == 0) segment->flushIndexes();
      if (random.below(10) == 0) segment->seal();
      if (random.below(10) == 0) segment = (segment->flushIndexes(), world.reopen(Offset(50)));
      if (random.below(12) == 0) {
        size_t keep = random.below(batches.size());
        uint64_t position = 0;
        for (size_t i = 0; i < keep; ++i) position += batches[i].mark.size;
        batches.resize(keep);
        segment->truncate(position, keep > 0 ? batches.back().mark.last + 1 : Offset(50));
      }
      SegmentView view = segment->view();
      for (int look = 0; look < 30; ++look) {
        int64_t width = segment->end() - Offset(50);
        ReadWish wish{.offset = Offset(50 + static_cast<int64_t>(random.below(width + 1))),
                      .upper = Offset(50 + static_cast<int64_t>(random.below(width + 20))),
                      .bytesMax = random.below(4) == 0 ? 1'000'000 : random.below(3000),
                      .atLeastOneBatch = random.below(2) == 0};
        if (random.below(2) == 0) wish.upper = segment->end();
        std::string expected = expectedRead(batches, wish, segment->end());
        REQUIRE(show(segment->read(wish)) == expected);
        REQUIRE(show(view.read(wish)) == expected);
      }
      REQUIRE(!segment->badIndex());
      REQUIRE(!view.badIndex());
    }
    WallMs max = kNoTimestamp;
    for (auto& batch : batches) max = std::max(max, batch.mark.maxTimestamp);
    CHECK(segment->maxTimestamp() == max);
  }
}

TEST_CASE("a reader that goes on where it stopped needs no index") {
  World world;
  world.context.indexIntervalBytes = 0;
  auto segment = Segment::create(world.context, Offset(0));
  for (int i = 0; i < 100; ++i) appendTo(*segment, {makeBatch(segment->end(), {.records = 2})});
  segment->seal();
  // From here on every entry is wrong, so that using one would show.
  std::string index = filePath(world.path(), Offset(0), kOffsetIndexSuffix);
  Buffer garbage(world.system->open(index, OpenMode::read)->size(), 0x11);
  world.system->open(index, OpenMode::readWrite)->write(0, garbage);

  Offset next{0};
  for (int i = 0; i < 50; ++i) {
    auto slice = segment->read({.offset = next, .upper = segment->end(), .bytesMax = 1, .atLeastOneBatch = true});
    REQUIRE(slice.has_value());
    CHECK(slice->base == next);
    next = slice->end;
  }
  CHECK(next == Offset(100));
  CHECK(!segment->badIndex());
}

TEST_CASE("an index that lies is passed over, reported, and the answers stay right") {
  World world;
  auto segment = Segment::create(world.context, Offset(0));
  std::vector<TestBatch> batches;
  for (int i = 0; i < 100; ++i) {
    batches.push_back(makeBatch(segment->end(), {.records = 2}));
    appendTo(*segment, {batches.back()});
  }
  segment->seal();
  for (auto suffix : {kOffsetIndexSuffix, kTimeIndexSuffix}) {
    FileRef file = world.system->open(filePath(world.path(), Offset(0), suffix), OpenMode::readWrite);
    Buffer bytes(file->size());
    file->read(0, bytes);
    for (size_t at = suffix == kOffsetIndexSuffix ? 7 : 11; at < bytes.size();
         at += suffix == kOffsetIndexSuffix ? 8 : 12)
      bytes[at] ^= 1;
    file->write(0, bytes);
  }
  ReadWish wish{.offset = Offset(150), .upper = Offset(200), .bytesMax = 500};
  SegmentView view = segment->view();
  CHECK(show(view.read(wish)) == expectedRead(batches, wish, Offset(200)));
  CHECK(view.badIndex());
  SegmentView other = segment->view();
  auto found = other.findTimestamp(WallMs(1150), Offset(0), Offset(200));
  REQUIRE(found.has_value());
  CHECK((*found)->offset == Offset(150));
  CHECK(other.badIndex());

  CHECK(show(segment->read(wish)) == expectedRead(batches, wish, Offset(200)));
  CHECK(segment->badIndex());
  CHECK(!segment->indexesChecked());
  appendTo(*segment, {makeBatch(Offset(200))});  // no index, no entry, no harm
  segment->adoptIndexes(checkIndexes(*world.system, world.path(), segment->facts(), 200));
  CHECK(!segment->badIndex());
  CHECK(segment->positionOf(Offset(200)).value() == segment->size() - makeBatch(Offset(200)).mark.size);
  CHECK(!segment->badIndex());
}

TEST_CASE("the first record at or after a time is found by its own time, in order of offset") {
  World world;
  for (auto codec :
       {record::Codec::none, record::Codec::gzip, record::Codec::lz4, record::Codec::zstd, record::Codec::snappy}) {
    CAPTURE(nameOf(codec));
    world.context.indexIntervalBytes = 0;
    removeFiles(*world.system, world.path(), Offset(0), "");
    auto segment = Segment::create(world.context, Offset(0));
    appendTo(*segment,
             {makeBatch(Offset(0), {.batch = {.codec = codec}, .records = 3, .timestamps = {100, 300, 200}})});
    appendTo(*segment, {makeBatch(Offset(3), {.batch = {.codec = codec}, .records = 2, .timestamps = {250, 150}})});
    appendTo(*segment,
             {makeBatch(Offset(5),
                        {.batch = {.codec = codec, .appendTime = WallMs(400)}, .records = 2, .timestamps = {1, 2}})});
    appendTo(*segment, {makeBatch(Offset(7), {.batch = {.codec = codec}, .records = 1, .timestamps = {400}})});
    for (bool restarted : {false, true}) {
      if (restarted) {
        segment->seal();
        removeFiles(*world.system, world.path(), Offset(0), "x");
        world.system->remove(filePath(world.path(), Offset(0), kOffsetIndexSuffix));
        world.system->remove(filePath(world.path(), Offset(0), kTimeIndexSuffix));
        segment = world.reopen(Offset(0));
      }
      SegmentView view = segment->view();
      auto find = [&](int64_t time, int64_t from = 0, int64_t upper = 8) -> std::string {
        auto found = view.findTimestamp(WallMs(time), Offset(from), Offset(upper));
        REQUIRE(found.has_value());
        return *found ? fmt::format("{}@{}", (*found)->offset, (*found)->timestamp) : "none";
      };
      CHECK(find(99) == "0@100");
      CHECK(find(100) == "0@100");
      CHECK(find(101) == "1@300");
      CHECK(find(150) == "1@300");
      CHECK(find(300) == "1@300");
      CHECK(find(301) == "5@400");
      CHECK(find(400) == "5@400");
      CHECK(find(401) == "none");
      CHECK(find(150, 2) == "2@200");
      CHECK(find(201, 2) == "3@250");
      CHECK(find(301, 0, 5) == "none");
      CHECK(find(400, 6) == "6@400");
      CHECK(find(400, 7) == "7@400");
      auto max = [&](int64_t from, int64_t upper) -> std::string {
        auto found = view.findMaxTimestamp(Offset(from), Offset(upper));
        REQUIRE(found.has_value());
        return *found ? fmt::format("{}@{}", (*found)->offset, (*found)->timestamp) : "none";
      };
      CHECK(max(0, 8) == "5@400");
      CHECK(max(0, 5) == "1@300");
      CHECK(max(2, 5) == "3@250");
      CHECK(max(4, 5) == "4@150");
      CHECK(max(8, 8) == "none");
      CHECK(!view.badIndex());
    }
  }
}

TEST_CASE("a look-up by time that meets a damaged batch says where") {
  World world;
  auto segment = Segment::create(world.context, Offset(0));
  for (int i = 0; i < 3; ++i) appendTo(*segment, {makeBatch(segment->end(), {.records = 2})});
  FileRef file = world.system->open(segment->path(), OpenMode::readWrite);
  uint8_t byte = 0x55;
  file->write(segment->size() - 1, Bytes(&byte, 1));
  SegmentView view = segment->view();
  CHECK(view.findTimestamp(WallMs(1003), Offset(0), Offset(6)).has_value());
  auto found = view.findTimestamp(WallMs(1004), Offset(0), Offset(6));
  CHECK(found.errorCode() == Error::corruptMessage);
  CHECK(found.failure().message.ends_with("is damaged: the checksum is wrong"));
}

TEST_CASE("a header that leads nowhere bars the way behind it, not before it") {
  World world;
  world.context.indexIntervalBytes = 1'000'000;
  auto segment = Segment::create(world.context, Offset(0));
  std::vector<TestBatch> batches;
  for (int i = 0; i < 4; ++i) {
    batches.push_back(makeBatch(segment->end(), {.records = 2}));
    appendTo(*segment, {batches.back()});
  }
  uint8_t length[4] = {0x7f, 0, 0, 0};
  world.system->open(segment->path(), OpenMode::readWrite)->write(batches[0].mark.size * 2 + 8, Bytes(length));
  auto before = segment->read({.offset = Offset(2), .upper = Offset(6), .bytesMax = 1'000'000});
  REQUIRE(before.has_value());
  CHECK(before->length == batches[1].mark.size);
  CHECK(before->end == Offset(4));
  auto behind = segment->read({.offset = Offset(6), .upper = Offset(8), .bytesMax = 1'000'000});
  CHECK(behind.errorCode() == Error::corruptMessage);
}

TEST_CASE("aborted transactions are kept through flushes and restarts, and cut with the log") {
  World world;
  auto segment = Segment::create(world.context, Offset(100));
  for (int i = 0; i < 10; ++i) appendTo(*segment, {makeBatch(segment->end(), {.records = 10})});
  auto collect = [&](int first, int end) {
    std::vector<AbortedTransaction> found;
    bool complete = segment->collectAborted(Offset(first), Offset(end), found);
    std::string text;
    for (auto& entry : found) text += fmt::format("{} ", entry.first);
    return text + (complete ? "complete" : "more");
  };
  CHECK(collect(0, 1000) == "more");
  segment->noteAborted({ProducerId(1), Offset(90), Offset(119), Offset(120)});
  segment->flushIndexes();
  segment->noteAborted({ProducerId(1), Offset(130), Offset(149), Offset(150)});
  for (int round = 0; round < 2; ++round) {
    CHECK(collect(100, 120) == "90 complete");
    CHECK(collect(120, 130) == "complete");
    CHECK(collect(110, 200) == "90 130 more");
    segment->seal();
    segment = world.reopen(Offset(100));
  }
  segment->truncate(segment->positionOf(Offset(140)).value(), Offset(140));
  CHECK(collect(100, 140) == "90 more");
}

TEST_CASE("what is written stays pinned until a sync that began later") {
  World world;
  auto segment = Segment::create(world.context, Offset(0));
  CHECK(segment->syncFile() == nullptr);
  appendTo(*segment, {makeBatch(Offset(0))});
  FileRef first = segment->syncFile();
  REQUIRE(first != nullptr);
  uint64_t size = segment->size();
  first->sync();
  appendTo(*segment, {makeBatch(Offset(1))});
  segment->synced(size);
  CHECK(segment->syncFile() != nullptr);
  segment->synced(segment->size());
  CHECK(segment->syncFile() == nullptr);
}

TEST_CASE("an idle segment holds no file open, and a pinned slice outlives its removal") {
  World world;
  auto segment = Segment::create(world.context, Offset(0));
  appendTo(*segment, {makeBatch(Offset(0))});
  segment->synced(segment->size());
  segment->seal();
  CHECK(world.cache.openCount() == 0);
  Slice slice = segment->read({.offset = Offset(0), .upper = Offset(1), .bytesMax = 1000}).value();
  segment->markDeleted();
  removeFiles(*world.system, world.path(), Offset(0), kDeletedSuffix);
  CHECK(world.system->list(world.path()).empty());
  Buffer bytes(slice.length);
  CHECK(slice.file->read(slice.position, bytes) == slice.length);
  CHECK(record::BatchView(bytes).crcOk());
}

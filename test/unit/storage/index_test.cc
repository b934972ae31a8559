#include <doctest/doctest.h>

#include "base/random.h"
#include "fixtures.h"
#include "runtime/uv/file_system.h"
#include "storage/offset_index.h"
#include "storage/time_index.h"
#include "storage/transaction_index.h"

using namespace mq;
using namespace mq::storage;
using namespace mq::storage::test;

namespace {
constexpr Offset kBase{1000};
Buffer zeros(size_t count) { return Buffer(count); }
Buffer operator+(Buffer a, const Buffer& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
}  // namespace

TEST_CASE("an offset index entry is the offset from the base and the position, big endian") {
  Buffer bytes = encodeIndex(std::vector<OffsetIndexEntry>{{Offset(1258), 70000}}, kBase);
  CHECK(bytes == Buffer{0, 0, 1, 2, 0, 1, 0x11, 0x70});
  auto decoded = decodeOffsetIndex(bytes, kBase, Offset(2000), 80000);
  CHECK(decoded.problem == "");
  CHECK(decoded.entries == std::vector<OffsetIndexEntry>{{Offset(1258), 70000}});
}

TEST_CASE("a time index entry is the timestamp and the offset from the base, big endian") {
  Buffer bytes = encodeIndex(std::vector<TimeIndexEntry>{{WallMs(0x0102030405060708), Offset(1258)}}, kBase);
  CHECK(bytes == Buffer{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 1, 2});
  CHECK(decodeTimeIndex(bytes, kBase, Offset(2000)).entries.size() == 1);
}

TEST_CASE("a damaged offset index ends at its first bad entry") {
  std::vector<OffsetIndexEntry> good{{Offset(1010), 5000}, {Offset(1020), 10000}};
  auto decode = [](const Buffer& bytes) { return decodeOffsetIndex(bytes, kBase, Offset(1500), 50000); };
  auto with = [&](Offset offset, uint64_t position) {
    auto entries = good;
    entries.push_back({offset, position});
    return decode(encodeIndex(entries, kBase));
  };
  CHECK(with(Offset(1030), 15000).problem == "");
  CHECK(with(Offset(1020), 15000).problem == "entry 2: entries do not grow");
  CHECK(with(Offset(1030), 10000).problem == "entry 2: entries do not grow");
  CHECK(with(Offset(1500), 15000).problem == "entry 2: offset 1500 is past the log's end 1500");
  CHECK(with(Offset(1030), 50000).problem == "entry 2: position 50000 is past the log's 50000 bytes");
  CHECK(with(Offset(900), 15000).entries == good);
  CHECK(decode(encodeIndex(good, kBase) + Buffer{1, 2, 3}).problem == "entry 2: ends inside an entry");

  auto padded = decode(encodeIndex(good, kBase) + zeros(4096 * 8));
  CHECK(padded.zeroPadded);
  CHECK(padded.problem == "");
  CHECK(padded.entries == good);
  CHECK(decode({}).entries.empty());
}

TEST_CASE("a damaged time index ends at its first bad entry") {
  std::vector<TimeIndexEntry> good{{WallMs(50), Offset(1000)}, {WallMs(60), Offset(1020)}};
  auto with = [&](int64_t timestamp, int64_t offset) {
    auto entries = good;
    entries.push_back({WallMs(timestamp), Offset(offset)});
    return decodeTimeIndex(encodeIndex(entries, kBase), kBase, Offset(1500)).problem;
  };
  CHECK(with(61, 1021) == "");
  CHECK(with(60, 1021) == "entry 2: entries do not grow");
  CHECK(with(61, 1020) == "entry 2: entries do not grow");
  CHECK(with(61, 1500) == "entry 2: offset 1500 is past the log's end 1500");
}

TEST_CASE("a transaction index entry with an impossible field is refused") {
  AbortedTransaction good{ProducerId(7), Offset(900), Offset(1100), Offset(1101)};
  Buffer bytes = encodeIndex({good});
  CHECK(bytes.size() == 34);
  auto decode = [](const Buffer& b) { return decodeTransactionIndex(b, kBase, Offset(1500)); };
  CHECK(decode(bytes).entries == std::vector{good});
  auto problem = [&](auto change) {
    AbortedTransaction bad = good;
    change(bad);
    return decode(encodeIndex({bad})).problem;
  };
  CHECK(problem([](auto& t) { t.producer = kNoProducer; }) == "entry 0: producer id -1");
  CHECK(problem([](auto& t) { t.first = Offset(1101); }) == "entry 0: a transaction from 1101 to 1100");
  CHECK(problem([](auto& t) { t.last = Offset(999); }) == "entry 0: entries do not grow");
  CHECK(problem([](auto& t) { t.last = Offset(1500); }) == "entry 0: offset 1500 is past the log's end 1500");
  CHECK(problem([](auto& t) { t.lastStable = Offset(1102); }) ==
        "entry 0: last stable offset 1102 for a marker at 1100");
  bytes[1] = 1;
  CHECK(decode(bytes).problem == "entry 0: version 1, not 0");
}

TEST_CASE("the aborted transactions of a range are those that overlap it, and no later one once none can follow") {
  std::vector<AbortedTransaction> entries{{ProducerId(1), Offset(10), Offset(20), Offset(15)},
                                          {ProducerId(2), Offset(15), Offset(30), Offset(31)},
                                          {ProducerId(1), Offset(40), Offset(50), Offset(51)}};
  auto collect = [&](int first, int end) {
    std::vector<AbortedTransaction> found;
    bool complete = collectAborted(entries, Offset(first), Offset(end), found);
    std::string text;
    for (auto& entry : found) text += fmt::format("{} ", entry.first);
    return text + (complete ? "complete" : "more");
  };
  CHECK(collect(0, 10) == "complete");
  CHECK(collect(0, 11) == "10 complete");
  CHECK(collect(0, 16) == "10 15 complete");
  CHECK(collect(20, 21) == "10 15 complete");
  CHECK(collect(21, 40) == "15 complete");
  CHECK(collect(31, 41) == "40 complete");
  CHECK(collect(51, 100) == "more");
}

TEST_CASE("entries are found alike in the file, in memory and across both") {
  TestDirectory directory;
  auto system = realFileSystem();
  FileRef file = system->open(directory / "index", OpenMode::create);
  Prng random(7);
  OffsetIndex index(kBase);
  std::vector<OffsetIndexEntry> model;
  for (int round = 0; round < 12; ++round) {
    for (uint64_t n = random.below(400); n > 0; --n) {
      OffsetIndexEntry last = model.empty() ? OffsetIndexEntry{kBase, 0} : model.back();
      model.push_back({last.offset + static_cast<int64_t>(1 + random.below(5)), last.position + 1 + random.below(9)});
      index.append(model.back());
    }
    if (random.below(3) != 0) index.flush(*file);
    for (int look = 0; look < 100; ++look) {
      Offset offset = kBase + static_cast<int64_t>(random.below(model.empty() ? 10 : model.back().offset - kBase + 10));
      auto before = [&](const OffsetIndexEntry& entry) { return entry.offset <= offset; };
      auto end = std::partition_point(model.begin(), model.end(), before);
      auto found = index.lastWhere(file.get(), before);
      REQUIRE(found.has_value() == (end != model.begin()));
      if (found) REQUIRE(*found == *(end - 1));
      size_t seen = 0;
      index.visitAfter(file.get(), before, [&](const OffsetIndexEntry& entry) {
        REQUIRE(entry == *(end + seen));
        return ++seen < 5;
      });
      REQUIRE(seen == std::min<size_t>(5, model.end() - end));
    }
    if (random.below(4) == 0 && !model.empty()) {
      Offset cut = model[random.below(model.size())].offset;
      auto keep = [&](const OffsetIndexEntry& entry) { return entry.offset < cut; };
      index.truncate(file.get(), keep);
      model.erase(std::partition_point(model.begin(), model.end(), keep), model.end());
      REQUIRE(index.count() == model.size());
    }
  }
  index.flush(*file);
  Buffer bytes(file->size());
  file->read(0, bytes);
  CHECK(bytes == encodeIndex(model, kBase));
}

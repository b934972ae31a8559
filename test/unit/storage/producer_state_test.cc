#include "storage/producer_state.h"

#include <doctest/doctest.h>

#include "base/crc32c.h"
#include "base/random.h"

using namespace mq;
using namespace mq::storage;

namespace {

constexpr ProducerId kId{5};

ProducerBatch batch(int first, int last, int64_t offset, int16_t epoch = 0, bool transactional = false,
                    ProducerId id = kId) {
  int64_t count = (int64_t{last} - first + (int64_t{1} << 31)) % (int64_t{1} << 31) + 1;
  return {id, epoch, first, last, Offset(offset), Offset(offset + count - 1), WallMs(1000 + offset), transactional};
}

ProducerMarker marker(int64_t offset, bool aborted, int16_t epoch = 0, int coordinator = 1, ProducerId id = kId) {
  return {id, epoch, coordinator, aborted, Offset(offset), WallMs(1000 + offset)};
}

std::string verdict(const ProducerState& state, const ProducerBatch& batch) {
  auto checked = state.check(batch);
  if (!checked) return std::string(kafkaName(checked.errorCode()));
  if (!*checked) return "ok";
  return fmt::format("duplicate of {}-{}", (*checked)->firstOffset, (*checked)->lastOffset);
}

std::string show(const ProducerState& state) {
  std::string text;
  for (auto& [id, p] : state.producers()) {
    text += fmt::format("{}: epoch {} txn {} coordinator {} time {}:", id, p.epoch, p.transactionFirst,
                        p.coordinatorEpoch, p.timestamp);
    for (size_t i = 0; i < p.batchCount; ++i)
      text +=
          fmt::format(" {}..{}@{}", p.batches[i].firstSequence(), p.batches[i].lastSequence, p.batches[i].lastOffset);
    text += "\n";
  }
  auto unstable = state.firstUnstable();
  return text + (unstable ? fmt::format("unstable {}", *unstable) : "stable");
}

}  // namespace

TEST_CASE("a producer of which nothing is known may begin with any sequence") {
  ProducerState state;
  CHECK(verdict(state, batch(0, 3, 0)) == "ok");
  CHECK(verdict(state, batch(77, 80, 0, 3)) == "ok");
}

TEST_CASE("sequences must follow each other, and each of the last five batches is known again") {
  ProducerState state;
  for (int i = 0; i < 7; ++i) {
    REQUIRE(verdict(state, batch(i * 10, i * 10 + 9, i * 100)) == "ok");
    state.apply(batch(i * 10, i * 10 + 9, i * 100));
  }
  CHECK(verdict(state, batch(70, 75, 700)) == "ok");
  CHECK(verdict(state, batch(71, 75, 700)) == "OUT_OF_ORDER_SEQUENCE_NUMBER");
  CHECK(verdict(state, batch(0, 5, 700)) == "OUT_OF_ORDER_SEQUENCE_NUMBER");
  for (int i = 2; i < 7; ++i)
    CHECK(verdict(state, batch(i * 10, i * 10 + 9, 999)) == fmt::format("duplicate of {}-{}", i * 100, i * 100 + 9));
  CHECK(verdict(state, batch(10, 19, 999)) == "OUT_OF_ORDER_SEQUENCE_NUMBER");  // the sixth from the end
  CHECK(verdict(state, batch(60, 68, 999)) == "OUT_OF_ORDER_SEQUENCE_NUMBER");  // not the same range
}

TEST_CASE("sequences wrap from 2^31 - 1 to 0, between batches and inside one") {
  ProducerState state;
  state.apply(batch(INT32_MAX - 4, INT32_MAX, 0));
  CHECK(verdict(state, batch(0, 2, 5)) == "ok");
  CHECK(verdict(state, batch(1, 2, 5)) == "OUT_OF_ORDER_SEQUENCE_NUMBER");

  ProducerState other;
  other.apply(batch(INT32_MAX - 1, 1, 0));
  CHECK(other.producers().at(kId).batches[0].firstSequence() == INT32_MAX - 1);
  CHECK(verdict(other, batch(INT32_MAX - 1, 1, 50)) == "duplicate of 0-3");
  CHECK(verdict(other, batch(2, 2, 50)) == "ok");
}

TEST_CASE("an older epoch is refused; a newer one begins at 0 and forgets the old batches") {
  ProducerState state;
  state.apply(batch(0, 9, 0, 3));
  CHECK(verdict(state, batch(10, 11, 10, 2)) == "INVALID_PRODUCER_EPOCH");
  CHECK(verdict(state, batch(10, 11, 10, 4)) == "OUT_OF_ORDER_SEQUENCE_NUMBER");
  CHECK(verdict(state, batch(0, 9, 10, 4)) == "ok");
  state.apply(batch(0, 9, 10, 4));
  CHECK(verdict(state, batch(0, 9, 20, 4)) == "duplicate of 10-19");
  CHECK(state.producers().at(kId).batchCount == 1);
}

TEST_CASE("a transaction holds the last stable offset until its marker is below the high watermark") {
  ProducerState state;
  state.apply(batch(0, 4, 10, 0, true));
  state.apply(batch(0, 4, 15, 0, true, ProducerId(6)));
  CHECK(state.firstUnstable() == Offset(10));
  CHECK(verdict(state, batch(5, 5, 20)) == "INVALID_TXN_STATE");

  std::optional<AbortedTransaction> aborted;
  state.apply(marker(20, true), &aborted);
  CHECK(aborted == AbortedTransaction{kId, Offset(10), Offset(20), Offset(15)});  // 6 is still open
  CHECK(state.firstUnstable() == Offset(10));
  state.onHighWatermark(Offset(20));  // the marker itself is not below it
  CHECK(state.firstUnstable() == Offset(10));
  state.onHighWatermark(Offset(21));
  CHECK(state.firstUnstable() == Offset(15));

  aborted.reset();
  state.apply(marker(21, false, 0, 1, ProducerId(6)), &aborted);
  CHECK(!aborted);
  CHECK(state.firstOpen() == std::nullopt);
  CHECK(state.firstUnstable() == Offset(15));
  state.onHighWatermark(Offset(22));
  CHECK(!state.firstUnstable());
}

TEST_CASE("a marker without data here ends nothing and aborts nothing") {
  ProducerState state;
  std::optional<AbortedTransaction> aborted;
  state.apply(marker(3, true), &aborted);
  CHECK(!aborted);
  CHECK(!state.firstUnstable());
  CHECK(state.producers().at(kId).coordinatorEpoch == 1);
}

TEST_CASE("markers of an old producer epoch or an old coordinator are refused") {
  ProducerState state;
  state.apply(marker(3, false, 2, 7));
  CHECK(state.check(marker(4, false, 1, 7)).errorCode() == Error::invalidProducerEpoch);
  CHECK(state.check(marker(4, false, 2, 6)).errorCode() == Error::transactionCoordinatorFenced);
  CHECK(state.check(marker(4, false, 2, 7)).has_value());
  CHECK(state.check(marker(4, false, 3, 8)).has_value());
}

TEST_CASE("a marker of the same epoch lets the sequences go on, one of the next epoch starts them anew") {
  ProducerState state;
  state.apply(batch(0, 4, 0, 0, true));
  state.apply(marker(5, false));
  CHECK(verdict(state, batch(5, 6, 6, 0, true)) == "ok");
  state.apply(marker(6, false, 1));
  CHECK(verdict(state, batch(5, 6, 7, 1, true)) == "OUT_OF_ORDER_SEQUENCE_NUMBER");
  CHECK(verdict(state, batch(0, 6, 7, 1, true)) == "ok");
}

TEST_CASE("a producer whose first batch was taken back must begin with it all the same") {
  ProducerState state;
  auto undo = state.apply(batch(0, 4, 0));
  state.undo(std::move(undo));
  CHECK(verdict(state, batch(5, 5, 0)) == "OUT_OF_ORDER_SEQUENCE_NUMBER");
  CHECK(verdict(state, batch(0, 4, 0)) == "ok");
  // Of one that began elsewhere nothing is known, as before.
  auto other = state.apply(batch(7, 9, 0, 0, false, ProducerId(6)));
  state.undo(std::move(other));
  CHECK(state.producers().contains(ProducerId(6)) == false);
}

TEST_CASE("undoing gives back exactly the state before, whatever was applied") {
  Prng random(11);
  ProducerState state;
  for (int64_t id = 0; id < 4; ++id) state.apply(batch(0, 0, id, 0, false, ProducerId(id)));
  int64_t offset = 4;
  auto applyOne = [&] {
    ProducerId id(static_cast<int64_t>(random.below(4)));
    auto known = state.producers().find(id);
    int16_t epoch = known == state.producers().end() ? 0 : known->second.epoch;
    if (random.below(8) == 0) ++epoch;
    if (random.below(4) == 0) return state.apply(marker(offset++, random.below(2) == 0, epoch, 1, id));
    int last = known == state.producers().end() || known->second.epoch != epoch ? -1 : known->second.lastSequence();
    offset += 3;
    return state.apply(batch(last + 1, last + 3, offset - 3, epoch, random.below(2) == 0, id));
  };
  for (int round = 0; round < 300; ++round) {
    std::string before = show(state);
    std::vector<ProducerState::Undo> undos;
    for (uint64_t n = 1 + random.below(6); n > 0; --n) undos.push_back(applyOne());
    for (; !undos.empty(); undos.pop_back()) state.undo(std::move(undos.back()));
    REQUIRE(show(state) == before);
    applyOne();
    if (random.below(3) == 0) state.onHighWatermark(Offset(offset));
  }
  CHECK(state.size() == 4);
}

TEST_CASE("producers expire by their last time, but never inside a transaction") {
  ProducerState state;
  state.apply(batch(0, 0, 0));                             // time 1000
  state.apply(batch(0, 0, 500, 0, false, ProducerId(6)));  // 1500
  state.apply(batch(0, 0, 1, 0, true, ProducerId(7)));     // 1001, open
  CHECK(state.expire(WallMs(1999), 1000) == 0);
  CHECK(state.expire(WallMs(2400), 1000) == 1);
  CHECK(state.producers().contains(ProducerId(6)));
  CHECK(state.producers().contains(ProducerId(7)));
  CHECK(state.firstOpen() == Offset(1));
  CHECK(verdict(state, batch(42, 43, 600)) == "ok");  // forgotten: any sequence
}

TEST_CASE("a snapshot keeps of each producer its epoch, last batch and open transaction") {
  ProducerState state;
  state.apply(batch(5, 9, 5));
  state.apply(batch(0, 4, 10, 2, true, ProducerId(9)));
  state.apply(marker(15, false, 1, 3, ProducerId(4)));
  Buffer file = state.encodeSnapshot();
  CHECK(file.size() == 10 + 3 * 46);
  ProducerState loaded;
  REQUIRE(loaded.decodeSnapshot(file).has_value());
  CHECK(show(loaded) ==
        "4: epoch 1 txn -1 coordinator 3 time 1015:\n"
        "5: epoch 0 txn -1 coordinator -1 time 1005: 5..9@9\n"
        "9: epoch 2 txn 10 coordinator -1 time 1010: 0..4@14\n"
        "unstable 10");
  CHECK(loaded.encodeSnapshot() == file);
  CHECK(verdict(loaded, batch(5, 9, 99)) == "duplicate of 5-9");
}

TEST_CASE("a snapshot keeps the recent batches before the last one, behind what Kafka reads") {
  ProducerState state;
  state.apply(batch(0, 4, 0));
  state.apply(batch(5, 9, 5));
  ProducerState old = state;
  for (int i = 2; i < 8; ++i) state.apply(batch(5 * i, 5 * i + 4, 5 * i + 1));
  state.apply(batch(0, 4, 100, 0, false, ProducerId(6)));
  CHECK(state.encodeSnapshot(ProducerState::Earlier::none).size() == 10 + 2 * 46);
  Buffer file = state.encodeSnapshot();
  CHECK(file.size() == 10 + 2 * 46 + 8 + 4 * 32);
  ProducerState loaded;
  REQUIRE(loaded.decodeSnapshot(file).has_value());
  CHECK(show(loaded) == show(state));
  CHECK(loaded.encodeSnapshot() == file);
  CHECK(verdict(loaded, batch(10, 14, 99)) == "OUT_OF_ORDER_SEQUENCE_NUMBER");
  CHECK(verdict(loaded, batch(15, 19, 99)) == "duplicate of 16-20");
  CHECK(verdict(loaded, batch(40, 44, 99)) == "ok");

  // Those that no client sends again any more are left out.
  auto late = batch(10, 14, 20);
  late.timestamp = WallMs(1000 + ProducerState::kRecentMs + 1);
  old.apply(late);
  REQUIRE(loaded.decodeSnapshot(old.encodeSnapshot()).has_value());
  CHECK(verdict(loaded, batch(0, 4, 99)) == "OUT_OF_ORDER_SEQUENCE_NUMBER");
  CHECK(verdict(loaded, batch(5, 9, 99)) == "duplicate of 5-9");

  // But not because the clock jumped, or another producer's is ahead.
  auto ahead = batch(0, 0, 200, 0, false, ProducerId(7));
  ahead.timestamp = WallMs(1000 + 100 * ProducerState::kRecentMs);
  state.apply(ahead);
  REQUIRE(loaded.decodeSnapshot(state.encodeSnapshot()).has_value());
  CHECK(show(loaded) == show(state));

  // Whatever is wrong behind the entries makes the whole file worthless.
  for (size_t at = 10 + 2 * 46; at < file.size(); ++at) {
    for (uint8_t bit : {0x80, 0x40, 0x04}) {
      Buffer bad = file;
      bad[at] ^= bit;
      storeBigEndian(bad.data() + 2, crc32c(Bytes(bad).subspan(6)));
      if (loaded.decodeSnapshot(bad)) continue;  // another number that can be
      CHECK(loaded.empty());
    }
    Buffer cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(at));
    storeBigEndian(cut.data() + 2, crc32c(Bytes(cut).subspan(6)));
    CHECK(loaded.decodeSnapshot(cut).has_value() == (at == 10 + 2 * 46));
  }
}

TEST_CASE("a damaged snapshot is refused and leaves nothing behind") {
  ProducerState state;
  state.apply(batch(0, 4, 0));
  state.apply(batch(0, 4, 5, 0, true, ProducerId(6)));
  Buffer good = state.encodeSnapshot();
  auto problem = [](Buffer file, bool fixCrc) {
    if (fixCrc && file.size() >= 6) storeBigEndian(file.data() + 2, crc32c(Bytes(file).subspan(6)));
    ProducerState loaded;
    loaded.apply(batch(0, 0, 0));
    auto decoded = loaded.decodeSnapshot(file);
    REQUIRE(!decoded.has_value());
    CHECK(loaded.empty());
    CHECK(!loaded.firstUnstable());
    return decoded.failure().message;
  };
  auto changed = [&](size_t at, uint8_t value) {
    Buffer file = good;
    file[at] = value;
    return file;
  };
  CHECK(problem({}, false) == "0 bytes are no snapshot");
  CHECK(problem(changed(1, 2), false) == "version 2, not 1");
  for (size_t at = 6; at < good.size(); ++at)
    CHECK(problem(changed(at, good[at] ^ 0x20), false) == "the checksum is wrong");
  CHECK(problem(changed(9, 3), true) == "3 producers in 102 bytes");
  CHECK(problem(changed(6, 0x7f), true) == "2130706434 producers in 102 bytes");
  CHECK(problem(changed(10 + 46 + 7, 5), true) == "producer 5 stands there twice");
  CHECK(problem(changed(10, 0x80), true).starts_with("producer id -"));
  for (size_t size = 0; size < good.size(); ++size) problem(Buffer(good.begin(), good.begin() + size), true);
}

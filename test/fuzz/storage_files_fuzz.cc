// The decoders of the files beside a log. The first byte chooses the file: offset index, time index, transaction index,
// producer snapshot, offset checkpoint, leader epochs, partition.metadata.
// What is taken must be written again as it was, and be in order.
#include "base/check.h"
#include "base/crc32c.h"
#include "fuzz.h"
#include "storage/checkpoint.h"
#include "storage/leader_epochs.h"
#include "storage/offset_index.h"
#include "storage/partition_metadata.h"
#include "storage/producer_state.h"
#include "storage/time_index.h"
#include "storage/transaction_index.h"

namespace mq::fuzz {
namespace {

using namespace storage;

constexpr Offset kBase{1'000'000};
constexpr Offset kEnd = kBase + 500'000;

template <class Entry>
void checkIndex(const DecodedIndex<Entry>& decoded, const Buffer& again, Bytes file) {
  MQ_CHECK(again.size() <= file.size(), again.size(), file.size());
  MQ_CHECK(std::equal(again.begin(), again.end(), file.begin()));
  bool whole = again.size() == file.size();
  MQ_CHECK(whole == (decoded.problem.empty() && !decoded.zeroPadded), again.size(), file.size(), decoded.problem);
}

void snapshot(Bytes file) {
  // The checksum would keep all but the luckiest inputs out.
  Buffer fixed(file.begin(), file.end());
  if (fixed.size() >= 6) storeBigEndian(fixed.data() + 2, crc32c(Bytes(fixed).subspan(6)));
  ProducerState state;
  if (!state.decodeSnapshot(fixed)) {
    MQ_CHECK(state.empty());
    MQ_CHECK(!state.firstUnstable().has_value());
    return;
  }
  Buffer again = state.encodeSnapshot();
  ProducerState second;
  MQ_CHECK(second.decodeSnapshot(again).has_value());
  MQ_CHECK(second.encodeSnapshot() == again);
  for (const auto& [id, producer] : state.producers()) {
    int32_t next = producer.lastSequence() + (producer.lastSequence() < INT32_MAX ? 1 : 0);
    (void)state.check(
        ProducerBatch{.producer = id, .epoch = producer.epoch, .firstSequence = next, .lastSequence = next});
  }
}

Buffer seed(uint8_t kind, Bytes content) {
  Buffer input{kind};
  input.insert(input.end(), content.begin(), content.end());
  return input;
}

}  // namespace

void fuzzOne(Bytes input) {
  if (input.empty()) return;
  Bytes file = input.subspan(1);
  switch (input[0] % 7) {
    case 0: {
      auto decoded = decodeOffsetIndex(file, kBase, kEnd, 1 << 30);
      checkIndex(decoded, encodeIndex(decoded.entries, kBase), file);
      break;
    }
    case 1: {
      auto decoded = decodeTimeIndex(file, kBase, kEnd);
      checkIndex(decoded, encodeIndex(decoded.entries, kBase), file);
      break;
    }
    case 2: {
      auto decoded = decodeTransactionIndex(file, kBase, kEnd);
      checkIndex(decoded, encodeIndex(decoded.entries), file);
      std::vector<AbortedTransaction> found;
      collectAborted(decoded.entries, kBase, kEnd, found);
      MQ_CHECK(found.size() <= decoded.entries.size());
      break;
    }
    case 3: snapshot(file); break;
    case 4: {
      auto decoded = decodeCheckpoint(asText(file));
      if (decoded) MQ_CHECK(decodeCheckpoint(encodeCheckpoint(*decoded)).value() == *decoded);
      break;
    }
    case 5: {
      auto decoded = LeaderEpochs::decode(asText(file));
      if (!decoded) break;
      MQ_CHECK(LeaderEpochs::decode(decoded->encode()).value().entries() == decoded->entries());
      for (const EpochStart& entry : decoded->entries()) {
        MQ_CHECK(decoded->epochOf(entry.start) == entry.epoch, entry.epoch);
        MQ_CHECK(decoded->endOffsetFor(entry.epoch, Offset(INT64_MAX)).has_value(), entry.epoch);
      }
      break;
    }
    default: {
      auto decoded = decodePartitionMetadata(asText(file));
      if (decoded) MQ_CHECK(decodePartitionMetadata(encodePartitionMetadata(*decoded)).value() == *decoded);
    }
  }
}

std::vector<Buffer> fuzzSeeds() {
  ProducerState state;
  for (int64_t id = 0; id < 3; ++id) {
    state.apply(ProducerBatch{.producer = ProducerId(id),
                              .epoch = 2,
                              .firstSequence = 0,
                              .lastSequence = 9,
                              .firstOffset = Offset(id * 10),
                              .lastOffset = Offset(id * 10 + 9),
                              .timestamp = WallMs(1'700'000'000'000),
                              .transactional = id == 1});
  }
  state.apply(ProducerMarker{
      .producer = ProducerId(7), .epoch = 1, .coordinatorEpoch = 4, .offset = Offset(30), .timestamp = WallMs(1)});
  std::vector<OffsetIndexEntry> offsets;
  std::vector<TimeIndexEntry> times;
  std::vector<AbortedTransaction> aborted;
  for (int64_t i = 1; i <= 20; ++i) {
    offsets.push_back({kBase + i * 100, static_cast<uint64_t>(i) * 5000});
    times.push_back({WallMs(1'700'000'000'000 + i), kBase + i * 100});
    aborted.push_back({ProducerId(i), kBase + i * 100 - 50, kBase + i * 100, kBase + i * 100 + 1});
  }
  Buffer padded = encodeIndex(offsets, kBase);
  padded.resize(padded.size() + 64);
  return {seed(0, encodeIndex(offsets, kBase)),
          seed(0, padded),
          seed(1, encodeIndex(times, kBase)),
          seed(2, encodeIndex(aborted)),
          seed(3, state.encodeSnapshot()),
          seed(4, asBytes(encodeCheckpoint({{{"topic", 0}, Offset(12)}, {{"__consumer_offsets", 49}, Offset(0)}}))),
          seed(5, asBytes("0\n3\n0 0\n4 170\n9 2000\n")),
          seed(6, asBytes(encodePartitionMetadata(Uuid::fromHalves(1, 2))))};
}

}  // namespace mq::fuzz

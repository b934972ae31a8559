#include "storage/producer_state.h"

#include <algorithm>

#include "base/check.h"
#include "base/crc32c.h"
#include "record/batch.h"

namespace mq::storage {
namespace {

constexpr int16_t kSnapshotVersion = 1;
constexpr size_t kSnapshotCrcAt = 2;
constexpr size_t kSnapshotCrcFrom = 6;
constexpr size_t kSnapshotHeaderBytes = 10;
constexpr size_t kSnapshotEntryBytes = 46;
static_assert(8 + 2 + 4 + 8 + 4 + 8 + 4 + 8 == kSnapshotEntryBytes);
constexpr uint32_t kEarlierMagic = 0x4d514231;
constexpr size_t kEarlierEntryBytes = 32;
static_assert(8 + 4 + 8 + 4 + 8 == kEarlierEntryBytes);

void addBatch(ProducerState::Producer& producer, const ProducerState::Batch& batch) {
  if (producer.batchCount == ProducerState::kBatchesKept) {
    std::shift_left(producer.batches.begin(), producer.batches.end(), 1);
    --producer.batchCount;
  }
  producer.batches[producer.batchCount++] = batch;
}

void setEpoch(ProducerState::Producer& producer, int16_t epoch) {
  if (producer.epoch == epoch) return;
  producer.epoch = epoch;
  producer.batchCount = 0;  // sequences begin anew with each epoch
}

}  // namespace

int32_t ProducerState::Batch::firstSequence() const { return record::sequenceAfter(lastSequence, -offsetDelta); }

Result<std::optional<Duplicate>> ProducerState::check(const ProducerBatch& batch) const {
  auto found = producers_.find(batch.producer);
  if (found == producers_.end()) return std::nullopt;
  const Producer& producer = found->second;
  if (batch.epoch < producer.epoch) {
    return failure(Error::invalidProducerEpoch, "producer {} has epoch {}, the batch {}", batch.producer,
                   producer.epoch, batch.epoch);
  }
  if (batch.epoch == producer.epoch) {
    for (size_t i = 0; i < producer.batchCount; ++i) {
      const Batch& known = producer.batches[i];
      if (known.lastSequence == batch.lastSequence && known.firstSequence() == batch.firstSequence)
        return Duplicate{known.firstOffset(), known.lastOffset, known.timestamp};
    }
    int32_t expected = record::sequenceAfter(producer.lastSequence(), 1);
    if (batch.firstSequence != expected) {
      return failure(Error::outOfOrderSequenceNumber,
                     "producer {} epoch {}: sequence {} was expected, the batch has {} to {}", batch.producer,
                     batch.epoch, expected, batch.firstSequence, batch.lastSequence);
    }
  } else if (batch.firstSequence != 0 && producer.epoch >= 0) {
    return failure(Error::outOfOrderSequenceNumber, "producer {} begins epoch {} with sequence {}, not 0",
                   batch.producer, batch.epoch, batch.firstSequence);
  }
  if (producer.inTransaction() && !batch.transactional) {
    return failure(Error::invalidTxnState,
                   "producer {} has a transaction open since offset {}, the batch is outside it", batch.producer,
                   producer.transactionFirst);
  }
  return std::nullopt;
}

Result<void> ProducerState::check(const ProducerMarker& marker) const {
  auto found = producers_.find(marker.producer);
  if (found == producers_.end()) return {};
  const Producer& producer = found->second;
  if (marker.epoch < producer.epoch) {
    return failure(Error::invalidProducerEpoch, "producer {} has epoch {}, the marker {}", marker.producer,
                   producer.epoch, marker.epoch);
  }
  if (marker.coordinatorEpoch < producer.coordinatorEpoch) {
    return failure(Error::transactionCoordinatorFenced, "coordinator epoch {} wrote here, the marker has {}",
                   producer.coordinatorEpoch, marker.coordinatorEpoch);
  }
  return {};
}

void ProducerState::setTransaction(ProducerId id, Producer& producer, Offset first) {
  if (producer.inTransaction()) open_.erase({producer.transactionFirst, id});
  producer.transactionFirst = first;
  if (producer.inTransaction()) open_.insert({first, id});
}

ProducerState::Undo ProducerState::apply(const ProducerBatch& batch) {
  Undo undo;
  undo.producer_ = batch.producer;
  auto [place, isNew] = producers_.try_emplace(batch.producer);
  Producer& producer = place->second;
  if (!isNew) undo.before_ = producer;
  setEpoch(producer, batch.epoch);
  addBatch(producer, {batch.lastSequence, static_cast<int32_t>(batch.lastOffset - batch.firstOffset), batch.lastOffset,
                      batch.timestamp});
  producer.timestamp = batch.timestamp;
  if (batch.transactional && !producer.inTransaction()) setTransaction(batch.producer, producer, batch.firstOffset);
  return undo;
}

ProducerState::Undo ProducerState::apply(const ProducerMarker& marker, std::optional<AbortedTransaction>* aborted) {
  Undo undo;
  undo.producer_ = marker.producer;
  auto [place, isNew] = producers_.try_emplace(marker.producer);
  Producer& producer = place->second;
  if (!isNew) undo.before_ = producer;
  if (producer.inTransaction()) {
    Offset first = producer.transactionFirst;
    setTransaction(marker.producer, producer, Offset(-1));
    finished_.push_back({first, marker.offset});
    undo.completed_ = true;
    if (marker.aborted && aborted != nullptr)
      *aborted = AbortedTransaction{marker.producer, first, marker.offset, firstOpen().value_or(marker.offset + 1)};
  }
  setEpoch(producer, marker.epoch);
  producer.coordinatorEpoch = marker.coordinatorEpoch;
  producer.timestamp = marker.timestamp;
  return undo;
}

void ProducerState::undo(Undo&& undo) {
  auto found = producers_.find(undo.producer_);
  MQ_CHECK(found != producers_.end(), undo.producer_);
  if (undo.completed_) {
    MQ_CHECK(!finished_.empty(), undo.producer_);
    finished_.pop_back();
  }
  if (undo.before_) {
    setTransaction(undo.producer_, found->second, undo.before_->transactionFirst);
    found->second = *undo.before_;
  } else {
    setTransaction(undo.producer_, found->second, Offset(-1));
    Producer& producer = found->second;
    if (producer.batchCount == 1 && producer.batches[0].firstSequence() == 0) {
      producer.batchCount = 0;  // remembered as one that begins
    } else {
      producers_.erase(found);
    }
  }
}

size_t ProducerState::expire(WallMs now, int64_t expirationMs) {
  return std::erase_if(producers_, [&](const auto& entry) {
    return !entry.second.inTransaction() && now - entry.second.timestamp >= expirationMs;
  });
}

void ProducerState::clear() {
  producers_.clear();
  open_.clear();
  finished_.clear();
}

std::optional<Offset> ProducerState::firstOpen() const {
  if (open_.empty()) return std::nullopt;
  return open_.begin()->first;
}

std::optional<Offset> ProducerState::firstUnstable() const {
  std::optional<Offset> first = firstOpen();
  for (const Finished& finished : finished_) {
    if (!first || finished.first < *first) first = finished.first;
  }
  return first;
}

void ProducerState::onHighWatermark(Offset highWatermark) {
  std::erase_if(finished_, [&](const Finished& finished) { return finished.last < highWatermark; });
}

Buffer ProducerState::encodeSnapshot(Earlier earlier) const {
  Buffer file;
  file.reserve(kSnapshotHeaderBytes + producers_.size() * kSnapshotEntryBytes);
  ByteWriter writer(file);
  writer.int16(kSnapshotVersion);
  writer.uint32(0);
  writer.int32(static_cast<int32_t>(producers_.size()));
  for (const auto& [id, producer] : producers_) {
    Batch last = producer.batchCount > 0 ? producer.batches[producer.batchCount - 1] : Batch{};
    writer.int64(id.value());
    writer.int16(producer.epoch);
    writer.int32(last.lastSequence);
    writer.int64(last.lastOffset.value());
    writer.int32(last.offsetDelta);
    writer.int64(producer.timestamp.value());
    writer.int32(producer.coordinatorEpoch);
    writer.int64(producer.transactionFirst.value());
  }
  size_t countAt = 0;
  int32_t count = 0;
  for (const auto& [id, producer] : producers_) {
    // Beside its own last batch, not the newest of all: clocks jump, and differ between producers.
    const int64_t oldest = std::max(producer.timestamp.value(), INT64_MIN + kRecentMs) - kRecentMs;
    for (size_t i = 0; earlier == Earlier::recent && i + 1 < producer.batchCount; ++i) {
      const Batch& batch = producer.batches[i];
      if (batch.timestamp.value() < oldest) continue;
      if (count++ == 0) {
        writer.uint32(kEarlierMagic);
        countAt = file.size();
        writer.int32(0);
      }
      writer.int64(id.value());
      writer.int32(batch.lastSequence);
      writer.int64(batch.lastOffset.value());
      writer.int32(batch.offsetDelta);
      writer.int64(batch.timestamp.value());
    }
  }
  if (count > 0) storeBigEndian(file.data() + countAt, count);
  storeBigEndian(file.data() + kSnapshotCrcAt, crc32c(Bytes(file).subspan(kSnapshotCrcFrom)));
  return file;
}

Result<void> ProducerState::decodeSnapshot(Bytes file) {
  clear();
  auto bad = [&](std::string what) {
    clear();
    return Failure(Error::corruptMessage, std::move(what));
  };
  ByteReader reader(file);
  int16_t version = reader.int16();
  uint32_t crc = reader.uint32();
  int32_t count = reader.int32();
  if (!reader.ok()) return bad(fmt::format("{} bytes are no snapshot", file.size()));
  if (version != kSnapshotVersion) return bad(fmt::format("version {}, not {}", version, kSnapshotVersion));
  if (crc32c(file.subspan(kSnapshotCrcFrom)) != crc) return bad("the checksum is wrong");
  if (count < 0 || reader.left() < static_cast<uint64_t>(count) * kSnapshotEntryBytes)
    return bad(fmt::format("{} producers in {} bytes", count, file.size()));
  for (int32_t i = 0; i < count; ++i) {
    ProducerId id(reader.int64());
    Producer producer;
    Batch last;
    producer.epoch = reader.int16();
    last.lastSequence = reader.int32();
    last.lastOffset = Offset(reader.int64());
    last.offsetDelta = reader.int32();
    last.timestamp = producer.timestamp = WallMs(reader.int64());
    producer.coordinatorEpoch = reader.int32();
    Offset transactionFirst(reader.int64());
    if (id.value() < 0) return bad(fmt::format("producer id {}", id));
    if (last.lastOffset.value() >= 0) {
      if (last.lastSequence < 0 || last.offsetDelta < 0 || last.offsetDelta > last.lastOffset.value())
        return bad(fmt::format("producer {}: a batch that ends at sequence {}, offset {}, of {} records", id,
                               last.lastSequence, last.lastOffset, int64_t{last.offsetDelta} + 1));
      addBatch(producer, last);
    }
    auto [place, isNew] = producers_.emplace(id, producer);
    if (!isNew) return bad(fmt::format("producer {} stands there twice", id));
    if (transactionFirst.value() >= 0) setTransaction(id, place->second, transactionFirst);
  }
  if (reader.left() > 0) {
    if (auto problem = decodeEarlier(reader)) return bad(std::move(*problem));
  }
  return {};
}

// The batches before the last ones, which are there already. An answer: what is wrong.
std::optional<std::string> ProducerState::decodeEarlier(ByteReader& reader) {
  uint32_t magic = reader.uint32();
  int32_t count = reader.int32();
  if (!reader.ok() || magic != kEarlierMagic || count < 0 ||
      reader.left() != static_cast<uint64_t>(count) * kEarlierEntryBytes) {
    return "behind the producers stands what is none of ours";
  }
  for (int32_t i = 0; i < count; ++i) {
    ProducerId id(reader.int64());
    Batch batch;
    batch.lastSequence = reader.int32();
    batch.lastOffset = Offset(reader.int64());
    batch.offsetDelta = reader.int32();
    batch.timestamp = WallMs(reader.int64());
    auto found = producers_.find(id);
    if (found == producers_.end() || found->second.batchCount == 0 || found->second.batchCount == kBatchesKept)
      return fmt::format("an earlier batch of producer {}, which has no place for it", id);
    Producer& producer = found->second;
    Batch last = producer.batches[producer.batchCount - 1];
    bool isFirst = producer.batchCount == 1;
    if (batch.lastSequence < 0 || batch.offsetDelta < 0 || batch.offsetDelta > batch.lastOffset.value() ||
        batch.lastOffset >= last.lastOffset ||
        (!isFirst && batch.lastOffset <= producer.batches[producer.batchCount - 2].lastOffset)) {
      return fmt::format("producer {}: an earlier batch that ends at sequence {}, offset {}, of {} records", id,
                         batch.lastSequence, batch.lastOffset, int64_t{batch.offsetDelta} + 1);
    }
    producer.batches[producer.batchCount - 1] = batch;
    producer.batches[producer.batchCount++] = last;
  }
  return std::nullopt;
}

}  // namespace mq::storage

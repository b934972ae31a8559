#include "storage/cleaner.h"

#include <xxhash.h>

#include <algorithm>
#include <new>

#include "base/check.h"
#include "record/builder.h"
#include "record/recompress.h"
#include "record/records.h"

namespace mq::storage {

using record::BatchView;

// --- KeyMap

KeyMap::KeyMap(size_t places, double loadFactor, uint64_t seed)
    : count_(std::max<size_t>(places, 2)),
      sizeMax_(std::clamp<size_t>(static_cast<size_t>(static_cast<double>(count_) * loadFactor), 1, count_ - 1)),
      seed_(seed),
      places_(static_cast<Place*>(std::calloc(count_, sizeof(Place)))) {
  if (places_ == nullptr) throw std::bad_alloc();
}

KeyMap::Hash KeyMap::hashOf(Bytes key) const {
  XXH128_hash_t hash = XXH3_128bits_withSeed(key.data(), key.size(), seed_);
  return {hash.low64, hash.high64};
}

size_t KeyMap::placeOf(const Hash& hash) const {
  auto at = static_cast<size_t>((static_cast<unsigned __int128>(hash.low) * count_) >> 64);
  while (places_[at].offset != 0 && places_[at].hash != hash) {
    if (++at == count_) at = 0;
  }
  return at;
}

bool KeyMap::put(Bytes key, Offset offset) {
  const Hash hash = hashOf(key);
  Place& place = places_[placeOf(hash)];
  if (place.offset == 0) {
    if (size_ == sizeMax_) return false;
    ++size_;
  }
  place = {hash, static_cast<uint64_t>(offset.value()) + 1};
  return true;
}

Offset KeyMap::find(Bytes key) const { return Offset(static_cast<int64_t>(places_[placeOf(hashOf(key))].offset) - 1); }

// --- TransactionWalk

TransactionWalk::TransactionWalk(std::vector<AbortedTransaction> aborted) : aborted_(std::move(aborted)) {
  std::ranges::sort(aborted_, {}, &AbortedTransaction::first);
}

void TransactionWalk::advance(Offset upTo) {
  for (; next_ < aborted_.size() && aborted_[next_].first <= upTo; ++next_) {
    aborting_[aborted_[next_].producer] = {aborted_[next_]};
  }
}

bool TransactionWalk::isAborted(const BatchView& data) {
  if (!data.isTransactional()) return false;
  advance(data.lastOffset());
  auto found = aborting_.find(data.producerId());
  if (found != aborting_.end() && found->second.entry.last > data.lastOffset()) {
    found->second.met = true;
    return true;
  }
  committing_.insert(data.producerId());
  return false;
}

Result<TransactionWalk::Marker> TransactionWalk::marker(const BatchView& control, record::Workspace& workspace) {
  advance(control.lastOffset());
  if (control.recordCount() == 0) return Marker{.isBare = true, .aborted = {}};  // emptied by Kafka
  auto read = record::readControlRecord(control, workspace);
  if (!read) return read.failure();
  switch (read->type) {
    case record::ControlType::commit:
      return Marker{.isBare = committing_.erase(control.producerId()) == 0, .aborted = {}};
    case record::ControlType::abort: {
      auto found = aborting_.find(control.producerId());
      if (found == aborting_.end()) return Marker{.isBare = true, .aborted = {}};
      Aborting aborting = found->second;
      aborting_.erase(found);
      if (!aborting.met) return Marker{.isBare = true, .aborted = {}};
      return Marker{.isBare = false, .aborted = aborting.entry};
    }
    default: return Marker{};
  }
}

// --- KeyPass

KeyPass::KeyPass(KeyMap& keys, std::vector<AbortedTransaction> aborted, Offset from)
    : keys_(keys), transactions_(std::move(aborted)), from_(from), end_(from) {}

void KeyPass::reached(Offset offset) { end_ = std::max(end_, offset); }

Result<bool> KeyPass::add(const BatchView& batch, record::Workspace& workspace) {
  if (batch.isControl()) {
    if (auto marker = transactions_.marker(batch, workspace); !marker) return marker.failure();
  } else if (!transactions_.isAborted(batch) && batch.lastOffset() >= from_) {
    auto records = record::openRecords(batch, workspace);
    if (!records) return records.failure();
    record::RecordView record;
    while (records->next(record)) {
      if (record.offset < from_ || !record.key) continue;
      if (!keys_.put(*record.key, record.offset)) return false;
      reached(record.offset + 1);
    }
    if (!records->ok()) return Failure(Error::corruptMessage, std::string(records->problem()));
  }
  reached(batch.nextOffset());
  return true;
}

// --- FilterPass

FilterPass::FilterPass(const KeyMap& keys, std::vector<AbortedTransaction> aborted, FilterRules rules)
    : keys_(keys), transactions_(std::move(aborted)), rules_(std::move(rules)) {}

std::vector<AbortedTransaction> FilterPass::takeAborted() { return std::exchange(abortedKept_, {}); }

bool FilterPass::isLastOfProducer(const BatchView& batch) const {
  if (!batch.hasProducerId()) return false;
  auto found = rules_.producers.find(batch.producerId());
  if (found == rules_.producers.end()) return false;
  const LastOfProducer& last = found->second;
  if (last.lastOffset.value() >= 0) return batch.lastOffset() == last.lastOffset;
  return batch.isControl() && batch.producerEpoch() == last.epoch;
}

bool FilterPass::staysEmpty(const BatchView& batch) const {
  return batch.nextOffset() == rules_.uncleanable || isLastOfProducer(batch);
}

Result<FilterPass::Fate> FilterPass::filter(const BatchView& batch, record::Workspace& workspace, Buffer& out) {
  figures_.recordsRead += static_cast<uint64_t>(batch.recordCount());
  return batch.isControl() ? filterMarker(batch, workspace, out) : filterData(batch, workspace, out);
}

namespace {

record::BatchOptions optionsOf(const BatchView& batch, std::optional<WallMs> deleteHorizon) {
  record::BatchOptions options{.baseOffset = batch.baseOffset(),
                               .leaderEpoch = batch.leaderEpoch(),
                               .codec = batch.codec(),
                               .level = {},
                               .producerId = batch.producerId(),
                               .producerEpoch = batch.producerEpoch(),
                               .baseSequence = batch.baseSequence(),
                               .isTransactional = batch.isTransactional(),
                               .isControl = batch.isControl(),
                               .appendTime = {},
                               .deleteHorizon = deleteHorizon};
  if (batch.isLogAppendTime()) options.appendTime = batch.maxTimestamp();
  return options;
}

// delete.retention.ms may be as large as numbers go.
WallMs horizonAt(WallMs now, int64_t retentionMs) {
  return retentionMs > INT64_MAX - now.value() ? WallMs(INT64_MAX) : now + retentionMs;
}

void append(Buffer& out, const Buffer& batch) { out.insert(out.end(), batch.begin(), batch.end()); }

}  // namespace

Result<FilterPass::Fate> FilterPass::filterMarker(const BatchView& batch, record::Workspace& workspace, Buffer& out) {
  auto marker = transactions_.marker(batch, workspace);
  if (!marker) return marker.failure();
  bool isOver = marker->isBare && batch.hasDeleteHorizon() && *batch.deleteHorizon() <= rules_.now;
  if ((isOver || batch.recordCount() == 0) && !staysEmpty(batch)) return Fate::dropped;
  if (marker->aborted) abortedKept_.push_back(*marker->aborted);
  figures_.recordsKept += static_cast<uint64_t>(batch.recordCount());
  if (!marker->isBare || batch.hasDeleteHorizon() || batch.recordCount() == 0) return Fate::kept;

  auto records = record::openRecords(batch, workspace);
  if (!records) return records.failure();
  record::BatchBuilder builder(optionsOf(batch, horizonAt(rules_.now, rules_.deleteRetentionMs)));
  record::RecordView record;
  while (records->next(record)) builder.addCopy(record);
  if (!records->ok()) return Failure(Error::corruptMessage, std::string(records->problem()));
  builder.setLastOffset(batch.lastOffset());
  append(out, builder.build(workspace));
  return Fate::rewritten;
}

Result<FilterPass::Fate> FilterPass::filterData(const BatchView& batch, record::Workspace& workspace, Buffer& out) {
  const bool isAborted = transactions_.isAborted(batch);
  int32_t kept = 0;
  bool hasTombstone = false;
  const bool tombstonesStay = !batch.hasDeleteHorizon() || rules_.now < *batch.deleteHorizon();
  auto stays = [&](const record::RecordView& record) {
    if (record.offset >= rules_.mapped) return true;
    if (!record.key) return false;
    return record.offset >= keys_.find(*record.key) && (record.value || tombstonesStay);
  };

  // Twice over the records: most batches stay as they are or go, and then nothing is built.
  if (!isAborted) {
    auto records = record::openRecords(batch, workspace);
    if (!records) return records.failure();
    record::RecordView record;
    while (records->next(record)) {
      if (!stays(record)) {
        figures_.keyless += !record.key;
        continue;
      }
      ++kept;
      hasTombstone |= !record.value;
    }
    if (!records->ok()) return Failure(Error::corruptMessage, std::string(records->problem()));
  }
  figures_.recordsKept += static_cast<uint64_t>(kept);
  if (kept == 0) {
    if (!staysEmpty(batch)) return Fate::dropped;
    if (batch.recordCount() == 0) return Fate::kept;
    record::emptied(batch, out);
    return Fate::rewritten;
  }
  const bool needsHorizon = hasTombstone && !batch.hasDeleteHorizon();
  if (kept == batch.recordCount() && !needsHorizon) return Fate::kept;

  auto records = record::openRecords(batch, workspace);
  if (!records) return records.failure();
  record::BatchBuilder builder(
      optionsOf(batch, needsHorizon ? horizonAt(rules_.now, rules_.deleteRetentionMs) : batch.deleteHorizon()));
  record::RecordView record;
  while (records->next(record)) {
    if (stays(record)) builder.addCopy(record);
  }
  builder.setLastOffset(batch.lastOffset());
  append(out, builder.build(workspace));
  return Fate::rewritten;
}

}  // namespace mq::storage

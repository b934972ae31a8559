// ProducerState: what a partition knows of its idempotent and transactional producers. Pure.
//
// Per producer id: epoch, the last five batches (sequence ranges, offsets, time), the epoch of the transaction
// coordinator that wrote its last marker, and where its open transaction begins. Over all: which transactions are open,
// and which are finished but have their marker above the high watermark; both hold back the last stable offset.
//
// check() decides and changes nothing; apply() changes and cannot fail; undo() takes an apply back when the write
// failed, newest first. A producer whose very first batch (sequence 0) failed stays known: what it sent behind that
// batch must not be taken for its beginning, or the first one could never come. Replay after a restart is apply() over
// the batches, on top of a snapshot. Sequences are 0 .. 2^31 - 1 and wrap to 0. Rules: Kafka's ProducerStateManager and
// ProducerAppendInfo.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/types.h"
#include "storage/transaction_index.h"

namespace mq::storage {

struct ProducerBatch {  // the part of a data batch that concerns its producer
  ProducerId producer = kNoProducer;
  int16_t epoch = -1;
  int32_t firstSequence = -1;
  int32_t lastSequence = -1;  // may be below the first: wrapped
  Offset firstOffset;
  Offset lastOffset;
  WallMs timestamp = kNoTimestamp;  // what expiry counts from: the caller's choice of append time or batch time
  bool transactional = false;
};

struct ProducerMarker {  // a control batch that ends a transaction
  ProducerId producer = kNoProducer;
  int16_t epoch = -1;
  int32_t coordinatorEpoch = -1;
  bool aborted = false;
  Offset offset;
  WallMs timestamp = kNoTimestamp;
};

struct Duplicate {  // the batch is here already: what its first append answered
  Offset firstOffset;
  Offset lastOffset;
  WallMs timestamp;
};

class ProducerState {
 public:
  static constexpr size_t kBatchesKept = 5;

  struct Batch {
    int32_t lastSequence = -1;
    int32_t offsetDelta = 0;  // last - first offset
    Offset lastOffset{-1};
    WallMs timestamp = kNoTimestamp;
    int32_t firstSequence() const;
    Offset firstOffset() const { return lastOffset - offsetDelta; }
  };
  struct Producer {
    int16_t epoch = -1;
    uint8_t batchCount = 0;
    int32_t coordinatorEpoch = -1;
    Offset transactionFirst{-1};              // of the open transaction; -1: none
    WallMs timestamp = kNoTimestamp;          // of the last batch or marker
    std::array<Batch, kBatchesKept> batches;  // oldest first, batchCount of them
    bool inTransaction() const { return transactionFirst.value() >= 0; }
    int32_t lastSequence() const { return batchCount == 0 ? -1 : batches[batchCount - 1].lastSequence; }
    Offset lastOffset() const { return batchCount == 0 ? Offset(-1) : batches[batchCount - 1].lastOffset; }
  };

  // --- deciding

  // May the batch of a client be appended? A value: yes if nullopt, else it is a duplicate. Errors:
  // invalidProducerEpoch, outOfOrderSequenceNumber, invalidTxnState (plain batch inside an open transaction).
  // If nothing is known of the producer, any first sequence is accepted.
  Result<std::optional<Duplicate>> check(const ProducerBatch& batch) const;
  // May the marker be appended? Errors: invalidProducerEpoch, transactionCoordinatorFenced.
  Result<void> check(const ProducerMarker& marker) const;

  // --- changing. Never fails: what is in the log is so.

  class Undo {
   public:
    ProducerId producer() const { return producer_; }

   private:
    friend class ProducerState;
    ProducerId producer_ = kNoProducer;
    std::optional<Producer> before_;
    bool completed_ = false;  // the apply moved a transaction from open to finished
  };
  Undo apply(const ProducerBatch& batch);
  // *aborted is set if the marker aborted a transaction that has data here: the entry for the transaction index.
  Undo apply(const ProducerMarker& marker, std::optional<AbortedTransaction>* aborted = nullptr);
  void undo(Undo&& undo);

  // Drops producers without an open transaction whose last timestamp is at or below now - expiration. Returns how many.
  size_t expire(WallMs now, int64_t expirationMs);
  void clear();

  // --- transactions

  // First offset of an open transaction, or of a finished one whose marker is at or above the high watermark as last
  // told; nullopt: nothing holds the last stable offset back.
  std::optional<Offset> firstUnstable() const;
  std::optional<Offset> firstOpen() const;
  void onHighWatermark(Offset highWatermark);  // forgets finished transactions whose marker is below it

  const std::map<ProducerId, Producer>& producers() const { return producers_; }
  size_t size() const { return producers_.size(); }
  bool empty() const { return producers_.empty(); }

  // --- snapshot file, Kafka's version 1
  //
  //   @0 int16 version 1   @2 uint32 CRC-32C of all from @6   @6 int32 count   @10 entries of 46 bytes: int64 producer
  //   id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta, int64 timestamp, int32 coordinator
  //   epoch, int64 first offset of the open transaction (-1)
  //
  // That has only the last batch of each producer, and what a client with several batches in flight sends again after a
  // crash would be out of order. So the recent batches before it follow; Kafka's readers do not look behind the
  // entries:
  //
  //   uint32 "MQB1"   int32 count   entries of 32 bytes, oldest first: int64 producer id, int32 last sequence, int64
  //   last offset, int32 offset delta, int64 timestamp

  static constexpr int64_t kRecentMs = 900'000;  // longer than clients try again
  enum class Earlier { recent, none };
  Buffer encodeSnapshot(Earlier earlier = Earlier::recent) const;
  // Replaces the state. Errors (corruptMessage, with the reason) leave it empty.
  Result<void> decodeSnapshot(Bytes file);

 private:
  void setTransaction(ProducerId id, Producer& producer, Offset first);
  std::optional<std::string> decodeEarlier(ByteReader& reader);
  struct Finished {
    Offset first;
    Offset last;
  };
  std::map<ProducerId, Producer> producers_;
  std::set<std::pair<Offset, ProducerId>> open_;  // by first offset
  std::vector<Finished> finished_;                // in marker order
};

}  // namespace mq::storage

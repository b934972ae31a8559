// Building batches: what producers, coordinators, compaction and tests write.
//
//   BatchBuilder builder({.codec = Codec::lz4});
//   builder.add({.timestamp = now, .key = key, .value = value});
//   Buffer batch = builder.build(workspace);
//
// Deterministic: the same calls give the same bytes. Null and empty keys and values stay apart.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/types.h"
#include "record/batch.h"
#include "record/compression.h"
#include "record/records.h"

namespace mq::record {

struct BatchOptions {
  Offset baseOffset{0};
  LeaderEpoch leaderEpoch = kNoLeaderEpoch;
  Codec codec = Codec::none;
  Level level;
  ProducerId producerId = kNoProducer;
  int16_t producerEpoch = kNoProducerEpoch;
  int32_t baseSequence = kNoSequence;
  bool isTransactional = false;
  bool isControl = false;
  std::optional<WallMs> appendTime;     // the batch says log append time, and this is it
  std::optional<WallMs> deleteHorizon;  // of compaction: when its tombstones or its marker may go
};

struct NewRecord {
  WallMs timestamp = kNoTimestamp;
  std::optional<Bytes> key;
  std::optional<Bytes> value;
  std::span<const HeaderView> headers;
};

class BatchBuilder {
 public:
  explicit BatchBuilder(BatchOptions options = {});

  void add(const NewRecord& record);                   // at the offset after the last one
  void addAt(Offset offset, const NewRecord& record);  // leaving out offsets; never backwards
  void addCopy(const RecordView& record);              // as it is in another batch, at its own offset

  // Offsets up to this one (inclusive) belong to the batch although no record has them.
  void setLastOffset(Offset last);

  bool empty() const { return count_ == 0; }
  int32_t recordCount() const { return count_; }
  size_t plainSizeBytes() const { return Layout::kHeaderBytes + records_.size(); }  // if built now, uncompressed
  static size_t sizeOf(const NewRecord& record);                                    // most that the record adds to that

  // The batch, and the builder is as after construction, with the same options but for what follows on: base offset
  // and base sequence continue.
  Buffer build(Workspace& workspace);

 private:
  void appendFields(int32_t offsetDelta, int8_t attributes, const NewRecord& record, int32_t headerCount,
                    size_t headersSize);

  BatchOptions options_;
  Buffer records_;
  int32_t count_ = 0;
  int32_t lastOffsetDelta_ = -1;
  WallMs baseTimestamp_ = kNoTimestamp;
  WallMs maxTimestamp_ = kNoTimestamp;
};

// Ends a producer's transaction on a partition: one control record, EndTxnMarker version 0.
Buffer endTxnMarker(ControlType commitOrAbort, ProducerId producerId, int16_t producerEpoch, int32_t coordinatorEpoch,
                    WallMs timestamp, Offset baseOffset = Offset(0));

}  // namespace mq::record

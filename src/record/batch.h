// The record batch, version 2: the one format of records on the wire, on disk and between replicas.
// Source: KIP-98 and Kafka's DefaultRecordBatch; big endian.
//
//   @0  baseOffset int64             given by the leader at append
//   @8  batchLength int32            bytes that follow this field: the whole batch is 12 + batchLength
//   @12 partitionLeaderEpoch int32   given by the leader at append
//   @16 magic int8                   2
//   @17 crc uint32                   CRC-32C of @21 to the end, so offset and leader epoch change without a new one
//   @21 attributes int16             bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
//   @23 lastOffsetDelta int32        survives compaction, which may remove the record that had it
//   @27 baseTimestamp int64          with bit 6: the delete horizon, for the records too it is still the base
//   @35 maxTimestamp int64           with bit 3: the append time, which overrides the time of every record
//   @43 producerId int64, @51 producerEpoch int16, @53 baseSequence int32     -1: none
//   @57 recordCount int32
//   @61 records                      one compressed blob when a codec is set
//
// BatchView reads one batch through a span and copies nothing. It trusts nothing but the 61 bytes of header being
// there: nextBatch() and peekBatch() make views; everything else in a batch is claimed by whoever wrote it. Offsets and
// sequences that overflow wrap around, as they do in Kafka.
// No state, any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/types.h"

namespace mq::record {

// Where each field is, from the first byte of the batch.
struct Layout {
  static constexpr size_t kBaseOffset = 0;
  static constexpr size_t kBatchLength = 8;
  static constexpr size_t kLeaderEpoch = 12;
  static constexpr size_t kMagic = 16;
  static constexpr size_t kCrc = 17;
  static constexpr size_t kAttributes = 21;
  static constexpr size_t kLastOffsetDelta = 23;
  static constexpr size_t kBaseTimestamp = 27;
  static constexpr size_t kMaxTimestamp = 35;
  static constexpr size_t kProducerId = 43;
  static constexpr size_t kProducerEpoch = 51;
  static constexpr size_t kBaseSequence = 53;
  static constexpr size_t kRecordCount = 57;
  static constexpr size_t kRecords = 61;

  static constexpr size_t kHeaderBytes = kRecords;
  static constexpr size_t kCrcFrom = kAttributes;
  static constexpr size_t kLengthEnd = kBatchLength + sizeof(int32_t);  // batchLength counts from here
  static constexpr int32_t kBatchLengthMin = kHeaderBytes - kLengthEnd;
};
static_assert(Layout::kHeaderBytes == 61 && Layout::kLengthEnd == 12 && Layout::kBatchLengthMin == 49);
static_assert(Layout::kCrc + sizeof(uint32_t) == Layout::kCrcFrom);
static_assert(Layout::kBaseOffset + 8 <= Layout::kCrcFrom && Layout::kLeaderEpoch + 4 <= Layout::kCrcFrom);

inline constexpr int8_t kMagic = 2;
inline constexpr int16_t kNoProducerEpoch = -1;
inline constexpr int32_t kNoSequence = -1;

// Numbers are those of the attributes; 5 to 7 are not codecs, but a batch can claim them.
enum class Codec : uint8_t { none = 0, gzip = 1, snappy = 2, lz4 = 3, zstd = 4 };

inline bool isKnown(Codec codec) { return codec <= Codec::zstd; }
std::string_view nameOf(Codec codec);                    // "lz4"; "unknown" for the others
std::optional<Codec> codecNamed(std::string_view name);  // "none", "gzip", "snappy", "lz4", "zstd"

// Whose clock gives a record its time: the producer's or the leader's.
enum class TimestampType : uint8_t { createTime = 0, logAppendTime = 1 };

struct Attributes {
  static constexpr int16_t kCodecMask = 0x07;
  static constexpr int16_t kLogAppendTime = 1 << 3;
  static constexpr int16_t kTransactional = 1 << 4;
  static constexpr int16_t kControl = 1 << 5;
  static constexpr int16_t kDeleteHorizon = 1 << 6;
};

class BatchView {
 public:
  // From at least the 61 bytes of header. records() and crcOk() need the whole batch (isWhole()).
  explicit BatchView(Bytes bytes);

  Offset baseOffset() const { return Offset(load<int64_t>(Layout::kBaseOffset)); }
  int32_t batchLength() const { return load<int32_t>(Layout::kBatchLength); }
  LeaderEpoch leaderEpoch() const { return LeaderEpoch(load<int32_t>(Layout::kLeaderEpoch)); }
  int8_t magic() const { return load<int8_t>(Layout::kMagic); }
  uint32_t crc() const { return load<uint32_t>(Layout::kCrc); }
  int16_t attributes() const { return load<int16_t>(Layout::kAttributes); }
  int32_t lastOffsetDelta() const { return load<int32_t>(Layout::kLastOffsetDelta); }
  WallMs baseTimestamp() const { return WallMs(load<int64_t>(Layout::kBaseTimestamp)); }
  WallMs maxTimestamp() const { return WallMs(load<int64_t>(Layout::kMaxTimestamp)); }
  ProducerId producerId() const { return ProducerId(load<int64_t>(Layout::kProducerId)); }
  int16_t producerEpoch() const { return load<int16_t>(Layout::kProducerEpoch); }
  int32_t baseSequence() const { return load<int32_t>(Layout::kBaseSequence); }
  int32_t recordCount() const { return load<int32_t>(Layout::kRecordCount); }

  // The whole batch, header included, as its length field says.
  size_t sizeBytes() const { return Layout::kLengthEnd + static_cast<size_t>(batchLength()); }
  bool isWhole() const { return bytes_.size() >= sizeBytes(); }
  Offset lastOffset() const;     // of the batch as it was produced, also when compaction removed that record
  Offset nextOffset() const;     // lastOffset + 1
  int32_t lastSequence() const;  // kNoSequence without one; wraps from 2^31 - 1 to 0

  Codec codec() const { return static_cast<Codec>(attributes() & Attributes::kCodecMask); }
  bool isCompressed() const { return codec() != Codec::none; }
  TimestampType timestampType() const {
    return isLogAppendTime() ? TimestampType::logAppendTime : TimestampType::createTime;
  }
  bool isLogAppendTime() const { return has(Attributes::kLogAppendTime); }
  bool isTransactional() const { return has(Attributes::kTransactional); }
  bool isControl() const { return has(Attributes::kControl); }
  bool hasDeleteHorizon() const { return has(Attributes::kDeleteHorizon); }
  std::optional<WallMs> deleteHorizon() const;
  bool hasProducerId() const { return producerId() > kNoProducer; }

  Bytes whole() const { return bytes_.first(sizeBytes()); }
  Bytes records() const { return whole().subspan(Layout::kRecords); }  // compressed if a codec is set
  uint32_t computeCrc() const;
  bool crcOk() const { return computeCrc() == crc(); }

 private:
  template <class T>
  T load(size_t at) const {
    return loadBigEndian<T>(bytes_.data() + at);
  }
  bool has(int16_t flag) const { return (attributes() & flag) != 0; }

  Bytes bytes_;
};

// What stands at the start of `bytes`. Readers of segments, of fetched data and of requests walk with this: it checks
// length and magic of the next batch and that all of it is there, not its CRC.
struct NextBatch {
  enum class Kind : uint8_t {
    whole,  // `batch` is one batch, at its exact size; the rest of the bytes follows it
    end,    // no byte left
    torn,   // the bytes end inside a batch that so far is sound. Legal only at the tail of a file being written and
            // at the end of a fetch answer
    bad,    // no batch of this format can start here (zero padding, garbage, older formats). Walking on is guessing
  };
  Kind kind = Kind::end;
  Bytes batch;              // whole: the batch. torn: what there is of it
  size_t sizeBytes = 0;     // whole and torn: the size of the batch; 0 if torn before the length field ends
  std::string_view reason;  // torn and bad: for people
};

NextBatch nextBatch(Bytes bytes);

// The same, but whole as soon as the header is there, even if the records are not: for readers that look at headers
// alone and take the records from elsewhere. `batch` is then all of `bytes` that belongs to the batch.
NextBatch peekBatch(Bytes bytes);

// Fields outside the CRC.
void setBaseOffset(MutableBytes batch, Offset offset);
void setLeaderEpoch(MutableBytes batch, LeaderEpoch epoch);

// Fields inside it: the CRC is computed anew when something changed. `batch` must be exactly one whole batch.
void setTimestamps(MutableBytes batch, TimestampType type, WallMs maxTimestamp);

// For whoever builds or rebuilds a batch: the fields alone, and the end of it all, which sets length and CRC by what
// `batch` is. Until then it is no valid batch.
void setTimestampsUnsealed(MutableBytes batch, TimestampType type, WallMs maxTimestamp);
void setLengthAndCrc(MutableBytes batch);

// Sequences live in [0, 2^31) and wrap around.
int32_t sequenceAfter(int32_t sequence, int32_t by);

}  // namespace mq::record

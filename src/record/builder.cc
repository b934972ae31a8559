#include "record/builder.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "record/record_parser.h"

namespace mq::record {
namespace {

constexpr size_t kVarintBytesMax = 5;
constexpr size_t kVarlongBytesMax = 10;
// Of a record: length, attributes, timestamp delta, offset delta, key length, value length, header count.
constexpr size_t kRecordOverheadMax = 5 * kVarintBytesMax + 1 + kVarlongBytesMax;

constexpr size_t sizeOf(const std::optional<Bytes>& bytes) { return bytes ? bytes->size() : 0; }

size_t sizeOfHeaders(std::span<const HeaderView> headers) {
  size_t size = 0;
  for (const HeaderView& header : headers) {
    size += sizeOfVarint(static_cast<int32_t>(header.key.size())) + header.key.size();
    size += header.value ? sizeOfVarint(static_cast<int32_t>(header.value->size())) + header.value->size() : 1;
  }
  return size;
}

void writeNullable(ByteWriter& writer, const std::optional<Bytes>& bytes) {
  writer.varint(bytes ? static_cast<int32_t>(bytes->size()) : -1);
  if (bytes) writer.bytes(*bytes);
}

}  // namespace

BatchBuilder::BatchBuilder(BatchOptions options) : options_(options) {}

size_t BatchBuilder::sizeOf(const NewRecord& record) {
  return kRecordOverheadMax + record::sizeOf(record.key) + record::sizeOf(record.value) + sizeOfHeaders(record.headers);
}

void BatchBuilder::add(const NewRecord& record) {
  appendFields(lastOffsetDelta_ + 1, 0, record, static_cast<int32_t>(record.headers.size()),
               sizeOfHeaders(record.headers));
  ByteWriter writer(records_);
  for (const HeaderView& header : record.headers) {
    writer.varint(static_cast<int32_t>(header.key.size()));
    writer.text(header.key);
    writeNullable(writer, header.value);
  }
}

void BatchBuilder::addAt(Offset offset, const NewRecord& record) {
  setLastOffset(offset - 1);
  add(record);
}

void BatchBuilder::addCopy(const RecordView& record) {
  setLastOffset(record.offset - 1);
  NewRecord fields{.timestamp = record.timestamp, .key = record.key, .value = record.value};
  Bytes headers = record.headers.encoded();
  appendFields(lastOffsetDelta_ + 1, record.attributes, fields, record.headers.size(), headers.size());
  records_.insert(records_.end(), headers.begin(), headers.end());
}

void BatchBuilder::setLastOffset(Offset last) {
  int64_t delta = last - options_.baseOffset;
  MQ_CHECK(delta >= lastOffsetDelta_ && delta <= INT32_MAX, last, options_.baseOffset, lastOffsetDelta_);
  lastOffsetDelta_ = static_cast<int32_t>(delta);
}

// Everything of a record but its headers.
void BatchBuilder::appendFields(int32_t offsetDelta, int8_t attributes, const NewRecord& record, int32_t headerCount,
                                size_t headersSize) {
  if (count_ == 0) baseTimestamp_ = options_.deleteHorizon.value_or(record.timestamp);
  maxTimestamp_ = std::max(maxTimestamp_, record.timestamp);
  int64_t timestampDelta = wrappingSubtract(record.timestamp.value(), baseTimestamp_.value());
  auto sizeOfNullable = [](const std::optional<Bytes>& bytes) {
    return bytes ? sizeOfVarint(static_cast<int32_t>(bytes->size())) + bytes->size() : 1;
  };
  size_t size = sizeof attributes + sizeOfVarlong(timestampDelta) + sizeOfVarint(offsetDelta) +
                sizeOfNullable(record.key) + sizeOfNullable(record.value) + sizeOfVarint(headerCount) + headersSize;
  MQ_CHECK(size <= INT32_MAX, size);

  ByteWriter writer(records_);
  writer.varint(static_cast<int32_t>(size));
  writer.int8(attributes);
  writer.varlong(timestampDelta);
  writer.varint(offsetDelta);
  writeNullable(writer, record.key);
  writeNullable(writer, record.value);
  writer.varint(headerCount);
  ++count_;
  lastOffsetDelta_ = offsetDelta;
}

Buffer BatchBuilder::build(Workspace& workspace) {
  MQ_CHECK(lastOffsetDelta_ >= 0);
  int attributes = static_cast<int>(options_.codec);
  if (options_.appendTime) attributes |= Attributes::kLogAppendTime;
  if (options_.isTransactional) attributes |= Attributes::kTransactional;
  if (options_.isControl) attributes |= Attributes::kControl;
  if (options_.deleteHorizon) attributes |= Attributes::kDeleteHorizon;

  Buffer batch;
  batch.reserve(plainSizeBytes());
  ByteWriter writer(batch);
  writer.int64(options_.baseOffset.value());
  writer.int32(0);  // the length, known at the end
  writer.int32(options_.leaderEpoch.value());
  writer.int8(kMagic);
  writer.uint32(0);  // the CRC, likewise
  writer.int16(static_cast<int16_t>(attributes));
  writer.int32(lastOffsetDelta_);
  writer.int64(baseTimestamp_.value());
  writer.int64(options_.appendTime.value_or(maxTimestamp_).value());
  writer.int64(options_.producerId.value());
  writer.int16(options_.producerEpoch);
  writer.int32(options_.baseSequence);
  writer.int32(count_);
  MQ_CHECK(batch.size() == Layout::kHeaderBytes, batch.size());
  workspace.compressor.compress(options_.codec, options_.level, records_, batch);
  setLengthAndCrc(batch);

  options_.baseOffset += int64_t{lastOffsetDelta_} + 1;
  if (options_.baseSequence != kNoSequence) {
    options_.baseSequence = sequenceAfter(sequenceAfter(options_.baseSequence, lastOffsetDelta_), 1);
  }
  records_.clear();
  count_ = 0;
  lastOffsetDelta_ = -1;
  baseTimestamp_ = maxTimestamp_ = kNoTimestamp;
  return batch;
}

Buffer endTxnMarker(ControlType commitOrAbort, ProducerId producerId, int16_t producerEpoch, int32_t coordinatorEpoch,
                    WallMs timestamp, Offset baseOffset) {
  std::array<uint8_t, 2 * sizeof(int16_t)> key{};  // version 0, type
  storeBigEndian(key.data() + sizeof(int16_t), static_cast<int16_t>(commitOrAbort));
  std::array<uint8_t, sizeof(int16_t) + sizeof(int32_t)> value{};  // version 0, coordinator epoch
  storeBigEndian(value.data() + sizeof(int16_t), coordinatorEpoch);
  BatchBuilder builder({.baseOffset = baseOffset,
                        .producerId = producerId,
                        .producerEpoch = producerEpoch,
                        .isTransactional = true,
                        .isControl = true});
  builder.add({.timestamp = timestamp, .key = Bytes(key), .value = Bytes(value)});
  Workspace unused;
  return builder.build(unused);
}

}  // namespace mq::record

#include "record/records.h"

#include <algorithm>

#include "record/record_parser.h"

namespace mq::record {
namespace {

constexpr size_t kControlKeyBytesMin = 2 * sizeof(int16_t);            // version, type; later versions may append
constexpr size_t kEndTxnBytesMin = sizeof(int16_t) + sizeof(int32_t);  // version, coordinator epoch

std::optional<Bytes> nullable(const uint8_t* start, int32_t length) {
  if (length < 0) return std::nullopt;
  return Bytes(start, static_cast<size_t>(length));
}

}  // namespace

// Both only see headers that parseRecord() has accepted.
HeaderView HeadersView::Iterator::operator*() const {
  VarintCursor fields(at_, end_);
  int32_t keyLength = fields.varint();
  const uint8_t* key = fields.at();
  static_cast<void>(fields.skip(keyLength));
  int32_t valueLength = fields.varint();
  return {.key = asText(Bytes(key, static_cast<size_t>(keyLength))), .value = nullable(fields.at(), valueLength)};
}

HeadersView::Iterator& HeadersView::Iterator::operator++() {
  VarintCursor fields(at_, end_);
  static_cast<void>(fields.skip(fields.varint()));
  static_cast<void>(fields.skip(std::max(fields.varint(), 0)));
  at_ = fields.at();
  --left_;
  return *this;
}

RecordReader::RecordReader(BatchView batch, Bytes plain)
    : at_(plain.data()),
      end_(plain.data() + plain.size()),
      left_(batch.recordCount()),
      baseOffset_(batch.baseOffset()),
      baseTimestamp_(batch.baseTimestamp()) {
  if (batch.isLogAppendTime()) appendTime_ = batch.maxTimestamp();
}

bool RecordReader::stop(std::string_view problem) {
  left_ = 0;
  end_ = at_;
  problem_ = problem;
  return false;
}

bool RecordReader::next(RecordView& record) {
  if (left_ <= 0) {
    if (left_ < 0) return stop("a batch says it has fewer than no records");
    return at_ == end_ ? false : stop("there are bytes after the last record of a batch");
  }
  if (at_ == end_) return stop("a batch has fewer records than it says");
  ParsedRecord parsed;
  std::string_view problem = parseRecord(at_, end_, parsed);
  if (!problem.empty()) return stop(problem);
  record.offset = Offset(wrappingAdd(baseOffset_.value(), parsed.offsetDelta));
  record.timestamp = appendTime_.value_or(WallMs(wrappingAdd(baseTimestamp_.value(), parsed.timestampDelta)));
  record.key = nullable(parsed.key, parsed.keyLength);
  record.value = nullable(parsed.value, parsed.valueLength);
  record.headers = HeadersView(parsed.headerCount, Bytes(parsed.headers, parsed.end));
  record.attributes = parsed.attributes;
  record.offsetDelta = parsed.offsetDelta;
  record.sizeBytes = static_cast<size_t>(parsed.end - at_);
  at_ = parsed.end;
  --left_;
  return true;
}

Result<Bytes> plainRecords(BatchView batch, Workspace& workspace, size_t plainBytesMax) {
  if (!batch.isCompressed()) return batch.records();
  Result<void> done = workspace.decompressor.decompress(batch.codec(), batch.records(), plainBytesMax, workspace.plain);
  if (!done) return done.failure();
  return workspace.plain.bytes();
}

Result<RecordReader> openRecords(BatchView batch, Workspace& workspace, size_t plainBytesMax) {
  Result<Bytes> plain = plainRecords(batch, workspace, plainBytesMax);
  if (!plain) return plain.failure();
  return RecordReader(batch, *plain);
}

Result<ControlRecord> readControlRecord(BatchView batch, Workspace& workspace) {
  Result<RecordReader> records = openRecords(batch, workspace);
  if (!records) return records.failure();
  RecordView record;
  if (!batch.isControl() || !records->next(record) || !record.key) {
    return failure(Error::corruptMessage, "no control record in the batch at offset {}", batch.baseOffset());
  }
  if (record.key->size() < kControlKeyBytesMin) {
    return failure(Error::corruptMessage, "the key of the control record at offset {} is too short", record.offset);
  }
  ControlRecord control{.type = static_cast<ControlType>(loadBigEndian<int16_t>(record.key->data() + sizeof(int16_t)))};
  if (control.type == ControlType::abort || control.type == ControlType::commit) {
    if (!record.value || record.value->size() < kEndTxnBytesMin) {
      return failure(Error::corruptMessage, "the transaction marker at offset {} is too short", record.offset);
    }
    control.coordinatorEpoch = loadBigEndian<int32_t>(record.value->data() + sizeof(int16_t));
  }
  return control;
}

}  // namespace mq::record

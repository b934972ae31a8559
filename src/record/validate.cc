#include "record/validate.h"

#include "base/check.h"
#include "record/record_parser.h"
#include "record/records.h"

namespace mq::record {
namespace {

// The sizes below which Kafka cannot tell anything about the bytes, and below which it knows that no batch of any
// format is that short.
constexpr size_t kBytesToJudge = Layout::kMagic + 1;
constexpr int32_t kAnyBatchLengthMin = 14;

Failure invalid(std::string_view what) { return Failure(Error::invalidRecord, std::string(what)); }

// The one batch in the bytes, at its size. What follows it may be a batch that was cut off: some clients send those.
Result<Bytes> theOneBatch(Bytes bytes) {
  NextBatch first = nextBatch(bytes);
  switch (first.kind) {
    case NextBatch::Kind::end: return invalid("no batch at all");
    case NextBatch::Kind::torn: return failure(Error::invalidRecord, "no whole batch: {}", first.reason);
    case NextBatch::Kind::whole: break;
    case NextBatch::Kind::bad: {
      if (bytes.size() < kBytesToJudge) return failure(Error::invalidRecord, "no whole batch: {}", first.reason);
      int8_t magic = loadBigEndian<int8_t>(bytes.data() + Layout::kMagic);
      int32_t length = loadBigEndian<int32_t>(bytes.data() + Layout::kBatchLength);
      bool olderFormat = (magic == 0 || magic == 1) && length >= kAnyBatchLengthMin;
      return failure(olderFormat ? Error::invalidRecord : Error::corruptMessage, "{} (magic {}, length {})",
                     first.reason, magic, length);
    }
  }
  NextBatch second = nextBatch(bytes.subspan(first.sizeBytes));
  if (second.kind == NextBatch::Kind::whole) return invalid("more than one batch");
  if (second.kind == NextBatch::Kind::bad) {
    return failure(Error::corruptMessage, "after the batch: {}", second.reason);
  }
  return first.batch;
}

Result<void> checkHeader(BatchView batch, const ValidationRules& rules) {
  bool fromClient = rules.origin == Origin::client;
  if (fromClient && batch.baseOffset() != Offset(0)) {
    return failure(Error::invalidRecord, "base offset {}, not 0", batch.baseOffset());
  }
  // What a coordinator writes in one step stays together, however large.
  if (fromClient && batch.sizeBytes() > rules.batchBytesMax) {
    return failure(Error::messageTooLarge, "a batch of {} bytes, more than the {} allowed here", batch.sizeBytes(),
                   rules.batchBytesMax);
  }
  if (uint32_t computed = batch.computeCrc(); computed != batch.crc()) {
    return failure(Error::corruptMessage, "CRC {:08x} in the batch, {:08x} of its bytes", batch.crc(), computed);
  }
  if (!isKnown(batch.codec())) {
    return failure(Error::invalidRecord, "codec {} does not exist", static_cast<int>(batch.codec()));
  }
  if (batch.codec() == Codec::zstd && !rules.zstdAllowed) {
    return Failure(Error::unsupportedCompressionType, "zstd needs Produce version 7");
  }
  if (batch.recordCount() <= 0) return failure(Error::invalidRecord, "record count {}", batch.recordCount());
  if (int64_t{batch.lastOffsetDelta()} + 1 != batch.recordCount()) {
    return failure(Error::invalidRecord, "last offset delta {} with {} records", batch.lastOffsetDelta(),
                   batch.recordCount());
  }
  if (batch.isControl() && fromClient) return invalid("a control batch, which only brokers write");
  if (batch.hasProducerId()) {
    if (batch.producerEpoch() < 0) return failure(Error::invalidRecord, "producer epoch {}", batch.producerEpoch());
    if (batch.baseSequence() < 0 && fromClient) {
      return failure(Error::invalidRecord, "base sequence {} of producer {}", batch.baseSequence(), batch.producerId());
    }
  } else if (batch.isTransactional()) {
    return invalid("transactional without a producer id");
  }
  return {};
}

// Collects the records at fault, and decides what the whole batch gets: as in Kafka, INVALID_TIMESTAMP if any of them
// has that.
class RecordFaults {
 public:
  explicit RecordFaults(std::vector<RecordError>* list) : list_(list) {}

  void add(Error error, int32_t index, std::string message) {
    bool first = error_ == Error::none;
    if (first || (error == Error::invalidTimestamp && error_ != error)) {
      error_ = error;
      first_ = fmt::format("record {}: {}", index, message);
    }
    if (list_ != nullptr && list_->size() < kRecordErrorsMax) list_->push_back({index, std::move(message)});
  }
  bool any() const { return error_ != Error::none; }
  Failure failure() { return Failure(error_, std::move(first_)); }

 private:
  std::vector<RecordError>* list_;
  Error error_ = Error::none;
  std::string first_;
};

class RecordWalk {
 public:
  RecordWalk(BatchView batch, const ValidationRules& rules, RecordFaults& faults)
      : count_(batch.recordCount()),
        baseTimestamp_(batch.baseTimestamp().value()),
        byProducerClock_(rules.timestampType == TimestampType::createTime),
        saysAppendTime_(batch.isLogAppendTime()),
        rules_(rules),
        faults_(faults) {}

  // An empty text if all is well but for faults.
  std::string_view run(Bytes plain, BatchFacts& facts) {
    const uint8_t* at = plain.data();
    const uint8_t* end = at + plain.size();
    int64_t maxTimestamp = kNoTimestamp.value();
    int32_t maxIndex = 0;
    int64_t timestamp = 0;
    ParsedRecord record;
    for (int32_t index = 0; index < count_; ++index) {
      if (at == end) return "fewer records than the batch says";
      std::string_view problem = parseRecord(at, end, record);
      if (!problem.empty()) return problem;
      at = record.end;
      if (record.offsetDelta != index) [[unlikely]]
        return "offset deltas do not count up from 0";
      timestamp = wrappingAdd(baseTimestamp_, record.timestampDelta);
      if (index == 0) facts.firstTimestamp = WallMs(timestamp);
      if (timestamp > maxTimestamp) {
        maxTimestamp = timestamp;
        maxIndex = index;
      }
      if (rules_.keyRequired && record.keyLength < 0) [[unlikely]] {
        faults_.add(Error::invalidRecord, index, "no key, which a compacted topic needs");
      } else if (!timestampOk(timestamp)) [[unlikely]] {
        faults_.add(Error::invalidTimestamp, index, timestampProblem(timestamp));
      }
    }
    if (at != end) return "bytes after the last record";
    facts.lastTimestamp = WallMs(timestamp);
    facts.maxTimestamp = WallMs(maxTimestamp);
    facts.maxTimestampOffsetDelta = maxIndex;
    return {};
  }

 private:
  // Differences wrap around, as they do in Kafka: times 300 million years away are refused for one reason or another.
  bool timestampOk(int64_t timestamp) const {
    if (!byProducerClock_ || timestamp == kNoTimestamp.value()) return !saysAppendTime_;
    int64_t age = wrappingSubtract(rules_.now.value(), timestamp);
    return age <= rules_.timestampBeforeMaxMs && age >= -rules_.timestampAfterMaxMs;
  }

  std::string timestampProblem(int64_t timestamp) const {
    if (!byProducerClock_ || timestamp == kNoTimestamp.value())
      return "a producer says that its times are append times";
    return fmt::format("timestamp {} is not from {} ms before to {} ms after the broker's {}", timestamp,
                       rules_.timestampBeforeMaxMs, rules_.timestampAfterMaxMs, rules_.now.value());
  }

  int32_t count_;
  int64_t baseTimestamp_;
  bool byProducerClock_;
  bool saysAppendTime_;
  const ValidationRules& rules_;
  RecordFaults& faults_;
};

}  // namespace

Result<BatchFacts> validateProduceBatch(Bytes bytes, const ValidationRules& rules, Workspace& workspace,
                                        std::vector<RecordError>* recordErrors) {
  Result<Bytes> one = theOneBatch(bytes);
  if (!one) return one.failure();
  BatchView batch(*one);
  if (Result<void> header = checkHeader(batch, rules); !header) return header.failure();

  Result<Bytes> plain = plainRecords(batch, workspace, rules.plainBytesMax);
  if (!plain) {
    if (plain.errorCode() != Error::corruptMessage) return plain.failure();
    return Failure(Error::invalidRecord, plain.failure().message);
  }
  BatchFacts facts{.sizeBytes = batch.sizeBytes(), .recordCount = batch.recordCount(), .plainRecords = *plain};
  RecordFaults faults(recordErrors);
  std::string_view problem = RecordWalk(batch, rules, faults).run(*plain, facts);
  if (!problem.empty()) return invalid(problem);
  if (faults.any()) return faults.failure();

  if (rules.timestampType == TimestampType::logAppendTime) {
    facts.firstTimestamp = facts.lastTimestamp = facts.maxTimestamp = rules.now;
    facts.maxTimestampOffsetDelta = 0;
  }
  facts.timestampsDiffer = batch.timestampType() != rules.timestampType || batch.maxTimestamp() != facts.maxTimestamp;
  return facts;
}

}  // namespace mq::record

// The records inside a batch: iteration over the uncompressed bytes, nothing copied, every length checked.
//
//   length zz, attributes int8, timestampDelta zz64, offsetDelta zz, keyLength zz, key, valueLength zz, value,
//   headerCount zz, then per header: keyLength zz, key, valueLength zz, value            (zz: zigzag varint)
//
// A key or value of length 0 is empty, of negative length null: two different things, and a null value deletes a key.
// A header key is never null. Offsets and times come out absolute; sums that overflow wrap around.
//
//   auto records = openRecords(batch, workspace);            // decompresses if need be
//   if (!records) return records.failure();
//   RecordView record;
//   while (records->next(record)) ...
//   if (!records->ok()) ...                                  // the bytes broke off or did not match their counts
//
// Views live as long as the batch's bytes and, for a compressed batch, until the workspace is used again.
#pragma once
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/types.h"
#include "record/batch.h"
#include "record/compression.h"

namespace mq::record {

struct HeaderView {
  std::string_view key;  // UTF-8 by contract; whatever was sent is kept
  std::optional<Bytes> value;
};

// The headers of one record, which were checked when the record was read.
class HeadersView {
 public:
  class Iterator {
   public:
    using value_type = HeaderView;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    HeaderView operator*() const;
    Iterator& operator++();
    Iterator operator++(int) {
      Iterator old = *this;
      ++*this;
      return old;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.left_ == b.left_; }

   private:
    friend class HeadersView;
    Iterator(const uint8_t* at, const uint8_t* end, int32_t left) : at_(at), end_(end), left_(left) {}
    const uint8_t* at_ = nullptr;
    const uint8_t* end_ = nullptr;
    int32_t left_ = 0;
  };

  HeadersView() = default;
  HeadersView(int32_t count, Bytes encoded) : count_(count), encoded_(encoded) {}

  int32_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  Bytes encoded() const { return encoded_; }  // as in the record, without the count
  Iterator begin() const { return {encoded_.data(), encoded_.data() + encoded_.size(), count_}; }
  Iterator end() const { return {nullptr, nullptr, 0}; }

 private:
  int32_t count_ = 0;
  Bytes encoded_;
};

struct RecordView {
  Offset offset;
  WallMs timestamp;  // the batch's append time where the leader gives the time
  std::optional<Bytes> key;
  std::optional<Bytes> value;
  HeadersView headers;
  int8_t attributes = 0;  // unused by Kafka, any value
  int32_t offsetDelta = 0;
  size_t sizeBytes = 0;  // in the batch, its length field included
};

class RecordReader {
 public:
  // Of `batch`, whose records, uncompressed, are `plain`.
  RecordReader(BatchView batch, Bytes plain);

  // False at the end and at the first record that is not sound.
  bool next(RecordView& record);
  // After next() said false: all the records that the batch claims were there, and nothing after them.
  bool ok() const { return problem_.empty(); }
  std::string_view problem() const { return problem_; }  // for people; empty if ok

 private:
  bool stop(std::string_view problem);

  const uint8_t* at_;
  const uint8_t* end_;
  int32_t left_;
  Offset baseOffset_;
  WallMs baseTimestamp_;
  std::optional<WallMs> appendTime_;
  std::string_view problem_;
};

// Errors as Decompressor::decompress.
Result<RecordReader> openRecords(BatchView batch, Workspace& workspace, size_t plainBytesMax = kPlainBytesMax);

// The records of the batch, uncompressed: its own bytes, or the workspace's.
Result<Bytes> plainRecords(BatchView batch, Workspace& workspace, size_t plainBytesMax = kPlainBytesMax);

// What a control batch says. One record, whose key is version int16, type int16.
enum class ControlType : int16_t {
  abort = 0,
  commit = 1,
  leaderChange = 2,
  snapshotHeader = 3,
  snapshotFooter = 4,
  kraftVersion = 5,
  kraftVoters = 6
};
struct ControlRecord {
  ControlType type;
  int32_t coordinatorEpoch = -1;  // abort and commit: of the transaction coordinator that ended the transaction
};
// Of a batch with the control flag; types that are not listed come as they are. corruptMessage if it is not built like
// one.
Result<ControlRecord> readControlRecord(BatchView batch, Workspace& workspace);

}  // namespace mq::record

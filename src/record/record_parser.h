// One record out of uncompressed bytes: the loop that runs for every record received, so it is inline, allocates
// nothing and takes the short way for varints of one and two bytes. Private to this folder; others use RecordReader.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace mq::record {

// Signed overflow is undefined here and everyday arithmetic in Kafka; offsets and times of hostile batches do overflow.
inline int64_t wrappingAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrappingSubtract(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

// Reads varints; the first that does not fit makes it fail for good, and every later one is 0.
class VarintCursor {
 public:
  VarintCursor(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}

  bool ok() const { return at_ != nullptr; }
  const uint8_t* at() const { return at_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

  int32_t varint() {
    if (left() > 0 && at_[0] < 0x80) [[likely]]
      return unzigzag(uint32_t{*at_++});
    if (left() > 1 && at_[1] < 0x80) [[likely]] {
      uint32_t raw = (at_[0] & 0x7Fu) | uint32_t{at_[1]} << 7;
      at_ += 2;
      return unzigzag(raw);
    }
    return unzigzag(static_cast<uint32_t>(longer(5)));
  }

  int64_t varlong() {
    if (left() > 0 && at_[0] < 0x80) [[likely]]
      return unzigzag(uint64_t{*at_++});
    if (left() > 1 && at_[1] < 0x80) [[likely]] {
      uint64_t raw = (at_[0] & 0x7Fu) | uint64_t{at_[1]} << 7;
      at_ += 2;
      return unzigzag(raw);
    }
    return unzigzag(longer(10));
  }

  int8_t int8() {
    if (left() == 0) return fail(), int8_t{0};
    return static_cast<int8_t>(*at_++);
  }

  // False, and nothing happens, if there are not as many. Branches on this keep the lengths out of the dependency
  // chain.
  [[nodiscard]] bool skip(int32_t count) {
    if (count < 0 || static_cast<size_t>(count) > left()) [[unlikely]]
      return false;
    at_ += count;
    return true;
  }

 private:
  static int32_t unzigzag(uint32_t raw) { return static_cast<int32_t>((raw >> 1) ^ (~(raw & 1) + 1)); }
  static int64_t unzigzag(uint64_t raw) { return static_cast<int64_t>((raw >> 1) ^ (~(raw & 1) + 1)); }

  void fail() { at_ = end_ = nullptr; }

  struct Long {
    uint64_t value;
    const uint8_t* at;  // null: it did not fit
  };
  // Out of line and without `this`, so that the cursor stays in registers.
  [[gnu::noinline]] static Long readLong(const uint8_t* at, const uint8_t* end, int bytesMax) {
    uint64_t value = 0;
    for (int i = 0; i < bytesMax && at != end; ++i) {
      uint64_t byte = *at++;
      value |= (byte & 0x7F) << (7 * i);  // bits over 64 fall off, as they do in Kafka
      if (byte < 0x80) return {value, at};
    }
    return {0, nullptr};
  }

  uint64_t longer(int bytesMax) {
    Long read = readLong(at_, end_, bytesMax);
    at_ = read.at;
    if (at_ == nullptr) end_ = nullptr;
    return read.value;
  }

  const uint8_t* at_;
  const uint8_t* end_;
};

struct ParsedRecord {
  int64_t timestampDelta;
  const uint8_t* key;
  const uint8_t* value;
  const uint8_t* headers;
  const uint8_t* end;  // of the record, where the next one starts
  int32_t offsetDelta;
  int32_t keyLength;    // negative: null
  int32_t valueLength;  // negative: null
  int32_t headerCount;
  int8_t attributes;
};

// Reads the record at `at`. Returns what is wrong with it; empty if nothing, and then all of it lies before `end`.
[[gnu::always_inline]] inline std::string_view parseRecord(const uint8_t* at, const uint8_t* end,
                                                           ParsedRecord& record) {
  VarintCursor outer(at, end);
  int32_t length = outer.varint();
  if (!outer.ok()) return "the length of a record is cut off or overlong";
  if (length < 0 || static_cast<size_t>(length) > outer.left())
    return "a record is longer than what is left of its batch";
  record.end = outer.at() + length;

  constexpr std::string_view kFieldsTooLong = "the fields of a record do not fit its length";
  VarintCursor fields(outer.at(), record.end);
  record.attributes = fields.int8();
  record.timestampDelta = fields.varlong();
  record.offsetDelta = fields.varint();
  record.keyLength = fields.varint();
  record.key = fields.at();
  if (record.keyLength > 0 && !fields.skip(record.keyLength)) return kFieldsTooLong;
  record.valueLength = fields.varint();
  record.value = fields.at();
  if (record.valueLength > 0 && !fields.skip(record.valueLength)) return kFieldsTooLong;
  record.headerCount = fields.varint();
  record.headers = fields.at();
  if (!fields.ok()) return kFieldsTooLong;
  if (record.headerCount < 0) return "a record has a negative number of headers";
  for (int32_t i = 0; i < record.headerCount; ++i) {
    int32_t keyLength = fields.varint();
    if (keyLength < 0) return "a record header has no key";
    if (!fields.skip(keyLength)) return "the headers of a record do not fit its length";
    int32_t valueLength = fields.varint();
    if (valueLength > 0 && !fields.skip(valueLength)) return "the headers of a record do not fit its length";
    if (!fields.ok()) return "the headers of a record do not fit its length";
  }
  if (fields.at() != record.end) return "a record is longer than its fields";
  return {};
}

}  // namespace mq::record

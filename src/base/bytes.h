// Byte spans, and readers and writers of the field encodings that Kafka's protocol, record batches and files share:
// big-endian integers and zigzag varints.
//
// ByteReader never reads past its end and never throws: the first read that does not fit makes it fail for good
// (ok() is false, every later read answers 0 or empty). Check ok() once after a group of reads.
// Views point into the bytes given; their owner must outlive them.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/uuid.h"

namespace mq {

using Bytes = std::span<const uint8_t>;
using MutableBytes = std::span<uint8_t>;
using Buffer = std::vector<uint8_t>;

inline Bytes asBytes(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }
inline std::string_view asText(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

template <class T>
T loadBigEndian(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (sizeof(T) > 1 && std::endian::native == std::endian::little) value = std::byteswap(value);
  return value;
}

template <class T>
void storeBigEndian(uint8_t* to, T value) {
  if constexpr (sizeof(T) > 1 && std::endian::native == std::endian::little) value = std::byteswap(value);
  std::memcpy(to, &value, sizeof value);
}

class ByteReader {
 public:
  explicit ByteReader(Bytes bytes) : next_(bytes.data()), end_(bytes.data() + bytes.size()), begin_(bytes.data()) {}

  bool ok() const { return ok_; }
  bool atEnd() const { return next_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - next_); }
  size_t position() const { return static_cast<size_t>(next_ - begin_); }
  void fail() {
    ok_ = false;
    next_ = end_;
  }

  int8_t int8() { return fixed<int8_t>(); }
  int16_t int16() { return fixed<int16_t>(); }
  uint16_t uint16() { return fixed<uint16_t>(); }
  int32_t int32() { return fixed<int32_t>(); }
  uint32_t uint32() { return fixed<uint32_t>(); }
  int64_t int64() { return fixed<int64_t>(); }
  double float64() { return std::bit_cast<double>(fixed<int64_t>()); }
  Uuid uuid();

  uint32_t unsignedVarint();  // at most 5 bytes; bits over 32 are dropped, as Kafka does
  int32_t varint();           // zigzag
  int64_t varlong();          // zigzag, at most 10 bytes

  Bytes bytes(size_t count) {
    if (count > left()) {
      fail();
      return {};
    }
    Bytes taken(next_, count);
    next_ += count;
    return taken;
  }
  std::string_view text(size_t count) { return asText(bytes(count)); }
  Bytes rest() { return bytes(left()); }
  void skip(size_t count) { bytes(count); }

 private:
  template <class T>
  T fixed() {
    if (sizeof(T) > left()) {
      fail();
      return 0;
    }
    T value = loadBigEndian<T>(next_);
    next_ += sizeof(T);
    return value;
  }
  const uint8_t* next_;
  const uint8_t* end_;
  const uint8_t* begin_;
  bool ok_ = true;
};

class ByteWriter {
 public:
  explicit ByteWriter(Buffer& into) : into_(into) {}

  size_t size() const { return into_.size(); }
  Buffer& buffer() { return into_; }

  void int8(int8_t v) { into_.push_back(static_cast<uint8_t>(v)); }
  void int16(int16_t v) { fixed(v); }
  void uint16(uint16_t v) { fixed(v); }
  void int32(int32_t v) { fixed(v); }
  void uint32(uint32_t v) { fixed(v); }
  void int64(int64_t v) { fixed(v); }
  void float64(double v) { fixed(std::bit_cast<int64_t>(v)); }
  void uuid(const Uuid& v) { bytes(v.bytes); }

  void unsignedVarint(uint32_t v);
  void varint(int32_t v);
  void varlong(int64_t v);

  void bytes(Bytes v) { into_.insert(into_.end(), v.begin(), v.end()); }
  void text(std::string_view v) { bytes(asBytes(v)); }
  void patchInt32(size_t at, int32_t v) { storeBigEndian(into_.data() + at, v); }

 private:
  template <class T>
  void fixed(T v) {
    size_t at = into_.size();
    into_.resize(at + sizeof v);
    storeBigEndian(into_.data() + at, v);
  }
  Buffer& into_;
};

size_t sizeOfUnsignedVarint(uint32_t v);
size_t sizeOfVarint(int32_t v);
size_t sizeOfVarlong(int64_t v);

}  // namespace mq

#include "base/bytes.h"

namespace mq {
namespace {
uint32_t zigzag(int32_t v) { return (static_cast<uint32_t>(v) << 1) ^ static_cast<uint32_t>(v >> 31); }
uint64_t zigzag(int64_t v) { return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63); }

template <class T>
size_t varintSize(T v) {
  size_t size = 1;
  while (v >= 0x80) {
    v >>= 7;
    ++size;
  }
  return size;
}

template <class T>
void writeVarint(Buffer& into, T v) {
  while (v >= 0x80) {
    into.push_back(static_cast<uint8_t>(v | 0x80));
    v >>= 7;
  }
  into.push_back(static_cast<uint8_t>(v));
}
}  // namespace

Uuid ByteReader::uuid() {
  Uuid id;
  Bytes raw = bytes(16);
  if (!raw.empty()) std::memcpy(id.bytes.data(), raw.data(), 16);
  return id;
}

uint32_t ByteReader::unsignedVarint() {
  uint32_t value = 0;
  for (int shift = 0; shift < 35; shift += 7) {
    if (next_ == end_) {
      fail();
      return 0;
    }
    uint8_t byte = *next_++;
    value |= static_cast<uint32_t>(static_cast<uint64_t>(byte & 0x7F) << shift);
    if (byte < 0x80) return value;
  }
  fail();
  return 0;
}

int32_t ByteReader::varint() {
  uint32_t raw = unsignedVarint();
  return static_cast<int32_t>((raw >> 1) ^ (~(raw & 1) + 1));
}

int64_t ByteReader::varlong() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (next_ == end_) {
      fail();
      return 0;
    }
    uint8_t byte = *next_++;
    if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1));
  }
  fail();
  return 0;
}

void ByteWriter::unsignedVarint(uint32_t v) { writeVarint(into_, v); }
void ByteWriter::varint(int32_t v) { writeVarint(into_, zigzag(v)); }
void ByteWriter::varlong(int64_t v) { writeVarint(into_, zigzag(v)); }

size_t sizeOfUnsignedVarint(uint32_t v) { return varintSize(v); }
size_t sizeOfVarint(int32_t v) { return varintSize(zigzag(v)); }
size_t sizeOfVarlong(int64_t v) { return varintSize(zigzag(v)); }

}  // namespace mq

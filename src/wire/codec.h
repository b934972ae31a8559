// decode and encode: the only way between generated message structs and bytes.
//
//   Result<ProduceRequest> request = wire::decode<ProduceRequest>(reader, version);
//   Result<void> done = wire::encode(response, version, buffer);                    // appends
//   Result<void> done = wire::encode(fetchResponse, version, buffer, splices);      // with external records
//
// decode: strings are copied, `bytes` and `records` are views into the frame, which must outlive the message (or hand
// them on as Blob(view, owner)). A count or length is believed only as far as the bytes left can back it, before
// anything is allocated. Lenient where Kafka is: any negative length is null, any non-zero byte is true, over-long
// varints, unordered tags. Stricter than Kafka: a tagged field must fill its size exactly. Text is not checked for
// UTF-8; what came in goes out. After a message the reader stands behind it; whether bytes may follow is the caller's
// policy. Errors: unsupportedVersion, or invalidRequest with the path of the field ("topicData[3].name: ..."); the
// latter also when the message costs more than the caller allows (DecodeCost).
//
// encode: fields without a place in `version` must have their default, unless the schema lets a sender drop them; else
// invalidRequest. On error the buffer is as it was.
//
// Format: https://kafka.apache.org/protocol, KIP-482 (flexible versions and tagged fields).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "wire/descriptor.h"
#include "wire/value.h"

namespace mq::wire {

// Bytes that belong into the encoded buffer but are not in it: `length` bytes in front of buffer[at].
// Splices come in ascending order. What goes out is buffer[0, at0), slice 0, buffer[at0, at1), slice 1, ..., the rest,
// and the frame's size is the buffer's plus all lengths.
struct Splice {
  size_t at = 0;
  size_t length = 0;
  friend bool operator==(const Splice&, const Splice&) = default;
};
using Splices = std::vector<Splice>;

// What decoding may allocate, in bytes, and what it did: lists, text and unknown tags, not the message itself nor what
// it views. A few bytes of a frame can make a hundred bytes of message, so whoever takes frames from strangers sets a
// limit.
struct DecodeCost {
  size_t bytesMax = SIZE_MAX;
  size_t bytes = 0;
};

// By descriptor: for code that walks all messages. `message` must be fresh.
Result<void> decodeInto(const Message& descriptor, ByteReader& from, int16_t version, void* message,
                        DecodeCost* cost = nullptr);
Result<void> encodeFrom(const Message& descriptor, const void* message, int16_t version, Buffer& into,
                        Splices* splices);

template <class M>
Result<M> decode(ByteReader& from, int16_t version, DecodeCost* cost = nullptr) {
  Result<M> message;
  if (auto done = decodeInto(M::kDescriptor, from, version, &*message, cost); !done) return done.failure();
  return message;
}

// `whole` is one message and nothing else.
Failure trailingBytes(const Message& descriptor, size_t left);
template <class M>
Result<M> decode(Bytes whole, int16_t version) {
  ByteReader from(whole);
  auto message = decode<M>(from, version);
  if (message && !from.atEnd()) return trailingBytes(M::kDescriptor, from.left());
  return message;
}

template <class M>
Result<void> encode(const M& message, int16_t version, Buffer& into) {
  return encodeFrom(M::kDescriptor, &message, version, into, nullptr);
}

template <class M>
Result<void> encode(const M& message, int16_t version, Buffer& into, Splices& splices) {
  return encodeFrom(M::kDescriptor, &message, version, into, &splices);
}

// The fields of `version` as one line of JSON: bytes as hex, uuids as Kafka prints them. For logs, tools and tests.
std::string describe(const Message& descriptor, const void* message, int16_t version);
template <class M>
std::string describe(const M& message, int16_t version) {
  return describe(M::kDescriptor, &message, version);
}

}  // namespace mq::wire

// What stands in front of message bodies.
//
//   request    [RequestHeader][body]      the header's version follows from api key and version (wire/api.h)
//   response   [ResponseHeader][body]
//   record key [int16 type][body v0], record value [int16 version][body]: __consumer_offsets, __transaction_state
//   [int16 version][body]                 ConsumerProtocolSubscription and -Assignment, EndTxnMarker, ...
//
// The four bytes of a frame's size are the connection's business.
#pragma once
#include "wire/codec.h"
#include "wire/request_header.h"

namespace mq::wire {

// Error::unsupportedVersion when the key is none we know: nothing can be answered then. A version that we do not know
// is no error here, so that ApiVersions can be answered: check it with findApi().
Result<RequestHeader> decodeRequestHeader(ByteReader& from);
Result<void> encodeRequestHeader(const RequestHeader& header, Buffer& into);

void encodeResponseHeader(int16_t apiKey, int16_t version, int32_t correlationId, Buffer& into);
Result<int32_t> decodeResponseHeader(int16_t apiKey, int16_t version, ByteReader& from);  // the correlation id

// -1 when there are not even two bytes.
int16_t recordTypeOf(Bytes key);

template <class M>
Result<void> encodeKey(const M& key, Buffer& into) {
  ByteWriter(into).int16(M::kRecordType);
  return encode(key, 0, into);
}

// The caller has looked at recordTypeOf().
template <class M>
Result<M> decodeKey(Bytes key) {
  return decode<M>(key.subspan(2), 0);
}

template <class M>
Result<void> encodeVersioned(const M& message, int16_t version, Buffer& into) {
  ByteWriter(into).int16(version);
  return encode(message, version, into);
}

// Error::unsupportedVersion for a version newer than ours.
template <class M>
Result<M> decodeVersioned(Bytes bytes) {
  ByteReader from(bytes);
  int16_t version = from.int16();
  if (!from.ok()) return failure(Error::invalidRequest, "{}: no version in front", M::kDescriptor.name);
  return decode<M>(from.rest(), version);
}

}  // namespace mq::wire

#include "wire/framing.h"

#include "base/check.h"
#include "wire/api.h"
#include "wire/response_header.h"

namespace mq::wire {

Result<RequestHeader> decodeRequestHeader(ByteReader& from) {
  ByteReader ahead = from;
  int16_t key = ahead.int16();
  int16_t version = ahead.int16();
  if (!ahead.ok()) return failure(Error::invalidRequest, "a request of {} bytes", from.left());
  const Api* api = findApi(key);
  if (!api) return failure(Error::unsupportedVersion, "unknown api key {}", key);
  return decode<RequestHeader>(from, api->requestHeaderVersion(version));
}

Result<void> encodeRequestHeader(const RequestHeader& header, Buffer& into) {
  const Api* api = findApi(header.requestApiKey);
  if (!api) return failure(Error::unsupportedVersion, "unknown api key {}", header.requestApiKey);
  return encode(header, api->requestHeaderVersion(header.requestApiVersion), into);
}

void encodeResponseHeader(int16_t apiKey, int16_t version, int32_t correlationId, Buffer& into) {
  const Api* api = findApi(apiKey);
  MQ_CHECK(api, apiKey);
  auto done = encode(ResponseHeader{.correlationId = correlationId}, api->responseHeaderVersion(version), into);
  MQ_CHECK(done, apiKey, version);
}

Result<int32_t> decodeResponseHeader(int16_t apiKey, int16_t version, ByteReader& from) {
  const Api* api = findApi(apiKey);
  MQ_CHECK(api, apiKey);
  auto header = decode<ResponseHeader>(from, api->responseHeaderVersion(version));
  if (!header) return header.failure();
  return header->correlationId;
}

int16_t recordTypeOf(Bytes key) {
  ByteReader from(key);
  int16_t type = from.int16();
  return from.ok() ? type : int16_t(-1);
}

}  // namespace mq::wire

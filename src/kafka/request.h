// Request and Response: one exchange, as handlers see it.
//
// A handler is a free function over a decoded message (handlers/handlers.h); apis.cc wraps it into a Serve, which
// decodes and encodes. What a handler does before its first co_await happens before the next request of the connection
// is parsed.
#pragma once
#include <string>
#include <vector>

#include "kafka/frame_reader.h"
#include "kafka/session.h"
#include "runtime/coro.h"
#include "wire/codec.h"

namespace mq::kafka {

class Server;
struct Api;

struct Request {
  Server& server;
  Session& session;
  const Api& api;
  Frame frame;
  int16_t version = 0;
  int32_t correlationId = 0;
  ByteReader body;          // behind the header
  size_t decodedBytes = 0;  // what the decoded message holds, counted against the shard's budget until it is answered
  Instant received;
};

// Bytes of a file that belong into a response without ever being read here. Pins the file.
struct FileSlice {
  FileRef file;
  uint64_t position = 0;
  uint32_t length = 0;
};

// A whole frame: `bytes` with the slices spliced in. Nothing at all for Produce with acks=0.
struct Response {
  Buffer bytes;  // with the length in front; empty: nothing is sent
  wire::Splices splices;
  std::vector<FileSlice> slices;  // one per splice
  std::string closeBecause;       // not empty: the connection closes instead, and the log says this

  static Response close(std::string because) { return {.closeBecause = std::move(because)}; }
};

using Serve = kj::Promise<Response> (*)(Request&);

// A message may not take more memory than this beside its frame. A Fetch of 100,000 partitions takes 10 MB.
inline constexpr size_t kDecodedBytesMax = 32 << 20;

// Bytes behind the message are ignored, as Kafka does.
template <class M>
Result<M> decodeBody(Request& request) {
  wire::DecodeCost cost{.bytesMax = kDecodedBytesMax};
  auto message = wire::decode<M>(request.body, request.version, &cost);
  request.decodedBytes = cost.bytes;
  return message;
}

// The frame of an answer: length, header and body.
Response respond(const Request& request, const wire::Message& descriptor, const void* message);
// With a header and a body of another version than the request's, which only ApiVersions needs.
Response respondAs(const Request& request, const wire::Message& descriptor, const void* message, int16_t version);

template <class M>
Response respond(const Request& request, const M& message) {
  return respond(request, M::kDescriptor, &message);
}

}  // namespace mq::kafka

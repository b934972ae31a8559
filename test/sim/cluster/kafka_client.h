// KafkaClient: one connection of a simulated client, that speaks the Kafka protocol with the generated codecs.
//
// Requests may be sent behind each other without waiting; answers come in order. When the connection breaks, or an
// answer does not come in time, every call under way rejects, and what it asked may or may not have happened: that is
// for the caller to find out. The next call connects anew.
//
// Lives on one shard of a client's process, which outlives it.
#pragma once
#include <kj/async.h>
#include <kj/memory.h>

#include <deque>
#include <optional>

#include "base/bytes.h"
#include "runtime/coro.h"
#include "runtime/shard.h"
#include "wire/framing.h"

namespace mq::sim {

template <class Message>
struct Answer {
  Buffer frame;  // views of the message point into it
  Message message;
};

class KafkaClient {
 public:
  KafkaClient(Shard& shard, Address broker);
  ~KafkaClient();
  KJ_DISALLOW_COPY(KafkaClient);

  Co<void> connect(Duration limit);
  bool isConnected() const;
  void close(const char* why);

  template <class Request>
  Co<Answer<typename Request::Response>> call(Request request, int16_t version, Duration limit = 30s) {
    using Response = typename Request::Response;
    if (!isConnected()) co_await connect(limit);
    int32_t id = nextId_++;
    Buffer frame = head(Request::kApiKey, version, id);
    if (auto done = wire::encode(request, version, frame); !done) refuseToSend(done.failure());
    Answer<Response> answer;
    answer.frame = co_await exchange(id, std::move(frame), limit);
    ByteReader reader = body(Response::kDescriptor, version, id, answer.frame);
    auto message = wire::decode<Response>(reader, version);
    if (!message) refuseToRead(Response::kDescriptor, answer.frame, message.failure().message);
    if (!reader.atEnd()) refuseToRead(Response::kDescriptor, answer.frame, "bytes follow the message");
    answer.message = std::move(*message);
    co_return answer;
  }

 private:
  struct Connection;

  static Buffer head(int16_t api, int16_t version, int32_t id);
  static ByteReader body(const wire::Message& descriptor, int16_t version, int32_t id, Bytes frame);
  [[noreturn]] static void refuseToSend(const Failure& failure);
  [[noreturn]] static void refuseToRead(const wire::Message& descriptor, Bytes frame, const std::string& why);
  kj::Promise<Buffer> exchange(int32_t id, Buffer frame, Duration limit);
  static Co<void> receive(Connection& connection);

  Shard& shard_;
  const Address broker_;
  int32_t nextId_ = 1;
  kj::Own<Connection> connection_;  // null: not connected
};

}  // namespace mq::sim

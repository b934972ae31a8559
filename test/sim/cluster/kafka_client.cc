#include "kafka_client.h"

#include <kj/debug.h>

namespace mq::sim {

struct KafkaClient::Connection : kj::Refcounted {
  kj::Own<Stream> stream;
  std::deque<kj::Own<kj::PromiseFulfiller<Buffer>>> waiting;  // in the order of the requests
  kj::Promise<void> writing = kj::READY_NOW;
  kj::Promise<void> reading = kj::READY_NOW;
  bool broken = false;

  void fail(const kj::Exception& reason) {
    broken = true;
    for (auto& answer : waiting) answer->reject(kj::cp(reason));
    waiting.clear();
  }
};

KafkaClient::KafkaClient(Shard& shard, Address broker) : shard_(shard), broker_(std::move(broker)) {}
KafkaClient::~KafkaClient() = default;

bool KafkaClient::isConnected() const { return connection_.get() != nullptr; }

Co<void> KafkaClient::connect(Duration limit) {
  auto stream = co_await shard_.within(limit, shard_.network().connect(broker_));
  if (isConnected()) co_return;  // another call was quicker
  connection_ = kj::refcounted<Connection>();
  connection_->stream = kj::mv(stream);
  Connection& connection = *connection_;
  connection.reading =
      receive(connection).eagerlyEvaluate([&connection](kj::Exception&& reason) { connection.fail(reason); });
}

void KafkaClient::close(const char* why) {
  if (connection_.get() == nullptr) return;
  kj::Own<Connection> connection = kj::mv(connection_);
  connection->fail(KJ_EXCEPTION(DISCONNECTED, why));
  // Not here and now: the caller may be one of its promises.
  shard_.spawn(kj::evalLater([connection = kj::mv(connection)]() mutable { connection = nullptr; }));
}

Co<void> KafkaClient::receive(Connection& connection) {
  for (;;) {
    uint8_t size[4];
    co_await connection.stream->read(size, sizeof size);
    auto length = loadBigEndian<int32_t>(size);
    KJ_REQUIRE(length >= 4 && length <= (64 << 20), "an answer of an impossible size", length);
    Buffer frame(static_cast<size_t>(length));
    co_await connection.stream->read(frame.data(), frame.size());
    KJ_REQUIRE(!connection.waiting.empty(), "an answer that nobody asked for");
    connection.waiting.front()->fulfill(std::move(frame));
    connection.waiting.pop_front();
  }
}

kj::Promise<Buffer> KafkaClient::exchange(int32_t, Buffer frame, Duration limit) {
  Connection& connection = *connection_;
  if (connection.broken) {
    close("the connection broke");
    return KJ_EXCEPTION(DISCONNECTED, "the connection broke");
  }
  auto paf = kj::newPromiseAndFulfiller<Buffer>();
  connection.waiting.push_back(kj::mv(paf.fulfiller));
  Buffer whole;
  ByteWriter writer(whole);
  writer.int32(static_cast<int32_t>(frame.size()));
  writer.bytes(frame);
  connection.writing = connection.writing
                           .then([&connection, whole = kj::heap<Buffer>(std::move(whole))]() mutable {
                             auto promise = connection.stream->write(whole->data(), whole->size());
                             return promise.attach(kj::mv(whole));
                           })
                           .eagerlyEvaluate([&connection](kj::Exception&& reason) { connection.fail(reason); });
  return shard_.within(limit, kj::mv(paf.promise)).catch_([this, &connection](kj::Exception&& reason) -> Buffer {
    if (connection_.get() == &connection) close("an answer did not come");
    kj::throwFatalException(kj::mv(reason));
  });
}

Buffer KafkaClient::head(int16_t api, int16_t version, int32_t id) {
  Buffer payload;
  wire::RequestHeader header{
      .requestApiKey = api, .requestApiVersion = version, .correlationId = id, .clientId = "sim"};
  if (auto done = wire::encodeRequestHeader(header, payload); !done) refuseToSend(done.failure());
  return payload;
}

ByteReader KafkaClient::body(const wire::Message& descriptor, int16_t version, int32_t id, Bytes frame) {
  ByteReader reader(frame);
  auto answered = wire::decodeResponseHeader(descriptor.number, version, reader);
  if (!answered) refuseToRead(descriptor, frame, answered.failure().message);
  KJ_REQUIRE(*answered == id, "answers out of order", *answered, id);
  return reader;
}

void KafkaClient::refuseToSend(const Failure& failure) {
  kj::throwFatalException(KJ_EXCEPTION(FAILED, "the simulated client made a bad request", failure.message.c_str()));
}
void KafkaClient::refuseToRead(const wire::Message& descriptor, Bytes frame, const std::string& why) {
  std::string hex;
  for (uint8_t byte : frame.first(std::min<size_t>(frame.size(), 200))) hex += fmt::format("{:02x}", byte);
  kj::throwFatalException(KJ_EXCEPTION(FAILED, "an answer that cannot be decoded", descriptor.number, why.c_str(),
                                       frame.size(), hex.c_str()));
}

}  // namespace mq::sim

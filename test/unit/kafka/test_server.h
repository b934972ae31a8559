// A whole node in this process on a free port of 127.0.0.1, and a client that speaks bytes.
#pragma once
#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../test_directory.h"
#include "base/bytes.h"
#include "base/types.h"
#include "wire/framing.h"

namespace mq::kafka::test {

struct Setting {
  std::string name;
  std::string value;
};

class TestServer {
 public:
  // Serves when it is constructed; throws what kept it from that.
  explicit TestServer(std::vector<Setting> settings = {}, uint32_t shards = 2);
  ~TestServer();  // stops cleanly
  TestServer(const TestServer&) = delete;

  uint16_t port(size_t listener = 0) const { return ports_[listener]; }
  void stop();
  const std::string& log() const { return log_; }  // after stop()

 private:
  TestDirectory directory_;
  std::vector<uint16_t> ports_;
  std::string log_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// One for all tests that do not mind each other's topics.
TestServer& sharedServer();
std::string newTopicName();

class Client {
 public:
  explicit Client(uint16_t port, const std::string& host = "127.0.0.1");
  explicit Client(TestServer& server) : Client(server.port()) {}
  ~Client();
  Client(Client&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}

  void send(Bytes bytes);
  void sendFrame(Bytes payload);
  void shutdownWrite();
  // The next frame without its length; nullopt: the server closed, or nothing came in time.
  std::optional<Buffer> receive(Duration within = 10s);
  bool closes(Duration within = 10s);  // the server closes without sending anything more
  bool silentFor(Duration time);       // nothing comes, and the connection stays open

  template <class Request>
  void request(const Request& request, int16_t version, int32_t correlationId = 7) {
    Buffer payload;
    REQUIRE(wire::encodeRequestHeader({.requestApiKey = Request::kApiKey,
                                       .requestApiVersion = version,
                                       .correlationId = correlationId,
                                       .clientId = "test"},
                                      payload));
    REQUIRE(wire::encode(request, version, payload));
    sendFrame(payload);
  }
  template <class Response>
  Response response(int16_t version, int32_t correlationId = 7) {
    auto frame = receive();
    if (!frame) throw std::runtime_error("the server did not answer");
    ByteReader reader(*frame);
    auto answered = wire::decodeResponseHeader(Response::kApiKey, version, reader);
    if (!answered || *answered != correlationId) throw std::runtime_error("the answer is to another request");
    auto message = wire::decode<Response>(reader, version);
    if (!message) throw std::runtime_error("the answer cannot be decoded: " + message.failure().message);
    if (!reader.atEnd()) throw std::runtime_error("bytes follow the answer");
    kept_.push_back(std::move(*frame));  // views of the message point into it
    return std::move(*message);
  }
  template <class Request>
  typename Request::Response call(const Request& message, int16_t version) {
    request(message, version);
    return response<typename Request::Response>(version);
  }

 private:
  bool readable(Duration within);

  int socket_ = -1;
  std::vector<Buffer> kept_;
};

// The coordinator's partitions are made and read at the first use; until then it says so.
void awaitCoordinator(Client& client, const std::string& group);

}  // namespace mq::kafka::test

#include "test_server.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <future>
#include <mutex>
#include <stdexcept>

#include "broker/node.h"
#include "runtime/logger.h"
#include "runtime/uv/node.h"
#include "wire/find_coordinator_request.h"
#include "wire/find_coordinator_response.h"
#include "wire/offset_fetch_request.h"
#include "wire/offset_fetch_response.h"

namespace mq::kafka::test {

namespace {

class Log final : public Logger {
 public:
  bool enabled(LogLevel level) const override { return level >= LogLevel::info; }
  void write(LogLevel, std::string_view event, std::string_view text) override {
    std::lock_guard lock(mutex_);
    lines_ += fmt::format("{}: {}\n", event, text);
    if (std::getenv("MQ_TEST_LOG") != nullptr) fmt::print(stderr, "{}: {}\n", event, text);
  }
  std::string take() {
    std::lock_guard lock(mutex_);
    return std::move(lines_);
  }

 private:
  std::mutex mutex_;
  std::string lines_;
};

uint16_t portOf(const std::string& listening) {
  return static_cast<uint16_t>(std::stoi(listening.substr(listening.rfind(':') + 1)));
}

}  // namespace

TestServer::TestServer(std::vector<Setting> settings, uint32_t shards) {
  config::StartInput input;
  auto set = [&](std::string name, std::string value) {
    input.flags.push_back({std::move(name), std::move(value), "test"});
  };
  set("listeners", "127.0.0.1:0");
  set("durability", "page-cache");
  for (auto& setting : settings) set(setting.name, setting.value);
  auto config = config::BrokerConfig::load(input);
  if (!config) throw std::runtime_error(config.error().front().toString());

  std::promise<std::vector<uint16_t>> started;
  thread_ = std::thread([this, &started, shards, config = std::move(*config)] {
    Log log;
    bool isStarted = false;
    try {
      UvNode loops({.shards = shards, .seed = 1}, log);
      loops.run([&](Shard& first) -> Co<void> {
        broker::Node node(first, {.config = config, .dataDirectory = directory_.path()});
        auto serving = co_await node.start([](broker::RecoveryProgress) {});
        std::vector<uint16_t> ports;
        for (const auto& listening : serving.listening) ports.push_back(portOf(listening));
        isStarted = true;
        started.set_value(std::move(ports));
        while (!stopping_) co_await first.after(2ms);
        co_await node.stop();
      });
    } catch (...) {
      if (!isStarted) started.set_exception(std::current_exception());
      log.write(LogLevel::error, "ended", "with an exception");
    }
    log_ = log.take();
  });
  try {
    ports_ = started.get_future().get();
  } catch (const kj::Exception& e) {
    thread_.join();
    throw std::runtime_error(e.getDescription().cStr());
  }
}

void TestServer::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

TestServer::~TestServer() { stop(); }

TestServer& sharedServer() {
  static TestServer server({{"auto.create.topics.enable", "true"}});
  return server;
}

std::string newTopicName() {
  static int count = 0;
  return fmt::format("topic{}", ++count);
}

Client::Client(uint16_t port, const std::string& host) {
  bool v6 = host.find(':') != std::string::npos;
  socket_ = ::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_storage address{};
  socklen_t length;
  if (v6) {
    auto& a = reinterpret_cast<sockaddr_in6&>(address);
    a.sin6_family = AF_INET6;
    a.sin6_port = htons(port);
    ::inet_pton(AF_INET6, host.c_str(), &a.sin6_addr);
    length = sizeof a;
  } else {
    auto& a = reinterpret_cast<sockaddr_in&>(address);
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    ::inet_pton(AF_INET, host.c_str(), &a.sin_addr);
    length = sizeof a;
  }
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), length) != 0)
    throw std::runtime_error("cannot connect");
  int one = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

Client::~Client() {
  if (socket_ >= 0) ::close(socket_);
}

void Client::send(Bytes bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;  // the server closed; the test sees that when it reads
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void Client::sendFrame(Bytes payload) {
  Buffer frame;
  ByteWriter writer(frame);
  writer.int32(static_cast<int32_t>(payload.size()));
  writer.bytes(payload);
  send(frame);
}

void Client::shutdownWrite() { ::shutdown(socket_, SHUT_WR); }

bool Client::readable(Duration within) {
  pollfd p{.fd = socket_, .events = POLLIN, .revents = 0};
  return ::poll(&p, 1, static_cast<int>(within / 1ms)) > 0;
}

std::optional<Buffer> Client::receive(Duration within) {
  auto read = [&](MutableBytes into) {
    while (!into.empty()) {
      if (!readable(within)) return false;
      ssize_t count = ::recv(socket_, into.data(), into.size(), 0);
      if (count <= 0) return false;
      into = into.subspan(static_cast<size_t>(count));
    }
    return true;
  };
  Buffer frame(4);
  if (!read(frame)) return std::nullopt;
  auto size = loadBigEndian<int32_t>(frame.data());
  if (size < 0) return std::nullopt;
  frame.resize(static_cast<size_t>(size));
  if (!read(frame)) return std::nullopt;
  return frame;
}

bool Client::closes(Duration within) {
  uint8_t byte;
  return readable(within) && ::recv(socket_, &byte, 1, 0) <= 0;
}

bool Client::silentFor(Duration time) { return !readable(time); }

void awaitCoordinator(Client& client, const std::string& group) {
  for (int i = 0; i < 500; ++i) {
    auto found = client.call(wire::FindCoordinatorRequest{.key = group}, 1);
    REQUIRE(found.errorCode == Error::none);
    auto fetched = client.call(wire::OffsetFetchRequest{.groupId = group, .topics = std::nullopt}, 2);
    if (fetched.errorCode == Error::none) return;
    REQUIRE((fetched.errorCode == Error::coordinatorLoadInProgress || fetched.errorCode == Error::notCoordinator));
    std::this_thread::sleep_for(10ms);
  }
  FAIL("the coordinator does not come up");
}

}  // namespace mq::kafka::test

// Framing, order, limits and ends of connections, against a whole node.
#include <doctest/doctest.h>

#include "test_server.h"
#include "wire/api_versions_request.h"
#include "wire/api_versions_response.h"
#include "wire/create_topics_request.h"
#include "wire/create_topics_response.h"
#include "wire/fetch_request.h"
#include "wire/fetch_response.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"

namespace mq::kafka::test {
namespace {

bool answers(Client& client) {
  return client.call(wire::MetadataRequest{.topics = std::vector<wire::MetadataRequest::MetadataRequestTopic>()}, 12)
             .brokers.size() == 1;
}
bool serves(TestServer& server) {
  Client client(server);
  return answers(client);
}

TEST_CASE("Connection: HTTP, TLS and noise on the port are closed at once, and the log says what it was") {
  TestServer server;
  for (std::string_view text :
       {std::string_view("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string_view("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), std::string_view("\x00\x00\x00\x00", 4),
        std::string_view("\xff\xff\xff\xff", 4), std::string_view("\x7f\xff\xff\xff", 4),
        std::string_view("\x00\x00\x00\x04\x00\x12\x00\x00", 8)}) {
    Client client(server);
    client.send(asBytes(text));
    CHECK(client.closes());
  }
  CHECK(serves(server));
  server.stop();
  CHECK(server.log().find("bad-request: 127.0.0.1:") != std::string::npos);
  CHECK(server.log().find("an HTTP request") != std::string::npos);
  CHECK(server.log().find("a TLS handshake") != std::string::npos);
}

TEST_CASE("Connection: a frame that comes byte by byte is a frame") {
  Client client(sharedServer());
  Buffer payload;
  ByteWriter writer(payload);
  writer.int32(0);
  writer.int16(18);
  writer.int16(0);
  writer.int32(7);
  writer.int16(-1);  // no client id
  writer.patchInt32(0, static_cast<int32_t>(payload.size() - 4));
  for (uint8_t byte : payload) client.send({&byte, 1});
  CHECK(client.response<wire::ApiVersionsResponse>(0).apiKeys.size() > 10);
}

TEST_CASE("Connection: answers come in the order of the requests, also when the first one waits") {
  std::string topic = newTopicName();
  Client client(sharedServer());
  auto created = client.call(
      wire::CreateTopicsRequest{.topics = {{.name = topic, .numPartitions = 1, .replicationFactor = 1}}}, 7);
  REQUIRE(created.topics[0].errorCode == Error::none);

  wire::FetchRequest fetch{.maxWaitMs = 300, .minBytes = 1};
  fetch.topics = {{.topic = topic, .partitions = {{.partition = 0, .partitionMaxBytes = 1000}}}};
  client.request(fetch, 12, 1);
  client.request(wire::ApiVersionsRequest{}, 0, 2);
  client.request(wire::MetadataRequest{.topics = std::nullopt}, 12, 3);
  CHECK(client.silentFor(100ms));
  CHECK(client.response<wire::FetchResponse>(12, 1).errorCode == Error::none);
  CHECK(client.response<wire::ApiVersionsResponse>(0, 2).errorCode == Error::none);
  CHECK(client.response<wire::MetadataResponse>(12, 3).topics.size() >= 1);
}

TEST_CASE("Connection: more requests than may be in flight are all answered") {
  Client client(sharedServer());
  constexpr int kCount = 2000;
  for (int i = 0; i < kCount; ++i) client.request(wire::ApiVersionsRequest{}, 0, i);
  for (int i = 0; i < kCount; ++i) CHECK(client.response<wire::ApiVersionsResponse>(0, i).errorCode == Error::none);
}

TEST_CASE("Connection: what was asked before the client closed its side is answered") {
  std::string topic = newTopicName();
  Client client(sharedServer());
  client.call(wire::CreateTopicsRequest{.topics = {{.name = topic, .numPartitions = 1, .replicationFactor = 1}}}, 7);
  wire::FetchRequest fetch{.maxWaitMs = 60'000, .minBytes = 1};
  fetch.topics = {{.topic = topic, .partitions = {{.partition = 0, .partitionMaxBytes = 1000}}}};
  client.request(fetch, 12, 1);
  client.request(wire::ApiVersionsRequest{}, 0, 2);
  client.shutdownWrite();
  CHECK(client.response<wire::FetchResponse>(12, 1).errorCode == Error::none);
  CHECK(client.response<wire::ApiVersionsResponse>(0, 2).errorCode == Error::none);
  CHECK(client.closes());
}

TEST_CASE("Connection: a client that sends half a request loses its place after the time-out, one that is idle later") {
  TestServer server({{"request.read.timeout.ms", "1000"}, {"connections.max.idle.ms", "60000"}});
  Client half(server), idle(server);
  half.send(asBytes(std::string_view("\x00\x00\x01\x00\x00\x12\x00\x00", 8)));
  CHECK(half.closes(5s));
  CHECK(answers(idle));
}

TEST_CASE("Connection: an idle connection is closed after connections.max.idle.ms") {
  TestServer server({{"connections.max.idle.ms", "1000"}});
  Client client(server);
  CHECK(answers(client));
  CHECK(client.closes(5s));
}

TEST_CASE("Connection: lengths without bodies cost nothing and hold nobody up") {
  TestServer server;
  std::vector<Client> clients;
  for (int i = 0; i < 200; ++i) {
    clients.emplace_back(server);
    clients.back().send(
        asBytes(std::string_view("\x06\x40\x00\x00\x00\x00\x00\x09\x00\x00\x00\x01", 12)));  // 100 MiB of Produce
  }
  CHECK(serves(server));
}

TEST_CASE("Listener: connections over the limits are closed, the others go on") {
  TestServer server({{"max.connections", "3"}});
  Client a(server), b(server), c(server);
  CHECK(answers(a));
  CHECK(answers(b));
  CHECK(answers(c));
  Client over(server);
  CHECK(over.closes());
  CHECK(answers(a));
  {
    Client gone = std::move(b);
  }
  bool again = false;
  for (int i = 0; i < 100 && !again; ++i) {
    Client next(server);
    next.request(wire::ApiVersionsRequest{}, 0);
    again = next.receive(1s).has_value();
  }
  CHECK(again);
}

TEST_CASE("Listener: one address may have so many connections and no more") {
  TestServer server({{"max.connections.per.ip", "2"}});
  Client a(server), b(server);
  CHECK(answers(a));
  CHECK(answers(b));
  Client over(server);
  CHECK(over.closes());
}

TEST_CASE("Server: a stop answers long polls and does not wait for clients that do not read") {
  TestServer server;
  Client maker(server);
  maker.call(wire::CreateTopicsRequest{.topics = {{.name = "t", .numPartitions = 1, .replicationFactor = 1}}}, 7);
  std::vector<Client> waiting;
  wire::FetchRequest fetch{.maxWaitMs = 300'000, .minBytes = 1};
  fetch.topics = {{.topic = "t", .partitions = {{.partition = 0, .partitionMaxBytes = 1000}}}};
  for (int i = 0; i < 20; ++i) {
    waiting.emplace_back(server);
    waiting.back().request(fetch, 12);
  }
  Client half(server);
  half.send(asBytes(std::string_view("\x00\x00\x01\x00\x00\x12", 6)));
  CHECK(waiting.back().silentFor(200ms));
  auto begin = std::chrono::steady_clock::now();
  server.stop();
  CHECK(std::chrono::steady_clock::now() - begin < 10s);
  for (Client& client : waiting) CHECK(client.response<wire::FetchResponse>(12).errorCode == Error::none);
}

TEST_CASE("Listeners: a client is told the address it reached, or what is advertised for its listener") {
  TestServer server(
      {{"listeners", "IN=127.0.0.1:0,OUT=127.0.0.1:0"}, {"advertised.listeners", "OUT=mq.example.com:19092"}});
  Client in(server.port(0)), out(server.port(1));
  auto inside = in.call(wire::MetadataRequest{}, 12);
  REQUIRE(inside.brokers.size() == 1);
  CHECK(inside.brokers[0].host == "127.0.0.1");
  CHECK(inside.brokers[0].port == server.port(0));
  auto outside = out.call(wire::MetadataRequest{}, 12);
  REQUIRE(outside.brokers.size() == 1);
  CHECK(outside.brokers[0].host == "mq.example.com");
  CHECK(outside.brokers[0].port == 19092);
}

TEST_CASE("Listeners: on a wildcard each client is told the address it reached, IPv6 without brackets") {
  TestServer server({{"listeners", "[::]:0"}});
  Client four(server.port(), "127.0.0.1"), six(server.port(), "::1");
  CHECK(four.call(wire::MetadataRequest{}, 12).brokers.at(0).host == "127.0.0.1");
  CHECK(six.call(wire::MetadataRequest{}, 12).brokers.at(0).host == "::1");
}

}  // namespace
}  // namespace mq::kafka::test

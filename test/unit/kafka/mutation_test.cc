// Requests that were good once: whatever they ask for now, the node answers or closes, and goes on for everybody else.
#include <doctest/doctest.h>

#include "../wire/vectors.h"
#include "base/random.h"
#include "batches.h"
#include "kafka/apis.h"
#include "wire/api.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"

namespace mq::kafka::test {
namespace {

// Every golden request of an API that is served, with its header.
std::vector<Buffer> goodRequests() {
  std::vector<Buffer> requests;
  for (const wire::Vector& vector : wire::goldenMessages()) {
    if (vector.message->kind != wire::MessageKind::request || !isServed(vector.message->number, vector.version))
      continue;
    Buffer payload;
    REQUIRE(wire::encodeRequestHeader({.requestApiKey = vector.message->number,
                                       .requestApiVersion = vector.version,
                                       .correlationId = 7,
                                       .clientId = "test"},
                                      payload));
    payload.insert(payload.end(), vector.body.begin(), vector.body.end());
    requests.push_back(std::move(payload));
  }
  return requests;
}

Buffer mutated(Buffer payload, Prng& random) {
  constexpr size_t kBehindKeyAndVersion = 4;  // or most of them would not be served
  constexpr uint8_t kOdd[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
  for (uint64_t changes = 1 + random.below(4); changes > 0; --changes) {
    size_t at = kBehindKeyAndVersion + random.below(payload.size() - kBehindKeyAndVersion);
    auto place = payload.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random.below(5)) {
      case 0: payload[at] ^= static_cast<uint8_t>(1 << random.below(8)); break;
      case 1: payload[at] = kOdd[random.below(std::size(kOdd))]; break;
      case 2: payload.insert(place, kOdd[random.below(std::size(kOdd))]); break;
      case 3: payload.resize(std::max(at, kBehindKeyAndVersion + 1)); break;
      default: payload.insert(place, payload.begin() + kBehindKeyAndVersion, place); break;  // a part of it twice
    }
  }
  return payload;
}

TEST_CASE("Mutations: changed requests of every API and version are answered or closed, and the node goes on") {
  constexpr int kRounds = 3000;
  TestServer server;
  Client other(server);
  std::string topic = createTopic(other);
  Buffer batch = batchOf({"kept"});
  REQUIRE(produce(other, topic, 0, batch).errorCode == Error::none);
  std::vector<Buffer> good = goodRequests();
  REQUIRE(good.size() > 300);
  good.resize(good.size() + 40);  // Produce of a real batch, since most mistakes can be made in one
  for (auto last = good.end() - 40; last != good.end(); ++last) {
    REQUIRE(wire::encodeRequestHeader({.requestApiVersion = 9, .correlationId = 7, .clientId = "test"}, *last));
    REQUIRE(wire::encode(produceRequest(topic, 0, batch), 9, *last));
  }

  Prng random(20261130);
  int answered = 0, ended = 0;
  for (int round = 0; round < kRounds; ++round) {
    Client client(server);
    client.sendFrame(mutated(good[random.below(good.size())], random));
    client.shutdownWrite();
    client.receive(20ms) ? ++answered : ++ended;  // a fetch may wait for longer than we do
    if (round % 100 == 0) CHECK(other.call(wire::MetadataRequest{.topics = std::nullopt}, 12).errorCode == Error::none);
  }
  CHECK(answered > kRounds / 5);
  CHECK(ended > kRounds / 10);
  Bytes records = fetchOne(other, topic, 0, 0).records->view();
  REQUIRE(records.size() >= batch.size());
  CHECK(std::ranges::equal(records.subspan(16, batch.size() - 16), Bytes(batch).subspan(16)));
}

}  // namespace
}  // namespace mq::kafka::test

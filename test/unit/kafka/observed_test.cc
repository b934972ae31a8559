// What Kafka 4.4 answered to raw requests, sent to our server. See test/golden/kafka/README.md.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "kafka/apis.h"
#include "test_server.h"
#include "wire/api.h"
#include "wire/api_versions_request.h"
#include "wire/create_topics_request.h"
#include "wire/create_topics_response.h"
#include "wire/messages.h"

namespace mq::kafka::test {
namespace {

using Json = nlohmann::json;

// Where we answer otherwise, on purpose.
const std::map<std::string, std::string> kDifferent = {
    {"metadata-v12-zero-id-null-name",
     "Kafka fails as a whole with UNKNOWN_SERVER_ERROR; here the one topic is INVALID_REQUEST"},
    {"metadata-v0-empty", "that broker had internal topics too"},
    {"metadata-v1-null", "that broker had internal topics too"},
    {"metadata-v11-null-name", "Kafka leaves the brokers out of an answer with such a topic"},
    {"produce-null-records", "Kafka never answers"},
    {"array-length-minus-2", "closed there, an answer without topics here: any negative length is null"},
    {"invalid-utf8",
     "Kafka answers with U+FFFD in the name, we with the bytes as they came; both say INVALID_TOPIC_EXCEPTION"},
};
// APIs that are not served: the connection closes.
const std::set<std::string> kNotServed = {"saslhandshake-on-plaintext", "saslauthenticate-on-plaintext"};
// Values that differ from run to run or from node to node.
const std::set<std::string> kVarying = {"host",
                                        "leader",
                                        "memberId",
                                        "port",
                                        "nodeId",
                                        "clusterId",
                                        "controllerId",
                                        "sessionId",
                                        "topicId",
                                        "finalizedFeaturesEpoch",
                                        "leaderId",
                                        "replicaNodes",
                                        "isrNodes",
                                        "logStartOffset",
                                        "errorMessage",
                                        "apiKeys",
                                        "supportedFeatures",
                                        "finalizedFeatures"};

Buffer fromHex(const std::string& hex) {
  Buffer bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::string differences(const Json& expected, const Json& got, const std::string& where) {
  if (expected.is_string() && (expected == "(text)" || expected.get<std::string>().ends_with(" entries"))) return "";
  if (expected.is_object()) {
    std::string all;
    for (const auto& [name, value] : expected.items()) {
      if (kVarying.contains(name)) continue;
      if (!got.contains(name)) {
        all += where + "." + name + " is missing\n";
      } else {
        all += differences(value, got[name], where + "." + name);
      }
    }
    return all;
  }
  if (expected.is_array()) {
    if (!got.is_array() || expected.size() != got.size())
      return where + ": " + got.dump() + " instead of " + expected.dump() + "\n";
    std::string all;
    for (size_t i = 0; i < expected.size(); ++i)
      all += differences(expected[i], got[i], where + "[" + std::to_string(i) + "]");
    return all;
  }
  return expected == got ? "" : where + ": " + got.dump() + " instead of " + expected.dump() + "\n";
}

const wire::Message* responseOf(int16_t key) {
  for (const wire::Message* message : wire::allMessages()) {
    if (message->kind == wire::MessageKind::response && message->number == key) return message;
  }
  throw std::runtime_error("no such API");
}

// The answer as JSON, decoded in the version that the recorded answer has.
Json decode(const Json& recorded, const Buffer& frame) {
  std::string as = recorded["decodedAs"];  // "Metadata v12"
  std::string name = as.substr(0, as.find(' '));
  auto version = static_cast<int16_t>(std::stoi(as.substr(as.find(" v") + 2)));
  for (const Api& api : apis()) {
    if (api.name != name) continue;
    const wire::Message* response = responseOf(api.key);
    ByteReader reader(frame);
    reader.int32();
    if (response->flexible.contains(version) && api.key != wire::kApiVersionsKey) reader.unsignedVarint();
    std::unique_ptr<void, void (*)(void*)> message(response->create(), response->destroy);
    auto done = wire::decodeInto(*response, reader, version, message.get());
    REQUIRE_MESSAGE(done, done.failure().message);
    CHECK(reader.atEnd());
    return Json::parse(wire::describe(*response, message.get(), version));
  }
  return {};
}

TEST_CASE("Observed: raw requests are answered as Kafka 4.4 answers them") {
  TestServer server;
  {
    Client client(server);
    auto created = client.call(
        wire::CreateTopicsRequest{.topics = {{.name = "po8b240", .numPartitions = 1, .replicationFactor = 1}}}, 7);
    REQUIRE(created.topics.at(0).errorCode == Error::none);
    awaitCoordinator(client, "g");
  }
  std::ifstream file(MQ_GOLDEN_KAFKA "/observed.jsonl");
  REQUIRE(file);
  std::vector<Json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(Json::parse(line));

  size_t compared = 0;
  for (const Json& one : cases) {
    std::string name = one["case"];
    CAPTURE(name);
    if (kDifferent.contains(name)) continue;
    bool framed = !name.starts_with("frame-") || name == "frame-short-header";
    Client client(server);
    for (const std::string sent : one["send"]) {
      Buffer bytes = fromHex(sent);
      if (framed) {
        client.sendFrame(bytes);
      } else {
        client.send(bytes);
      }
    }
    if (kNotServed.contains(name)) {
      CHECK(client.closes());
      continue;
    }
    for (const Json& got : one["got"]) {
      if (got == "closed") {
        CHECK(client.closes());
      } else if (got.is_string()) {
        CHECK(client.silentFor(200ms));
      } else {
        auto frame = client.receive();
        REQUIRE(frame);
        if (!got.contains("decodedAs") || got["decodedAs"].is_null()) continue;
        Json answer = decode(got, *frame);
        CHECK_MESSAGE(differences(got["fields"], answer, "").empty(), differences(got["fields"], answer, ""));
      }
      ++compared;
    }
  }
  CHECK(compared > 60);
}

}  // namespace
}  // namespace mq::kafka::test

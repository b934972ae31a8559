#include "peer/controller_messages.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <doctest/doctest.h>

#include "controller_samples.h"

using namespace mq;
using namespace mq::peer;

namespace {

template <class Schema, class T>
kj::Array<capnp::word> encoded(const T& value) {
  capnp::MallocMessageBuilder builder;
  write(builder.initRoot<Schema>(), value);
  return capnp::messageToFlatArray(builder);
}
template <class Schema>
auto decoded(kj::ArrayPtr<const capnp::word> words, uint64_t limitInWords) {
  capnp::FlatArrayMessageReader reader(words, {.traversalLimitInWords = limitInWords, .nestingLimit = 16});
  return read(reader.getRoot<Schema>());
}

// Equal bytes from what arrived: every field that is written is read. What is written at all is looked at below.
template <class Schema, class T>
auto survives(const T& value) {
  kj::Array<capnp::word> words = encoded<Schema>(value);
  auto got = decoded<Schema>(words, 1 << 20);
  kj::Array<capnp::word> again = encoded<Schema>(got);
  REQUIRE(words.asBytes() == again.asBytes());
  return got;
}

}  // namespace

TEST_CASE("controller messages: every request, answer and state survives the way") {
  ControllerSamples samples(1);
  for (size_t i = 0; i < 3000; ++i) {
    controller::Request request = samples.request(i % samples.kRequests);
    REQUIRE(request.index() == i % samples.kRequests);
    REQUIRE(survives<schema::Request>(request).index() == request.index());

    controller::Answered answered{.offset = static_cast<int64_t>(i),
                                  .response = samples.response(i % samples.kResponses)};
    REQUIRE(answered.response.index() == i % samples.kResponses);
    auto got = survives<schema::Answer>(Result<controller::Answered>(answered));
    REQUIRE(got);
    REQUIRE(got->offset == answered.offset);
    REQUIRE(got->response.index() == answered.response.index());

    Failure failure = samples.failure();
    auto failed = survives<schema::Answer>(Result<controller::Answered>(failure));
    REQUIRE(failed.errorCode() == failure.error);
    REQUIRE(failed.failure().message == failure.message);

    controller::NodeStatus status = samples.nodeStatus();
    auto told = survives<schema::NodeStatus>(status);
    REQUIRE(told.replica == status.replica);
    REQUIRE(told.cluster == status.cluster);
    REQUIRE(told.isEmpty == status.isEmpty);
    REQUIRE(told.members == status.members);
    REQUIRE(told.leader == status.leader);
    REQUIRE(told.term == status.term);
    REQUIRE(told.controllers == status.controllers);

    controller::JoinRequest join = samples.joinRequest();
    auto joins = survives<schema::JoinRequest>(join);
    REQUIRE(joins.replica == join.replica);
    REQUIRE(joins.address == join.address);
  }
}

TEST_CASE("controller messages: what is optional, empty or false arrives as it was") {
  using namespace controller;
  CreateTopicsRequest create{
      .topics = {{.name = "t",
                  .partitions = 3,
                  .replicationFactor = -1,
                  .assignments = {{.partition = 1, .replicas = {NodeId(2), NodeId(3)}}},
                  .configs = {{.name = "a", .value = "1"}, {.name = "b", .value = ""}, {.name = "c", .value = {}}}}},
      .validateOnly = true};
  auto topics = std::get<CreateTopicsRequest>(survives<schema::Request>(Request(create)));
  REQUIRE(topics.topics.size() == 1);
  CHECK(topics.validateOnly);
  CHECK(topics.topics[0].name == "t");
  CHECK(topics.topics[0].partitions == 3);
  CHECK(topics.topics[0].replicationFactor == -1);
  CHECK(topics.topics[0].assignments[0].partition == 1);
  CHECK(topics.topics[0].assignments[0].replicas == std::vector{NodeId(2), NodeId(3)});
  CHECK(topics.topics[0].configs[0].value == "1");
  CHECK(topics.topics[0].configs[1].value == "");
  CHECK(topics.topics[0].configs[2].value == std::nullopt);

  CreatePartitionsRequest grow{.topics = {{.topic = "a", .count = 2, .assignments = std::vector<std::vector<NodeId>>{}},
                                          {.topic = "b", .count = 2, .assignments = {{{NodeId(1)}, {}}}},
                                          {.topic = "c", .count = 2, .assignments = {}}}};
  auto grown = std::get<CreatePartitionsRequest>(survives<schema::Request>(Request(grow)));
  for (size_t i = 0; i < 3; ++i) CHECK(grown.topics[i].assignments == grow.topics[i].assignments);

  AlterReassignmentsRequest move{.partitions = {{.partition = {"a", 1}, .replicas = std::vector<NodeId>{}},
                                                {.partition = {"b", 2}, .replicas = {}}},
                                 .mayChangeFactor = false};
  auto moved = std::get<AlterReassignmentsRequest>(survives<schema::Request>(Request(move)));
  CHECK(moved.partitions[0].replicas == std::vector<NodeId>{});
  CHECK(moved.partitions[1].replicas == std::nullopt);
  CHECK_FALSE(moved.mayChangeFactor);

  BrokerRegistration broker{.id = NodeId(4),
                            .clusterId = Uuid::fromHalves(1, 2),
                            .incarnation = Uuid::fromHalves(3, 4),
                            .listeners = {{.name = "P", .host = "h", .port = 9092, .securityProtocol = 2}},
                            .rack = "",
                            .directories = {Uuid::fromHalves(5, 6)},
                            .mayLack = true,
                            .peer = {"p", 9095}};
  auto registered = std::get<BrokerRegistration>(survives<schema::Request>(Request(broker)));
  CHECK(registered.id == broker.id);
  CHECK(registered.clusterId == broker.clusterId);
  CHECK(registered.incarnation == broker.incarnation);
  CHECK(registered.listeners == broker.listeners);
  CHECK(registered.rack == "");
  CHECK(registered.directories == broker.directories);
  CHECK(registered.mayLack);
  CHECK(registered.peer == broker.peer);

  AlterPartitionsRequest isr{.broker = NodeId(1),
                             .brokerEpoch = 7,
                             .partitions = {{.id = {Uuid::fromHalves(8, 9), 3},
                                             .leaderEpoch = LeaderEpoch(5),
                                             .partitionEpoch = 6,
                                             .isr = {{.node = NodeId(1), .brokerEpoch = 7}}}}};
  auto altered = std::get<AlterPartitionsRequest>(survives<schema::Request>(Request(isr)));
  CHECK(altered.broker == NodeId(1));
  CHECK(altered.brokerEpoch == 7);
  REQUIRE(altered.partitions.size() == 1);
  CHECK(altered.partitions[0].id == isr.partitions[0].id);
  CHECK(altered.partitions[0].leaderEpoch == LeaderEpoch(5));
  CHECK(altered.partitions[0].partitionEpoch == 6);
  CHECK(altered.partitions[0].isr[0].node == NodeId(1));
  CHECK(altered.partitions[0].isr[0].brokerEpoch == 7);

  DeleteTopicsResponse gone{{{.name = {}, .id = Uuid::fromHalves(1, 1), .result = {}},
                             {.name = "x", .id = {}, .result = Failure(Error::policyViolation, "why")}}};
  auto answer = survives<schema::Answer>(Result<Answered>(Answered{.offset = 12, .response = gone}));
  auto deleted = std::get<DeleteTopicsResponse>(answer->response);
  CHECK(deleted.topics[0].name == std::nullopt);
  CHECK(deleted.topics[0].result);
  CHECK(deleted.topics[1].name == "x");
  CHECK(deleted.topics[1].result.errorCode() == Error::policyViolation);
  CHECK(deleted.topics[1].result.failure().message == "why");
}

TEST_CASE("controller messages: what is no message is refused") {
  auto refused = [](auto change) {
    capnp::MallocMessageBuilder builder;
    auto request = builder.initRoot<schema::Request>();
    change(request);
    CHECK_THROWS_AS(read(request.asReader()), kj::Exception);
  };
  refused([](auto request) { request.initHeartbeat().setId(-1); });
  refused([](auto request) { request.initChangeVoter().setDirectory(capnp::Data::Reader(nullptr, 0)); });
  refused([](auto request) { request.initUpdateFeatures().initFeatures(1)[0].setKind(4); });
  refused([](auto request) { request.initAlterConfigs().initResources(1)[0].initChanges(1)[0].setOp(-1); });
  refused([](auto request) { request.initAlterPartitions().initPartitions(1)[0].initId(); });
  refused([](auto request) { request.initRegisterBroker(); });

  capnp::MallocMessageBuilder builder;
  auto answer = builder.initRoot<schema::Answer>();
  answer.initFailed();  // of nothing
  CHECK_THROWS_AS((void)read(answer.asReader()), kj::Exception);
  // An error of a newer node is one.
  answer.getFailed().setError(9999);
  answer.getFailed().setMessage("new");
  CHECK(read(answer.asReader()).errorCode() == Error::unknownServerError);
  CHECK(read(answer.asReader()).failure().message == "new");
  answer.initAnswered().getResponse().initProducerIds().setFirst(-1);
  CHECK_THROWS_AS((void)read(answer.asReader()), kj::Exception);
}

TEST_CASE("controller messages: changed bytes are a message, or an exception") {
  ControllerSamples samples(3);
  Prng random(4);
  size_t refused = 0, taken = 0;
  for (size_t i = 0; i < 20'000; ++i) {
    kj::Array<capnp::word> words;
    switch (i % 3) {
      case 0: words = encoded<schema::Request>(samples.request(i / 3 % samples.kRequests)); break;
      case 1:
        words = encoded<schema::Answer>(
            Result<controller::Answered>(controller::Answered{1, samples.response(i / 3 % samples.kResponses)}));
        break;
      default: words = encoded<schema::NodeStatus>(samples.nodeStatus()); break;
    }
    auto raw = words.asBytes();
    for (uint64_t changes = random.between(1, 8); changes-- > 0;)
      raw[random.below(raw.size())] = static_cast<uint8_t>(random.next());
    auto sent = words.slice(0, random.chance(1, 4) ? random.below(words.size() + 1) : words.size());
    try {
      switch (i % 3) {
        case 0: decoded<schema::Request>(sent, words.size() * 2); break;
        case 1: (void)decoded<schema::Answer>(sent, words.size() * 2); break;
        default: decoded<schema::NodeStatus>(sent, words.size() * 2); break;
      }
      ++taken;
    } catch (const kj::Exception&) {
      ++refused;
    }
  }
  CHECK(taken > 1000);
  CHECK(refused > 1000);
}

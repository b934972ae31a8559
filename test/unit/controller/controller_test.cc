#include "controller/controller.h"

#include <doctest/doctest.h>

#include <cerrno>

#include <kj/debug.h>

#include "metadata/print.h"
#include "sim_world.h"

using namespace mq;
using namespace mq::controller;
using mq::sim::DiskOperation;
using mq::sim::SimNode;
using mq::sim::SimWorld;

namespace {

constexpr uint32_t kShards = 3;

// A controller with a feed on every shard, in the process of a simulated node.
struct Parts {
  std::vector<std::unique_ptr<MetadataFeed>> feeds;
  std::optional<Controller> controller;
  std::optional<ControllerClient> client;

  Co<void> start(Shard& first, ControllerOptions options) {
    std::vector<MetadataFeed*> pointers;
    for (uint32_t shard = 0; shard < first.count(); ++shard) {
      feeds.push_back(co_await first.call(shard, [] { return std::make_unique<MetadataFeed>(); }));
      pointers.push_back(feeds.back().get());
    }
    controller.emplace(first, std::move(options), pointers);
    client.emplace(first, *controller);
    co_await controller->start();
    co_await controller->publish();
  }
};

ControllerOptions options() {
  ControllerOptions options;
  options.node = NodeId(1);
  options.directory = "/data/metadata";
  return options;
}

BrokerRegistration registration(uint64_t incarnation) {
  BrokerRegistration registration;
  registration.id = NodeId(1);
  registration.incarnation = Uuid::fromHalves(1, incarnation);
  registration.isAlone = true;
  registration.listeners = {{"PLAINTEXT", "", 9092, 0}};
  return registration;
}

CreateTopicsRequest topic(std::string name, int32_t partitions = 1) {
  CreateTopicsRequest request;
  NewTopic topic;
  topic.name = std::move(name);
  topic.partitions = partitions;
  request.topics.push_back(std::move(topic));
  return request;
}

std::string outcome(const CreateTopicsResponse& response) {
  std::string text;
  for (auto& topic : response.topics) text += fmt::format("{} {}\n", topic.name, topic.result.errorCode());
  return text;
}

// Runs `body` as the process of a node with a started controller and a registered broker; then the process ends.
using Body = std::function<kj::Promise<void>(Shard& first, Parts& parts)>;
struct Machine {
  explicit Machine(uint64_t seed = 1) : world({.seed = seed}), node(world.addNode()) {}

  void start(Body body, ControllerOptions with = options()) {
    node.start(kShards, [body = std::move(body), with = std::move(with)](Shard& first) mutable -> kj::Promise<void> {
      return process(first, std::move(body), std::move(with));
    });
  }
  // Until the process has ended.
  void run(Body body, ControllerOptions with = options()) {
    start(std::move(body), std::move(with));
    world.run([&] { return node.ended(); });
  }
  static Co<void> process(Shard& first, Body body, ControllerOptions with) {
    Parts parts;
    co_await parts.start(first, std::move(with));
    CHECK((co_await parts.client->registerBroker(registration(first.random().next()))).has_value());
    co_await body(first, parts);
    co_await parts.controller->stop();
  }

  SimWorld world;
  SimNode& node;
};

// A coroutine lambda must outlive its promise: these live as long as the test.
template <class Fn>
Body lasting(Fn& fn) {
  return [&fn](Shard& first, Parts& parts) -> kj::Promise<void> { return fn(first, parts); };
}

}  // namespace

TEST_CASE("An answer leaves when every shard has the image, and the next process has it too") {
  Machine machine;
  std::string before;
  auto body = [&](Shard&, Parts& parts) -> Co<void> {
    auto response = co_await parts.client->createTopics(topic("words", 3));
    CHECK(outcome(response) == "words NONE\n");
    // All shards are one thread here, so each can be looked at in the very turn of the answer.
    for (auto& feed : parts.feeds) {
      REQUIRE(feed->image()->topic("words"));
      CHECK(feed->image()->topic("words")->partitionCount() == 3);
    }
    before = metadata::print(*parts.controller->image());
  };
  machine.run(lasting(body));
  auto again = [&](Shard&, Parts& parts) -> Co<void> {
    auto& image = parts.controller->image();
    CHECK(image->topic("words")->partitionCount() == 3);
    CHECK(image->epoch() == 3);  // a new term with each start; the first one is its bootstrap's
    CHECK(before.find(image->clusterId().toString()) != std::string::npos);
    CHECK(before.find(image->topic("words")->id.toString()) != std::string::npos);
    co_return;
  };
  machine.run(lasting(again));
}

TEST_CASE("Requests of one turn share a sync, and a thousand partitions are one entry") {
  Machine machine;
  auto body = [&](Shard&, Parts& parts) -> Co<void> {
    int syncs = 0;
    machine.node.disk().setFault([&](DiskOperation operation, const std::string&) {
      syncs += operation == DiskOperation::sync;
      return 0;
    });
    int64_t before = parts.controller->image()->offset();
    std::vector<kj::Promise<CreateTopicsResponse>> answers;
    for (int i = 0; i < 50; ++i) answers.push_back(parts.client->createTopics(topic(fmt::format("t{}", i))));
    for (auto& answer : answers) CHECK((co_await answer).topics[0].result.has_value());
    CHECK(syncs <= 2);  // the first one does not wait for those behind it
    syncs = 0;
    CHECK(parts.controller->image()->offset() == before + 50);
    co_await parts.client->createTopics(topic("wide", 1000));
    CHECK(syncs == 1);
    CHECK(parts.controller->image()->partitionCount() == 1050);
    machine.node.disk().setFault(nullptr);
  };
  machine.run(lasting(body));
}

TEST_CASE("Many clients that use a topic first at once make exactly one") {
  Machine machine;
  auto body = [&](Shard& first, Parts& parts) -> Co<void> {
    std::vector<kj::Promise<EnsureTopicsResponse>> answers;
    for (uint32_t i = 0; i < 24; ++i) {
      answers.push_back(first.call(i % kShards, [&parts](Shard& there) {
        ControllerClient client(there, *parts.controller);
        return client.ensureTopics({{"fresh"}});
      }));
    }
    std::set<TopicId> ids;
    for (auto& answer : answers) ids.insert(*(co_await answer).topics[0].result);
    CHECK(ids.size() == 1);
    CHECK(parts.controller->image()->topics().size() == 1);
  };
  machine.run(lasting(body));
}

TEST_CASE("A decision sees those before it although they are not durable yet; a refusal waits for its reason") {
  Machine machine;
  auto body = [&](Shard& shard, Parts& parts) -> Co<void> {
    auto early = parts.client->createTopics(topic("early"));
    co_await shard.after(50us);  // it is being written
    CHECK(outcome(co_await parts.client->createTopics(topic("early"))) == "early TOPIC_ALREADY_EXISTS\n");
    CHECK(parts.controller->image()->topic("early") != nullptr);
    co_await early;

    auto first = parts.client->createTopics(topic("a"));
    auto second = parts.client->createTopics(topic("a"));
    auto third = parts.client->deleteTopics({{{"a", {}}}});
    auto fourth = parts.client->createTopics(topic("a"));
    CHECK(outcome(co_await second) == "a TOPIC_ALREADY_EXISTS\n");
    CHECK(parts.controller->image()->topic("a") != nullptr);
    auto id = (co_await first).topics[0].result->id;
    CHECK((co_await third).topics[0].result.has_value());
    CHECK((co_await fourth).topics[0].result->id != id);
  };
  machine.run(lasting(body));
}

TEST_CASE("Subscribers see every image once, in order, on their shard, from the present one on") {
  Machine machine;
  auto body = [&](Shard& first, Parts& parts) -> Co<void> {
    co_await parts.client->createTopics(topic("old"));
    std::string seen;
    auto subscription = parts.feeds[0]->subscribe([&](const metadata::ImageRef& image, const metadata::Delta& delta) {
      for (auto& t : delta.created) seen += "+" + t->name;
      for (auto& t : delta.deleted) seen += "-" + t->name;
      CHECK(image == parts.feeds[0]->image());
    });
    CHECK(seen == "+old");
    auto a = parts.client->createTopics(topic("a"));
    auto b = parts.client->deleteTopics({{{"old", {}}}});
    auto reached = parts.feeds[0]->reached(parts.feeds[0]->image()->offset() + 2);
    co_await a;
    co_await b;
    co_await reached;
    CHECK(seen == "+old+a-old");
    subscription = nullptr;
    co_await parts.client->createTopics(topic("c"));
    CHECK(seen == "+old+a-old");
    co_await first.after(1ms);
  };
  machine.run(lasting(body));
}

TEST_CASE("Producer ids are never handed out twice, whatever happens in between") {
  Machine machine(5);
  int64_t next = 0;
  auto body = [&](Shard&, Parts& parts) -> Co<void> {
    auto one = parts.client->allocateProducerIds();
    auto two = parts.client->allocateProducerIds();
    CHECK((co_await one)->first >= next);
    auto block = co_await two;
    CHECK(block->count == 1000);
    next = block->first + block->count;
  };
  for (int i = 0; i < 3; ++i) machine.run(lasting(body));
  CHECK(next == 6000);
}

TEST_CASE("Crashes at random moments: what was answered is there, names are unique, counts add up") {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    CAPTURE(seed);
    Machine machine(seed);
    Prng random(seed);
    std::map<std::string, TopicId> there;  // answered creations, less what a deletion was asked of
    std::set<std::string> gone;            // answered deletions
    auto client = [&](Parts& parts, uint64_t number) -> Co<void> {
      for (int i = 0; i < 30; ++i) {
        std::string name = fmt::format("t{}-{}", number, random.below(6));
        gone.erase(name);  // what is not answered may have happened or not
        if (random.chance(2, 3)) {
          auto response = co_await parts.client->createTopics(topic(name, static_cast<int32_t>(random.between(1, 5))));
          if (response.topics[0].result) {
            there[name] = response.topics[0].result->id;
          }
        } else {
          there.erase(name);
          auto response = co_await parts.client->deleteTopics({{{name, {}}}});
          if (response.topics[0].result) gone.insert(name);
        }
      }
    };
    auto body = [&](Shard&, Parts& parts) -> Co<void> {
      auto& image = *parts.controller->image();
      int64_t partitions = 0;
      for (auto& [name, t] : image.topics()) partitions += t->partitionCount();
      CHECK(image.partitionCount() == partitions);
      CHECK(image.replicaCount(NodeId(1)) == partitions);
      for (auto& [name, id] : there) {
        REQUIRE(image.topic(name));
        CHECK(image.topic(name)->id == id);
      }
      for (auto& name : gone) CHECK(image.topic(name) == nullptr);
      auto clients = kj::heapArrayBuilder<kj::Promise<void>>(4);
      for (uint64_t number = 0; number < 4; ++number) clients.add(client(parts, number));
      co_await kj::joinPromises(clients.finish());
    };
    auto with = options();
    with.config = *config::BrokerConfig::load(
        {"", "", {}, {{"metadata.log.max.record.bytes.between.snapshots", "1500", "test"}}});
    for (int life = 0; life < 6; ++life) {
      machine.start(lasting(body), with);
      auto waitAndCrash = [&]() -> Co<void> {
        co_await machine.world.sleep(Duration(static_cast<int64_t>(random.below(200'000'000))));
        machine.node.crash();
      };
      machine.world.run([&] { return waitAndCrash(); });
    }
    machine.run(lasting(body), with);
    CHECK(machine.node.disk().changesAfterCrash() == 0);
  }
}

TEST_CASE("A failing disk ends the controller: nothing more is answered, and the reason is told") {
  Machine machine;
  auto body = [&](Shard&, Parts& parts) -> Co<void> {
    co_await parts.client->createTopics(topic("before"));
    auto failed = parts.controller->failed();
    machine.node.disk().setFault(
        [](DiskOperation operation, const std::string&) { return operation == DiskOperation::sync ? EIO : 0; });
    std::string why;
    try {
      co_await parts.client->createTopics(topic("during"));
    } catch (const kj::Exception& e) {
      why = e.getDescription().cStr();
    }
    machine.node.disk().setFault(nullptr);
    CHECK(why.find("0000000001.log") != std::string::npos);
    CHECK(std::string((co_await failed).getDescription().cStr()) == why);
    CHECK(parts.controller->image()->topic("during") == nullptr);
    try {
      co_await parts.client->createTopics(topic("after"));
      CHECK(false);
    } catch (const kj::Exception&) {
    }
  };
  machine.run(lasting(body));
}

TEST_CASE("On a full disk topics cannot be created but deleted, and with space again they can be created") {
  Machine machine;
  auto body = [&](Shard&, Parts& parts) -> Co<void> {
    co_await parts.client->createTopics(topic("t"));
    machine.node.disk().setCapacity(machine.node.disk().used());
    // The reserve is filled by what may still be written.
    Error error = Error::none;
    int made = 0;
    for (; error == Error::none && made < 100; ++made)
      error =
          (co_await parts.client->createTopics(topic(fmt::format("big{}", made), 2000))).topics[0].result.errorCode();
    CHECK(error == Error::kafkaStorageError);
    CHECK((co_await parts.client->deleteTopics({{{"t", {}}}})).topics[0].result.has_value());
    CHECK((co_await parts.client->allocateProducerIds()).has_value());
    machine.node.disk().setCapacity(UINT64_MAX);
    CHECK((co_await parts.client->createTopics(topic("t"))).topics[0].result.has_value());
  };
  machine.run(lasting(body));
}

TEST_CASE("A log of another cluster or node is refused in words") {
  Machine machine;
  auto nothing = [](Shard&, Parts&) -> Co<void> { co_return; };
  machine.run(lasting(nothing));
  auto refusal = [&](ControllerOptions with) {
    try {
      machine.run(lasting(nothing), std::move(with));
    } catch (const kj::Exception& e) {
      return std::string(e.getDescription().cStr());
    }
    return std::string();
  };
  auto other = options();
  other.clusterId = Uuid::fromHalves(1, 2);
  CHECK(refusal(other).find("the metadata log in /data/metadata belongs to cluster") == 0);
  other = options();
  other.node = NodeId(2);
  CHECK(refusal(other).find("belongs to node 1, and this is node 2") != std::string::npos);
  other = options();
  other.directory = "/data/elsewhere";
  other.mustExist = true;
  CHECK(refusal(other).find("/data/elsewhere is missing or empty") != std::string::npos);
  CHECK(refusal(options()) == "");
}

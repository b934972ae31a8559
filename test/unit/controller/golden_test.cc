// Metadata directories of released formats (test/golden/metadata/vN): each must open in every later build and give the
// image that stands beside it. They are never written again. A change of the format adds one, made by
//   MQ_WRITE_METADATA_GOLDEN=DIR controller_test -tc='*golden directory is written*'
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "controller/controller.h"
#include "controller/raft_log.h"
#include "metadata/print.h"
#include "metadata/record.h"
#include "sim_world.h"

using namespace mq;
using namespace mq::controller;
using mq::sim::SimNode;
using mq::sim::SimWorld;
namespace fs = std::filesystem;

namespace {

constexpr const char* kDirectory = "/data/metadata";

std::string contentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// One process with a controller on the node's disk.
using Body = std::function<kj::Promise<void>(Controller&, ControllerClient&)>;
Co<void> process(Shard& first, Body body, std::string* image) {
  MetadataFeed feed;
  ControllerOptions options;
  options.node = NodeId(1);
  options.directory = kDirectory;
  options.config =
      *config::BrokerConfig::load({"", "", {}, {{"metadata.log.max.record.bytes.between.snapshots", "2000", "test"}}});
  Controller controller(first, options, {&feed});
  ControllerClient client(first, controller);
  co_await controller.start();
  co_await controller.publish();
  if (image) *image = metadata::print(*controller.image());
  co_await body(controller, client);
  co_await controller.stop();
}
void live(SimWorld& world, SimNode& node, Body body, std::string* image = nullptr) {
  node.start(1, [body = std::move(body), image](Shard& first) mutable -> kj::Promise<void> {
    return process(first, std::move(body), image);
  });
  world.run([&] { return node.ended(); });
}

Co<void> fill(Controller&, ControllerClient& client) {
  BrokerRegistration registration;
  registration.id = NodeId(1);
  registration.incarnation = Uuid::fromHalves(1, 2);
  registration.isAlone = true;
  registration.listeners = {{"PLAINTEXT", "", 9092, 0}, {"OUTSIDE", "mq.example", 65535, 3}};
  registration.rack = "rack a";
  registration.directories = {Uuid::fromHalves(3, 4)};
  CHECK((co_await client.registerBroker(registration)).has_value());
  CreateTopicsRequest create;
  create.topics = {{"words", 3, 1, {}, {}},
                   {"numbers", -1, -1, {}, {{"cleanup.policy", "compact"}, {"retention.ms", "-1"}}},
                   {"a.b", 1, 1, {}, {}},
                   {"gone", 2, 1, {}, {{"segment.bytes", "1048576"}}},
                   {"wide", 150, 1, {}, {}}};
  for (auto& topic : (co_await client.createTopics(create)).topics) CHECK(topic.result.has_value());
  co_await client.deleteTopics({{{"gone", {}}}});
  co_await client.createPartitions({{{"wide", 200, std::nullopt}}, false});
  AlterConfigsRequest alter;
  alter.resources = {
      {{metadata::ResourceType::broker, ""}, {{"log.retention.ms", config::AlterOp::set, "86400000"}}},
      {{metadata::ResourceType::broker, "1"}, {{"log.segment.bytes", config::AlterOp::set, "1048576"}}},
      {{metadata::ResourceType::topic, "numbers"}, {{"retention.ms", config::AlterOp::remove, std::nullopt}}}};
  for (auto& resource : (co_await client.alterConfigs(alter)).resources) CHECK(resource.result.has_value());
  CHECK((co_await client.allocateProducerIds()).has_value());
}

class Silent : public Logger {
 public:
  bool enabled(LogLevel) const override { return false; }
  void write(LogLevel, std::string_view, std::string_view) override {}
};

// What the records can say and the controller of a cluster of one does not.
void addTheRest(FileSystem& files, const TopicId& topic) {
  Silent silent;
  auto log = RaftLog::load(files, silent, {.directory = kDirectory, .node = NodeId(1), .segmentBytes = 1000});
  metadata::PartitionsRecord::Partition partition;
  partition.replicas = {1, 2, 3};
  partition.isr = {2};
  partition.leader = 2;
  partition.leaderEpoch = 7;
  partition.partitionEpoch = 9;
  partition.eligibleLeaders = {1};
  partition.lastKnownEligible = {3};
  partition.adding = {3};
  partition.removing = {1};
  partition.directories = {Uuid::fromHalves(5, 6), Uuid::fromHalves(7, 8), Uuid::fromHalves(9, 10)};
  metadata::PartitionsRecord::Partition offline;
  offline.replicas = {2};
  metadata::BrokerRecord broker;
  broker.nodeId = 2;
  broker.incarnation = Uuid::fromHalves(11, 12);
  broker.epoch = 5;
  broker.listeners = {{"PLAINTEXT", "::1", 9093, 0, {}}};
  broker.fenced = true;
  std::vector<metadata::Record> records = {metadata::FeatureRecord{"transaction.version", 2, {}}, broker,
                                           metadata::PartitionsRecord{topic, 1, {partition, offline}, {}}};
  int64_t next = log->lastIndex() + 1, term = log->hardState().term;
  std::vector<LogEntry> entries = {{next, term, EntryType::noop, {}},
                                   {next + 1, term, EntryType::records, metadata::encodeRecords(records)}};
  CHECK(log->append(entries) == Space::plenty);
  entries = {{next + 2, term, EntryType::records,
              metadata::encodeRecords(
                  std::vector<metadata::Record>{metadata::TopicRecord{Uuid::fromHalves(13, 14), "replaced", {}}})}};
  CHECK(log->append(entries) == Space::plenty);
  entries[0].term = term + 1;
  entries[0].data = metadata::encodeRecords(
      std::vector<metadata::Record>{metadata::TopicRecord{Uuid::fromHalves(15, 16), "kept", {}}});
  log->saveHardState({term + 1, NodeId(1)});
  CHECK(log->append(entries) == Space::plenty);
  log->close();
}

Co<void> nothing(Controller&, ControllerClient&) { co_return; }

}  // namespace

TEST_CASE("Metadata directories of every released format open and give their image") {
  int found = 0;
  for (auto& version : fs::directory_iterator(fs::path(MQ_TEST_DATA) / "metadata")) {
    CAPTURE(version.path().string());
    ++found;
    SimWorld world({.seed = 1});
    SimNode& node = world.addNode();
    auto files = node.disk().mount(std::make_shared<bool>(false), 1000);
    files->makeDirectory(kDirectory);
    for (auto& entry : fs::directory_iterator(version.path() / "metadata")) {
      auto file = files->open(fmt::format("{}/{}", kDirectory, entry.path().filename().string()), OpenMode::createNew);
      std::string content = contentOf(entry.path());
      file->write(0, asBytes(content));
    }
    std::string image;
    live(world, node, nothing, &image);
    CHECK(image == contentOf(version.path() / "image.txt"));
    // And it goes on from there.
    live(world, node, [](Controller&, ControllerClient& client) -> kj::Promise<void> {
      return client.allocateProducerIds().then([](Result<ProducerIdBlock> block) { CHECK(block->first == 1000); });
    });
  }
  CHECK(found >= 1);
}

TEST_CASE("A golden directory is written when asked for") {
  const char* target = std::getenv("MQ_WRITE_METADATA_GOLDEN");
  if (!target) return;
  REQUIRE_FALSE(fs::exists(target));
  SimWorld world({.seed = 20261130});
  SimNode& node = world.addNode();
  TopicId words;
  live(world, node, fill);
  live(world, node, [&](Controller& controller, ControllerClient& client) -> kj::Promise<void> {
    words = controller.image()->topic("words")->id;
    return client.createTopics({{{"later", 2, 1, {}, {}}}, false}).ignoreResult();
  });
  auto files = node.disk().mount(std::make_shared<bool>(false), 1000);
  addTheRest(*files, words);
  fs::create_directories(fs::path(target) / "metadata");
  for (auto& entry : files->list(kDirectory)) {
    std::string content = files->readFile(fmt::format("{}/{}", kDirectory, entry.name), 64 << 20);
    if (entry.name.ends_with(".log")) content.erase(content.find_last_not_of('\0') + 1);  // the space set aside
    std::ofstream(fs::path(target) / "metadata" / entry.name, std::ios::binary) << content;
  }
  std::string image;
  live(world, node, nothing, &image);
  std::ofstream(fs::path(target) / "image.txt") << image;
}

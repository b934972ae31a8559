// What metadata costs: a change among many topics, and the controller on a real disk.
//
//   ninja -C build perf/micro/metadata_bench && build/perf/micro/metadata_bench [DIRECTORY]
//
// The directory (default: metadata-bench, removed first) decides which disk is measured.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "controller/controller.h"
#include "metadata/record.h"
#include "runtime/uv/log.h"
#include "runtime/uv/node.h"

using namespace mq;

namespace {

double now() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Milliseconds of one call, the best of some.
template <class Work>
double best(int rounds, Work work) {
  double least = 1e9;
  for (int i = 0; i < rounds; ++i) {
    double start = now();
    work(i);
    least = std::min(least, now() - start);
  }
  return least;
}

metadata::PartitionsRecord partitions(const Uuid& topic, int32_t first, size_t count, int32_t epoch) {
  metadata::PartitionsRecord::Partition partition;
  partition.replicas = partition.isr = {1, 2, 3};
  partition.leader = 1;
  partition.partitionEpoch = epoch;
  return {topic, first, std::vector<metadata::PartitionsRecord::Partition>(count, partition), {}};
}

void images() {
  std::vector<metadata::Record> records;
  for (uint64_t n = 1; n <= 10000; ++n) {
    Uuid id = Uuid::fromHalves(0, n);
    records.push_back(metadata::TopicRecord{id, fmt::format("topic-{:05}", n), {}});
    records.push_back(partitions(id, 0, 3, 0));
  }
  metadata::ImageRef image;
  fmt::print("10,000 topics of 3 partitions applied       {:9.3f} ms\n",
             best(3, [&](int) { image = metadata::apply(metadata::emptyImage(), records, 1, 1).image; }));
  fmt::print("one change of one partition among them      {:9.3f} ms\n", best(200, [&](int i) {
               std::vector<metadata::Record> change = {partitions(Uuid::fromHalves(0, 5000), 1, 1, i + 1)};
               image = metadata::apply(image, change, 2, 1).image;
             }));
  std::vector<metadata::Record> failover;
  for (uint64_t n = 1; n <= 10000; ++n) failover.push_back(partitions(Uuid::fromHalves(0, n), 0, 3, 7));
  fmt::print("all 30,000 partitions changed at once       {:9.3f} ms\n",
             best(3, [&](int) { metadata::apply(image, failover, 3, 1); }));
  Buffer snapshot;
  fmt::print("snapshot made                               {:9.3f} ms",
             best(3, [&](int) { snapshot = metadata::encodeRecords(metadata::recordsOf(*image)); }));
  fmt::print(" ({} bytes)\n", snapshot.size());
  fmt::print("snapshot read                               {:9.3f} ms\n",
             best(3, [&](int) { metadata::apply(metadata::emptyImage(), *metadata::decodeRecords(snapshot), 1, 1); }));
}

controller::CreateTopicsRequest topics(std::string name, int count, int32_t partitions) {
  controller::CreateTopicsRequest request;
  for (int i = 0; i < count; ++i) request.topics.push_back({fmt::format("{}-{}", name, i), partitions, 1, {}, {}});
  return request;
}

Co<void> onDisk(Shard& shard, std::string directory) {
  for (int life = 0; life < 2; ++life) {
    double start = now();
    controller::MetadataFeed feed;
    controller::ControllerOptions options;
    options.node = NodeId(1);
    options.directory = directory;
    controller::Controller controller(shard, options, {&feed});
    co_await controller.start();
    controller::BrokerRegistration registration;
    registration.id = NodeId(1);
    registration.incarnation = shard.random().uuid();
    registration.listeners = {{"PLAINTEXT", "", 9092, 0}};
    (void)co_await controller.registerBroker(registration);
    fmt::print("{} start and registration              {:9.3f} ms\n", life == 0 ? "first " : "second", now() - start);
    if (life == 1) break;
    for (int round = 0; round < 3; ++round) {
      start = now();
      (void)co_await controller.createTopics(topics(fmt::format("wide{}", round), 1, 1000));
      fmt::print("a topic of 1,000 partitions created         {:9.3f} ms\n", now() - start);
      start = now();
      (void)co_await controller.createTopics(topics(fmt::format("many{}", round), 1000, 1));
      fmt::print("1,000 topics created by one request         {:9.3f} ms\n", now() - start);
    }
    start = now();
    for (int i = 0; i < 100; ++i) (void)co_await controller.allocateProducerIds();
    fmt::print("one change at a time, each                  {:9.3f} ms\n", (now() - start) / 100);
    start = now();
    std::vector<kj::Promise<Result<controller::ProducerIdBlock>>> answers;
    for (int i = 0; i < 1000; ++i) answers.push_back(controller.allocateProducerIds());
    for (auto& answer : answers) (void)co_await answer;
    fmt::print("1,000 changes at once, each                 {:9.3f} ms\n", (now() - start) / 1000);
    co_await controller.stop();
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string directory = argc > 1 ? argv[1] : "metadata-bench";
  std::filesystem::remove_all(directory);
  images();
  auto log = stderrLogger(LogLevel::warning);
  UvNode node({.shards = 1}, *log);
  node.run([&](Shard& first) -> kj::Promise<void> { return onDisk(first, directory); });
  std::filesystem::remove_all(directory);
}

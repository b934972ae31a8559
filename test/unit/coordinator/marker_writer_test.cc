#include "coordinator/marker_writer.h"

#include "coordinator_site.h"

namespace mq::coordinator {
namespace {

using namespace test;

const ProducerEpoch kProducer{ProducerId(5), 3};

TEST_CASE("MarkerWriter: a marker goes to whoever leads the partition, and again until it is committed there") {
  sim::SimWorld world({.seed = 1});
  live(world, [](Site& site) -> Co<void> {
    site.topic("t", {{.leader = 1}, {.replicas = {2, 3}, .leader = 2}, {.replicas = {3}, .leader = -1}});
    replica::Partition* own = co_await site.open("t", 0);
    int lost = 0;
    site.others.onMarker = [&](const Others::Marker& marker) -> Result<void> {
      if (marker.node == NodeId(2) && ++lost < 3) return Error::networkException;
      if (marker.node == NodeId(2)) return Error::notLeaderOrFollower;
      return {};
    };
    std::vector<std::string> done;
    MarkerWriter writer(site.shard, site.feed, site.node, LeaderEpoch(7),
                        [&](const std::string& id, const ProducerEpoch&) { done.push_back(id); });
    writer.write({.transactionalId = "txn",
                  .producer = kProducer,
                  .commits = true,
                  .clientVersion = kEpochPerTransaction,
                  .partitions = {{"t", 0}, {"t", 1}, {"t", 2}}});
    co_await site.until([&] { return site.others.markers.size() >= 5; });
    CHECK(own->logEnd() == Offset(1));
    CHECK(done.empty());
    for (const auto& [node, request] : site.others.markers) {
      CHECK(node == NodeId(2));
      CHECK(request.partition == TopicIdPartition{Site::idOf("t"), 1});
      CHECK(request.marker.producer == kProducer);
      CHECK(request.marker.coordinatorEpoch == 7);
      CHECK(request.marker.commits);
      CHECK(request.strict);
    }
    site.others.markers.clear();
    site.move("t", 1, {.replicas = {2, 3}, .leader = 3, .leaderEpoch = 1});
    co_await site.until([&] { return !site.others.markers.empty() && site.others.markers.back().node == NodeId(3); });
    co_await site.shard.after(5s);
    CHECK(done.empty());  // the third has no leader
    site.move("t", 2, {.replicas = {3}, .leader = 3, .leaderEpoch = 1});
    co_await site.until([&] { return !done.empty(); });
    CHECK(done == std::vector<std::string>{"txn"});
    CHECK(site.others.markers.back().request.partition.partition == 2);
    CHECK(own->logEnd() == Offset(1));
  });
}

TEST_CASE("MarkerWriter: what ends the trying elsewhere too is a refusal for good, and a topic that is gone") {
  sim::SimWorld world({.seed = 2});
  live(world, [](Site& site) -> Co<void> {
    site.topic("fenced", {{.replicas = {2}, .leader = 2}});
    site.topic("gone", {{.replicas = {2}, .leader = 2}});
    site.others.onMarker = [&](const Others::Marker& marker) -> Result<void> {
      bool isFenced = marker.request.partition.topic == Site::idOf("fenced");
      return isFenced ? Error::transactionCoordinatorFenced : Error::unknownTopicOrPartition;
    };
    bool done = false;
    MarkerWriter writer(site.shard, site.feed, site.node, LeaderEpoch(7),
                        [&](const std::string&, const ProducerEpoch&) { done = true; });
    writer.write({.transactionalId = "txn", .producer = kProducer, .partitions = {{"fenced", 0}, {"gone", 0}}});
    // A node that has not heard of a topic yet says so too: only our own image counts.
    co_await site.until([&] { return site.others.markers.size() >= 6; });
    CHECK_FALSE(done);
    site.remove("gone");
    co_await site.until([&] { return done; });
  });
}

TEST_CASE("writeMarkerHere: of a partition that another node leads, or nobody here knows, nothing is written") {
  sim::SimWorld world({.seed = 3});
  live(world, [](Site& site) -> Co<void> {
    site.topic("t", {{.leader = 1}, {.replicas = {2, 1}, .leader = 2}, {.replicas = {2}, .leader = 2}});
    co_await site.partitions.whenOpened();
    MarkerRequest request{.partition = {Site::idOf("t"), 0}, .marker = {kProducer, 7, true}};
    auto write = [&] { return writeMarkerHere(site.shard, site.node.shards, request); };
    CHECK((co_await write()).errorCode() == Error::none);
    CHECK((co_await write()).errorCode() == Error::none);  // again
    request.marker.coordinatorEpoch = 6;
    CHECK((co_await write()).errorCode() == Error::transactionCoordinatorFenced);
    for (int32_t elsewhere : {1, 2}) {
      request.partition.partition = elsewhere;
      CHECK((co_await write()).errorCode() == Error::notLeaderOrFollower);
    }
    request.partition.topic = Site::idOf("other");
    CHECK((co_await write()).errorCode() == Error::unknownTopicOrPartition);
  });
}

}  // namespace
}  // namespace mq::coordinator

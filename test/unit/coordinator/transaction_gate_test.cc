#include "coordinator/transaction_gate.h"

#include "coordinator_site.h"

namespace mq::coordinator {
namespace {

using namespace test;

constexpr ProducerEpoch kProducer{ProducerId(5), 3};

Co<Result<replica::Produced>> produce(Site& site, int32_t sequence, bool adds = true) {
  Buffer batch = batchOf({.producerId = kProducer.id,
                          .producerEpoch = kProducer.epoch,
                          .baseSequence = sequence,
                          .isTransactional = true});
  TransactionGate::Asked asked{
      .id = {Site::idOf("t"), 0}, .topic = "t", .transactionalId = "txn", .producer = kProducer, .adds = adds};
  co_return co_await site.gate.append(std::move(asked), batch, replica::Acks::all, nullptr);
}

TEST_CASE("TransactionGate: the coordinator is asked on whichever node leads its partition") {
  sim::SimWorld world({.seed = 1});
  live(world, [](Site& site) -> Co<void> {
    site.topic("t", {{.leader = 1}});
    co_await site.open("t", 0);
    // In a cluster others may know the topic already.
    CHECK((co_await produce(site, 0)).errorCode() == Error::notEnoughReplicas);

    site.topic(std::string(kTransactionsTopic), {{.replicas = {2, 1}, .leader = -1}});
    CHECK((co_await produce(site, 0)).errorCode() == Error::notEnoughReplicas);
    CHECK(site.others.entries.empty());

    auto lead = [&](int32_t leader, int32_t epoch) {
      site.move(std::string(kTransactionsTopic), 0, {.replicas = {2, 1}, .leader = leader, .leaderEpoch = epoch});
    };
    lead(2, 1);
    // Not told, not there any more, still loading: all of them pass.
    for (Error error : {Error::coordinatorNotAvailable, Error::notCoordinator, Error::coordinatorLoadInProgress}) {
      site.others.onEntry = [error](const Others::Entry&) { return Result<void>(error); };
      CHECK((co_await produce(site, 0)).errorCode() == Error::notEnoughReplicas);
    }
    site.others.onEntry = [](const Others::Entry&) { return Result<void>(Error::producerFenced); };
    CHECK((co_await produce(site, 0)).errorCode() == Error::invalidProducerEpoch);
    site.others.onEntry = [](const Others::Entry&) { return Result<void>(); };
    site.others.entries.clear();
    CHECK((co_await produce(site, 0)).errorCode() == Error::none);
    CHECK((co_await produce(site, 1)).errorCode() == Error::none);
    REQUIRE(site.others.entries.size() == 1);  // the second batch is inside
    const auto& [node, asked] = site.others.entries.front();
    CHECK(node == NodeId(2));
    CHECK(asked.transactionalId == "txn");
    CHECK(asked.producer == kProducer);
    CHECK(asked.partition == TopicPartition{"t", 0});
    CHECK(asked.adds);

    site.others.entries.clear();
    site.move("t", 0, {.replicas = {1, 2}, .leader = 2, .leaderEpoch = 1});
    CHECK((co_await produce(site, 2)).errorCode() == Error::notLeaderOrFollower);
    site.move("t", 0, {.replicas = {1, 2}, .leader = 1, .leaderEpoch = 2, .isr = {1}});
    CHECK((co_await produce(site, 2)).errorCode() == Error::none);  // what the log holds is known to a new leader too
    CHECK(site.others.entries.empty());
  });
}

TEST_CASE("TransactionGate: a coordinator on this node is asked here") {
  sim::SimWorld world({.seed = 2});
  live(world, [](Site& site) -> Co<void> {
    site.topic("t", {{.leader = 1}});
    site.topic(std::string(kTransactionsTopic), {{.leader = 1}});
    co_await site.until([&] { return site.transactions.figures().loading == 0; });
    for (bool adds : {true, false})
      CHECK((co_await produce(site, 0, adds)).errorCode() == Error::invalidProducerIdMapping);
    CHECK(site.others.entries.empty());
  });
}

TEST_CASE("mayEnterHere: asked of a node that is not the coordinator, or has not heard of it") {
  sim::SimWorld world({.seed = 3});
  live(world, [](Site& site) -> Co<void> {
    EntryRequest asked{.transactionalId = "txn", .producer = kProducer, .partition = {"t", 0}, .adds = true};
    auto ask = [&] { return mayEnterHere(site.shard, site.node.shards, *site.feed.image(), asked); };
    CHECK((co_await ask()).errorCode() == Error::notCoordinator);
    site.topic(std::string(kTransactionsTopic), {{.replicas = {2, 1}, .leader = 2}});
    CHECK((co_await ask()).errorCode() == Error::notCoordinator);
  });
}

}  // namespace
}  // namespace mq::coordinator

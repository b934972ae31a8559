#include <doctest/doctest.h>

#include "replica_world.h"

namespace mq::replica {
namespace {

using Sent = ReplicaWorld::Sent;
using Answers = ReplicaWorld::Answers;

std::string fetched(const Fetched& found) {
  if (found.error != Error::none) return fmt::format("{}", found.error);
  return fmt::format("{} bytes, high watermark {}", found.length > 0 ? "some" : "no", found.highWatermark);
}

}  // namespace

TEST_CASE("Replication: what the leader takes is on all replicas before it is acknowledged, and then readable") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    for (int i = 0; i < 3; ++i) {
      Sent sent = w.produce(1, 5);
      CHECK(co_await w.within(1s, [&] { return sent.isDone(); }));
      CHECK(sent.error() == Error::none);
      for (int node : {2, 3}) CHECK(w.log(node).durableEnd() == w.log(1).end());
    }
    for (int node : {1, 2, 3}) CHECK(w.content(node) == "0-4@1 5-9@1 10-14@1");
    CHECK(w.partition(1).highWatermark() == Offset(15));
    // With the next answer at the latest.
    CHECK(co_await w.within(600ms, [&] { return w.partition(2).highWatermark() == Offset(15); }));
    CHECK(w.proposals.empty());
  });
}

TEST_CASE("Replication: under page-cache written is durable, also at the followers") {
  config::TopicSettings settings;
  settings.durability = config::Durability::pageCache;
  withReplicas(
      2,
      [](ReplicaWorld& w) -> Co<void> {
        Sent sent = w.produce(1, 5);
        CHECK(co_await w.within(1s, [&] { return sent.isDone(); }));
        CHECK(w.content(2) == "0-4@1");
      },
      settings);
}

TEST_CASE("Replication: many batches go in bounded answers and come in order") {
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    w.isolate(2);
    for (int i = 0; i < 40; ++i) w.produce(1, 1, Acks::leader, 400'000);
    co_await w.sleep(100ms);
    w.heal();
    CHECK(co_await w.within(3s, [&] { return w.partition(1).highWatermark() == Offset(40); }));
    CHECK(w.content(2) == w.content(1));
  });
}

TEST_CASE("High watermark: the least durable end over the in-sync replicas, not what is only written there") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.reportsAreLost = true;  // durable ends come with the places only, which are named when bytes were written
    Sent sent = w.produce(1, 5);
    co_await w.sleep(200ms);
    CHECK(w.content(3) == "0-4@1");
    CHECK_FALSE(sent.isDone());
    CHECK(w.partition(1).highWatermark() == Offset(0));
    w.reportsAreLost = false;
    Sent next = w.produce(1, 1);
    CHECK(co_await w.within(1s, [&] { return next.isDone(); }));
    CHECK(sent.error() == Error::none);
  });
}

TEST_CASE("High watermark: a replica that is cut off holds it up until it is out of the committed ISR") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.answers = Answers::wait;
    w.isolate(3);
    Sent sent = w.produce(1, 5);
    CHECK(co_await w.within(6s, [&] { return w.proposals.size() == 1; }));
    CHECK(w.proposals[0] == "epoch 1: 1/1 2/2");
    co_await w.sleep(2s);
    CHECK_FALSE(sent.isDone());  // a shrink that is only proposed
    w.answer(false);
    CHECK(co_await w.within(100ms, [&] { return sent.isDone(); }));
    CHECK(sent.error() == Error::none);
    CHECK(w.isr() == "1 2");
  });
}

TEST_CASE("ISR: who is idle and holds everything stays in; who was away comes back when it has caught up") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.produce(1, 5);
    co_await w.sleep(30s);
    CHECK(w.proposals.empty());
    CHECK(w.node(1).partitions->readerCount() == 0);
    w.isolate(3);
    w.produce(1, 5);
    CHECK(co_await w.within(5s, [&] { return w.isr() == "1 2"; }));
    w.heal();
    CHECK(co_await w.within(2s, [&] { return w.isr() == "1 2 3"; }));
    CHECK(w.content(3) == "0-4@1 5-9@1");
    CHECK(w.proposals.size() == 2);
    co_await w.sleep(10s);
    CHECK(w.proposals.size() == 2);
  });
}

TEST_CASE("ISR: an idle replica whose session is gone leaves, too") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    Sent sent = w.produce(1, 5);
    co_await w.sleep(1s);
    CHECK(sent.isDone());
    co_await w.stop(3);
    CHECK(co_await w.within(8s, [&] { return w.isr() == "1 2"; }));
  });
}

TEST_CASE("ISR: from an expansion's proposal until its outcome is known both count") {
  for (bool refused : {true, false}) {
    withReplicas(3, [&](ReplicaWorld& w) -> Co<void> {
      w.lead(1, {1, 2});
      w.answers = Answers::wait;
      CHECK(co_await w.within(3s, [&] { return w.proposals.size() == 1; }));
      w.isolate(3);
      Sent sent = w.produce(1, 5);
      co_await w.sleep(500ms);
      CHECK_FALSE(sent.isDone());
      CHECK(w.partition(1).highWatermark() == Offset(0));
      w.answers = Answers::refuse;
      w.answer(refused);
      co_await w.sleep(200ms);
      CHECK(sent.isDone() == refused);  // taken: it is in the ISR now, and has not got it
      CHECK(w.isr() == (refused ? "1 2" : "1 2 3"));
    });
  }
}

TEST_CASE("ISR: an unknown outcome keeps the union until the metadata is newer") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.answers = Answers::lose;
    w.lead(1, {1, 2});
    CHECK(co_await w.within(3s, [&] { return w.proposals.size() == 1; }));
    w.isolate(3);
    w.answers = Answers::refuse;  // of a later try; the first may still be on its way
    Sent sent = w.produce(1, 5);
    co_await w.sleep(5s);
    CHECK(w.proposals.size() > 1);
    CHECK_FALSE(sent.isDone());
    w.setIsr({1, 2});  // any change: what was proposed before can be taken no more
    CHECK(co_await w.within(100ms, [&] { return sent.isDone(); }));
    CHECK(sent.error() == Error::none);
  });
}

TEST_CASE("ISR: a try after an unknown outcome asks for the ISR as it is, if nothing else, so that it is settled") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.answers = Answers::lose;
    w.lead(1, {1, 2});
    CHECK(co_await w.within(3s, [&] { return w.proposals.size() == 1; }));
    w.isolate(3);
    Sent sent = w.produce(1, 5);
    w.answers = Answers::take;
    CHECK(co_await w.within(8s, [&] { return sent.isDone(); }));
    CHECK(w.isr() == "1 2");
  });
}

TEST_CASE("ISR: an answer that is lost after the change shows in the metadata, and nothing is asked twice") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.answers = Answers::takeAndLose;
    w.lead(1, {1, 2});
    CHECK(co_await w.within(3s, [&] { return w.isr() == "1 2 3"; }));
    Sent sent = w.produce(1, 5);
    co_await w.sleep(5s);
    CHECK(sent.error() == Error::none);
    CHECK(w.proposals.size() == 1);
  });
}

TEST_CASE("ISR: who is fenced does not come in, until it is not") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.fence(3, true);
    w.lead(1, {1, 2});
    co_await w.sleep(3s);
    CHECK(w.proposals.empty());
    w.fence(3, false);
    CHECK(co_await w.within(3s, [&] { return w.isr() == "1 2 3"; }));
  });
}

TEST_CASE("ISR: who comes in is named in the life of its session (KIP-903)") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    Sent sent = w.produce(1, 5);
    co_await w.sleep(100ms);
    co_await w.stop(3);
    w.setIsr({1, 2});
    w.start(3);
    co_await w.opened();
    CHECK(co_await w.within(3s, [&] { return w.isr() == "1 2 3"; }));
    CHECK(w.proposals.back() == "epoch 2: 1/1 2/2 3/4");
  });
}

TEST_CASE("KIP-903: what an earlier life of a follower says does not count") {
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    w.isolate(2);
    co_await w.sleep(1s);  // its own session has ended
    Sent sent = w.produce(1, 5);
    co_await w.sleep(100ms);
    auto old = w.node(1).partitions->serveFollower({NodeId(2), w.node(2).incarnation});
    FollowPlace place{.id = kPartition, .leaderEpoch = LeaderEpoch(1), .from = Offset(0), .durable = Offset(0)};
    auto got = co_await old->follow({.places = {place}, .bytesMax = 1000, .atMost = 1s});
    CHECK(got.partitions.at(0).length > 0);
    w.node(2).incarnation = Uuid::fromHalves(9, 9);
    w.registerBroker(2);
    place.from = place.durable = Offset(5);
    place.lastEpoch = LeaderEpoch(1);
    old->report({{kPartition, LeaderEpoch(1), Offset(5)}});
    bool rejected = false;
    co_await old->follow({.places = {place}, .bytesMax = 1000, .atMost = 1s})
        .then([](FollowResponse&&) {}, [&](kj::Exception&&) { rejected = true; });
    CHECK(rejected);
    CHECK_FALSE(sent.isDone());
    // Nor does a session that is older than another one of the same life.
    auto first = w.node(1).partitions->serveFollower({NodeId(2), w.node(2).incarnation});
    auto second = w.node(1).partitions->serveFollower({NodeId(2), w.node(2).incarnation});
    place.from = place.durable = Offset(0);
    place.lastEpoch = kNoLeaderEpoch;
    co_await second->follow({.places = {place}, .bytesMax = 1000, .atMost = 1s});
    place.from = place.durable = Offset(5);
    place.lastEpoch = LeaderEpoch(1);
    rejected = false;
    co_await first->follow({.places = {place}, .bytesMax = 1000, .atMost = 100ms})
        .then([](FollowResponse&&) {}, [&](kj::Exception&&) { rejected = true; });
    CHECK(rejected);
    CHECK_FALSE(sent.isDone());
    second->report({{kPartition, LeaderEpoch(1), Offset(5)}});  // beyond the place that was found right
    co_await w.sleep(1ms);
    CHECK_FALSE(sent.isDone());
    auto last = second->follow({.places = {place}, .bytesMax = 1000, .atMost = 10ms});
    co_await last;
    CHECK(sent.error() == Error::none);
  });
}

TEST_CASE("A session of a life that the metadata does not know waits for it, and is over when it does not come") {
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    w.isolate(2);  // its own sessions
    co_await w.sleep(1s);
    const Uuid next = Uuid::fromHalves(9, 9);
    FollowPlace place{.id = kPartition, .leaderEpoch = LeaderEpoch(1), .from = Offset(0), .durable = Offset(0)};
    auto early = w.node(1).partitions->serveFollower({NodeId(2), next});
    bool rejected = false;
    co_await early->follow({.places = {place}, .bytesMax = 1000, .atMost = 100ms})
        .then([](FollowResponse&&) {}, [&](kj::Exception&&) { rejected = true; });
    CHECK(rejected);
    auto session = w.node(1).partitions->serveFollower({NodeId(2), next});
    bool answered = false;
    auto asked = session->follow({.places = {place}, .bytesMax = 1000, .atMost = 1s})
                     .then([&](FollowResponse&& response) { answered = response.partitions.size() == 1; })
                     .eagerlyEvaluate(nullptr);
    co_await w.sleep(100ms);
    w.node(2).incarnation = next;
    w.registerBroker(2);
    co_await asked;
    CHECK(answered);
  });
}

TEST_CASE("min.insync.replicas: with fewer in sync the high watermark stands still and acks=all is refused") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.isolate(1);
    w.answers = Answers::refuse;
    Sent waits = w.produce(1, 5);  // two of three are needed, and there
    w.setIsr({1});
    co_await w.sleep(100ms);
    CHECK_FALSE(waits.isDone());
    CHECK(w.produce(1, 1).error() == Error::requestTimedOut);
    Sent refused = w.produce(1, 1);
    co_await w.sleep(1ms);
    CHECK(refused.error() == Error::notEnoughReplicas);
    Sent leaderOnly = w.produce(1, 1, Acks::leader);
    co_await w.sleep(100ms);
    CHECK(leaderOnly.error() == Error::none);
    CHECK(w.partition(1).highWatermark() == Offset(0));
    w.setIsr({1, 2});
    w.heal();
    CHECK(co_await w.within(3s, [&] { return waits.isDone(); }));
    CHECK(waits.error() == Error::none);
    CHECK(w.partition(1).highWatermark() == Offset(6));
  });
}

TEST_CASE("min.insync.replicas: unless it is set, two of three and one of two") {
  config::TopicSettings settings;
  CHECK(config::inSyncNeeded(settings, 1) == 1);
  CHECK(config::inSyncNeeded(settings, 2) == 1);
  CHECK(config::inSyncNeeded(settings, 3) == 2);
  CHECK(config::inSyncNeeded(settings, 5) == 2);
  settings.minInSyncReplicas = 1;
  CHECK(config::inSyncNeeded(settings, 3) == 1);
  settings.minInSyncReplicas = 4;
  CHECK(config::inSyncNeeded(settings, 3) == 3);
}

TEST_CASE("A new leader keeps the high watermark it knew, and tells no latest offset before it knows more (KIP-207)") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    Sent sent = w.produce(1, 5);
    CHECK(co_await w.within(2s, [&] { return w.partition(2).highWatermark() == Offset(5); }));
    w.cut(1, 3);
    Sent lost = w.produce(1, 3);  // only to 2
    CHECK(co_await w.within(1s, [&] { return w.log(2).end() == Offset(8); }));
    w.isolate(1);
    w.cut(2, 3);
    w.lead(2, {2, 3});
    CHECK(w.partition(2).highWatermark() == Offset(5));
    auto latest = [&] { return w.partition(2).findOffset(-1, Isolation::readUncommitted, kNoLeaderEpoch); };
    CHECK((co_await latest()).errorCode() == Error::offsetNotAvailable);
    auto byTime = co_await w.partition(2).findOffset(99'999'999'999'999, Isolation::readUncommitted, kNoLeaderEpoch);
    CHECK(byTime.errorCode() == Error::offsetNotAvailable);
    auto earliest = co_await w.partition(2).findOffset(-2, Isolation::readUncommitted, kNoLeaderEpoch);
    CHECK(earliest->offset == Offset(0));
    w.heal();
    CHECK(co_await w.within(2s, [&] { return w.partition(2).highWatermark() == Offset(8); }));
    CHECK((co_await latest())->offset == Offset(8));
    CHECK(lost.error() == Error::notLeaderOrFollower);
  });
}

TEST_CASE("A deposed leader ends its waits, and cuts what the new one does not have (KIP-101)") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    Sent sent = w.produce(1, 5);
    co_await w.sleep(1s);
    w.isolate(1);
    Sent lost = w.produce(1, 5);
    auto committed = w.partition(1).whenCommitted(Offset(10)).eagerlyEvaluate(nullptr);
    co_await w.sleep(100ms);
    CHECK_FALSE(lost.isDone());
    w.lead(2, {2, 3});
    CHECK((co_await committed).errorCode() == Error::notLeaderOrFollower);
    co_await w.sleep(1ms);
    CHECK(lost.error() == Error::notLeaderOrFollower);
    Sent kept = w.produce(2, 2);
    CHECK(co_await w.within(2s, [&] { return kept.isDone(); }));
    CHECK(w.content(1) == "0-4@1 5-9@1");
    w.heal();
    CHECK(co_await w.within(2s, [&] { return w.content(1) == "0-4@1 5-6@2"; }));
    CHECK(w.content(3) == "0-4@1 5-6@2");
    CHECK(co_await w.within(2s, [&] { return w.isr() == "2 3 1"; }));
  });
}

TEST_CASE("Logs that part more than once are cut to where they part, whatever was led between (KIP-279)") {
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    co_await w.sleep(100ms);
    w.isolate(1);
    auto alone = [&](int node, int records) -> Co<void> {
      w.lead(node, {node});
      Sent sent = w.produce(node, records, Acks::leader);
      co_await w.within(1s, [&] { return sent.isDone(); });
    };
    co_await alone(1, 5);
    co_await alone(2, 3);
    co_await alone(1, 2);
    co_await alone(2, 6);
    co_await alone(2, 1);
    CHECK(w.content(1) == "0-4@2 5-6@4");
    CHECK(w.content(2) == "0-2@3 3-8@5 9-9@6");
    w.heal();
    w.lead(2, {2});
    CHECK(co_await w.within(2s, [&] { return w.content(1) == w.content(2); }));
  });
  // The follower's last epoch never was at the leader, and ended before an earlier one of the leader did.
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    Sent both = w.produce(1, 4);
    co_await w.sleep(1s);
    w.isolate(1);
    w.lead(2, {2});
    Sent second = w.produce(2, 1, Acks::leader);
    co_await w.sleep(100ms);
    w.lead(1, {1});
    Sent third = w.produce(1, 6, Acks::leader);
    co_await w.sleep(100ms);
    w.heal();
    w.lead(1, {1});
    CHECK(co_await w.within(2s, [&] { return w.content(2) == "0-3@1 4-9@3"; }));
  });
}

TEST_CASE("The leader's part of an epoch may be longer than the follower's: the shorter one is kept (KIP-279)") {
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    Sent both = w.produce(1, 4);
    co_await w.sleep(1s);
    w.isolate(1);
    Sent more = w.produce(1, 4, Acks::leader);
    co_await w.sleep(100ms);
    w.lead(2, {2});
    for (int i = 0; i < 3; ++i) w.produce(2, 3, Acks::leader);
    co_await w.sleep(100ms);
    CHECK(w.content(2) == "0-3@1 4-6@2 7-9@2 10-12@2");
    w.lead(1, {1});
    w.heal();
    CHECK(co_await w.within(2s, [&] { return w.content(2) == "0-3@1 4-7@1"; }));
  });
}

TEST_CASE("An epoch that left no records at the new leader is found all the same") {
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    Sent both = w.produce(1, 4);
    co_await w.sleep(1s);
    w.lead(1, {1, 2});
    w.isolate(1);
    Sent lost = w.produce(1, 5);
    co_await w.sleep(100ms);
    w.lead(2, {2});
    w.heal();
    Offset least = w.log(1).end();
    CHECK(co_await w.within(2s, [&] {
      least = std::min(least, w.log(1).end());
      return w.content(1) == "0-3@1";
    }));
    co_await w.within(100ms, [&] {
      least = std::min(least, w.log(1).end());
      return false;
    });
    CHECK(least == Offset(4));  // what both have is not thrown away
    CHECK(w.content(2) == "0-3@1");
  });
}

TEST_CASE("An empty follower gets everything, and one that is behind the log start begins there") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.lead(1, {1, 2}, {1, 2});
    for (int i = 0; i < 3; ++i) w.produce(1, 5);
    co_await w.sleep(1s);
    w.lead(1, {1, 2}, {1, 2, 3});
    co_await w.opened();
    CHECK(co_await w.within(2s, [&] { return w.isr() == "1 2 3"; }));
    CHECK(w.content(3) == "0-4@2 5-9@2 10-14@2");

    w.isolate(3);
    CHECK(co_await w.within(6s, [&] { return w.isr() == "1 2"; }));
    Sent more = w.produce(1, 10);
    CHECK(co_await w.within(1s, [&] { return more.isDone(); }));
    CHECK((co_await w.partition(1).deleteRecords(Offset(18))).has_value());  // within a batch
    w.heal();
    CHECK(co_await w.within(3s, [&] { return w.isr() == "1 2 3"; }));
    CHECK(w.log(3).start() == Offset(18));
    CHECK(w.content(3) == w.content(1));
    CHECK(w.content(1) == "[18, 15-24@3");
    CHECK(co_await w.within(1s, [&] { return w.log(2).start() == Offset(18); }));
  });
}

TEST_CASE("Deleted records are deleted at every in-sync replica before that is acknowledged") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.lead(1, {1, 2, 3}, {1, 2, 3});
    for (int i = 0; i < 4; ++i) w.produce(1, 5);
    co_await w.sleep(1s);
    CHECK((co_await w.partition(1).deleteRecords(Offset(5))).value() == Offset(5));
    for (int id : {2, 3}) CHECK(w.log(id).start() == Offset(5));

    w.isolate(2);
    bool isDone = false;
    auto deleting = w.partition(1).deleteRecords(Offset(12)).then([&](Result<Offset>&& start) {
      isDone = true;
      CHECK(start.value() == Offset(12));
    });
    auto running = deleting.eagerlyEvaluate(nullptr);
    CHECK(co_await w.within(1s, [&] { return w.log(3).start() == Offset(12); }));
    CHECK(w.log(2).start() == Offset(5));
    CHECK_FALSE(isDone);
    CHECK(co_await w.within(6s, [&] { return w.isr() == "1 3"; }));
    CHECK(co_await w.within(100ms, [&] { return isDone; }));

    // Whoever comes in again has them deleted, too, and shows none of them as leader.
    w.heal();
    CHECK(co_await w.within(3s, [&] { return w.isr() == "1 3 2"; }));
    CHECK(w.log(2).start() == Offset(12));
    // A leader that is deposed meanwhile promises nothing.
    w.isolate(2);
    auto open = w.partition(1).deleteRecords(Offset(15));
    co_await w.sleep(100ms);
    w.lead(3, {1, 2, 3}, {1, 2, 3});
    CHECK((co_await open).errorCode() == Error::notLeaderOrFollower);
  });
}

TEST_CASE("A replica that is taken away is deleted, and comes back empty when it is given again") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    Sent sent = w.produce(1, 5);
    co_await w.sleep(1s);
    w.lead(1, {1, 2}, {1, 2});
    w.lead(1, {1, 2}, {1, 2, 3});  // again, before its files are gone
    CHECK(co_await w.within(3s, [&] { return w.isr() == "1 2 3"; }));
    CHECK(w.content(3) == "0-4@1");
    w.lead(1, {1, 2}, {1, 2});
    co_await w.sleep(1s);
    CHECK(w.node(3).partitions->find(kPartition) == nullptr);
    CHECK(w.node(3).logs->find({"t", 0}) == nullptr);
    CHECK(w.node(3).partitions->whyMissing(kPartition).error == Error::notLeaderOrFollower);
    Sent next = w.produce(1, 5);
    CHECK(co_await w.within(1s, [&] { return next.isDone(); }));
  });
}

TEST_CASE("A leader that hears of its epoch after its follower did keeps the follower's place until then") {
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    co_await w.sleep(100ms);
    w.node(1).hearsImages = false;
    w.lead(1, {1, 2});
    co_await w.sleep(100ms);
    w.node(1).hearsImages = true;
    w.publish();
    Sent sent = w.produce(1, 5);
    CHECK(co_await w.within(50ms, [&] { return sent.isDone(); }));
  });
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    co_await w.sleep(100ms);
    w.node(2).hearsImages = false;
    w.lead(1, {1, 2});
    Sent sent = w.produce(1, 5);
    co_await w.sleep(2s);
    CHECK_FALSE(sent.isDone());
    w.node(2).hearsImages = true;
    w.publish();
    CHECK(co_await w.within(50ms, [&] { return sent.isDone(); }));
  });
}

TEST_CASE("Followers serve consumers that may read there, up to their high watermark (KIP-392)") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.produce(1, 5);
    CHECK(co_await w.within(2s, [&] { return w.partition(2).highWatermark() == Offset(5); }));
    w.isolate(3);
    w.produce(1, 5);
    CHECK(co_await w.within(1s, [&] { return w.log(2).end() == Offset(10); }));
    Fetch fetch{.from = Offset(0), .bytesMax = 1000, .followerMayServe = true};
    CHECK(fetched(w.partition(2).fetch(fetch)) == "some bytes, high watermark 5");
    fetch.from = Offset(7);
    CHECK(fetched(w.partition(2).fetch(fetch)) == "no bytes, high watermark 5");
    fetch.from = Offset(11);
    CHECK(fetched(w.partition(2).fetch(fetch)) == "OFFSET_NOT_AVAILABLE");
    CHECK(fetched(w.partition(1).fetch(fetch)) == "OFFSET_OUT_OF_RANGE");
    fetch.lastFetchedEpoch = LeaderEpoch(1);
    CHECK(fetched(w.partition(2).fetch(fetch)) == "OFFSET_NOT_AVAILABLE");
    fetch.lastFetchedEpoch = kNoLeaderEpoch;
    fetch.from = Offset(0);
    fetch.currentLeaderEpoch = LeaderEpoch(2);
    CHECK(fetched(w.partition(2).fetch(fetch)) == "UNKNOWN_LEADER_EPOCH");
    fetch.currentLeaderEpoch = LeaderEpoch(1);
    CHECK(fetched(w.partition(2).fetch(fetch)) == "some bytes, high watermark 5");
    fetch.followerMayServe = false;
    CHECK(fetched(w.partition(2).fetch(fetch)) == "NOT_LEADER_OR_FOLLOWER");
    CHECK((co_await w.partition(2).findOffset(-1, Isolation::readUncommitted, kNoLeaderEpoch)).errorCode() ==
          Error::notLeaderOrFollower);
  });
}

TEST_CASE("What was accepted in one role does not land in the next") {
  config::TopicSettings settings;
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    co_await w.sleep(100ms);
    // Large and compressed: it is looked at off the loop.
    Buffer batch = storage::makeBatch({.records = 3, .valueBytes = 90'000, .codec = record::Codec::lz4});
    Buffer noise(400'000);
    for (uint8_t& byte : noise) byte = static_cast<uint8_t>(w.shard.random().next());
    record::Workspace workspace;
    record::BatchBuilder builder({.codec = record::Codec::lz4, .level = {}, .appendTime = {}});
    builder.add({.timestamp = WallMs(1), .key = {}, .value = Bytes(noise), .headers = {}});
    batch = builder.build(workspace);
    REQUIRE(batch.size() > 100'000);
    auto appended = w.partition(1).append(batch, Acks::leader).eagerlyEvaluate(nullptr);
    w.lead(2, {1, 2});
    CHECK((co_await appended).errorCode() == Error::notLeaderOrFollower);
    CHECK(w.log(1).end() == Offset(0));
  });
}

TEST_CASE("A leader that was started anew knows no high watermark until its followers have told, or if it is alone") {
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    Sent sent = w.produce(1, 5);
    co_await w.sleep(1s);
    w.isolate(1);
    co_await w.stop(1);
    w.start(1);
    w.lead(1, {1, 2});
    co_await w.opened();
    CHECK(w.log(1).end() == Offset(5));
    CHECK(w.partition(1).highWatermark() == Offset(0));
    w.heal();
    CHECK(co_await w.within(2s, [&] { return w.partition(1).highWatermark() == Offset(5); }));
    w.isolate(1);
    co_await w.stop(1);
    w.start(1);
    w.lead(1, {1});
    co_await w.opened();
    CHECK(co_await w.within(1s, [&] { return w.partition(1).highWatermark() == Offset(5); }));
  });
}

TEST_CASE("Gaps that compaction has left at the leader are no loss at a follower that is started anew") {
  withReplicas(2, [](ReplicaWorld& w) -> Co<void> {
    w.isolate(2);
    Buffer gapped;
    for (int64_t base : {0, 10, 30}) {
      Buffer batch = storage::makeBatch({.records = 5});
      record::setBaseOffset(batch, Offset(base));
      record::setLeaderEpoch(batch, LeaderEpoch(1));
      gapped.insert(gapped.end(), batch.begin(), batch.end());
    }
    CHECK((co_await w.log(1).append({.bytes = gapped, .origin = storage::Origin::replica})).has_value());
    w.heal();
    CHECK(co_await w.within(2s, [&] { return w.partition(1).highWatermark() == Offset(35); }));
    CHECK(w.content(2) == "0-4@1 10-14@1 30-34@1");
    w.kill(2);
    w.start(2);
    co_await w.opened();
    CHECK(w.log(2).offlineReason().value_or("") == "");
    CHECK(w.content(2) == "0-4@1 10-14@1 30-34@1");
    Sent sent = w.produce(1, 1);
    CHECK(co_await w.within(3s, [&] { return sent.isDone(); }));
  });
}

TEST_CASE("The node stops while its followers and leaders talk to it") {
  withReplicas(3, [](ReplicaWorld& w) -> Co<void> {
    w.produce(1, 5);
    co_await w.sleep(10ms);
    co_await w.stop(1);
    co_await w.sleep(3s);
    w.start(1);
    w.lead(1, {1, 2, 3});
    co_await w.opened();
    CHECK(co_await w.within(3s, [&] { return w.partition(1).highWatermark() == Offset(5); }));
    co_await w.stop(2);
    co_await w.stop(3);
  });
}

}  // namespace mq::replica

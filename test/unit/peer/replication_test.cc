// Replication sessions in the simulated world: node 1 leads and has two shards, node 2 follows and has three.
#include <doctest/doctest.h>

#include <algorithm>

#include "peer/replication_links.h"
#include "peer/server.h"
#include "runtime/uv/node.h"
#include "sim_world.h"

using namespace mq;
using namespace mq::peer;

namespace {

constexpr uint16_t kPort = 9095;
const TopicIdPartition kFirst{Uuid::fromHalves(7, 1), 0}, kSecond{Uuid::fromHalves(7, 1), 1};

Identity identityOf(uint32_t node, uint64_t life = 0) {
  return {.cluster = Uuid::fromHalves(1, 1),
          .node = NodeId(static_cast<int32_t>(node)),
          .directory = Uuid::fromHalves(10, node),
          .incarnation = Uuid::fromHalves(20 + life, node),
          .version = "9.9"};
}
Address addressOf(uint32_t node) { return {sim::SimNetwork::hostName(node), kPort}; }

// What one leader shard was asked, and what it answers.
struct Led {
  uint32_t shard = 0;
  std::vector<replica::Follower> opened;
  size_t closed = 0;
  size_t closedBefore = 0;  // when the last one was opened
  size_t asked = 0, dropped = 0;
  std::vector<replica::FollowRequest> requests;
  std::vector<replica::DurableReport> reports;
  std::function<kj::Promise<replica::FollowResponse>(const replica::FollowRequest&)> answer;
};

class LedSession final : public replica::FollowerSession {
 public:
  explicit LedSession(Led& led, replica::Follower follower) : led_(led) {
    led_.opened.push_back(follower);
    led_.closedBefore = led_.closed;
  }
  ~LedSession() override { ++led_.closed; }
  kj::Promise<replica::FollowResponse> follow(replica::FollowRequest request) override {
    led_.requests.push_back(request);
    ++led_.asked;
    return led_.answer(request).attach(kj::defer([&led = led_] { ++led.dropped; }));
  }
  void report(const std::vector<replica::DurableReport>& reports) override {
    led_.reports.insert(led_.reports.end(), reports.begin(), reports.end());
  }

 private:
  Led& led_;
};

struct Site {
  explicit Site(uint64_t seed = 1) : world({.seed = seed}) {
    for (uint32_t i = 0; i < 4; ++i) led[i].shard = i;
    for (Led& one : led) one.answer = [](const replica::FollowRequest&) { return replica::FollowResponse{}; };
  }
  sim::SimWorld world;
  sim::SimNode& first = world.addNode();
  sim::SimNode& second = world.addNode();
  Identity answering = identityOf(1);
  ServerOptions serverOptions;
  Led led[4];
  Server* server = nullptr;
  std::vector<ReplicationServer*> replication;

  void serve(uint32_t shards = 2) {
    first.start(shards, [this, shards](Shard& shard) -> Co<void> {
      replication.clear();
      for (uint32_t i = 0; i < shards; ++i) {
        replication.push_back(co_await shard.call(i, [this, i](Shard& there) {
          auto* made = new ReplicationServer(
              there,
              [this, i](replica::Follower follower) -> kj::Own<replica::FollowerSession> {
                return kj::heap<LedSession>(led[i], follower);
              },
              serverOptions);
          there.atEnd([made] { delete made; });
          return made;
        }));
      }
      Server here(shard, shard.network().listen({"0.0.0.0", kPort}), answering, {.replication = replication},
                  serverOptions);
      server = &here;
      co_await world.sleep(10h);
    });
  }
  void run(uint32_t shards, std::function<Co<void>(Shard&)> body) {
    world.run([&]() -> Co<void> {
      serve(shards);
      co_await world.sleep(10ms);
      bool done = false;
      std::optional<kj::Exception> failed;
      second.start(3, [&](Shard& shard) -> Co<void> {
        try {
          co_await body(shard);
        } catch (...) {
          failed.emplace(caughtException());
        }
        done = true;
        co_await world.sleep(10h);
      });
      while (!done) co_await world.sleep(1ms);
      if (failed) kj::throwFatalException(kj::mv(*failed));
    });
  }
  Co<void> until(std::function<bool()> condition, Duration limit = 10s) {
    Instant end = world.now() + limit;
    while (!condition()) {
      REQUIRE(world.now() < end);
      co_await world.sleep(1ms);
    }
  }
  const std::map<NodeId, Address> peers{{NodeId(1), addressOf(1)}};
};

replica::FollowRequest places(std::vector<TopicIdPartition> ids, Duration atMost = 500ms) {
  replica::FollowRequest request{.places = {}, .dropped = {}, .bytesMax = 1 << 20, .atMost = atMost};
  for (const auto& id : ids) request.places.push_back({.id = id, .leaderEpoch = LeaderEpoch(3), .from = Offset(5)});
  return request;
}

Co<std::string> problemOf(kj::Promise<void> promise) {
  try {
    co_await promise;
  } catch (...) {
    co_return describe(caughtException());
  }
  co_return "";
}

Buffer pattern(size_t size) {
  Buffer bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(i * 31 >> 3);
  return bytes;
}

}  // namespace

TEST_CASE("Replication: a follower's shard reaches the shard it wants, by a long poll that a report overtakes") {
  Site site;
  site.run(2, [&](Shard& shard) -> Co<void> {
    ReplicationLinks links(shard, identityOf(2, 4), {});
    CHECK((co_await problemOf(links.shardsOf(NodeId(1)).ignoreResult())).find("no address") != std::string::npos);
    links.setPeers(site.peers);
    CHECK(co_await links.shardsOf(NodeId(1)) == 2);
    auto session = co_await links.open(NodeId(1), 1);
    co_await site.until([&] { return site.led[1].opened.size() == 1; });
    CHECK(site.led[0].opened.empty());
    CHECK(site.led[1].opened[0].node == NodeId(2));
    CHECK(site.led[1].opened[0].incarnation == identityOf(2, 4).incarnation);

    site.led[1].answer = [&](const replica::FollowRequest& request) {
      return site.first.shard(1).after(request.atMost).then([] {
        replica::FollowResponse response;
        response.partitions.push_back({.id = kSecond,
                                       .error = Error::none,
                                       .leaderEpoch = LeaderEpoch(3),
                                       .highWatermark = Offset(9),
                                       .logStart = Offset(1),
                                       .diverging = {LeaderEpoch(2), Offset(4)}});
        return response;
      });
    };
    Instant begin = site.world.now();
    auto following = session->follow(places({kFirst, kSecond}));
    session->report({{kFirst, LeaderEpoch(3), Offset(5)}});
    co_await site.until([&] { return site.led[1].reports.size() == 1; }, 100ms);
    CHECK(site.led[1].reports[0].durable == Offset(5));
    replica::FollowResponse response = co_await following;
    CHECK(site.world.now() - begin >= 500ms);
    REQUIRE(site.led[1].requests.size() == 1);
    CHECK(site.led[1].requests[0].places[1].id == kSecond);
    CHECK(site.led[1].requests[0].places[1].from == Offset(5));
    REQUIRE(response.partitions.size() == 1);
    CHECK(response.partitions[0].id == kSecond);
    CHECK(response.partitions[0].highWatermark == Offset(9));
    CHECK(response.partitions[0].diverging.end == Offset(4));
    CHECK(response.partitions[0].bytes.empty());
    // Its end is heard at once, what it was asked first.
    auto open = session->follow(places({kFirst}, 10s));
    co_await site.until([&] { return site.led[1].asked == 2; });
    open = nullptr;
    session = nullptr;
    co_await site.until([&] { return site.led[1].closed == 1; }, 1s);
    CHECK(site.led[1].dropped == 2);
  });
}

TEST_CASE("Replication: bytes of the leader's files arrive as they are, from memory or from the disk") {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Site site(seed);
    Buffer content = pattern(700'000);
    site.led[0].answer = [&](const replica::FollowRequest&) {
      FileRef file = site.first.shard(0).files().open("/f", OpenMode::create);
      file->write(0, content);
      replica::FollowResponse response;
      auto add = [&](uint64_t position, uint32_t length) {
        replica::Followed one{.id = kFirst};
        one.file = file;
        one.position = position;
        one.length = length;
        response.partitions.push_back(one);
      };
      add(0, 1);
      add(13, 500'000);
      add(0, 0);
      add(699'000, 1000);
      add(699'000, 1001);  // more than there is
      return response;
    };
    site.run(1, [&](Shard& shard) -> Co<void> {
      ReplicationLinks links(shard, identityOf(2), {});
      links.setPeers(site.peers);
      auto session = co_await links.open(NodeId(1), 0);
      replica::FollowResponse response = co_await session->follow(places({kFirst}));
      session = nullptr;  // the bytes are the answer's
      REQUIRE(response.partitions.size() == 5);
      const auto& got = response.partitions;
      CHECK(std::ranges::equal(got[0].bytes, Bytes(content).first(1)));
      CHECK(std::ranges::equal(got[1].bytes, Bytes(content).subspan(13, 500'000)));
      CHECK(got[2].bytes.empty());
      CHECK(got[2].error == Error::none);
      CHECK(std::ranges::equal(got[3].bytes, Bytes(content).subspan(699'000)));
      CHECK(got[4].bytes.empty());
      CHECK(got[4].error == Error::kafkaStorageError);
      for (const auto& one : got)
        for (uint8_t& byte : one.bytes) byte = 0;  // it may be changed
    });
  }
}

TEST_CASE("Replication: a connection that ends while its leader reads from the disk") {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Site site(seed);
    site.first.options().read = {20ms, 50ms};
    site.led[0].answer = [&](const replica::FollowRequest&) {
      FileRef file = site.first.shard(0).files().open("/f", OpenMode::create);
      file->write(0, pattern(100'000));
      replica::FollowResponse response;
      response.partitions.resize(20);
      for (auto& one : response.partitions) {
        one.id = kFirst;
        one.file = file;
        one.length = 100'000;
      }
      return response;
    };
    site.run(1, [&](Shard& shard) -> Co<void> {
      ReplicationLinks links(shard, identityOf(2), {});
      links.setPeers(site.peers);
      auto session = co_await links.open(NodeId(1), 0);
      auto following = session->follow(places({kFirst}));
      co_await site.until([&] { return site.led[0].asked == 1; });
      co_await site.world.sleep(10ms);
      following = nullptr;
      session = nullptr;
      co_await site.until([&] { return site.led[0].closed == 1; });
      co_await site.world.sleep(2s);
    });
  }
}

TEST_CASE("Replication: shards of one follower share a leader's shard; the same one again ends its former session") {
  Site site;
  site.run(2, [&](Shard& shard) -> Co<void> {
    // One for each of the follower's three shards, all to the leader's shard 1.
    struct There {
      std::optional<ReplicationLinks> links;
      std::vector<kj::Own<replica::LeaderSession>> sessions;
    };
    std::vector<There*> all;
    for (uint32_t i = 0; i < 3; ++i) {
      all.push_back(co_await shard.call(i, [&](Shard& there) {
        auto* one = new There;
        one->links.emplace(there, identityOf(2), ReplicationOptions{});
        one->links->setPeers(site.peers);
        there.atEnd([one] { delete one; });
        return one;
      }));
      co_await shard.call(i, [one = all[i]](Shard&) {
        return one->links->open(NodeId(1), 1).then([one](kj::Own<replica::LeaderSession>&& session) {
          one->sessions.push_back(kj::mv(session));
        });
      });
    }
    co_await site.until([&] { return site.led[1].opened.size() == 3; });
    CHECK(site.led[1].closed == 0);
    CHECK(site.replication[1]->connectionCount() == 3);
    // The same shard again: the former session is over, with what it was asked.
    site.led[1].answer = [&](const replica::FollowRequest&) -> kj::Promise<replica::FollowResponse> {
      return kj::NEVER_DONE;
    };
    auto open = all[0]->sessions[0]->follow(places({kFirst}, 10s));
    co_await site.until([&] { return site.led[1].asked == 1; });
    auto again = co_await all[0]->links->open(NodeId(1), 1);
    CHECK(co_await problemOf(open.ignoreResult()) != "");
    CHECK(site.led[1].opened.size() == 4);
    CHECK(site.led[1].closed == 1);
    CHECK(site.led[1].closedBefore == 1);  // never two of one follower's shard
    CHECK(site.led[1].dropped == 1);
    CHECK((co_await problemOf(all[0]->sessions[0]->follow(places({kFirst})).ignoreResult())).find("has ended") !=
          std::string::npos);
    co_await site.until([&] { return site.replication[1]->connectionCount() == 3; });
    again = nullptr;
    for (uint32_t i = 0; i < 3; ++i) co_await shard.call(i, [one = all[i]] { one->sessions.clear(); });
    co_await site.until([&] { return site.replication[1]->connectionCount() == 0; });
    CHECK(site.led[1].closed == 4);
  });
}

TEST_CASE("Replication: a leader that comes back with another number of shards") {
  Site site;
  site.run(2, [&](Shard& shard) -> Co<void> {
    ReplicationLinks links(shard, identityOf(2), {});
    links.setPeers(site.peers);
    CHECK(co_await links.shardsOf(NodeId(1)) == 2);
    auto session = co_await links.open(NodeId(1), 1);
    site.first.kill();
    CHECK(co_await problemOf(session->follow(places({kFirst})).ignoreResult()) != "");
    CHECK(co_await problemOf(links.open(NodeId(1), 1).ignoreResult()) != "");
    site.serve(4);
    co_await site.world.sleep(100ms);
    CHECK((co_await problemOf(links.open(NodeId(1), 1).ignoreResult())).find("has 4 shards now") != std::string::npos);
    CHECK(co_await links.shardsOf(NodeId(1)) == 4);
    session = co_await links.open(NodeId(1), 3);
    co_await site.until([&] { return site.led[3].opened.size() == 1; });
    // Never asked, and out of range: it is not somebody else's shard.
    ReplicationLinks fresh(shard, identityOf(2), {});
    fresh.setPeers(site.peers);
    CHECK((co_await problemOf(fresh.open(NodeId(1), 4).ignoreResult())).find("has 4 shards now") != std::string::npos);
  });
}

TEST_CASE("Replication: a leader that hangs, a cut and a power loss end a session in time") {
  enum class Loss { hang, cut, crash };
  for (Loss loss : {Loss::hang, Loss::cut, Loss::crash}) {
    Site site;
    site.led[0].answer = [&](const replica::FollowRequest&) -> kj::Promise<replica::FollowResponse> {
      return kj::NEVER_DONE;
    };
    site.run(1, [&](Shard& shard) -> Co<void> {
      ReplicationLinks links(shard, identityOf(2), {});
      links.setPeers(site.peers);
      auto session = co_await links.open(NodeId(1), 0);
      auto following = session->follow(places({kFirst}, 1s));
      co_await site.until([&] { return site.led[0].asked == 1; });
      if (loss == Loss::cut) site.world.network().cut(1, 2);
      if (loss == Loss::crash) site.first.crash();
      Instant begin = site.world.now();
      CHECK(co_await problemOf(following.ignoreResult()) != "");
      CHECK(site.world.now() - begin <= 11s);
      session->report({{kFirst, LeaderEpoch(3), Offset(5)}});  // lost, and no harm
      CHECK(co_await problemOf(session->follow(places({kFirst})).ignoreResult()) != "");
      begin = site.world.now();
      if (loss != Loss::hang) CHECK(co_await problemOf(links.open(NodeId(1), 0).ignoreResult()) != "");
      CHECK(site.world.now() - begin <= 4s);
      // The leader forgets a follower that it does not hear.
      if (loss == Loss::cut) co_await site.until([&] { return site.led[0].closed == 1; }, 20s);
    });
  }
}

TEST_CASE("Replication: an idle session stays, a silent one does not; slow answers are no silence") {
  Site site;
  site.run(1, [&](Shard& shard) -> Co<void> {
    ReplicationLinks links(shard, identityOf(2), {});
    links.setPeers(site.peers);
    auto session = co_await links.open(NodeId(1), 0);
    co_await site.world.sleep(60s);
    CHECK(site.led[0].closed == 0);
    site.led[0].answer = [&](const replica::FollowRequest&) {
      return site.first.shard(0).after(40s).then([] { return replica::FollowResponse{}; });
    };
    CHECK(co_await problemOf(session->follow(places({kFirst}, 40s)).ignoreResult()) == "");
    Identity third = identityOf(3);
    ReplicationLinks mute(shard, third, {.pingInterval = 1h});
    mute.setPeers(site.peers);
    auto silent = co_await mute.open(NodeId(1), 0);
    co_await site.until([&] { return site.led[0].closed == 1; }, 20s);
    CHECK(site.led[0].opened.size() == 2);
  });
}

TEST_CASE("Replication: strangers, another cluster, a second node of the same id, and too many") {
  Site site;
  site.serverOptions.connectionsMax = 2;
  site.run(1, [&](Shard& shard) -> Co<void> {
    auto linksOf = [&](Identity self) {
      auto links = std::make_unique<ReplicationLinks>(shard, std::move(self), ReplicationOptions{});
      links->setPeers(site.peers);
      return links;
    };
    Identity foreign = identityOf(2);
    foreign.cluster = Uuid::fromHalves(5, 5);
    CHECK((co_await problemOf(linksOf(foreign)->open(NodeId(1), 0).ignoreResult())).find("is of cluster") !=
          std::string::npos);
    CHECK((co_await problemOf(linksOf(foreign)->shardsOf(NodeId(1)).ignoreResult())).find("is of cluster") !=
          std::string::npos);
    auto lost = linksOf(identityOf(2));
    lost->setPeers({{NodeId(7), addressOf(1)}});
    CHECK((co_await problemOf(lost->open(NodeId(7), 0).ignoreResult())).find("this is node 1") != std::string::npos);
    auto links = linksOf(identityOf(2));
    auto session = co_await links->open(NodeId(1), 0);
    Identity twin = identityOf(2, 1);
    twin.directory = Uuid::fromHalves(99, 99);
    CHECK((co_await problemOf(linksOf(twin)->open(NodeId(1), 0).ignoreResult())).find("node id 2 is in use") !=
          std::string::npos);
    auto third = linksOf(identityOf(3)), fourth = linksOf(identityOf(4));
    auto another = co_await third->open(NodeId(1), 0);
    CHECK((co_await problemOf(fourth->open(NodeId(1), 0).ignoreResult())).find("which is the limit") !=
          std::string::npos);
    CHECK(co_await problemOf(session->follow(places({kFirst})).ignoreResult()) == "");
    CHECK(site.led[0].opened.size() == 2);
    CHECK(site.replication[0]->figures().refused == 2);
  });
}

TEST_CASE("Replication: reports are merged when many wait, and the last word counts") {
  Site site;
  site.run(1, [&](Shard& shard) -> Co<void> {
    ReplicationLinks links(shard, identityOf(2), {});
    links.setPeers(site.peers);
    auto session = co_await links.open(NodeId(1), 0);
    for (int64_t i = 1; i <= 1000; ++i) session->report({{kFirst, LeaderEpoch(1), Offset(i)}});
    co_await site.until(
        [&] { return !site.led[0].reports.empty() && site.led[0].reports.back().durable == Offset(1000); });
    CHECK(site.led[0].reports.size() < 50);
  });
}

TEST_CASE("Replication: over real sockets and threads") {
  struct Silent final : Logger {
    bool enabled(LogLevel) const override { return false; }
    void write(LogLevel, std::string_view, std::string_view) override {}
  } log;
  UvNode node({.shards = 2, .seed = 1}, log);
  Led led;  // used on shard 1 alone
  Address address;
  led.answer = [&](const replica::FollowRequest&) { return replica::FollowResponse{}; };
  node.run([&](Shard& shard) -> Co<void> {
    Identity self = identityOf(1);
    std::vector<ReplicationServer*> servers;
    for (uint32_t i = 0; i < 2; ++i) {
      servers.push_back(co_await shard.call(i, [&](Shard& there) {
        auto* made = new ReplicationServer(there,
                                           [&](replica::Follower follower) -> kj::Own<replica::FollowerSession> {
                                             return kj::heap<LedSession>(led, follower);
                                           },
                                           {});
        there.atEnd([made] { delete made; });
        return made;
      }));
    }
    Server server(shard, shard.network().listen({"127.0.0.1", 0}), self, {.replication = servers}, {});
    ReplicationLinks links(shard, identityOf(2), {});
    links.setPeers({{NodeId(1), server.local()}});
    CHECK(co_await links.shardsOf(NodeId(1)) == 2);
    auto session = co_await links.open(NodeId(1), 1);
    for (int i = 0; i < 100; ++i) {
      session->report({{kFirst, LeaderEpoch(1), Offset(i)}});
      co_await session->follow(places({kFirst}));
    }
    session = nullptr;
    Instant end = shard.now() + 20s;
    while (co_await shard.call(1, [&] { return led.closed == 0; })) {
      REQUIRE(shard.now() < end);
      co_await shard.after(1ms);
    }
    CHECK(led.asked == 100);
    CHECK(led.opened.size() == 1);
    CHECK(led.reports.back().durable == Offset(99));
  });
}

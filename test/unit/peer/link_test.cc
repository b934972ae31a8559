// Links and the server in the simulated world, where time, cuts and crashes are ours; and once over real sockets.
#include "peer/link.h"

#include <doctest/doctest.h>

#include "peer/handshake.h"
#include "peer/raft_links.h"
#include "peer/server.h"
#include "runtime/uv/node.h"
#include "sim_world.h"

using namespace mq;
using namespace mq::peer;

namespace {

constexpr uint16_t kPort = 9095;
const Uuid kCluster = Uuid::fromHalves(1, 1);

Identity identityOf(uint32_t node, uint64_t life = 0) {
  return {.cluster = kCluster,
          .node = NodeId(static_cast<int32_t>(node)),
          .directory = Uuid::fromHalves(10, node),
          .incarnation = Uuid::fromHalves(20 + life, node),
          .version = "9.9"};
}
Address addressOf(uint32_t node) { return {sim::SimNetwork::hostName(node), kPort}; }

raft::Message beat(uint32_t from, uint32_t to, int64_t round) {
  return {.from = {identityOf(from).node, identityOf(from).directory},
          .to = {identityOf(to).node, identityOf(to).directory},
          .term = 1,
          .body = raft::Heartbeat{.commit = 0, .round = round}};
}
raft::Message entries(uint32_t from, uint32_t to, size_t bytes) {
  raft::Message message = beat(from, to, 0);
  raft::Append append{.previous = {}, .entries = {}, .commit = 0};
  append.entries.push_back({.index = 1, .term = 1, .type = raft::EntryType::records, .data = Buffer(bytes)});
  message.body = std::move(append);
  return message;
}

// A server on node 1 for the length of `body`, which runs on node 2.
struct Site {
  sim::SimWorld world{{.seed = 1}};
  sim::SimNode& first = world.addNode();
  sim::SimNode& second = world.addNode();
  Identity answering = identityOf(1);
  Identity calling = identityOf(2);
  ServerOptions serverOptions;
  std::vector<raft::Message> got;
  Handlers handlers{.raft = [this](raft::Message message) { got.push_back(std::move(message)); }};
  Server* server = nullptr;

  void serve() {
    first.start(1, [this](Shard& shard) -> Co<void> {
      Server here(shard, shard.network().listen({"0.0.0.0", kPort}), answering, handlers, serverOptions);
      server = &here;
      co_await world.sleep(10h);
    });
  }
  void run(std::function<Co<void>(Shard&)> body) {
    world.run([&]() -> Co<void> {
      serve();
      co_await world.sleep(10ms);
      bool done = false;
      std::optional<kj::Exception> failed;
      second.start(1, [&](Shard& shard) -> Co<void> {
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
  Link::Target target(Channel channel = Channel::control) const {
    return {.node = NodeId(1), .address = addressOf(1), .channel = channel};
  }
};

// What a client reads until the server closes, having sent `bytes`.
Co<std::string> exchange(Shard& shard, std::string bytes) {
  kj::Own<Stream> stream = co_await shard.network().connect(addressOf(1));
  co_await stream->write(bytes.data(), bytes.size());
  std::string text;
  char block[4096];
  while (true) {
    size_t count = co_await stream->tryRead(block, 1, sizeof block);
    if (count == 0) co_return text;
    text.append(block, count);
  }
}

}  // namespace

TEST_CASE("Link: connects, knows whom it reached, delivers messages in order") {
  Site site;
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(), {});
    CHECK_FALSE(link.isUp());
    co_await site.until([&] { return link.isUp(); });
    CHECK(link.reached()->node == NodeId(1));
    CHECK(link.reached()->version == "9.9");
    CHECK(link.problem() == "");
    for (int64_t round = 1; round <= 1000; ++round) link.post(beat(2, 1, round));
    co_await site.until([&] { return site.got.size() == 1000; });
    for (size_t i = 0; i < 1000; ++i)
      REQUIRE(std::get<raft::Heartbeat>(site.got[i].body).round == static_cast<int64_t>(i + 1));
    CHECK(co_await link.ping(1s) < 1s);
    CHECK(site.server->connectionCount() == 1);
  });
}

TEST_CASE("Link: who is refused hears why, and tries on") {
  struct Case {
    std::function<void(Site&)> change;
    NodeId wanted;
    std::string problem;
  };
  const Case cases[] = {
      {[](Site& site) { site.calling.cluster = Uuid::fromHalves(2, 2); }, NodeId(1), "is of cluster"},
      {[](Site& site) { site.calling.node = NodeId(1); }, NodeId(1), "node id 1 is taken by the node that was called"},
      {[](Site& site) { site.calling = site.answering; }, NodeId(1), "node 1 calls itself"},
      {[](Site&) {}, NodeId(7), "this is node 1, not node 7"},
  };
  for (const Case& one : cases) {
    Site site;
    one.change(site);
    site.run([&](Shard& shard) -> Co<void> {
      Link::Target target = site.target();
      target.node = one.wanted;
      Link link(shard, site.calling, target, {});
      co_await site.until([&] { return link.figures().failed >= 3; }, 30s);
      CHECK_FALSE(link.isUp());
      CHECK_MESSAGE(link.problem().find(one.problem) != std::string::npos, link.problem());
      CHECK(site.server->figures().refused >= 3);
      CHECK(site.server->figures().accepted == 0);
    });
  }
}

TEST_CASE("Link: a node that joins a cluster meanwhile is greeted under its new cluster") {
  Site site;
  site.calling.cluster = Uuid::fromHalves(2, 2);
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(), {});
    co_await site.until([&] { return link.figures().failed >= 1; });
    site.calling.cluster = kCluster;
    co_await site.until([&] { return link.isUp(); });
  });
}

TEST_CASE("Link: comes back after a crash, a kill and a cut of the other side, and drops what nobody can take") {
  Site site;
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(), {});
    co_await site.until([&] { return link.isUp(); });
    site.first.kill();  // resets
    co_await site.until([&] { return !link.isUp(); });
    link.post(beat(2, 1, 1));
    CHECK(link.figures().dropped == 1);
    site.serve();
    co_await site.until([&] { return link.isUp(); });
    site.first.crash();  // answers nothing: only pings find out
    co_await site.until([&] { return !link.isUp(); });
    CHECK_MESSAGE(link.problem().find("no answer") != std::string::npos, link.problem());
    site.serve();
    co_await site.until([&] { return link.isUp(); });
    site.world.network().cut(1, 2);
    co_await site.until([&] { return !link.isUp(); });
    co_await site.world.sleep(5s);
    site.world.network().heal();
    co_await site.until([&] { return link.isUp(); });
    CHECK(link.figures().connected == 4);
    link.post(beat(2, 1, 5));
    co_await site.until([&] { return !site.got.empty(); });
    CHECK(site.got.size() == 1);
  });
}

TEST_CASE("Link: one that is answered by silence gives up, and holds no more than its bound") {
  Site site;
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(Channel::bulk), {.postedBytesMax = 1_MiB});
    co_await site.until([&] { return link.isUp(); });
    site.world.network().cutOneWay(2, 1);
    for (int i = 0; i < 100; ++i) link.post(entries(2, 1, 100'000));
    CHECK(link.figures().dropped >= 89);
    co_await site.until([&] { return !link.isUp(); });
    site.world.network().heal();
    co_await site.until([&] { return link.isUp(); });
    // What was on its way is not counted against the new connection.
    uint64_t dropped = link.figures().dropped;
    for (int i = 0; i < 10; ++i) link.post(entries(2, 1, 100'000));
    CHECK(link.figures().dropped == dropped);
  });
}

TEST_CASE("Link: a slow network is not a dead node") {
  Site site;
  site.world.network().options().windowBytes = 64_KiB;
  site.world.network().slow(1, 2, 20ms);  // some 1.6 MB/s
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(Channel::bulk), {.pingInterval = 100ms, .pingTimeout = 500ms});
    co_await site.until([&] { return link.isUp(); });
    for (int i = 0; i < 30; ++i) link.post(entries(2, 1, 100'000));
    co_await site.until([&] { return site.got.size() == 30; }, 60s);
    CHECK(link.figures().connected == 1);
  });
}

TEST_CASE("Link: a single message above the bound still goes when nothing else is on its way") {
  Site site;
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(Channel::bulk), {.postedBytesMax = 1000});
    co_await site.until([&] { return link.isUp(); });
    link.post(entries(2, 1, 3'000'000));
    co_await site.until([&] { return site.got.size() == 1; });
  });
}

TEST_CASE("RaftLinks: what keeps a leader in office is not behind entries") {
  Site site;
  site.run([&](Shard& shard) -> Co<void> {
    RaftLinks links(shard, site.calling, {});
    links.setPeers({{NodeId(1), addressOf(1)}, {NodeId(2), addressOf(2)}});
    CHECK(links.control(NodeId(2)) == nullptr);  // itself
    co_await site.until([&] { return links.control(NodeId(1))->isUp() && links.bulk(NodeId(1))->isUp(); });
    for (int i = 0; i < 10; ++i) links.send(entries(2, 1, 400'000));
    links.send(beat(2, 1, 7));
    links.send(beat(2, 3, 7));  // nobody we know
    co_await site.until([&] { return site.got.size() == 11; }, 600s);
    CHECK(std::holds_alternative<raft::Heartbeat>(site.got.front().body));
    // It moved: another connection; it is no peer any more: none.
    const Link* before = links.control(NodeId(1));
    links.setPeers({{NodeId(1), {sim::SimNetwork::hostName(1), 1}}});
    CHECK(links.control(NodeId(1)) != nullptr);
    CHECK((links.control(NodeId(1)) != before || !links.control(NodeId(1))->isUp()));
    links.setPeers({});
    CHECK(links.control(NodeId(1)) == nullptr);
    co_await site.until([&] { return site.server->connectionCount() == 0; });
  });
}

namespace {

const controller::Request kDescribe = controller::DescribeQuorumRequest{};

}  // namespace

TEST_CASE("Link: asks the controller, and hears what it says") {
  Site site;
  std::vector<std::pair<NodeId, size_t>> asked;
  site.handlers.ask = [&](NodeId caller, controller::Request request) -> kj::Promise<Result<controller::Answered>> {
    asked.emplace_back(caller, request.index());
    if (std::holds_alternative<controller::UnregisterBrokerRequest>(request))
      return Result<controller::Answered>(Failure(Error::brokerIdNotRegistered, "there is no such broker"));
    return Result<controller::Answered>(
        controller::Answered{.offset = 42, .response = controller::QuorumState{.leader = NodeId(1), .term = 7}});
  };
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(), {});
    auto away = co_await link.ask(kDescribe, 1s);
    CHECK(away.errorCode() == Error::notController);
    co_await site.until([&] { return link.isUp(); });
    auto answer = co_await link.ask(kDescribe, 1s);
    REQUIRE(answer);
    CHECK(answer->offset == 42);
    CHECK(std::get<controller::QuorumState>(answer->response).term == 7);
    auto refused = co_await link.ask(controller::UnregisterBrokerRequest{NodeId(9)}, 1s);
    CHECK(refused.errorCode() == Error::brokerIdNotRegistered);
    CHECK(refused.failure().message == "there is no such broker");
    CHECK(asked == std::vector<std::pair<NodeId, size_t>>{{NodeId(2), kDescribe.index()}, {NodeId(2), 12}});
  });
}

TEST_CASE("Link: nobody registers, beats or alters in the name of another broker") {
  Site site;
  size_t asked = 0;
  site.handlers.ask = [&](NodeId, controller::Request) -> kj::Promise<Result<controller::Answered>> {
    ++asked;
    return Result<controller::Answered>(controller::Answered{.offset = 1, .response = std::monostate{}});
  };
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(), {});
    co_await site.until([&] { return link.isUp(); });
    for (int32_t id : {2, 3}) {
      Error expected = id == 2 ? Error::none : Error::invalidRequest;
      controller::BrokerRegistration broker{.id = NodeId(id)};
      CHECK((co_await link.ask(broker, 1s)).errorCode() == expected);
      CHECK((co_await link.ask(controller::BrokerHeartbeat{.id = NodeId(id)}, 1s)).errorCode() == expected);
      CHECK((co_await link.ask(controller::AlterPartitionsRequest{.broker = NodeId(id)}, 1s)).errorCode() == expected);
      // A client of that broker may ask for it.
      CHECK((co_await link.ask(controller::DrainBrokerRequest{.id = NodeId(id)}, 1s)).errorCode() == Error::none);
    }
    CHECK(asked == 5);
    CHECK(link.isUp());
  });
}

TEST_CASE("Link: a question whose answer is late, or lost with its connection, is open") {
  Site site;
  size_t asked = 0, finished = 0;
  site.handlers.ask = [&](NodeId, controller::Request) -> kj::Promise<Result<controller::Answered>> {
    ++asked;
    return site.first.shard(0).after(2s).then([&]() -> Result<controller::Answered> {
      ++finished;
      return controller::Answered{.offset = 1, .response = std::monostate{}};
    });
  };
  site.run([&](Shard& shard) -> Co<void> {
    std::optional<Link> link;
    link.emplace(shard, site.calling, site.target(), LinkOptions{});
    co_await site.until([&] { return link->isUp(); });
    auto late = co_await link->ask(kDescribe, 1s);
    CHECK(late.errorCode() == Error::requestTimedOut);
    CHECK_MESSAGE(late.failure().message.find("node 1") != std::string::npos, late.failure().message);
    {
      auto dropped = link->ask(kDescribe, 10s);
      co_await site.world.sleep(10ms);
    }
    auto lost = link->ask(kDescribe, 10s);
    co_await site.world.sleep(100ms);
    site.world.network().reset(1, 2);
    CHECK((co_await lost).errorCode() == Error::requestTimedOut);
    // Whoever has gone: what was begun was finished.
    co_await site.until([&] { return finished == 3; });
    CHECK(asked == 3);
    // A link that is destroyed answers what waits.
    co_await site.until([&] { return link->figures().connected == 2; });
    auto orphan = link->ask(kDescribe, 10s);
    auto status = link->status(10s);
    link.reset();
    CHECK((co_await orphan).errorCode() == Error::requestTimedOut);
    bool rejected = false;
    try {
      co_await status;
    } catch (const kj::Exception&) {
      rejected = true;
    }
    CHECK(rejected);
  });
}

TEST_CASE("Link: a process that dies with its controller's answer open, and one that knows no such question") {
  Site site;
  site.handlers.ask = [&](NodeId, controller::Request) -> kj::Promise<Result<controller::Answered>> {
    return kj::NEVER_DONE;
  };
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(), {});
    co_await site.until([&] { return link.isUp(); });
    auto lost = link.ask(kDescribe, 10s);
    co_await site.world.sleep(100ms);
    site.first.kill();
    CHECK((co_await lost).errorCode() == Error::requestTimedOut);
    co_await site.until([&] { return !link.isUp(); });
    site.handlers.ask = nullptr;
    site.serve();
    co_await site.until([&] { return link.isUp(); });
    CHECK((co_await link.ask(kDescribe, 10s)).errorCode() == Error::notController);
  });
}

TEST_CASE("Link: a question that no message holds is refused, and the link stays up") {
  Site site;
  site.handlers.ask = [&](NodeId, controller::Request) -> kj::Promise<Result<controller::Answered>> {
    return Result<controller::Answered>(controller::Answered{.offset = 1, .response = std::monostate{}});
  };
  site.serverOptions.messageBytesMax = 100'000;
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(), {.messageBytesMax = 100'000});
    co_await site.until([&] { return link.isUp(); });
    controller::EnsureTopicsRequest ensure{.names = {std::string(200'000, 'x')}};
    CHECK((co_await link.ask(ensure, 1s)).errorCode() == Error::invalidRequest);
    ensure.names = {std::string(90'000, 'x')};
    CHECK((co_await link.ask(ensure, 1s)).errorCode() == Error::none);
    ensure.names.assign((1 << 20) + 1, "");
    CHECK((co_await link.ask(ensure, 1s)).errorCode() == Error::invalidRequest);
    CHECK(link.figures().connected == 1);
  });
}

TEST_CASE("Link: what coordinators ask is answered, and whatever is lost on the way may be tried again") {
  const coordinator::MarkerRequest marker{.partition = {Uuid::fromHalves(1, 2), 3},
                                          .marker = {.producer = {ProducerId(5), 6}, .coordinatorEpoch = 7}};
  const coordinator::EntryRequest entry{
      .transactionalId = "txn", .producer = {ProducerId(5), 6}, .partition = {"t", 3}, .adds = true};
  Site site;
  int begun = 0, finished = 0;
  Duration takes = 0s;
  auto later = [&](Result<void> result) {
    ++begun;
    return site.first.shard(0).after(takes).then([&finished, result = std::move(result)]() mutable {
      ++finished;
      return std::move(result);
    });
  };
  site.handlers.writeMarker = [&](coordinator::MarkerRequest request) {
    CHECK(request.partition == marker.partition);
    return later(failure(Error::notEnoughReplicas, "one of two"));
  };
  site.handlers.mayEnter = [&](coordinator::EntryRequest request) {
    CHECK(request.transactionalId == "txn");
    return later({});
  };
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(), {});
    auto both = [&](Duration limit) -> Co<std::pair<Error, Error>> {
      auto one = link.writeMarker(marker, limit);
      auto two = link.mayEnter(entry, limit);
      Error first = (co_await one).errorCode();
      co_return std::pair{first, (co_await two).errorCode()};
    };
    const std::pair lost{Error::networkException, Error::coordinatorNotAvailable};
    CHECK(co_await both(1s) == lost);  // not there yet
    co_await site.until([&] { return link.isUp(); });
    auto refused = co_await link.writeMarker(marker, 1s);
    CHECK(refused.errorCode() == Error::notEnoughReplicas);
    CHECK(refused.failure().message == "one of two");
    CHECK((co_await link.mayEnter(entry, 1s)).errorCode() == Error::none);

    takes = 2s;
    CHECK(co_await both(1s) == lost);  // too slow
    co_await site.until([&] { return finished == begun; });
    auto cut = both(10s);
    co_await site.world.sleep(100ms);
    site.world.network().reset(1, 2);
    CHECK(co_await cut == lost);
    co_await site.until([&] { return finished == begun; });  // whoever has gone: what was begun is finished
    CHECK(begun == 6);

    // A node of an earlier version.
    site.first.kill();
    co_await site.until([&] { return !link.isUp(); });
    site.handlers.writeMarker = nullptr;
    site.handlers.mayEnter = nullptr;
    site.serve();
    co_await site.until([&] { return link.isUp(); });
    CHECK(co_await both(1s) == lost);
    CHECK(link.isUp());
  });
}

TEST_CASE("Link: a node without a cluster finds one by address alone, and asks to join it") {
  Site site;
  site.calling.cluster = {};
  std::vector<controller::JoinRequest> joined;
  site.handlers.status = [&] {
    return controller::NodeStatus{.replica = {NodeId(1), site.answering.directory},
                                  .cluster = site.answering.cluster,
                                  .leader = NodeId(3),
                                  .term = 5,
                                  .controllers = {{NodeId(3), addressOf(3)}}};
  };
  site.handlers.join = [&](controller::JoinRequest request) { joined.push_back(std::move(request)); };
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, {.node = kNoNode, .address = addressOf(1), .channel = Channel::inquiry}, {});
    bool rejected = false;
    try {
      co_await link.status(1s);
    } catch (const kj::Exception& reason) {
      rejected = reason.getType() == kj::Exception::Type::DISCONNECTED;
    }
    CHECK(rejected);
    co_await site.until([&] { return link.isUp(); });
    CHECK(link.reached()->node == NodeId(1));
    controller::NodeStatus status = co_await link.status(1s);
    CHECK(status.leader == NodeId(3));
    CHECK(status.cluster == kCluster);
    controller::JoinRequest join{.replica = {NodeId(2), site.calling.directory}, .address = addressOf(2)};
    status = co_await link.join(join, 1s);
    CHECK(status.leader == NodeId(3));
    REQUIRE(joined.size() == 1);
    CHECK(joined[0].address == addressOf(2));
    // Not for somebody else, and not under other data.
    for (raft::Replica other :
         {raft::Replica{NodeId(3), site.calling.directory}, {NodeId(2), Uuid::fromHalves(1, 1)}}) {
      rejected = false;
      try {
        co_await link.join({.replica = other, .address = addressOf(2)}, 1s);
      } catch (const kj::Exception&) {
        rejected = true;
      }
      CHECK(rejected);
    }
    CHECK(joined.size() == 1);
    // It does not get into the way of what the node says as a member.
    Link control(shard, site.calling, site.target(), {});
    co_await site.until([&] { return control.isUp(); });
    co_await site.world.sleep(5s);
    CHECK(link.figures().connected == 1);
    CHECK(control.figures().connected == 1);
  });
}

TEST_CASE("Link: the member of a cluster is heard by a node that has none yet, but two clusters never meet") {
  for (bool isForeign : {false, true}) {
    Site site;
    if (isForeign)
      site.answering.cluster = Uuid::fromHalves(3, 3);
    else
      site.answering.cluster = {};
    site.run([&](Shard& shard) -> Co<void> {
      Link link(shard, site.calling, {.node = kNoNode, .address = addressOf(1), .channel = Channel::inquiry}, {});
      co_await site.until([&] { return link.isUp() || link.figures().failed >= 3; }, 30s);
      CHECK(link.isUp() == !isForeign);
    });
  }
}

TEST_CASE("Link: a dead process is told from a dead machine and a cut network") {
  enum class Loss { kill, crash, cut };
  for (Loss loss : {Loss::kill, Loss::crash, Loss::cut}) {
    Site site;
    site.run([&](Shard& shard) -> Co<void> {
      RaftLinks links(shard, site.calling, {});
      std::vector<std::string> changes;
      links.onChange([&](NodeId node) {
        Link& link = *links.control(node);
        changes.push_back(link.isUp() ? "up" : link.wasRefused() ? "refused" : "away");
      });
      links.setPeers({{NodeId(1), addressOf(1)}});
      Link& link = *links.control(NodeId(1));
      co_await site.until([&] { return link.isUp(); });
      CHECK_FALSE(link.wasRefused());
      switch (loss) {
        case Loss::kill: site.first.kill(); break;
        case Loss::crash: site.first.crash(); break;
        case Loss::cut: site.world.network().cut(1, 2); break;
      }
      if (loss == Loss::kill) {
        co_await site.until([&] { return link.wasRefused(); }, 200ms);
      } else {
        co_await site.world.sleep(20s);
        CHECK_FALSE(link.wasRefused());
      }
      CHECK_FALSE(link.isUp());
      site.world.network().heal();
      if (loss != Loss::cut) site.serve();
      co_await site.until([&] { return link.isUp(); });
      CHECK_FALSE(link.wasRefused());
      std::vector<std::string> expected = {"up", "away", "up"};
      if (loss == Loss::kill) expected.insert(expected.end() - 1, "refused");
      CHECK(changes == expected);
    });
  }
}

TEST_CASE("Link: a host that was never reached and refuses is away, not dead") {
  Site site;
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, {.node = NodeId(1), .address = {addressOf(1).host, 1}}, {});
    co_await site.until([&] { return link.figures().failed >= 3; });
    CHECK_FALSE(link.wasRefused());
  });
}

TEST_CASE("Server: bytes that are no greeting cost a line, and nothing else") {
  const std::string cases[] = {
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(500, 'x'),
      std::string(5000, '\xff'),
      std::string(64, '\0'),
      std::string("\0\0\0\0\xff\xff\xff\x1f", 8),                                           // 4 GiB in one segment
      std::string("\xff\xff\xff\xff", 4),                                                   // as many segments
      std::string("\0\0\0\0\2\0\0\0\0\0\0\0\2\0\1\0\0\0\0\0\0\0\0\0", 24),                  // a greeting that is empty
      std::string("\x00\x00\x00\x1f\x00\x12\x00\x03\x00\x00\x00\x01\x00\x09rdkafka", 21)};  // a Kafka client
  for (const std::string& bytes : cases) {
    Site site;
    site.run([&](Shard& shard) -> Co<void> {
      std::string answer;
      try {
        answer = co_await exchange(shard, bytes);
      } catch (const kj::Exception&) {
      }
      CHECK(answer == "");
      co_await site.until([&] { return site.server->figures().broken == 1; });
      co_await site.until([&] { return site.server->connectionCount() == 0; });
      Link link(shard, site.calling, site.target(), {});
      co_await site.until([&] { return link.isUp(); });
    });
  }
}

TEST_CASE("Server: who says nothing, or half of it, is closed in time") {
  for (const std::string& bytes : {std::string(), std::string("\0\0\0\0\x10\0\0\0half", 12)}) {
    Site site;
    site.run([&](Shard& shard) -> Co<void> {
      Instant begin = site.world.now();
      CHECK(co_await exchange(shard, bytes) == "");
      CHECK(site.world.now() - begin < 4s);
      CHECK(site.server->figures().broken == 1);
    });
  }
}

TEST_CASE("Server: a caller that falls silent after its greeting is closed, one that pings is not") {
  Site site;
  site.serverOptions.idleTimeout = 5s;
  site.run([&](Shard& shard) -> Co<void> {
    Link alive(shard, site.calling, site.target(), {});
    Link silent(shard, site.calling, site.target(Channel::bulk), {.pingInterval = 1h});
    co_await site.until([&] { return alive.isUp() && silent.isUp(); });
    co_await site.until([&] { return silent.figures().failed == 1; });
    co_await site.world.sleep(20s);
    CHECK(alive.isUp());
    CHECK(alive.figures().connected == 1);
  });
}

TEST_CASE("Server: two nodes with one id are told apart; a node that comes again replaces itself") {
  Site site;
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(), {});
    co_await site.until([&] { return link.isUp(); });
    Identity twin = identityOf(2, 1);
    twin.directory = Uuid::fromHalves(99, 99);
    Link other(shard, twin, site.target(Channel::bulk), {});
    co_await site.until([&] { return other.figures().failed >= 2; });
    CHECK_MESSAGE(other.problem().find("node id 2 is in use by the node at 10.0.0.2") != std::string::npos,
                  other.problem());
    CHECK(link.isUp());
    // The same data, started again: the connection of its former life goes.
    Identity again = identityOf(2, 2);
    std::optional<Link> next;
    next.emplace(shard, again, site.target(), LinkOptions{});
    co_await site.until([&] { return next->isUp() && link.figures().failed == 1; });
  });
}

TEST_CASE("Server: no more connections than its bound") {
  Site site;
  site.serverOptions.connectionsMax = 3;
  site.run([&](Shard& shard) -> Co<void> {
    std::vector<kj::Own<Stream>> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(co_await shard.network().connect(addressOf(1)));
    co_await site.until([&] { return site.server->connectionCount() == 3; });
    CHECK(co_await exchange(shard, "") == "");
    CHECK(site.server->figures().refused == 1);
    streams.clear();
    co_await site.until([&] { return site.server->connectionCount() == 0; });
  });
}

TEST_CASE("Server: a message in somebody else's name is not taken") {
  Site site;
  site.run([&](Shard& shard) -> Co<void> {
    Link link(shard, site.calling, site.target(), {});
    co_await site.until([&] { return link.isUp(); });
    link.post(beat(3, 1, 1));
    link.post(beat(2, 1, 2));
    co_await site.until([&] { return site.got.size() == 1; });
    CHECK(std::get<raft::Heartbeat>(site.got[0].body).round == 2);
    co_await site.until([&] { return link.figures().dropped == 1; });
    CHECK(link.isUp());
  });
}

TEST_CASE("Server: garbage behind a good greeting ends that connection only") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed ", seed);
    Site site;
    site.run([&](Shard& shard) -> Co<void> {
      Prng random(seed);
      Identity third = identityOf(3);
      Link link(shard, site.calling, site.target(), {});
      kj::Own<Stream> stream = co_await shard.network().connect(addressOf(1));
      Identity reached = (co_await greet(*stream, {.identity = third, .wanted = NodeId(1)})).identity;
      CHECK(reached.node == NodeId(1));
      Buffer garbage(random.between(1, 3000));
      for (uint8_t& byte : garbage) byte = static_cast<uint8_t>(random.chance(1, 2) ? 0 : random.next());
      if (random.chance(1, 2)) std::fill_n(garbage.begin(), std::min<size_t>(4, garbage.size()), uint8_t{0});
      co_await stream->write(garbage.data(), garbage.size());
      stream->shutdownWrite();
      co_await site.until([&] { return site.server->figures().ended == 1; }, 20s);
      co_await site.until([&] { return link.isUp(); });
      CHECK(site.got.empty());
    });
  }
}

TEST_CASE("Link: the same seed gives the same run") {
  uint64_t hashes[2];
  for (uint64_t& hash : hashes) {
    Site site;
    site.world.network().options().resetOneIn = 200;
    site.run([&](Shard& shard) -> Co<void> {
      Link link(shard, site.calling, site.target(), {});
      for (int64_t round = 1; round <= 500; ++round) {
        link.post(beat(2, 1, round));
        co_await site.world.sleep(10ms);
      }
    });
    hash = site.world.traceHash();
  }
  CHECK(hashes[0] == hashes[1]);
}

TEST_CASE("Link: over real sockets") {
  struct Silent final : Logger {
    bool enabled(LogLevel) const override { return false; }
    void write(LogLevel, std::string_view, std::string_view) override {}
  } log;
  UvNode node({.shards = 1, .seed = 1}, log);
  node.run([&](Shard& shard) -> Co<void> {
    Identity here = identityOf(1), there = identityOf(2);
    size_t got = 0, bytes = 0;
    Server server(shard, shard.network().listen({"127.0.0.1", 0}), here,
                  {.raft =
                       [&](raft::Message message) {
                         ++got;
                         if (auto* append = std::get_if<raft::Append>(&message.body))
                           bytes += append->entries[0].data.size();
                       }},
                  {});
    RaftLinks links(shard, there, {});
    links.setPeers({{NodeId(1), server.local()}});
    Instant end = shard.now() + 20s;
    while (!links.control(NodeId(1))->isUp() || !links.bulk(NodeId(1))->isUp()) {
      REQUIRE(shard.now() < end);
      co_await shard.after(1ms);
    }
    for (int i = 0; i < 200; ++i) {
      links.send(beat(2, 1, i));
      links.send(entries(2, 1, 100'000));
    }
    while (got < 400) {
      REQUIRE(shard.now() < end);
      co_await shard.after(1ms);
    }
    CHECK(bytes == 200u * 100'000);
  });
}

#include "peer/replication_links.h"

#include <kj/debug.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "peer/connection.h"
#include "peer/handshake.h"
#include "peer/replication_messages.h"
#include "runtime/tasks.h"

namespace mq::peer {
namespace {

// Reports on their way: beyond, what is reported waits and is merged. Enough that none waits for another's answer.
constexpr size_t kReportsMax = 16;

kj::Exception disconnected(std::string why) {
  return kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__, kj::str(why.c_str()));
}

}  // namespace

class ReplicationLinks::Session final : public replica::LeaderSession {
 public:
  Session(Shard& shard, kj::Own<Stream> stream, const ReplicationOptions& options, std::string name)
      : state_(std::make_shared<State>(shard, kj::mv(stream), options, std::move(name))) {}
  ~Session() override { state_->end("it was given up"); }
  KJ_DISALLOW_COPY(Session);

  kj::Promise<replica::FollowResponse> follow(replica::FollowRequest request) override {
    return follow(state_, std::move(request));
  }

  void report(std::vector<replica::DurableReport> reports) override {
    State& state = *state_;
    if (!state.up) return;
    for (replica::DurableReport& report : reports) state.waiting[report.id] = report;
    state.sendReports();
  }

 private:
  // Of the connection while there is one.
  struct Up {
    Up(Shard& shard, kj::Own<Stream> stream, size_t messageBytesMax)
        : connection(shard, kj::mv(stream), messageBytesMax),
          leader(connection.interface().castAs<schema::Replication>()) {}
    Connection connection;
    schema::Replication::Client leader;
  };
  // Shared with a follow() that waits: either may go first.
  struct State {
    State(Shard& shard_, kj::Own<Stream> stream, const ReplicationOptions& options_, std::string name_)
        : shard(shard_),
          options(options_),
          name(std::move(name_)),
          up(std::make_unique<Up>(shard_, kj::mv(stream), options_.messageBytesMax)),
          tasks(shard_.log(), "replication-session") {
      tasks.add(up->connection.onEnd().then([this] { why = "the connection was closed"; }));
      tasks.add(ping());
    }

    // Everything that waits for an answer is rejected.
    void end(const char* reason) {
      if (!up) return;
      if (why.empty()) why = reason;
      tasks.cancelAll();
      auto failed = kj::runCatchingExceptions([&] { up = nullptr; });
      KJ_IF_MAYBE (trouble, failed) shard.log().debug("replication-session", "{}: {}", name, describe(*trouble));
    }

    // Tells the other side that somebody is there, also while nothing is followed.
    Co<void> ping() {
      while (true) {
        co_await shard.after(options.pingInterval);
        co_await up->leader.pingRequest().send().ignoreResult();
      }
    }

    void sendReports() {
      if (reporting >= kReportsMax || waiting.empty() || !up) return;
      std::vector<replica::DurableReport> reports;
      reports.reserve(waiting.size());
      for (auto& [id, report] : std::exchange(waiting, {})) reports.push_back(report);
      auto call = up->leader.reportRequest();
      write(call.initReports(static_cast<unsigned>(reports.size())), reports);
      ++reporting;
      tasks.add(call.send().ignoreResult().then(
          [this] {
            --reporting;
            sendReports();
          },
          [this](kj::Exception&& reason) {
            --reporting;
            shard.log().debug("report-not-taken", "{}: {}", name, describe(reason));
          }));
    }

    Shard& shard;
    const ReplicationOptions options;
    const std::string name;
    std::unique_ptr<Up> up;  // null: the session has ended
    std::string why;         // it has
    bool isFollowing = false;
    size_t reporting = 0;
    std::map<TopicIdPartition, replica::DurableReport> waiting;
    Tasks tasks;  // last: uses what is above
  };

  static Co<replica::FollowResponse> follow(std::shared_ptr<State> state, replica::FollowRequest request) {
    if (!state->up) throw disconnected(state->name + ": the session has ended, " + state->why);
    MQ_CHECK(!state->isFollowing);
    state->isFollowing = true;
    bool isDone = false;
    // Unless it was answered, nobody knows which places the leader has taken.
    auto guard = kj::defer([&] {
      state->isFollowing = false;
      if (!isDone) state->end("a request was not answered");
    });
    request.atMost = std::min(request.atMost, kFollowMax);
    auto call = state->up->leader.followRequest();
    write(call.initRequest(), request);
    kj::Promise<capnp::Response<schema::Replication::FollowResults>> sent = call.send();
    auto answer = std::make_shared<capnp::Response<schema::Replication::FollowResults>>(
        co_await state->shard.within(request.atMost + state->options.answerTimeout, kj::mv(sent)));
    replica::FollowResponse response{.partitions = read(answer->getResponse()), .buffer = answer};
    isDone = true;
    co_return response;
  }

  std::shared_ptr<State> state_;
};

ReplicationLinks::ReplicationLinks(Shard& shard, Identity self, ReplicationOptions options)
    : shard_(shard), self_(std::move(self)), options_(options) {}

void ReplicationLinks::setPeers(std::map<NodeId, Address> peers) {
  std::erase_if(shards_, [&](const auto& known) { return !peers.contains(known.first); });
  peers_ = std::move(peers);
}

kj::Promise<uint32_t> ReplicationLinks::shardsOf(NodeId node) {
  if (auto known = shards_.find(node); known != shards_.end()) return known->second;
  return askShards(node);
}

kj::Promise<kj::Own<replica::LeaderSession>> ReplicationLinks::open(NodeId node, uint32_t shard) {
  return openSession(node, shard);
}

Co<ReplicationLinks::Opened> ReplicationLinks::connect(NodeId node, int32_t shard) {
  auto address = peers_.find(node);
  if (address == peers_.end()) throw disconnected(fmt::format("node {} has no address that is known here", node));
  Opened opened{.stream = co_await shard_.network().connect(address->second)};
  Greeting hello{.identity = self_,
                 .wanted = node,
                 .channel = Channel::replication,
                 .shard = shard,
                 .callerShard = static_cast<int32_t>(shard_.index()),
                 .shards = shard_.count()};
  Greeting welcome = co_await greet(*opened.stream, std::move(hello));
  if (auto wrong = mismatch(self_, node, welcome.identity)) KJ_FAIL_REQUIRE(wrong->c_str());
  opened.shards = welcome.shards;
  co_return kj::mv(opened);
}

Co<uint32_t> ReplicationLinks::askShards(NodeId node) {
  Opened opened = co_await shard_.within(options_.openTimeout, kj::Promise<Opened>(connect(node, kNoShard)));
  shards_[node] = opened.shards;
  co_return opened.shards;
}

Co<kj::Own<replica::LeaderSession>> ReplicationLinks::openSession(NodeId node, uint32_t shard) {
  Opened opened =
      co_await shard_.within(options_.openTimeout, kj::Promise<Opened>(connect(node, static_cast<int32_t>(shard))));
  auto known = shards_.find(node);
  bool isNews = known != shards_.end() && known->second != opened.shards;
  shards_[node] = opened.shards;
  if (isNews || shard >= opened.shards)
    throw disconnected(fmt::format("node {} has {} shards now: shard {} is another one", node, opened.shards, shard));
  kj::Own<replica::LeaderSession> session =
      kj::heap<Session>(shard_, kj::mv(opened.stream), options_, fmt::format("node {}", node));
  co_return kj::mv(session);
}

}  // namespace mq::peer

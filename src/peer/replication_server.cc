#include "peer/replication_server.h"

#include <kj/debug.h>

#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "peer/connection.h"
#include "peer/handshake.h"
#include "peer/replication_messages.h"
#include "runtime/tasks.h"

namespace mq::peer {
namespace {

// One connection's side of replica/, and what it was asked. Whatever waits here ends before the session does.
class Conversation {
 public:
  using FollowContext = capnp::CallContext<schema::Replication::FollowParams, schema::Replication::FollowResults>;

  Conversation(Shard& shard, kj::Own<replica::FollowerSession> session)
      : shard_(shard), session_(kj::mv(session)), heard_(shard.now()), tasks_(shard.log(), "replication-answer") {}

  void ping() { heard_ = shard_.now(); }

  void report(capnp::List<schema::DurableReport>::Reader reports) {
    heard_ = shard_.now();
    session_->report(read(reports));
  }

  kj::Promise<void> follow(FollowContext context) {
    heard_ = shard_.now();
    replica::FollowRequest request = read(context.getParams().getRequest());
    KJ_REQUIRE(!isFollowing_, "a second request while one waits");
    context.releaseParams();
    isFollowing_ = true;
    auto answered = kj::newPromiseAndFulfiller<void>();
    tasks_.add(answer(session_->follow(std::move(request)), context, kj::mv(answered.fulfiller)));
    return kj::mv(answered.promise);
  }

  Instant heard() const { return heard_; }

 private:
  Co<void> answer(kj::Promise<replica::FollowResponse> news, FollowContext context,
                  kj::Own<kj::PromiseFulfiller<void>> fulfiller) {
    try {
      replica::FollowResponse response = co_await news;
      uint64_t words = 32;
      for (const replica::Followed& one : response.partitions) words += 16 + one.length / sizeof(capnp::word);
      auto partitions = context.initResults(capnp::MessageSize{words, 0})
                            .initResponse()
                            .initPartitions(static_cast<unsigned>(response.partitions.size()));
      for (unsigned i = 0; i < partitions.size(); ++i) {
        replica::Followed& one = response.partitions[i];
        if (one.length > 0 && one.file) {
          auto into = partitions[i].initBytes(one.length);
          if (!co_await fill({into.begin(), into.size()}, one)) {
            partitions[i].disownBytes();
            one.error = Error::kafkaStorageError;
          }
        }
        write(partitions[i], one);
      }
      isFollowing_ = false;
      heard_ = shard_.now();  // it may have waited for longer than the other side was to stay silent
      fulfiller->fulfill();
    } catch (...) {
      isFollowing_ = false;
      fulfiller->reject(caughtException());
    }
  }

  // What is in memory is read here and copied once. The rest is read by a thread that may go on when this connection
  // and its message are gone, so into memory of its own.
  Co<bool> fill(MutableBytes into, const replica::Followed& slice) {
    size_t cached = slice.file->readCached(slice.position, into);
    if (cached == into.size()) co_return true;
    MutableBytes rest = into.subspan(cached);
    try {
      Buffer read = co_await shard_.run(Pool::read,
                                        [file = slice.file, position = slice.position + cached, length = rest.size()] {
                                          Buffer bytes(length);
                                          bytes.resize(file->read(position, bytes));
                                          return bytes;
                                        });
      if (read.size() == rest.size()) {
        std::memcpy(rest.data(), read.data(), read.size());
        co_return true;
      }
      shard_.log().warning("replication-read-failed", "{}: {} bytes at {} are not there", slice.file->path(),
                           slice.length, slice.position);
    } catch (...) {
      shard_.log().error("replication-read-failed", "{}", describe(caughtException()));
    }
    co_return false;
  }

  Shard& shard_;
  kj::Own<replica::FollowerSession> session_;
  bool isFollowing_ = false;
  Instant heard_;
  Tasks tasks_;  // last: uses what is above
};

// What Cap'n Proto calls. It may keep this for longer than the connection, but calls nothing then.
class Interface final : public schema::Replication::Server {
 public:
  explicit Interface(std::shared_ptr<std::optional<Conversation>> with) : with_(std::move(with)) {}

  kj::Promise<void> ping(PingContext) override {
    conversation().ping();
    return kj::READY_NOW;
  }
  kj::Promise<void> follow(FollowContext context) override { return conversation().follow(context); }
  kj::Promise<void> report(ReportContext context) override {
    conversation().report(context.getParams().getReports());
    return kj::READY_NOW;
  }

 private:
  Conversation& conversation() {
    KJ_REQUIRE(with_->has_value(), "the session has ended");
    return **with_;
  }
  std::shared_ptr<std::optional<Conversation>> with_;
};

}  // namespace

class ReplicationServer::Impl {
 public:
  Impl(Shard& shard, Sessions sessions, ServerOptions options)
      : shard_(shard),
        makeSession_(std::move(sessions)),
        options_(options),
        tasks_(shard.log(), "replication-failed") {}

  size_t connectionCount() const { return connections_; }
  const Figures& figures() const { return figures_; }

  void serve(int descriptor, Greeting caller, Identity self) {
    kj::Own<Stream> stream;
    auto gone = kj::runCatchingExceptions([&] { stream = shard_.network().adopt(descriptor); });
    KJ_IF_MAYBE (why, gone) {
      shard_.log().debug("replication-ended", "node {}: {}", caller.identity.node, describe(*why));
      return;
    }
    ++connections_;
    NodeId node = caller.identity.node;
    tasks_.add(serve(kj::mv(stream), std::move(caller), std::move(self))
                   .catch_([this, node](kj::Exception&& reason) {
                     shard_.log().debug("replication-ended", "node {}: {}", node, describe(reason));
                   })
                   .attach(kj::defer([this] { --connections_; })));
  }

 private:
  using Key = std::pair<NodeId, int32_t>;  // and its shard
  // On the frame of its serve().
  struct Session {
    Uuid directory;
    std::string address;
    std::shared_ptr<std::optional<Conversation>> conversation;
    kj::Own<kj::PromiseFulfiller<void>> replaced;
  };
  // Keeps the table right, and ends the conversation before its connection, however a session ends.
  class Entry {
   public:
    Entry(Impl& server, Key key, Session& session) : server_(server), key_(key), session_(session) {
      server_.sessions_[key_] = &session_;
    }
    ~Entry() noexcept(false) {
      ++server_.figures_.ended;
      auto at = server_.sessions_.find(key_);
      if (at != server_.sessions_.end() && at->second == &session_) server_.sessions_.erase(at);
      session_.conversation->reset();
    }
    KJ_DISALLOW_COPY(Entry);

   private:
    Impl& server_;
    Key key_;
    Session& session_;
  };

  Co<void> serve(kj::Own<Stream> stream, Greeting caller, Identity self) {
    std::optional<std::string> refusal;
    if (connections_ > options_.connectionsMax)
      refusal = fmt::format("{} connections for replication are open, which is the limit", connections_ - 1);
    if (!refusal) refusal = collision(caller);
    if (refusal) {
      ++figures_.refused;
      shard_.log().warning("peer-refused", "{}: {}", stream->peer().toString(), *refusal);
      co_return co_await shard_.within(options_.greetingTimeout, refuse(*stream, std::move(*refusal)));
    }
    co_await shard_.within(options_.greetingTimeout, accept(*stream, std::move(self), shard_.count()));
    if (collision(caller)) co_return;  // another one was quicker; the next attempt hears why
    Key key{caller.identity.node, caller.callerShard};
    if (auto before = sessions_.find(key); before != sessions_.end()) {
      before->second->conversation->reset();  // before the new one begins
      before->second->replaced->fulfill();
    }
    auto replaced = kj::newPromiseAndFulfiller<void>();
    auto conversation = std::make_shared<std::optional<Conversation>>();
    conversation->emplace(shard_, makeSession_({caller.identity.node, caller.identity.incarnation}));
    Session session{caller.identity.directory, stream->peer().toString(), conversation, kj::mv(replaced.fulfiller)};
    ++figures_.accepted;
    Connection connection(shard_, kj::mv(stream), options_.messageBytesMax, kj::heap<Interface>(conversation),
                          options_.unansweredBytesMax);
    Entry entry(*this, key, session);
    co_await connection.onEnd().exclusiveJoin(kj::mv(replaced.promise)).exclusiveJoin(silence(key.first, session));
  }

  Co<void> silence(NodeId node, const Session& session) {
    while (true) {
      if (!session.conversation->has_value()) co_return;
      Instant end = (*session.conversation)->heard() + options_.idleTimeout;
      if (shard_.now() >= end) break;
      co_await shard_.after(end - shard_.now());
    }
    shard_.log().warning("peer-silent", "node {} at {} has said nothing for {} s", node, session.address,
                         options_.idleTimeout / 1s);
  }

  // Somebody with the same node id and other data is connected.
  std::optional<std::string> collision(const Greeting& caller) const {
    auto there = sessions_.find({caller.identity.node, caller.callerShard});
    if (there == sessions_.end() || there->second->directory == caller.identity.directory) return std::nullopt;
    return fmt::format("node id {} is in use by the node at {} (directory {}, the caller's is {})",
                       caller.identity.node, there->second->address, there->second->directory,
                       caller.identity.directory);
  }

  Shard& shard_;
  Sessions makeSession_;
  ServerOptions options_;
  Figures figures_;
  size_t connections_ = 0;
  std::map<Key, Session*> sessions_;
  Tasks tasks_;  // last: uses what is above
};

ReplicationServer::ReplicationServer(Shard& shard, Sessions sessions, ServerOptions options)
    : impl_(std::make_unique<Impl>(shard, std::move(sessions), options)) {}
ReplicationServer::~ReplicationServer() noexcept(false) {}

void ReplicationServer::serve(int descriptor, Greeting caller, Identity self) {
  impl_->serve(descriptor, std::move(caller), std::move(self));
}
size_t ReplicationServer::connectionCount() const { return impl_->connectionCount(); }
const ReplicationServer::Figures& ReplicationServer::figures() const { return impl_->figures(); }

}  // namespace mq::peer

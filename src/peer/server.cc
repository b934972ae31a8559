#include "peer/server.h"

#include <kj/debug.h>

#include <map>
#include <optional>
#include <utility>

#include "peer/connection.h"
#include "peer/controller_messages.h"
#include "peer/coordinator_messages.h"
#include "peer/handshake.h"
#include "peer/peer.capnp.h"
#include "peer/raft_messages.h"
#include "runtime/tasks.h"

namespace mq::peer {
namespace {

// In whose name a request is; nullopt: in nobody's, or in a client's.
std::optional<NodeId> nameOf(const controller::Request& request) {
  if (auto* broker = std::get_if<controller::BrokerRegistration>(&request)) return broker->id;
  if (auto* beat = std::get_if<controller::BrokerHeartbeat>(&request)) return beat->id;
  if (auto* asked = std::get_if<controller::AlterPartitionsRequest>(&request)) return asked->broker;
  return std::nullopt;
}

template <class T>
Co<void> settle(kj::Promise<T> promise, kj::Own<kj::PromiseFulfiller<T>> fulfiller) {
  try {
    fulfiller->fulfill(co_await promise);
  } catch (...) {
    fulfiller->reject(caughtException());
  }
}

// What one connection may ask. May outlive the connection and the server by what still waits inside of Cap'n Proto, and
// then does nothing: what works on is in the server's tasks.
class ServicesOf final : public schema::Services::Server {
 public:
  ServicesOf(const Identity& caller, const Handlers& handlers, Shard& shard, Instant& heard, Tasks& tasks)
      : caller_(caller), handlers_(handlers), shard_(shard), heard_(heard), tasks_(tasks) {}

  kj::Promise<void> ping(PingContext) override {
    heard_ = shard_.now();
    return kj::READY_NOW;
  }

  kj::Promise<void> raft(RaftContext context) override {
    heard_ = shard_.now();
    if (!handlers_.raft) return Server::raft(context);
    raft::Message message = read(context.getParams().getMessage());
    KJ_REQUIRE(message.from.id == caller_.node && message.from.directory == caller_.directory,
               "a message of somebody else", message.from.id.value(), caller_.node.value());
    handlers_.raft(std::move(message));
    return kj::READY_NOW;
  }

  kj::Promise<void> status(StatusContext context) override {
    heard_ = shard_.now();
    if (!handlers_.status) return Server::status(context);
    write(context.initResults().initStatus(), handlers_.status());
    return kj::READY_NOW;
  }

  kj::Promise<void> join(JoinContext context) override {
    heard_ = shard_.now();
    if (!handlers_.join || !handlers_.status) return Server::join(context);
    controller::JoinRequest request = read(context.getParams().getRequest());
    KJ_REQUIRE(request.replica.id == caller_.node && request.replica.directory == caller_.directory,
               "a request to let somebody else join", request.replica.id.value(), caller_.node.value());
    handlers_.join(std::move(request));
    write(context.initResults().initStatus(), handlers_.status());
    return kj::READY_NOW;
  }

  kj::Promise<void> ask(AskContext context) override {
    heard_ = shard_.now();
    if (!handlers_.ask) return Server::ask(context);
    std::optional<controller::Request> request;
    auto unreadable = kj::runCatchingExceptions([&] { request = read(context.getParams().getRequest()); });
    context.releaseParams();
    auto refuse = [&](Failure why) -> kj::Promise<void> {
      write(context.initResults().initAnswer(), Result<controller::Answered>(std::move(why)));
      return kj::READY_NOW;
    };
    KJ_IF_MAYBE (why, unreadable)
      return refuse(failure(Error::invalidRequest, "the controller cannot read the request: {}", describe(*why)));
    if (auto name = nameOf(*request); name && *name != caller_.node)
      return refuse(failure(Error::invalidRequest, "node {} asks in the name of node {}", caller_.node, *name));
    auto answer = kj::newPromiseAndFulfiller<Result<controller::Answered>>();
    tasks_.add(settle(handlers_.ask(caller_.node, std::move(*request)), kj::mv(answer.fulfiller)));
    return answer.promise.then([context](Result<controller::Answered>&& result) mutable {
      write(context.initResults().initAnswer(), result);
    });
  }

  kj::Promise<void> writeMarker(WriteMarkerContext context) override {
    heard_ = shard_.now();
    if (!handlers_.writeMarker) return Server::writeMarker(context);
    return performed(context, handlers_.writeMarker);
  }

  kj::Promise<void> mayEnter(MayEnterContext context) override {
    heard_ = shard_.now();
    if (!handlers_.mayEnter) return Server::mayEnter(context);
    return performed(context, handlers_.mayEnter);
  }

 private:
  template <class Context, class Handler>
  kj::Promise<void> performed(Context context, const Handler& handler) {
    auto request = read(context.getParams().getRequest());
    context.releaseParams();
    auto done = kj::newPromiseAndFulfiller<Result<void>>();
    tasks_.add(settle(handler(std::move(request)), kj::mv(done.fulfiller)));
    return done.promise.then(
        [context](Result<void>&& result) mutable { writeStatus(context.initResults().initStatus(), result); });
  }

  const Identity& caller_;
  const Handlers& handlers_;
  Shard& shard_;
  Instant& heard_;
  Tasks& tasks_;
};

}  // namespace

class Server::Impl {
 public:
  Impl(Shard& shard, kj::Own<Listener> listener, const Identity& self, Handlers handlers, ServerOptions options)
      : shard_(shard),
        listener_(kj::mv(listener)),
        self_(self),
        handlers_(std::move(handlers)),
        options_(options),
        tasks_(shard.log(), "peer-connection-failed") {
    tasks_.add(accept());
  }

  const Address& local() const { return listener_->local(); }
  size_t connectionCount() const { return connections_; }
  const Figures& figures() const { return figures_; }

 private:
  // A connection that was accepted. On the frame of its serve().
  struct Session {
    Greeting greeting;
    std::string address;
    Instant heard;
    kj::Own<kj::PromiseFulfiller<void>> replaced;
  };
  using Key = std::pair<NodeId, Channel>;

  // Keeps the table right however a session ends.
  class Entry {
   public:
    Entry(Impl& server, Key key, Session& session) : server_(server), key_(key), session_(session) {
      server_.sessions_[key_] = &session_;
    }
    ~Entry() {
      ++server_.figures_.ended;
      auto at = server_.sessions_.find(key_);
      if (at != server_.sessions_.end() && at->second == &session_) server_.sessions_.erase(at);
    }
    KJ_DISALLOW_COPY(Entry);

   private:
    Impl& server_;
    Key key_;
    Session& session_;
  };

  Co<void> accept() {
    while (true) {
      kj::Own<Stream> stream = co_await listener_->accept();
      if (connections_ >= options_.connectionsMax) {
        ++figures_.refused;
        shard_.log().warning("peer-refused", "{}: {} connections are open, which is the limit",
                             stream->peer().toString(), connections_);
        continue;
      }
      ++connections_;
      std::string address = stream->peer().toString();
      tasks_.add(serve(kj::mv(stream), address)
                     .catch_([this, address](kj::Exception&& reason) {
                       shard_.log().debug("peer-ended", "{}: {}", address, describe(reason));
                     })
                     .attach(kj::defer([this] { --connections_; })));
    }
  }

  Co<void> serve(kj::Own<Stream> stream, std::string address) {
    std::optional<Greeting> heard;
    std::string problem;
    try {
      heard = co_await shard_.within(options_.greetingTimeout, hear(*stream));
    } catch (...) {
      problem = describe(caughtException());
    }
    if (!heard) {
      ++figures_.broken;
      shard_.log().warning("peer-no-greeting", "{} is not a node of mq, or not a whole one: {}", address, problem);
      co_return;
    }
    auto refusal = refusalOf(self_, *heard);
    if (!refusal) refusal = collision(heard->identity);
    bool isReplication = heard->channel == Channel::replication;
    if (!refusal && isReplication && heard->shard != kNoShard && handlers_.replication.empty())
      refusal = fmt::format("node {} has no records to replicate", self_.node);
    if (refusal) {
      ++figures_.refused;
      shard_.log().warning("peer-refused", "{}: {}", address, *refusal);
      co_return co_await shard_.within(options_.greetingTimeout, refuse(*stream, std::move(*refusal)));
    }
    if (isReplication && heard->shard != kNoShard) co_return handOver(*stream, std::move(*heard));
    co_await shard_.within(options_.greetingTimeout, peer::accept(*stream, self_, shard_.count()));
    if (isReplication) co_return;                           // that was all it wanted
    if ((refusal = collision(heard->identity))) co_return;  // another one was quicker; the next attempt hears why
    co_await serve(kj::mv(stream), std::move(*heard), std::move(address));
  }

  void handOver(Stream& stream, Greeting greeting) {
    ++figures_.accepted;
    ++figures_.ended;  // here
    auto shard = static_cast<uint32_t>(greeting.shard) % static_cast<uint32_t>(handlers_.replication.size());
    shard_.post(shard,
                [&server = *handlers_.replication[shard], descriptor = stream.release(), greeting = std::move(greeting),
                 self = self_]() mutable { server.serve(descriptor, std::move(greeting), std::move(self)); });
  }

  Co<void> serve(kj::Own<Stream> stream, Greeting greeting, std::string address) {
    Key key{greeting.identity.node, greeting.channel};
    if (auto before = sessions_.find(key); before != sessions_.end()) before->second->replaced->fulfill();
    auto replaced = kj::newPromiseAndFulfiller<void>();
    Session session{std::move(greeting), std::move(address), shard_.now(), kj::mv(replaced.fulfiller)};
    Entry entry(*this, key, session);
    ++figures_.accepted;
    Connection connection(shard_, kj::mv(stream), options_.messageBytesMax,
                          kj::heap<ServicesOf>(session.greeting.identity, handlers_, shard_, session.heard, tasks_),
                          options_.unansweredBytesMax);
    co_await connection.onEnd().exclusiveJoin(kj::mv(replaced.promise)).exclusiveJoin(silence(session));
  }

  Co<void> silence(const Session& session) {
    while (true) {
      Instant end = session.heard + options_.idleTimeout;
      if (shard_.now() >= end) break;
      co_await shard_.after(end - shard_.now());
    }
    shard_.log().warning("peer-silent", "node {} at {} has said nothing for {} s", session.greeting.identity.node,
                         session.address, options_.idleTimeout / 1s);
  }

  // Somebody with the same node id and other data is connected.
  std::optional<std::string> collision(const Identity& caller) const {
    for (Channel channel : {Channel::control, Channel::bulk, Channel::inquiry}) {
      auto there = sessions_.find({caller.node, channel});
      if (there == sessions_.end() || there->second->greeting.identity.directory == caller.directory) continue;
      return fmt::format("node id {} is in use by the node at {} (directory {}, the caller's is {})", caller.node,
                         there->second->address, there->second->greeting.identity.directory, caller.directory);
    }
    return std::nullopt;
  }

  Shard& shard_;
  kj::Own<Listener> listener_;
  const Identity& self_;
  Handlers handlers_;
  ServerOptions options_;
  Figures figures_;
  size_t connections_ = 0;
  std::map<Key, Session*> sessions_;
  Tasks tasks_;  // last: uses what is above
};

Server::Server(Shard& shard, kj::Own<Listener> listener, const Identity& self, Handlers handlers, ServerOptions options)
    : impl_(std::make_unique<Impl>(shard, kj::mv(listener), self, std::move(handlers), options)) {}
Server::~Server() noexcept(false) {}

const Address& Server::local() const { return impl_->local(); }
size_t Server::connectionCount() const { return impl_->connectionCount(); }
const Server::Figures& Server::figures() const { return impl_->figures(); }

}  // namespace mq::peer

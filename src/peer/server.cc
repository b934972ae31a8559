#include "peer/server.h"

#include <kj/debug.h>

#include <map>
#include <utility>

#include "peer/connection.h"
#include "peer/handshake.h"
#include "peer/raft_messages.h"
#include "runtime/tasks.h"

namespace mq::peer {
namespace {

// What one connection may ask.
class ServicesOf final : public schema::Services::Server {
 public:
  ServicesOf(const Identity& caller, const Handlers& handlers, Shard& shard, Instant& heard)
      : caller_(caller), handlers_(handlers), shard_(shard), heard_(heard) {}

  kj::Promise<void> ping(PingContext) override {
    heard_ = shard_.now();
    return kj::READY_NOW;
  }

  kj::Promise<void> raft(RaftContext context) override {
    heard_ = shard_.now();
    raft::Message message = read(context.getParams().getMessage());
    KJ_REQUIRE(message.from.id == caller_.node && message.from.directory == caller_.directory,
               "a message of somebody else", message.from.id.value(), caller_.node.value());
    handlers_.raft(std::move(message));
    return kj::READY_NOW;
  }

 private:
  const Identity& caller_;
  const Handlers& handlers_;
  Shard& shard_;
  Instant& heard_;
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
    if (refusal) {
      ++figures_.refused;
      shard_.log().warning("peer-refused", "{}: {}", address, *refusal);
      co_return co_await shard_.within(options_.greetingTimeout, refuse(*stream, std::move(*refusal)));
    }
    co_await shard_.within(options_.greetingTimeout, peer::accept(*stream, self_));
    if ((refusal = collision(heard->identity))) co_return;  // another one was quicker; the next attempt hears why
    co_await serve(kj::mv(stream), std::move(*heard), std::move(address));
  }

  Co<void> serve(kj::Own<Stream> stream, Greeting greeting, std::string address) {
    Key key{greeting.identity.node, greeting.channel};
    if (auto before = sessions_.find(key); before != sessions_.end()) before->second->replaced->fulfill();
    auto replaced = kj::newPromiseAndFulfiller<void>();
    Session session{std::move(greeting), std::move(address), shard_.now(), kj::mv(replaced.fulfiller)};
    Entry entry(*this, key, session);
    ++figures_.accepted;
    Connection connection(shard_, kj::mv(stream), options_.messageBytesMax,
                          kj::heap<ServicesOf>(session.greeting.identity, handlers_, shard_, session.heard),
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
    for (Channel channel : {Channel::control, Channel::bulk}) {
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

// Link: the way to one other node, by one channel. Keeps itself connected: connects, greets, watches by pings that the
// other side is alive, and begins anew after a pause that grows.
//
//   away --connect, greet--> up --closed, no answer to a ping--> away
//
// Belongs to its shard. What is sent while it is away, or when too much is on its way, is dropped and counted: nothing
// queues for a node that is not there. Every wait ends: connecting and pings have deadlines, and a connection that ends
// rejects whatever waits for it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "controller/requests.h"
#include "coordinator/remote.h"
#include "peer/identity.h"
#include "raft/messages.h"
#include "runtime/shard.h"

namespace mq::peer {

struct LinkOptions {
  Duration connectTimeout = 3s;  // for connecting and greeting
  Duration pingInterval = 1s;
  Duration pingTimeout = 3s;  // without an answer for so long, the other side counts as gone
  Duration retryMin = 50ms;   // between two attempts: doubles from the one to the other
  Duration retryMax = 2s;
  size_t messageBytesMax = 24_MiB;  // of what is asked, and of what the other side answers
  size_t postedBytesMax = 32_MiB;   // posted and not answered yet
};

class Link {
 public:
  struct Target {
    NodeId node{kNoNode};  // kNoNode: whoever answers there
    Address address;
    Channel channel = Channel::control;
  };
  struct Figures {
    uint64_t connected = 0;
    uint64_t failed = 0;   // attempts to connect, and connections that ended
    uint64_t dropped = 0;  // messages
  };

  // Begins at once. `self` is read at each greeting and outlives the link.
  Link(Shard& shard, const Identity& self, Target target, LinkOptions options);
  ~Link() noexcept(false);
  KJ_DISALLOW_COPY(Link);

  const Target& target() const;
  bool isUp() const;
  const std::optional<Identity>& reached() const;  // who answered last
  const std::string& problem() const;              // why it is away; empty while it is up, or before the first attempt
  const Figures& figures() const;
  // It was up, the connection ended, and now the host refuses another one: that process is dead. A machine or a network
  // that is gone refuses nothing, so a process may be dead without this.
  bool wasRefused() const;
  // Called when it comes up, goes away, or becomes refused. Must not destroy the link.
  void onChange(std::function<void()> call);

  // One way. Delivered at most once; in order, while the link stays up.
  void post(const raft::Message& message);
  // How long the other side took to answer. Rejected when it is away (DISCONNECTED) or too slow (OVERLOADED).
  kj::Promise<Duration> ping(Duration limit);
  // What the other side knows of its cluster; wants it to let this node in. Rejected as ping().
  kj::Promise<controller::NodeStatus> status(Duration limit);
  kj::Promise<controller::NodeStatus> join(const controller::JoinRequest& request, Duration limit);
  // Asks the controller there. Never rejected: notController when it is away or does not know such a request (nothing
  // was done), invalidRequest when it is larger than a message may be, requestTimedOut when the connection or the
  // patience ended before the answer (what was asked may still come to be).
  kj::Promise<Result<controller::Answered>> ask(const controller::Request& request, Duration limit);
  // As coordinator::RemoteCoordinators has them.
  kj::Promise<Result<void>> writeMarker(const coordinator::MarkerRequest& request, Duration limit);
  kj::Promise<Result<void>> mayEnter(const coordinator::EntryRequest& request, Duration limit);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mq::peer

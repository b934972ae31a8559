// SimNetwork: what lies between the nodes. Hosts are numbered; host 3 has the address 10.0.0.3 and the name node-3.
//
// A connection is two SimStreams, each with a receive buffer. Bytes written are cut into segments at random and arrive
// in order, each after a random delay. A sender whose bytes in flight and unread reach the window waits, as with TCP.
//
// Faults:
//   - cut(a, b): nothing passes; what is under way waits, as retransmissions would, and arrives after heal(); a
//   connection
//     that waits longer than the patience breaks with ETIMEDOUT;
//   - reset chance per segment, reset(a, b) for all connections between two hosts;
//   - slow(a, b, extra): further delay;
//   - a host that lost power answers nothing until it runs again, then resets; a killed process's host resets at once,
//   and
//     refuses whoever connects.
#pragma once
#include <kj/async-io.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/socket.h"
#include "sim_loop.h"

namespace mq::sim {

struct NetworkOptions {
  Duration delayMin = 50us;
  Duration delayMax = 1ms;
  Duration patience = 30s;  // until a connection whose segments do not arrive breaks
  uint64_t windowBytes = 256_KiB;
  uint64_t segmentBytesMax = 64_KiB;
  uint64_t resetOneIn = 0;  // segments; 0: never
};

class SimStream;
class SimListener;
class HostNetwork;

class SimNetwork {
 public:
  using Host = uint32_t;

  SimNetwork(SimLoop& loop, Prng random, NetworkOptions options);
  ~SimNetwork();

  static std::string hostName(Host host) { return fmt::format("10.0.0.{}", host); }

  // --- for the test
  NetworkOptions& options() { return options_; }
  void cut(Host a, Host b) { cutOneWay(a, b), cutOneWay(b, a); }
  void cutOneWay(Host from, Host to);
  void isolate(Host host);  // from all others
  void heal();              // all cuts
  void heal(Host a, Host b);
  void slow(Host a, Host b, Duration extra);  // both ways; 0: normal again
  void reset(Host a, Host b);
  uint64_t connections() const { return endpoints_.size() / 2; }

  // --- for the node: one shard's view. Its streams and listeners must be gone before `frozen` is, or be frozen.
  std::unique_ptr<Network> attach(Host host, std::shared_ptr<const bool> frozen);
  void hostUp(Host host);
  // The process is gone, with all its endpoints. powerLost: nobody tells the peers.
  void hostDown(Host host, bool powerLost);

 private:
  friend class SimStream;
  friend class SimListener;
  friend class HostNetwork;

  enum class Kind { data, fin, reset };
  struct Segment {
    Kind kind;
    std::string bytes;
    Instant sent;
  };

  // One side of a connection. The stream object may go before: the endpoint then answers with a reset.
  struct Endpoint {
    uint64_t id = 0;
    uint64_t peer = 0;  // endpoint
    Host host = 0;
    Address local, remote;
    SimStream* stream = nullptr;  // null: not accepted yet, closed, or its process is gone
    bool closed = false;          // by close of the stream
    bool vanished = false;        // power lost
    bool finReceived = false;
    bool finSent = false;
    int error = 0;          // errno that broke it
    std::string received;   // not read yet
    uint64_t inFlight = 0;  // bytes of ours on the way to the peer
    uint64_t sentSegments = 0;
    Instant lastArrival;       // of ours at the peer: order is kept
    std::deque<Segment> held;  // of ours: they met a cut, and what came behind waits behind them
  };

  Endpoint* find(uint64_t id);
  Duration delay(Host from, Host to);
  bool isCut(Host from, Host to) const { return cuts_.contains({from, to}); }
  std::optional<Host> resolve(Host from, const std::string& name) const;
  uint64_t room(const Endpoint& endpoint);  // bytes that it may send now
  void send(Endpoint& from, Kind kind, std::string bytes);
  void arrive(uint64_t from, uint64_t to, Segment segment);
  void tryAgain(uint64_t from, uint64_t to);
  void deliver(uint64_t from, uint64_t to, Segment segment);
  bool isBarred(const Endpoint& sender, const Endpoint& receiver) const;
  void breakEndpoint(Endpoint& endpoint, int error);
  void dropIfOver(uint64_t id);  // both sides closed: forget the pair

  kj::Promise<kj::Own<Stream>> connect(Host from, std::shared_ptr<const bool> frozen, Address address);
  uint64_t makePair(Host client, Host server, uint16_t serverPort);  // the client's endpoint
  kj::Own<Stream> adopt(uint64_t endpoint, std::shared_ptr<const bool> frozen);

  SimLoop& loop_;
  Prng random_;
  NetworkOptions options_;
  std::map<uint64_t, Endpoint> endpoints_;
  std::map<std::pair<Host, uint16_t>, SimListener*> listeners_;
  std::set<std::pair<Host, Host>> cuts_;
  std::map<std::pair<Host, Host>, Duration> slow_;
  std::set<Host> up_;  // machines that have power, with a process or without
  uint64_t nextEndpoint_ = 1;
  uint16_t nextPort_ = 32768;
};

}  // namespace mq::sim

// World: nodes with a core and a disk each, a network and virtual time. What happens to them is run.cc's.
//
// A node's clock has its own rate. Messages are lost, repeated and late by themselves; cuts are asked for. Nothing that
// was under way to or from a process outlives it, except messages in the network.
#pragma once
#include <functional>
#include <memory>
#include <queue>
#include <set>
#include <vector>

#include "checks.h"
#include "disk.h"
#include "raft/core.h"
#include "run.h"

namespace mq::raft::sim {

// Drawn anew for each run.
struct Settings {
  Options raft;
  Duration delayMin, delayMax;  // of messages
  uint64_t lossPerMille = 0, repeatPerMille = 0;
  Duration syncMin, syncMax;   // of a write
  uint64_t stallPerMille = 0;  // a write takes up to two election timeouts
  int64_t snapshotEvery = 0;   // entries
  size_t snapshotBytesMax = 0;
  int64_t keepMax = 0;  // entries kept behind a snapshot
};

struct Node {
  Replica replica;
  double clockRate = 1;
  Disk disk;
  std::unique_ptr<Core> core;  // null: down
  uint64_t life = 0;           // of processes
  Instant upSince{};           // global
  Instant localStart{};        // its clock then
  Instant wakeAt = Instant::max();
  bool isFull = false;
  int64_t machineIndex = 0;  // the state machine: a hash over all it has applied
  uint64_t machineChain = 1;
  int64_t commitTraced = 0;
  State stateTraced = State::follower;
};

class World {
 public:
  World(const RunOptions& options, Settings settings, Prng chance);

  Settings settings;
  Prng chance;
  Checks checks;
  std::map<NodeId, Node> nodes;
  std::set<std::pair<NodeId, NodeId>> cuts;
  std::map<std::string, uint64_t> marks;
  // What a node's clients hear.
  std::function<void(Node&, const Entry&)> onApplied;
  std::function<void(Node&, ReadId, bool isReady)> onRead;

  Instant now() const { return now_; }
  void at(Instant when, std::function<void()> what);
  void after(Duration wait, std::function<void()> what) { at(now_ + wait, std::move(what)); }
  bool runUntil(Instant end, const std::function<bool()>& isDone = nullptr);  // false: time is up
  Duration between(Duration low, Duration high);

  void start(Node& node, const Membership& first);
  void crash(Node& node);
  // Does something to a running core, and what it wants done then.
  void with(Node& node, const std::function<void(Core&)>& what);
  template <class... Args>
  void trace(fmt::format_string<Args...> format, Args&&... args) {
    if (options_.trace)
      options_.trace(fmt::format("{:>9.3f} ", seconds()) + fmt::format(format, std::forward<Args>(args)...));
  }
  uint64_t traceHash() const { return traceHash_; }
  void mark(const std::string& what) { ++marks[what]; }

 private:
  struct Event {
    Instant when;
    uint64_t number;
    std::function<void()> what;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.when != b.when ? a.when > b.when : a.number > b.number;
    }
  };

  double seconds() const { return std::chrono::duration<double>(now_.time_since_epoch()).count(); }
  Instant localNow(const Node& node) const;
  void atNode(Node& node, Duration wait, std::function<void(Core&)> what);  // unless its process ends before
  void pump(Node& node);
  void send(const Message& message);
  void perform(Node& node, Write write);
  void snapshotIfDue(Node& node);
  void setWake(Node& node);
  void note(Node& node);

  RunOptions options_;
  Instant now_{};
  uint64_t eventNumber_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  uint64_t traceHash_ = 0;
};

}  // namespace mq::raft::sim

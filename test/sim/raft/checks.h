// Checks: one for each promise. They see all nodes at once and remember everything; the first violation is kept.
//
// Raft's Figure 3: Election Safety, Leader Append-Only, Log Matching, Leader Completeness, State Machine Safety. And:
// an (index, term) is never used twice; what was acknowledged stays; a read sees all that was acknowledged, or read,
// before it was asked for; nothing outgrows its bound; no node stops by itself.
#pragma once
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "raft/core.h"

namespace mq::raft::sim {

class Checks {
 public:
  const std::string& violation() const { return violation_; }

  // After each thing that happens to a node.
  void look(const Core& core, NodeId id, const Options& options);
  void restarted(NodeId id) { seen_.erase(id); }
  void sent(const Message& message, const Options& options);
  void written(const Core& core, const Write& write);
  void applied(NodeId id, const Entry& entry, uint64_t chain);
  void installed(NodeId id, int64_t index, uint64_t chain);

  void acknowledged(int64_t index) { acknowledged_ = std::max(acknowledged_, index); }
  int64_t acknowledgedIndex() const { return acknowledged_; }
  int64_t readFloor() const { return std::max(acknowledged_, readUpTo_); }
  void readAnswered(NodeId id, int64_t floor, int64_t index);
  int64_t committedIndex() const { return static_cast<int64_t>(committed_.size()); }

  template <class... Args>
  void broken(fmt::format_string<Args...> format, Args&&... args) {
    if (violation_.empty()) violation_ = fmt::format(format, std::forward<Args>(args)...);
  }

 private:
  struct Seen {  // of a node, the last time
    int64_t commit = 0;
    int64_t leaderTerm = 0;  // 0: it does not lead
    Position last;
  };
  struct Committed {
    int64_t term;    // of the entry
    int64_t inTerm;  // of the one who saw it committed first
  };
  struct Known {
    uint64_t bytes;
    int64_t previousTerm;
  };

  void learn(const Entry& entry, int64_t previousTerm);
  void lookAtLeader(const Core& core, NodeId id, Seen& seen);
  void complete(const Core& leader, NodeId id, int64_t from);

  std::string violation_;
  std::map<NodeId, Seen> seen_;
  std::map<int64_t, NodeId> leaders_;          // by term
  std::vector<Committed> committed_;           // entry i + 1
  std::vector<uint64_t> chains_;               // of the state machine after entry i + 1; 0: nobody has applied it
  std::unordered_map<uint64_t, Known> known_;  // by position
  int64_t acknowledged_ = 0;
  int64_t readUpTo_ = 0;
};

uint64_t mix(uint64_t a, uint64_t b);
uint64_t hashOf(const Entry& entry);

}  // namespace mq::raft::sim

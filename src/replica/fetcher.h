// Fetcher: brings what one shard of this node follows from one leader. A line to each shard of the leader that leads
// some of it: one follow() in flight, the next one as soon as what came is written; what becomes durable is reported
// apart.
//
//   places to name ──▶ follow() ──▶ appends ──▶ written: to be named ──▶ follow() ...
//                                       └────▶ synced: report()
//
// A lost session tears all lines down; after a back-off they are opened anew, and everything is named again.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "replica/partition.h"
#include "replica/replication.h"
#include "runtime/shard.h"
#include "runtime/tasks.h"

namespace mq::replica {

class Fetcher {
 public:
  struct Options {
    Duration waitMax;
    uint32_t bytesMax;
    Duration backoff;
  };
  using Find = std::function<Partition*(const TopicIdPartition&)>;

  Fetcher(Shard& shard, LeaderSessions& sessions, NodeId leader, Options options, Find find);
  ~Fetcher();
  KJ_DISALLOW_COPY(Fetcher);

  void follow(const TopicIdPartition& id);  // from its followPlace(); also when that has changed otherwise than by us
  void drop(const TopicIdPartition& id);
  void durable(const TopicIdPartition& id);  // its durable end moved
  bool isEmpty() const { return followed_.empty(); }

 private:
  struct Line {
    uint32_t shard = 0;
    kj::Own<LeaderSession> session;  // null: not open
    bool isAsking = false;
    std::set<TopicIdPartition> places;  // that are followed over this line
    std::set<TopicIdPartition> toName;
    std::set<TopicIdPartition> dropped;
    std::set<TopicIdPartition> durable;  // to be reported at the end of the turn
    bool reports = false;                // then
    kj::Own<kj::PromiseFulfiller<void>> waiting;
  };
  using Lines = std::vector<std::unique_ptr<Line>>;

  Co<void> serve();
  Co<void> serveLine(Line& line);
  FollowRequest requestOf(Line& line);
  Co<void> take(Line& line, FollowResponse response);
  Line* lineOf(const TopicIdPartition& id);
  void name(Line& line, const TopicIdPartition& id);
  void nameLater(const TopicIdPartition& id);
  void reportLater(Line& line);
  void sendReports(uint32_t shard);
  static void wake(Line& line);

  Shard& shard_;
  LeaderSessions& sessions_;
  const NodeId leader_;
  const Options options_;
  const Find find_;
  std::map<TopicIdPartition, uint64_t>
      followed_;  // with the number of the follow(): an answer to an earlier one is old
  uint64_t lastFollow_ = 0;
  Lines lines_;  // none: no connection
  Tasks tasks_;
};

}  // namespace mq::replica

// Following: what one shard of this node follows, and over which Fetcher: one for each leader.
#pragma once
#include <map>
#include <memory>

#include "replica/fetcher.h"

namespace mq::replica {

class Following {
 public:
  Following(Shard& shard, LeaderSessions& sessions, Fetcher::Options options, Fetcher::Find find)
      : shard_(shard), sessions_(sessions), options_(options), find_(std::move(find)) {}

  // Its assignment may have changed. Names it only if there is another leader or epoch, or `anew`.
  void update(const Partition& partition, bool anew);
  void drop(const TopicIdPartition& id);
  void durable(const TopicIdPartition& id);

 private:
  struct Followed {
    NodeId leader;
    LeaderEpoch epoch;
  };
  Shard& shard_;
  LeaderSessions& sessions_;
  const Fetcher::Options options_;
  const Fetcher::Find find_;
  std::map<TopicIdPartition, Followed> followed_;
  std::map<NodeId, std::unique_ptr<Fetcher>> fetchers_;
};

}  // namespace mq::replica

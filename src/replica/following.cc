#include "replica/following.h"

namespace mq::replica {

void Following::update(const Partition& partition, bool anew) {
  const TopicIdPartition& id = partition.id();
  const auto place = partition.followPlace();
  if (!place) return drop(id);
  const Followed next{partition.leader(), partition.leaderEpoch()};
  auto found = followed_.find(id);
  if (found != followed_.end()) {
    if (!anew && found->second.leader == next.leader && found->second.epoch == next.epoch) return;
    if (found->second.leader != next.leader) drop(id);
  }
  followed_.insert_or_assign(id, next);
  auto& fetcher = fetchers_[next.leader];
  if (!fetcher) fetcher = std::make_unique<Fetcher>(shard_, sessions_, next.leader, options_, find_);
  fetcher->follow(id);
}

void Following::drop(const TopicIdPartition& id) {
  auto found = followed_.find(id);
  if (found == followed_.end()) return;
  auto fetcher = fetchers_.find(found->second.leader);
  followed_.erase(found);
  fetcher->second->drop(id);
  if (fetcher->second->isEmpty()) fetchers_.erase(fetcher);
}

void Following::durable(const TopicIdPartition& id) {
  auto found = followed_.find(id);
  if (found != followed_.end()) fetchers_.at(found->second.leader)->durable(id);
}

}  // namespace mq::replica

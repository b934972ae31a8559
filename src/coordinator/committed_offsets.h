// CommittedOffsets: how far a group has come, by topic and partition. About 40 bytes an offset: a million of them fit
// in memory without anybody noticing.
//
// A commit names the topic's id where it is known. An id that differs from that of the earlier commits is another topic
// of the same name: what was committed for the old one is forgotten.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace mq::coordinator {

struct CommittedOffset {
  Offset offset;
  LeaderEpoch leaderEpoch = kNoLeaderEpoch;  // of the last record before it, as the client knows
  WallMs committed = kNoTimestamp;
  WallMs expires = kNoTimestamp;  // asked for by an old client; -1: by offsets.retention.minutes
  std::string metadata;
};

class CommittedOffsets {
 public:
  struct Entry {
    int32_t partition = 0;
    LeaderEpoch leaderEpoch;
    Offset offset;
    WallMs committed;
    WallMs expires;
    std::unique_ptr<const std::string> metadata;  // null: empty
    std::string_view metadataText() const { return metadata ? std::string_view(*metadata) : std::string_view(); }
  };
  struct Topic {
    TopicId id;                  // zero: committed by a version that did not say
    std::vector<Entry> entries;  // by partition
  };
  using Topics = std::map<std::string, Topic, std::less<>>;

  void set(std::string_view topic, const TopicId& id, int32_t partition, const CommittedOffset& offset);
  void remove(std::string_view topic, int32_t partition);
  const Entry* find(std::string_view topic, int32_t partition) const;  // null: none
  const Topics& topics() const { return topics_; }
  bool empty() const { return topics_.empty(); }

 private:
  Topics topics_;  // none of them without entries
};

}  // namespace mq::coordinator

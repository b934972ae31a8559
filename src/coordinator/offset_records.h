// Groups::recordOffsets, for the two files that commit offsets.
#pragma once
#include "coordinator/groups.h"
#include "coordinator/records.h"

namespace mq::coordinator {

template <class Asked, class Response>
Response Groups::recordOffsets(Asked& asked, int64_t expireTimestamp, const Now& now, Effects& effects) {
  Response response;
  for (auto& topic : asked.topics) {
    auto& told = response.topics.emplace_back();
    told.name = topic.name;
    told.topicId = topic.topicId;
    for (auto& partition : topic.partitions) {
      auto& outcome = told.partitions.emplace_back();
      outcome.partitionIndex = partition.partitionIndex;
      std::string metadata = std::move(partition.committedMetadata).value_or("");
      if (metadata.size() > static_cast<size_t>(settings_.metadataBytesMax)) {
        outcome.errorCode = Error::offsetMetadataTooLarge;
        continue;
      }
      wire::OffsetCommitValue value;
      value.offset = partition.committedOffset;
      value.leaderEpoch = partition.committedLeaderEpoch;
      value.metadata = std::move(metadata);
      value.commitTimestamp = now.wall.value();
      value.expireTimestamp = expireTimestamp;
      value.topicId = topic.topicId;
      effects.records.push_back(offsetRecord({asked.groupId, topic.name, partition.partitionIndex}, value));
      ++counters_.commits;
    }
  }
  return response;
}

}  // namespace mq::coordinator

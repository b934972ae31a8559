// Shared by OffsetCommit and TxnOffsetCommit, whose topics have the same shape: partitions that do not exist are
// refused by the shard's image; of the rest the coordinator is asked as a whole.
#pragma once
#include <utility>
#include <vector>

#include "kafka/server.h"

namespace mq::kafka {

template <class Asked, class Answered>
struct OffsetSplit {
  Asked asked;  // of the coordinator, topics with name and id
  Answered response;
  std::vector<std::pair<size_t, size_t>> places;  // topic, partition in the response, of what is asked

  OffsetSplit(const metadata::Image& image, Asked&& all, bool isById) {
    auto topics = std::move(all.topics);
    asked = std::move(all);
    for (size_t t = 0; t < topics.size(); ++t) {
      auto& topic = topics[t];
      auto& told = response.topics.emplace_back();
      told.name = topic.name;
      told.topicId = topic.topicId;
      metadata::TopicRef known = isById ? image.topic(topic.topicId) : image.topic(topic.name);
      typename decltype(asked.topics)::value_type sent;
      if (known) {
        sent.name = known->name;
        sent.topicId = known->id;
      }
      for (size_t p = 0; p < topic.partitions.size(); ++p) {
        auto& partition = topic.partitions[p];
        auto& outcome = told.partitions.emplace_back();
        outcome.partitionIndex = partition.partitionIndex;
        if (known == nullptr) {
          outcome.errorCode = isById ? Error::unknownTopicId : Error::unknownTopicOrPartition;
        } else if (known->partition(partition.partitionIndex) == nullptr) {
          outcome.errorCode = Error::unknownTopicOrPartition;
        } else {
          places.emplace_back(t, p);
          sent.partitions.push_back(std::move(partition));
        }
      }
      if (!sent.partitions.empty()) asked.topics.push_back(std::move(sent));
    }
  }

  // What the coordinator answered goes to its places.
  void take(const Answered& answered) {
    size_t place = 0;
    for (const auto& topic : answered.topics)
      for (const auto& partition : topic.partitions) at(place++) = partition.errorCode;
  }
  void refuse(Error error) {
    for (size_t place = 0; place < places.size(); ++place) at(place) = error;
  }

 private:
  Error& at(size_t place) {
    auto [topic, partition] = places[place];
    return response.topics[topic].partitions[partition].errorCode;
  }
};

}  // namespace mq::kafka

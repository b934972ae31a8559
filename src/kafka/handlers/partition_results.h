// What the controller says of each partition of a request.
#pragma once
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "controller/requests.h"

namespace mq::kafka {

// Of one that was refused as a whole every partition says so.
template <class Kind>
std::vector<typename Kind::Partition> resultsOf(Result<controller::Answered> answered,
                                                std::vector<TopicPartition> partitions) {
  if (answered) return std::get<Kind>(std::move(answered->response)).partitions;
  std::vector<typename Kind::Partition> results;
  for (TopicPartition& partition : partitions) results.push_back({std::move(partition), answered.failure()});
  return results;
}

// fn(topic, its results): in their order, as the client named them.
template <class Partition, class Fn>
void forEachTopic(const std::vector<Partition>& results, Fn fn) {
  for (size_t begin = 0; begin < results.size();) {
    const std::string& topic = results[begin].partition.topic;
    size_t end = begin;
    while (end < results.size() && results[end].partition.topic == topic) ++end;
    fn(topic, std::span(results).subspan(begin, end - begin));
    begin = end;
  }
}

template <class T>
std::optional<std::string> messageOf(const Result<T>& result) {
  if (result || result.failure().message.empty()) return std::nullopt;
  return result.failure().message;
}

}  // namespace mq::kafka

// Record batches and short forms of the requests around them.
#pragma once
#include <initializer_list>
#include <string_view>

#include "base/random.h"
#include "record/builder.h"
#include "test_server.h"
#include "wire/create_topics_request.h"
#include "wire/create_topics_response.h"
#include "wire/fetch_request.h"
#include "wire/fetch_response.h"
#include "wire/produce_request.h"
#include "wire/produce_response.h"

namespace mq::kafka::test {

inline Buffer batchOf(std::initializer_list<std::string_view> values, record::BatchOptions options = {},
                      int64_t firstTime = 1'700'000'000'000) {
  record::Workspace workspace;
  record::BatchBuilder builder(options);
  for (std::string_view value : values) builder.add({.timestamp = WallMs(firstTime++), .value = asBytes(value)});
  return builder.build(workspace);
}
inline Buffer batchOfSize(size_t bytes, record::BatchOptions options = {}) {
  Buffer value(bytes);
  Prng random(bytes);
  for (uint8_t& byte : value) byte = static_cast<uint8_t>(random.next());
  return batchOf({asText(value)}, options);
}

// A new topic's name.
inline std::string createTopic(Client& client, int32_t partitions = 1,
                               std::vector<wire::CreateTopicsRequest::CreatableTopicConfig> configs = {}) {
  std::string name = newTopicName();
  auto response = client.call(wire::CreateTopicsRequest{.topics = {{.name = name,
                                                                    .numPartitions = partitions,
                                                                    .replicationFactor = 1,
                                                                    .configs = std::move(configs)}}},
                              7);
  if (response.topics.at(0).errorCode != Error::none) throw std::runtime_error(*response.topics.at(0).errorMessage);
  return name;
}

inline wire::ProduceRequest produceRequest(const std::string& topic, int32_t partition, Bytes records,
                                           int16_t acks = -1) {
  wire::ProduceRequest request{.acks = acks, .timeoutMs = 5000};
  request.topicData = {{.name = topic, .partitionData = {{.index = partition, .records = wire::Blob(records)}}}};
  return request;
}
// Retries while the partition is being opened.
inline wire::ProduceResponse::PartitionProduceResponse produce(Client& client, const std::string& topic,
                                                               int32_t partition, Bytes records, int16_t version = 9) {
  for (int attempt = 0;; ++attempt) {
    auto response = client.call(produceRequest(topic, partition, records), version);
    auto& answer = response.responses.at(0).partitionResponses.at(0);
    bool again = answer.errorCode == Error::notLeaderOrFollower || answer.errorCode == Error::unknownTopicOrPartition;
    if (!again || attempt == 50) return answer;
    std::this_thread::sleep_for(10ms);
  }
}

inline wire::FetchRequest fetchRequest(const std::string& topic,
                                       std::initializer_list<std::pair<int32_t, int64_t>> partitions,
                                       int32_t waitMs = 0) {
  wire::FetchRequest request{.maxWaitMs = waitMs, .minBytes = 1};
  request.topics = {{.topic = topic}};
  for (auto [partition, from] : partitions) {
    request.topics[0].partitions.push_back({.partition = partition, .fetchOffset = from, .partitionMaxBytes = 1 << 20});
  }
  return request;
}
inline wire::FetchResponse::PartitionData fetchOne(Client& client, const std::string& topic, int32_t partition,
                                                   int64_t from, int16_t version = 12) {
  return client.call(fetchRequest(topic, {{partition, from}}), version).responses.at(0).partitions.at(0);
}

}  // namespace mq::kafka::test

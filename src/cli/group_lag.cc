#include "cli/group_lag.h"

#include <algorithm>

#include "record/batch.h"
#include "wire/fetch_request.h"
#include "wire/fetch_response.h"
#include "wire/list_offsets_request.h"
#include "wire/list_offsets_response.h"

namespace mq::cli {
namespace {

constexpr int16_t kFetchNamesLast = 12;    // from 13 on topics have ids
constexpr int32_t kFetchBytes = 64 << 10;  // of a partition: the first batch is wanted, most are smaller
constexpr int64_t kEarliest = -2, kLatest = -1;

using ByLeader = std::map<int32_t, std::vector<TopicPartition>>;

// Calls take(partition, error, offset) for each.
template <class Take>
void listOffsetsOf(Client& client, const ByLeader& leaders, int64_t timestamp, Take take) {
  for (const auto& [leader, partitions] : leaders) {
    wire::ListOffsetsRequest request;
    request.replicaId = -1;
    request.timeoutMs = 10'000;
    for (const TopicPartition& at : partitions) {
      if (request.topics.empty() || request.topics.back().name != at.topic)
        request.topics.emplace_back().name = at.topic;
      auto& asked = request.topics.back().partitions.emplace_back();
      asked.partitionIndex = at.partition;
      asked.timestamp = timestamp;
    }
    auto response = client.call(request, leader);
    for (const auto& topic : response.topics) {
      for (const auto& partition : topic.partitions)
        take(TopicPartition{topic.name, partition.partitionIndex}, partition.errorCode, partition.offset);
    }
  }
}

struct Wanted {
  TopicPartition at;
  int64_t from;
  int64_t end;
};

// Fills what the answer tells; returns those of which it had no whole batch header.
std::vector<Wanted> fetchTimes(Client& client, int32_t leader, const std::vector<Wanted>& wanted, int64_t nowMs,
                               Lags& lags) {
  wire::FetchRequest request;
  request.maxWaitMs = 0;
  request.minBytes = 0;
  request.maxBytes = 64 << 20;
  for (const Wanted& one : wanted) {
    if (request.topics.empty() || request.topics.back().topic != one.at.topic)
      request.topics.emplace_back().topic = one.at.topic;
    auto& asked = request.topics.back().partitions.emplace_back();
    asked.partition = one.at.partition;
    asked.fetchOffset = one.from;
    asked.partitionMaxBytes = kFetchBytes;
  }
  auto response = client.call(request, leader, kFetchNamesLast);
  std::map<TopicPartition, FirstTime> found;
  for (const auto& topic : response.responses) {
    for (const auto& partition : topic.partitions) {
      TopicPartition at{topic.topic, partition.partitionIndex};
      auto asked = std::find_if(wanted.begin(), wanted.end(), [&](const Wanted& one) { return one.at == at; });
      if (asked == wanted.end() || partition.errorCode != Error::none || !partition.records) continue;
      found[at] = timeOfFirst(*partition.records, asked->from, asked->end);
    }
  }
  std::vector<Wanted> left;
  for (const Wanted& one : wanted) {
    FirstTime first = found[one.at];
    if (first.nothingLeft)
      lags[one.at].ms = 0;
    else if (first.ms)
      lags[one.at].ms = std::max<int64_t>(0, nowMs - *first.ms);
    else
      left.push_back(one);
  }
  return left;
}

}  // namespace

FirstTime timeOfFirst(Bytes batches, int64_t offset, int64_t end) {
  for (;;) {
    record::NextBatch next = record::peekBatch(batches);
    if (next.kind != record::NextBatch::Kind::whole) return {};
    record::BatchView batch(next.batch);
    bool isRecord = !batch.isControl() && batch.lastOffset().value() >= offset;
    if (isRecord)
      return {.ms = batch.maxTimestamp().value() < 0 ? std::nullopt : std::optional(batch.maxTimestamp().value())};
    if (batch.nextOffset().value() >= end) return {.nothingLeft = true};
    if (next.sizeBytes > batches.size()) return {};
    batches = batches.subspan(next.sizeBytes);
  }
}

Lags lagsOf(Client& client, const StoredOffsets& stored, const std::set<TopicPartition>& also, int64_t nowMs) {
  Lags lags;
  for (const TopicPartition& at : also) lags[at];
  for (const auto& [at, offset] : stored) lags[at].committed = offset.offset;
  if (lags.empty()) return lags;

  std::vector<std::string> names;
  for (const auto& [at, lag] : lags) {
    if (names.empty() || names.back() != at.topic) names.push_back(at.topic);
  }
  for (auto& [at, lag] : lags) lag.problem = "the topic has no such partition";
  ByLeader leaders;
  for (const auto& topic : client.metadata(&names).topics) {
    for (auto at = lags.lower_bound({topic.name.value_or(""), 0});
         topic.errorCode != Error::none && at != lags.end() && at->first.topic == topic.name; ++at) {
      at->second.problem = describeError(topic.errorCode, std::nullopt);
    }
    for (const auto& partition : topic.partitions) {
      auto at = lags.find({topic.name.value_or(""), partition.partitionIndex});
      if (at == lags.end()) continue;
      at->second.problem = partition.leaderId < 0 ? "no leader" : "";
      if (partition.leaderId >= 0) leaders[partition.leaderId].push_back(at->first);
    }
  }
  for (auto& [leader, partitions] : leaders) std::sort(partitions.begin(), partitions.end());

  std::map<TopicPartition, int64_t> starts;
  listOffsetsOf(client, leaders, kEarliest, [&](TopicPartition at, Error error, int64_t offset) {
    if (error == Error::none) starts[at] = offset;
  });
  listOffsetsOf(client, leaders, kLatest, [&](TopicPartition at, Error error, int64_t offset) {
    auto found = lags.find(at);
    if (found == lags.end()) return;
    if (error == Error::none)
      found->second.end = offset;
    else
      found->second.problem = describeError(error, std::nullopt);
  });

  for (const auto& [leader, partitions] : leaders) {
    std::vector<Wanted> wanted;
    for (const TopicPartition& at : partitions) {
      PartitionLag& lag = lags[at];
      if (!lag.end || !lag.committed) continue;
      if (*lag.committed > *lag.end) {
        lag.problem =
            fmt::format("{} is committed, past the end {}: was the topic made anew?", *lag.committed, *lag.end);
        continue;
      }
      int64_t from = std::max(*lag.committed, starts.contains(at) ? starts[at] : 0);
      lag.records = *lag.end - from;
      if (*lag.records == 0)
        lag.ms = 0;
      else
        wanted.push_back({at, from, *lag.end});
    }
    if (wanted.empty()) continue;
    // A batch that is larger than what one partition may send comes only when it is asked for alone.
    for (const Wanted& one : fetchTimes(client, leader, wanted, nowMs, lags)) {
      if (wanted.size() > 1) fetchTimes(client, leader, {one}, nowMs, lags);
    }
  }
  return lags;
}

TotalLag totalOf(const Lags& lags) {
  TotalLag total;
  for (const auto& [at, lag] : lags) {
    if (lag.records)
      total.records += *lag.records;
    else
      ++total.unknown;
    if (lag.ms) total.ms = std::max(total.ms.value_or(0), *lag.ms);
  }
  return total;
}

std::string secondsText(std::optional<int64_t> ms) {
  return ms ? fmt::format("{}.{:03}", *ms / 1000, *ms % 1000) : "-";
}

}  // namespace mq::cli

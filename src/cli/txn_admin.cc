#include "cli/txn_admin.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "cli/output.h"
#include "wire/describe_producers_request.h"
#include "wire/describe_transactions_request.h"
#include "wire/describe_transactions_response.h"
#include "wire/list_transactions_response.h"

namespace mq::cli {
namespace {

constexpr int16_t kDurationFrom = 1, kPatternFrom = 2;  // of ListTransactions
constexpr std::chrono::milliseconds kLoadingPause{50};

}  // namespace

std::vector<ListedTransaction> listTransactions(Client& client, const wire::ListTransactionsRequest& filter) {
  using Request = wire::ListTransactionsRequest;
  std::vector<ListedTransaction> listed;
  std::vector<std::string> none;
  for (const auto& broker : client.metadata(&none).brokers) {
    int16_t version = client.versionOf(Request::kApiKey, Request::kVersionMin, Request::kVersionMax, broker.nodeId);
    if (version < 0) fail(exitFailed, "broker {} does not tell about transactions", broker.nodeId);
    if ((filter.durationFilter >= 0 && version < kDurationFrom) ||
        (filter.transactionalIdPattern && version < kPatternFrom))
      fail(exitFailed, "broker {} is too old to filter by age or pattern", broker.nodeId);
    const auto deadline = std::chrono::steady_clock::now() + client.timeout();
    auto answer = client.call(filter, broker.nodeId);
    while (answer.errorCode == Error::coordinatorLoadInProgress && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kLoadingPause);
      answer = client.call(filter, broker.nodeId);
    }
    if (answer.errorCode != Error::none) {
      fail(exitCodeOf(answer.errorCode), "broker {} does not list its transactions: {}", broker.nodeId,
           describeError(answer.errorCode, std::nullopt));
    }
    if (!answer.unknownStateFilters.empty())
      fail(exitUsage,
           "there is no state '{}'; there are Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, "
           "CompleteAbort, Dead",
           answer.unknownStateFilters.front());
    for (const auto& row : answer.transactionStates)
      listed.push_back({row.transactionalId, row.transactionState, row.producerId, broker.nodeId});
  }
  std::sort(listed.begin(), listed.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return listed;
}

std::optional<TransactionView> findTransaction(Client& client, const std::string& id) {
  auto response = client.callCoordinator(
      id, wire::DescribeTransactionsRequest{.transactionalIds = {id}},
      [](const auto& answer) {
        return answer.transactionStates.empty() ? Error::none : answer.transactionStates[0].errorCode;
      },
      INT16_MAX, Client::Kind::transaction);
  if (response.transactionStates.empty()) return std::nullopt;
  const auto& told = response.transactionStates[0];
  if (told.errorCode == Error::transactionalIdNotFound) return std::nullopt;
  if (told.errorCode != Error::none)
    fail(exitCodeOf(told.errorCode), "transactional id '{}': {}", id, describeError(told.errorCode, std::nullopt));
  TransactionView view{.id = id,
                       .state = told.transactionState,
                       .producerId = told.producerId,
                       .epoch = told.producerEpoch,
                       .timeoutMs = told.transactionTimeoutMs,
                       .startedMs = told.transactionStartTimeMs,
                       .coordinator = client.coordinatorOf(id, Client::Kind::transaction)};
  for (const auto& topic : told.topics)
    for (int32_t partition : topic.partitions) view.partitions.push_back({topic.topic, partition});
  std::sort(view.partitions.begin(), view.partitions.end());
  return view;
}

std::vector<ProducerView> listProducers(Client& client, const std::vector<TopicSelection>& selections,
                                        Outcome& outcome) {
  std::vector<std::string> names;
  for (const TopicSelection& selection : selections) names.push_back(selection.topic);
  auto metadata = client.metadata(selections.empty() ? nullptr : &names);
  std::map<int32_t, wire::DescribeProducersRequest> asked;  // by leader
  for (const auto& topic : metadata.topics) {
    const std::string name = topic.name.value_or("");
    if (topic.errorCode != Error::none) {
      outcome.add(fmt::format("topic '{}'", name), topic.errorCode, std::nullopt);
      continue;
    }
    std::set<int32_t> wanted;
    for (const TopicSelection& selection : selections)
      if (selection.topic == name) wanted.insert(selection.partitions.begin(), selection.partitions.end());
    const bool all = wanted.empty();
    for (const auto& partition : topic.partitions) {
      if (!all && wanted.erase(partition.partitionIndex) == 0) continue;
      if (partition.leaderId < 0) {
        outcome.add(TopicPartition{name, partition.partitionIndex}.text(), Error::leaderNotAvailable, std::nullopt);
        continue;
      }
      auto& topics = asked[partition.leaderId].topics;
      if (topics.empty() || topics.back().name != name) topics.emplace_back().name = name;
      topics.back().partitionIndexes.push_back(partition.partitionIndex);
    }
    if (!wanted.empty())
      fail(exitNotFound, "topic '{}' has no partition {}; it has {}", name, *wanted.begin(), topic.partitions.size());
  }
  std::vector<ProducerView> producers;
  for (const auto& [leader, request] : asked) {
    for (const auto& topic : client.call(request, leader).topics) {
      for (const auto& partition : topic.partitions) {
        TopicPartition at{topic.name, partition.partitionIndex};
        outcome.add(at.text(), partition.errorCode, partition.errorMessage);
        for (const auto& state : partition.activeProducers) producers.push_back({at, leader, state});
      }
    }
  }
  std::sort(producers.begin(), producers.end(), [](const ProducerView& a, const ProducerView& b) {
    return std::tie(a.at, a.state.producerId) < std::tie(b.at, b.state.producerId);
  });
  return producers;
}

std::vector<Hanging> findHanging(Client& client, const std::vector<TopicSelection>& selections, int64_t olderThanMs,
                                 Outcome& outcome) {
  std::vector<ProducerView> open = listProducers(client, selections, outcome);
  const int64_t now = wallClockMs();
  std::erase_if(open, [&](const ProducerView& producer) {
    return !producer.isOpen() || now - producer.state.lastTimestamp < olderThanMs;
  });
  if (open.empty()) return {};
  wire::ListTransactionsRequest filter;
  std::set<int64_t> ids;
  for (const ProducerView& producer : open) ids.insert(producer.state.producerId);
  filter.producerIdFilters.assign(ids.begin(), ids.end());
  std::map<int64_t, TransactionView> known;
  for (const ListedTransaction& listed : listTransactions(client, filter))
    if (auto view = findTransaction(client, listed.id)) known[view->producerId] = std::move(*view);
  std::vector<Hanging> hanging;
  for (ProducerView& producer : open) {
    auto found = known.find(producer.state.producerId);
    // A coordinator that has the partition in an open or ending transaction will end it.
    if (found != known.end() && found->second.epoch >= producer.state.producerEpoch &&
        std::binary_search(found->second.partitions.begin(), found->second.partitions.end(), producer.at))
      continue;
    hanging.push_back({std::move(producer), found == known.end() ? "" : found->second.id});
  }
  return hanging;
}

}  // namespace mq::cli

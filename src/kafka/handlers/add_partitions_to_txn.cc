// AddPartitionsToTxn: one transaction up to version 3, from clients; any number from 4 on, from brokers, which may also
// only ask whether the partitions are in it.
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/transaction.h"
#include "wire/add_partitions_to_txn_request.h"
#include "wire/add_partitions_to_txn_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kFencedFrom = 2;
constexpr int16_t kManyFrom = 4;

using Asked = wire::AddPartitionsToTxnRequest;
using Answered = wire::AddPartitionsToTxnResponse;
using TopicResult = Answered::AddPartitionsToTxnTopicResult;
using Errors = std::vector<Error>;

// One error for each partition, in their order.
Co<Errors> addTo(Request& request, coordinator::Transactions::Add add, bool verifyOnly) {
  size_t count = add.partitions.size();
  if (add.id.empty()) co_return Errors(count, Error::invalidRequest);
  // All or none: what does not exist keeps the others out.
  Errors errors;
  bool exist = true;
  for (const auto& [name, partition] : add.partitions) {
    auto topic = request.server.image().topic(name);
    bool exists = topic != nullptr && topic->partition(partition) != nullptr;
    exist = exist && exists;
    errors.push_back(exists ? Error::operationNotAttempted : Error::unknownTopicOrPartition);
  }
  if (!exist) co_return errors;
  std::string id = add.id;
  Error all = Error::none;
  if (verifyOnly) {
    auto verified = co_await atTransaction<Errors>(
        request.server, id, [add = std::move(add)](auto& transactions, const auto&, auto answer, auto& effects) {
          transactions.verify(add, std::move(answer), effects);
        });
    if (verified) co_return std::move(*verified);
    all = verified.failure().error;
  } else {
    auto added = co_await atTransaction<coordinator::Left>(
        request.server, id,
        [add = std::move(add)](auto& transactions, const auto& now, auto answer, auto& effects) mutable {
          transactions.add(std::move(add), now, std::move(answer), effects);
        });
    all = added.errorCode();
  }
  co_return Errors(count, knownFence(all, request.version, kFencedFrom));
}

template <class Topics>
std::vector<TopicPartition> partitionsOf(const Topics& topics) {
  std::vector<TopicPartition> partitions;
  for (const auto& topic : topics)
    for (int32_t partition : topic.partitions) partitions.push_back({topic.name, partition});
  return partitions;
}

template <class Topics>
std::vector<TopicResult> told(const Topics& topics, const Errors& errors) {
  std::vector<TopicResult> results;
  size_t place = 0;
  for (const auto& topic : topics) {
    auto& result = results.emplace_back();
    result.name = topic.name;
    for (int32_t partition : topic.partitions)
      result.resultsByPartition.push_back({.partitionIndex = partition, .partitionErrorCode = errors[place++]});
  }
  return results;
}

}  // namespace

Co<Answered> addPartitionsToTxn(Request& request, Asked asked) {
  Answered response;
  if (request.version < kManyFrom) {
    const auto& topics = asked.v3AndBelowTopics;
    Errors errors = co_await addTo(request,
                                   {.id = asked.v3AndBelowTransactionalId,
                                    .producer = {ProducerId(asked.v3AndBelowProducerId), asked.v3AndBelowProducerEpoch},
                                    .partitions = partitionsOf(topics)},
                                   false);
    response.resultsByTopicV3AndBelow = told(topics, errors);
    co_return response;
  }
  std::vector<Co<Errors>> all;
  for (const auto& transaction : asked.transactions) {
    coordinator::Transactions::Add add{.id = transaction.transactionalId,
                                       .producer = {ProducerId(transaction.producerId), transaction.producerEpoch},
                                       .partitions = partitionsOf(transaction.topics),
                                       .clientVersion = coordinator::kEpochPerTransaction};
    all.push_back(addTo(request, std::move(add), transaction.verifyOnly));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& transaction = asked.transactions[i];
    Errors errors = co_await all[i];
    response.resultsByTransaction.push_back(
        {.transactionalId = transaction.transactionalId, .topicResults = told(transaction.topics, errors)});
  }
  co_return response;
}

}  // namespace mq::kafka

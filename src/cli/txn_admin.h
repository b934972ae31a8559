// What commands ask about transactions: of the coordinators, which know ids and what was decided, and of the leaders of
// partitions, which know what is open there. Works with any broker of Kafka's protocol.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/group_admin.h"
#include "wire/describe_producers_response.h"
#include "wire/list_transactions_request.h"

namespace mq::cli {

struct ListedTransaction {
  std::string id;
  std::string state;  // as Kafka prints it: "Ongoing", "CompleteCommit"
  int64_t producerId = -1;
  int32_t coordinator = -1;
};
// Of all brokers, sorted by id. An age or a pattern that a broker is too old to look at ends the command.
std::vector<ListedTransaction> listTransactions(Client& client, const wire::ListTransactionsRequest& filter);

struct TransactionView {
  std::string id;
  std::string state;
  int64_t producerId = -1;
  int16_t epoch = -1;
  int32_t timeoutMs = 0;
  int64_t startedMs = -1;  // -1: none is open
  int32_t coordinator = -1;
  std::vector<TopicPartition> partitions;
};
std::optional<TransactionView> findTransaction(Client& client, const std::string& id);

// What the leader of a partition knows of a producer.
struct ProducerView {
  TopicPartition at;
  int32_t leader = -1;
  wire::DescribeProducersResponse::ProducerState state;
  bool isOpen() const { return state.currentTxnStartOffset >= 0; }
};
// Of these topics; empty: of all. In order of partition and producer id.
std::vector<ProducerView> listProducers(Client& client, const std::vector<TopicSelection>& selections,
                                        Outcome& outcome);

// The longest that a transaction may be open, by Kafka's default (transaction.max.timeout.ms).
inline constexpr int64_t kHangingAfterSeconds = 900;

// An open transaction on a partition that no coordinator will end.
struct Hanging {
  ProducerView producer;
  std::string id;  // of the producer, where a coordinator still knows it
};
std::vector<Hanging> findHanging(Client& client, const std::vector<TopicSelection>& selections, int64_t olderThanMs,
                                 Outcome& outcome);

}  // namespace mq::cli

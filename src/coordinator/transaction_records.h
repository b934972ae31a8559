// The records of __transaction_state, in Kafka's format: the whole state of one transactional id. Key: int16 type, then
// fields; value: int16 version, then fields; no value forgets the id.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "coordinator/state_machine.h"

namespace mq::coordinator {

// Kafka's numbers. What is not in records: dead is an id that is being forgotten, prepareEpochFence a producer that is
// about to be fenced; here both are done in one step.
enum class TransactionState : int8_t {
  empty = 0,
  ongoing = 1,
  prepareCommit = 2,
  prepareAbort = 3,
  completeCommit = 4,
  completeAbort = 5,
  dead = 6,
  prepareEpochFence = 7,
};
std::string_view nameOf(TransactionState state);  // as Kafka prints it
std::optional<TransactionState> transactionStateOf(std::string_view name);

// From this version of a client's transactions on each one has an epoch of its own (KIP-890).
inline constexpr int16_t kEpochPerTransaction = 2;

struct Transaction {
  ProducerId producer = kNoProducer;
  ProducerId previous = kNoProducer;  // before the last change; equal to producer but right after a change of that
  ProducerId next = kNoProducer;      // set while the last transaction of an exhausted producer id is being ended
  int16_t epoch = -1;
  int32_t timeoutMs = 0;
  TransactionState state = TransactionState::empty;
  std::set<TopicPartition> partitions;
  WallMs updated = kNoTimestamp;
  WallMs started = kNoTimestamp;
  int16_t clientVersion = 0;

  bool isEnding() const { return state == TransactionState::prepareCommit || state == TransactionState::prepareAbort; }
  // No client may be given a higher epoch: that is for fencing this one.
  bool isExhausted() const { return epoch >= INT16_MAX - 1; }
  friend bool operator==(const Transaction&, const Transaction&) = default;
};

LogRecord transactionRecord(std::string_view transactionalId, const Transaction& transaction);
LogRecord transactionTombstone(std::string_view transactionalId);

Result<std::string> readTransactionKey(Bytes key);
Result<Transaction> readTransaction(Bytes value);

}  // namespace mq::coordinator

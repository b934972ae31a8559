#include "coordinator/transaction_records.h"

#include <array>
#include <map>

#include "base/check.h"
#include "wire/codec.h"
#include "wire/transaction_log_key.h"
#include "wire/transaction_log_value.h"

namespace mq::coordinator {
namespace {

constexpr int16_t kValueVersion = 1;
constexpr std::array<std::string_view, 8> kNames = {"Empty",        "Ongoing",          "PrepareCommit",
                                                    "PrepareAbort", "CompleteCommit",   "CompleteAbort",
                                                    "Dead",         "PrepareEpochFence"};

template <class M>
Buffer encoded(const M& message, int16_t prefix, int16_t version) {
  Buffer bytes;
  ByteWriter(bytes).int16(prefix);
  auto done = wire::encode(message, version, bytes);
  MQ_CHECK(done.has_value(), done ? std::string() : done.failure().message);
  return bytes;
}

Buffer keyOf(std::string_view transactionalId) {
  return encoded(wire::TransactionLogKey{.transactionalId = std::string(transactionalId)},
                 wire::TransactionLogKey::kRecordType, 0);
}

}  // namespace

std::string_view nameOf(TransactionState state) { return kNames[static_cast<size_t>(state)]; }

std::optional<TransactionState> transactionStateOf(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<TransactionState>(i);
  return std::nullopt;
}

LogRecord transactionRecord(std::string_view transactionalId, const Transaction& transaction) {
  wire::TransactionLogValue value;
  value.producerId = transaction.producer.value();
  value.previousProducerId = transaction.previous.value();
  value.nextProducerId = transaction.next.value();
  value.producerEpoch = transaction.epoch;
  value.transactionTimeoutMs = transaction.timeoutMs;
  value.transactionStatus = static_cast<int8_t>(transaction.state);
  value.transactionPartitions.reset();
  if (transaction.state != TransactionState::empty) {
    auto& topics = value.transactionPartitions.emplace();
    for (const auto& [topic, partition] : transaction.partitions) {
      if (topics.empty() || topics.back().topic != topic) topics.emplace_back().topic = topic;
      topics.back().partitionIds.push_back(partition);
    }
  }
  value.transactionLastUpdateTimestampMs = transaction.updated.value();
  value.transactionStartTimestampMs = transaction.started.value();
  value.clientTransactionVersion = transaction.clientVersion;
  return {keyOf(transactionalId), encoded(value, kValueVersion, kValueVersion)};
}

LogRecord transactionTombstone(std::string_view transactionalId) { return {keyOf(transactionalId), std::nullopt}; }

Result<std::string> readTransactionKey(Bytes key) {
  ByteReader reader(key);
  int16_t type = reader.int16();
  if (!reader.ok() || type != wire::TransactionLogKey::kRecordType) {
    return failure(Error::invalidRecord, "a key of type {}", type);
  }
  auto read = wire::decode<wire::TransactionLogKey>(reader, 0);
  if (!read) return read.failure();
  return std::move(read->transactionalId);
}

Result<Transaction> readTransaction(Bytes bytes) {
  ByteReader reader(bytes);
  int16_t version = reader.int16();
  using Value = wire::TransactionLogValue;
  if (!reader.ok() || version < Value::kVersionMin || version > Value::kVersionMax) {
    return failure(Error::invalidRecord, "a value of version {}", version);
  }
  auto value = wire::decode<Value>(reader, version);
  if (!value) return value.failure();
  auto last = static_cast<int8_t>(TransactionState::completeAbort);  // the others are in no record
  if (value->transactionStatus < 0 || value->transactionStatus > last) {
    return failure(Error::invalidRecord, "transaction state {}", value->transactionStatus);
  }
  Transaction transaction;
  transaction.producer = ProducerId(value->producerId);
  transaction.previous = ProducerId(value->previousProducerId);
  transaction.next = ProducerId(value->nextProducerId);
  transaction.epoch = value->producerEpoch;
  transaction.timeoutMs = value->transactionTimeoutMs;
  transaction.state = static_cast<TransactionState>(value->transactionStatus);
  if (value->transactionPartitions) {
    for (const auto& topic : *value->transactionPartitions)
      for (int32_t partition : topic.partitionIds) transaction.partitions.insert({topic.topic, partition});
  }
  transaction.updated = WallMs(value->transactionLastUpdateTimestampMs);
  transaction.started = WallMs(value->transactionStartTimestampMs);
  transaction.clientVersion = value->clientTransactionVersion;
  return transaction;
}

}  // namespace mq::coordinator

#include "coordinator/transaction_records.h"

#include <doctest/doctest.h>

#include <map>

#include "coordinator/transactions.h"
#include "golden_records.h"

namespace mq::coordinator {
namespace {

std::vector<Written> kafkasRecords() { return recordsOf("__transaction_state"); }

TEST_CASE("transaction records: what Kafka wrote is read and written again byte for byte") {
  std::map<std::string, int> states;
  for (const Written& written : kafkasRecords()) {
    auto id = readTransactionKey(written.key);
    REQUIRE(id);
    CHECK(*id == written.decoded["key"]["data"]["transactionalId"].get<std::string>());
    if (!written.value) {
      CHECK(transactionTombstone(*id).key == written.key);
      continue;
    }
    auto transaction = readTransaction(*written.value);
    REQUIRE(transaction);
    const Json& says = written.decoded["value"]["data"];
    CHECK(transaction->producer == ProducerId(says["producerId"].get<int64_t>()));
    CHECK(transaction->epoch == says["producerEpoch"].get<int16_t>());
    CHECK(nameOf(transaction->state) == says["transactionStatus"].get<std::string>());
    ++states[std::string(nameOf(transaction->state))];
    LogRecord again = transactionRecord(*id, *transaction);
    CHECK(again.key == written.key);
    CHECK(*readTransaction(*again.value) == *transaction);
    // Of several topics Kafka's order is that of a hash table.
    if (says["transactionPartitions"].size() <= 1)
      CHECK(again.value == written.value);
    else
      CHECK(again.value->size() == written.value->size());
  }
  for (const char* state : {"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"}) {
    CAPTURE(state);
    CHECK(states[state] > 0);
  }
}

class NoOutbox final : public MarkerOutbox {
 public:
  void write(EndedTransaction) override {}
};

TEST_CASE("transaction records: damaged ones are refused or skipped, never followed") {
  TransactionSettings settings;
  Transactions::Counters counters;
  Transactions machine(settings, counters, std::make_unique<NoOutbox>());
  uint64_t damaged = 0;
  for (const Written& written : kafkasRecords()) {
    for (size_t length = 0; length < written.key.size(); ++length)
      CHECK_FALSE(readTransactionKey(Bytes(written.key).first(length)));
    if (!written.value) continue;
    for (size_t length = 0; length < written.value->size(); ++length) {
      CHECK_FALSE(readTransaction(Bytes(*written.value).first(length)));
      machine.apply(written.key, Bytes(*written.value).first(length), 0);
      ++damaged;
    }
  }
  CHECK(counters.unknown == damaged);
  CHECK(machine.figures().ids == 0);
  LogRecord record = transactionRecord("a", {.producer = ProducerId(1), .state = TransactionState::dead});
  CHECK_FALSE(readTransaction(*record.value));  // it is in no log
}

}  // namespace
}  // namespace mq::coordinator

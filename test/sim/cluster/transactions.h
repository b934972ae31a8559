// Transactional producers of both generations (KIP-98, KIP-890), zombies among them, and a reader of committed records;
// and whether what becomes of their transactions fits together:
//
//   atomic       of a transaction all is visible or nothing, and its offsets with it: all after an acknowledged commit,
//                nothing after an abort, after a fence or of a zombie
//   unique       and each record once
//   stable       what a reader of committed records was shown stays visible
//   stable-end   once every time-out has passed, the last stable offset is the end
//
// A violation is thrown as kj::Exception that begins with the check's name.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "workload.h"

namespace mq::sim {

inline constexpr const char* kTransactionTopics[] = {"txn-a", "txn-b"};  // nobody deletes them

class TransactionHistory {
 public:
  enum class Outcome : uint8_t { open, committed, aborted, unknown };
  using Number = size_t;

  Number begin(const std::string& producer);
  void acknowledged(Number transaction, RecordId id);  // it is in the log, visible or not
  void sent(Number transaction, RecordId id);
  void offsetAcknowledged(Number transaction, int64_t offset);  // of the producer's group; ever higher
  void ended(Number transaction, Outcome outcome);
  void seen(RecordId id);  // by a reader of committed records, at any time

  // `visible`: all records that a reader of committed records is shown; `offsets`: what each producer's group has.
  void check(const std::vector<RecordId>& visible, const std::map<std::string, int64_t>& offsets) const;

  std::set<std::string> producers() const;
  uint64_t count(Outcome outcome) const;

 private:
  struct Transaction {
    std::string producer;
    std::vector<RecordId> records;
    std::optional<int64_t> offset;
    Outcome outcome = Outcome::open;
  };
  std::vector<Transaction> transactions_;
  std::map<RecordId, Number> owners_;
  std::set<RecordId> seen_;
};

Co<void> prepareTransactions(Workload& workload);  // makes the topics
Co<void> transactUntilStopped(Workload& workload, TransactionHistory& transactions, std::string name);
Co<void> readCommittedUntilStopped(Workload& workload, TransactionHistory& transactions);
Co<void> checkTransactions(Workload& workload, const TransactionHistory& transactions);

}  // namespace mq::sim

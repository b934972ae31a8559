// Transactions: all transactional ids of one partition of __transaction_state: which producer each belongs to, and how
// far its transaction is. A pure state machine; the runtime gives it time and the log, an outbox takes the markers.
// KIP-98, KIP-360 (recovery), KIP-890 (an epoch per transaction, partitions added by their first batch), KIP-664.
//
//            partitions                EndTxn, time-out, fencing                  every marker is committed
//   empty ───────────────▶ ongoing ────────────────────────────▶ prepareCommit ──────────────────▶ completeCommit
//     ▲                       ▲                                  prepareAbort                      completeAbort
//     └── InitProducerId ─────│──────────────────────────────────────────────────────────────────────│  │
//                             └── partitions ───────────────────────────────────────────────────────────┘
//
// What EndTxn decides is answered once prepareX is committed; from then on nothing can change it: after a restart the
// markers are written again. Each wait ends: an open transaction by its time-out, a prepared one when its markers are
// written, an id by transactional.id.expiration.ms.
//
// Producer ids come from elsewhere: a step that needs one and was given none changes nothing and says so.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/state_machine.h"
#include "coordinator/transaction_records.h"
#include "wire/describe_transactions_response.h"
#include "wire/list_transactions_request.h"
#include "wire/list_transactions_response.h"

namespace mq::coordinator {

struct TransactionSettings {
  Duration timeoutMax = 900s;
  Duration abortEvery = 10s;
  Duration idExpiration = std::chrono::hours(168);
  Duration idExpirationEvery = 3600s;
};

// A transaction whose fate is committed: what its markers say, and where.
struct EndedTransaction {
  std::string transactionalId;
  ProducerEpoch producer;
  bool commits = false;
  int16_t clientVersion = 0;
  std::vector<TopicPartition> partitions;
};

// Writes markers until every one is committed, then has Transactions::complete() called.
class MarkerOutbox {
 public:
  virtual ~MarkerOutbox() = default;
  virtual void write(EndedTransaction ended) = 0;
};

// An answer that names a producer. needsId: nothing was decided; ask again with a fresh producer id.
struct GivenProducer {
  ProducerEpoch producer;
  bool needsId = false;
};

class Transactions final : public StateMachine {
 public:
  // Counts what happened, for the metrics; lives longer than the machine.
  struct Counters {
    uint64_t committed = 0;
    uint64_t aborted = 0;
    uint64_t timedOut = 0;
    uint64_t expired = 0;  // ids
    uint64_t unknown = 0;  // records of the log that were skipped
  };

  Transactions(const TransactionSettings& settings, Counters& counters, std::unique_ptr<MarkerOutbox> outbox)
      : settings_(settings), counters_(counters), outbox_(std::move(outbox)) {}

  struct Init {
    std::string id;
    int32_t timeoutMs = 0;
    std::optional<ProducerEpoch> expected;  // of a producer that wants to go on (KIP-360)
    std::optional<ProducerId> fresh;
  };
  void init(const Init& asked, const Now& now, Answer<GivenProducer> answer, Effects& effects);

  struct Add {
    std::string id;
    ProducerEpoch producer;
    std::vector<TopicPartition> partitions;
    int16_t clientVersion = 0;
  };
  // While the producer's transaction before it is being ended it waits a little. Who is told CONCURRENT_TRANSACTIONS
  // (Kafka does so to clients from before KIP-890) tries again only after a pause longer than most ends take.
  void add(Add asked, const Now& now, Answer<Left> answer, Effects& effects);
  // One error per partition.
  void verify(const Add& asked, Answer<std::vector<Error>> answer, Effects& effects);

  struct End {
    std::string id;
    ProducerEpoch producer;
    bool commits = false;
    int16_t clientVersion = 0;
    std::optional<ProducerId> fresh;
  };
  void end(const End& asked, const Now& now, Answer<GivenProducer> answer, Effects& effects);
  // All markers of the transaction are committed.
  void complete(const std::string& id, const ProducerEpoch& producer, const Now& now, Effects& effects);

  using Described = wire::DescribeTransactionsResponse::TransactionState;
  void describe(const std::string& id, Answer<Described> answer, Effects& effects);
  using Listed = std::vector<wire::ListTransactionsResponse::TransactionState>;
  void list(const wire::ListTransactionsRequest& filter, const Now& now, Answer<Listed> answer, Effects& effects);

  struct Figures {
    size_t ids = 0;
    size_t ongoing = 0;
    size_t ending = 0;
  };
  Figures figures() const { return {entries_.size(), ongoing_.size(), ending_}; }

  void apply(Bytes key, std::optional<Bytes> value, Revision revision) override;
  void loaded(const Now& now) override;
  std::optional<Instant> deadline() const override;
  void expire(const Now& now, Effects& effects) override;

 private:
  struct Waiting {
    Add asked;
    Answer<Left> answer;
    Instant until;
  };
  struct Entry {
    Transaction transaction;
    // What the client was given before its present epoch, if it has asked for that one itself: it may ask again.
    int16_t lastEpoch = -1;
    Revision written = 0;
    std::vector<Waiting> waiting;
  };

  Entry* find(const std::string& id);
  static EndedTransaction endedOf(const std::string& id, const Transaction& transaction);
  static void write(const std::string& id, const Transaction& transaction, Effects& effects);
  // From ongoing (or from nothing, with KIP-890) to prepareX.
  void prepare(const std::string& id, Entry& entry, Transaction next, bool commits, const Now& now, Effects& effects);
  // Whom nobody waits for any more: a newer producer has come, or time is up.
  void fence(const std::string& id, Entry& entry, const Now& now, Effects& effects);
  void recount(const std::string& id, const Transaction& transaction, bool comes);
  void abortTimedOut(const Now& now, Effects& effects);
  void forgetOld(const Now& now, Effects& effects);

  const TransactionSettings& settings_;
  Counters& counters_;
  std::map<std::string, Entry> entries_;
  std::set<std::string> ongoing_;
  size_t ending_ = 0;
  std::set<std::string> waiting_;  // ids whose entries have such
  WallMs loadedAt_ = kNoTimestamp;
  std::optional<Instant> nextAborts_;
  std::optional<Instant> nextForgetting_;
  std::unique_ptr<MarkerOutbox> outbox_;
};

}  // namespace mq::coordinator

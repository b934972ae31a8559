// TransactionCoordinator: the transactional ids of one shard: those in the partitions of __transaction_state that this
// node leads and the shard owns. One per shard. Sees to it that what was decided about a transaction is written to
// every partition it touched.
#pragma once
#include <string_view>
#include <vector>

#include "coordinator/led_partitions.h"
#include "coordinator/marker_writer.h"
#include "coordinator/transactions.h"

namespace mq::coordinator {

inline constexpr std::string_view kTransactionsTopic = "__transaction_state";

class TransactionCoordinator {
 public:
  struct Options {
    NodeId node;
    TransactionSettings settings;
    Duration commitWithin = 5s;
  };

  TransactionCoordinator(Shard& shard, replica::Partitions& partitions, controller::MetadataFeed& feed,
                         Options options);
  KJ_DISALLOW_COPY(TransactionCoordinator);

  // Before the feed brings the first image.
  void connect(CoordinatorNode node) { node_ = std::move(node); }

  // ask(transactions, now, answer, effects) is one step on that partition. NOT_COORDINATOR and
  // COORDINATOR_LOAD_IN_PROGRESS when it is not here, or not yet.
  template <class Response, class Ask>
  kj::Promise<Result<Response>> ask(int32_t partition, Ask ask) {
    return led_.ask<Transactions, Response>(partition, std::move(ask));
  }

  std::vector<int32_t> led() const { return led_.list(); }
  void stop() { led_.stop(); }

  struct Figures : Transactions::Figures {
    size_t loading = 0;
  };
  Figures figures() const;
  const Transactions::Counters& counters() const { return counters_; }

 private:
  const Options options_;
  Transactions::Counters counters_;
  CoordinatorNode node_;
  LedPartitions led_;
};

// Asks the transaction's coordinator, which must be on this node (else NOT_COORDINATOR). From any shard of the node;
// never rejected.
kj::Promise<Result<void>> mayEnterHere(Shard& from, const std::vector<CoordinatorShard>& shards,
                                       const metadata::Image& image, const EntryRequest& request);

}  // namespace mq::coordinator

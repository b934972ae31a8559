// TransactionGate: lets a transaction begin on the partitions of its shard only after the coordinator of that
// transaction, on whichever node it is, was asked: so that nothing is ever open that nobody will end (KIP-890). Old
// clients have told the coordinator of the partition before, which is verified; of new ones the first batch tells it.
//
// The batches of one producer for one partition are let in in the order in which they came, also while the first one
// waits for the answer. One per shard.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/marker_writer.h"

namespace mq::coordinator {

class TransactionGate {
 public:
  TransactionGate(Shard& shard, replica::Partitions& partitions, controller::MetadataFeed& feed)
      : shard_(shard), partitions_(partitions), feed_(feed), tasks_(shard.log(), "transaction-gate-failed") {}
  ~TransactionGate() { stop(); }
  KJ_DISALLOW_COPY(TransactionGate);

  // Before the feed brings the first image.
  void connect(CoordinatorNode node) { node_ = std::move(node); }

  struct Asked {
    TopicIdPartition id;
    std::string topic;
    std::string transactionalId;
    ProducerEpoch producer;
    bool adds = false;            // the partition; else it must have been added
    bool knowsAbortable = false;  // the client knows TRANSACTION_ABORTABLE
  };

  // Partition::append for a batch of a transaction. The bytes live until it has resolved. Where the coordinator cannot
  // tell yet: NOT_ENOUGH_REPLICAS, on which every client tries again.
  kj::Promise<Result<replica::Produced>> append(Asked asked, MutableBytes batch, replica::Acks acks,
                                                std::vector<record::RecordError>* recordErrors);

  // write(guard) in the turn in which a batch of the transaction would be taken.
  template <class Answered, class Write>
  Co<Result<Answered>> enter(Asked asked, Write write) {
    auto guard = co_await admit(asked);
    if (!guard) co_return guard.failure();
    replica::Partition* partition = partitions_.find(asked.id);
    if (partition == nullptr) co_return partitions_.whyMissing(asked.id);
    bool isOpen = partition->admitsTransaction(asked.producer.id, asked.producer.epoch, *guard);
    if (!isOpen) co_return Error::invalidTxnState;
    auto answered = co_await write(*guard);
    if (replica::Partition* there = partitions_.find(asked.id)) there->dropGuard(asked.producer.id, *guard);
    co_return answered;
  }

  // Refuses all who wait and takes nothing any more.
  void stop();

 private:
  using Key = std::pair<TopicIdPartition, ProducerId>;
  struct Waiting {
    Asked asked;
    MutableBytes batch;
    replica::Acks acks;
    std::vector<record::RecordError>* recordErrors;
    kj::Own<kj::PromiseFulfiller<Result<replica::Produced>>> answer;
  };

  // The guard with which the producer's next batch is taken; 0: none is needed.
  Co<Result<uint64_t>> admit(Asked asked);
  kj::Promise<Result<void>> askCoordinator(const Asked& asked);
  Co<void> serve(Key key);
  void append(Waiting waiting, uint64_t guard);

  Shard& shard_;
  replica::Partitions& partitions_;
  controller::MetadataFeed& feed_;
  CoordinatorNode node_;
  std::map<Key, std::deque<Waiting>> lines_;
  bool stopped_ = false;
  Tasks tasks_;  // last
};

}  // namespace mq::coordinator

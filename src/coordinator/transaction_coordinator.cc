#include "coordinator/transaction_coordinator.h"

namespace mq::coordinator {

TransactionCoordinator::TransactionCoordinator(Shard& shard, replica::Partitions& partitions,
                                               controller::MetadataFeed& feed, Options options)
    : options_(std::move(options)),
      led_(shard, partitions, feed, {options_.node, std::string(kTransactionsTopic), options_.commitWithin},
           [this, &shard, &feed](int32_t index, LeaderEpoch epoch) {
             auto done = [this, index](const std::string& id, const ProducerEpoch& producer) {
               led_.step<Transactions>(index, [&](Transactions& transactions, const Now& now, Effects& effects) {
                 transactions.complete(id, producer, now, effects);
               });
             };
             return std::make_unique<Transactions>(options_.settings, counters_,
                                                   std::make_unique<MarkerWriter>(shard, feed, shards_, epoch, done));
           }) {}

TransactionCoordinator::Figures TransactionCoordinator::figures() const {
  Figures sum;
  sum.loading = led_.loading();
  led_.forEachActive<Transactions>([&](const Transactions& transactions) {
    Transactions::Figures one = transactions.figures();
    sum.ids += one.ids;
    sum.ongoing += one.ongoing;
    sum.ending += one.ending;
  });
  return sum;
}

}  // namespace mq::coordinator

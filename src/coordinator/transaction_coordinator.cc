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
                                                   std::make_unique<MarkerWriter>(shard, feed, node_, epoch, done));
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

kj::Promise<Result<void>> mayEnterHere(Shard& from, const std::vector<CoordinatorShard>& shards,
                                       const metadata::Image& image, const EntryRequest& request) {
  metadata::TopicRef topic = image.topic(kTransactionsTopic);
  if (topic == nullptr) return Result<void>(Error::notCoordinator);
  int32_t index = partitionOf(request.transactionalId, topic->partitionCount());
  uint32_t owner = replica::shardOf({topic->id, index}, from.count());
  Transactions::Add add{.id = request.transactionalId,
                        .producer = request.producer,
                        .partitions = {request.partition},
                        .clientVersion = request.adds ? kEpochPerTransaction : int16_t{0}};
  auto call = [there = shards[owner].transactions, index, add = std::move(add),
               adds = request.adds]() mutable -> kj::Promise<Result<void>> {
    if (adds) {
      auto added = there->ask<Left>(
          index, [&](Transactions& transactions, const Now& now, Answer<Left> answer, Effects& effects) {
            transactions.add(std::move(add), now, std::move(answer), effects);
          });
      return added.then([](Result<Left>&& result) { return result ? Result<void>() : Result<void>(result.failure()); });
    }
    using Errors = std::vector<Error>;
    auto verified =
        there->ask<Errors>(index, [&](Transactions& transactions, const Now&, Answer<Errors> answer, Effects& effects) {
          transactions.verify(add, std::move(answer), effects);
        });
    return verified.then([](Result<Errors>&& result) -> Result<void> {
      if (!result) return result.failure();
      if (result->front() != Error::none) return result->front();
      return {};
    });
  };
  return from.call(owner, std::move(call)).catch_([](kj::Exception&& e) {
    return Result<void>(Failure(Error::notCoordinator, describe(e)));
  });
}

}  // namespace mq::coordinator

#include "coordinator/marker_writer.h"

#include <algorithm>

#include "coordinator/group_coordinator.h"
#include "record/builder.h"

namespace mq::coordinator {
namespace {

constexpr Duration kFirstPause = 20ms;
constexpr Duration kLongestPause = 1s;
constexpr Duration kTellAfter = 10s;
constexpr Duration kRemoteWithin = 30s;  // one attempt

kj::Promise<Result<void>> append(Shard& shard, replica::Partition& partition, const TransactionMarker& marker) {
  auto type = marker.commits ? record::ControlType::commit : record::ControlType::abort;
  Buffer batch =
      record::endTxnMarker(type, marker.producer.id, marker.producer.epoch, marker.coordinatorEpoch, shard.wallNow());
  // The log may write from the bytes after the caller is gone, so the shard keeps them.
  auto outcome = kj::newPromiseAndFulfiller<Result<void>>();
  MutableBytes bytes(batch);
  shard.spawn(partition.append(bytes, replica::Acks::all, nullptr, storage::Origin::coordinator)
                  .then([to = kj::mv(outcome.fulfiller)](Result<replica::Produced>&& result) mutable {
                    to->fulfill(result ? Result<void>() : Result<void>(result.failure()));
                  })
                  .attach(std::move(batch)));
  return kj::mv(outcome.promise);
}

// On the shard of the partition.
kj::Promise<Result<void>> writeMarker(Shard& shard, const CoordinatorShard& there, const MarkerRequest& request) {
  const auto& [id, marker, strict] = request;
  replica::Partition* partition = there.partitions->find(id);
  if (partition == nullptr) return Result<void>(there.partitions->whyMissing(id));
  storage::ProducerMarker asked{.producer = marker.producer.id,
                                .epoch = marker.producer.epoch,
                                .coordinatorEpoch = marker.coordinatorEpoch,
                                .aborted = !marker.commits};
  if (auto may = partition->mayEnd(asked, strict); !may) return may;
  if (partition->name().topic != kOffsetsTopic) return append(shard, *partition, marker);
  auto ended = there.groups->ask<Left>(id.partition,
                                       [&marker](Groups& groups, const Now&, Answer<Left> answer, Effects& effects) {
                                         groups.endTransaction(marker, std::move(answer), effects);
                                       });
  return ended.then([](Result<Left>&& result) { return result ? Result<void>() : Result<void>(result.failure()); });
}

}  // namespace

kj::Promise<Result<void>> writeMarkerHere(Shard& from, const std::vector<CoordinatorShard>& shards,
                                          const MarkerRequest& request) {
  uint32_t owner = replica::shardOf(request.partition, from.count());
  return from.call(owner, [there = shards[owner], request](Shard& shard) { return writeMarker(shard, there, request); })
      .catch_([](kj::Exception&& e) { return Result<void>(Failure(Error::kafkaStorageError, describe(e))); });
}

MarkerWriter::MarkerWriter(Shard& shard, controller::MetadataFeed& feed, const CoordinatorNode& node,
                           LeaderEpoch coordinatorEpoch, Done done)
    : shard_(shard),
      feed_(feed),
      node_(node),
      coordinatorEpoch_(coordinatorEpoch),
      done_(std::move(done)),
      tasks_(shard.log(), "marker-failed") {}

void MarkerWriter::write(EndedTransaction ended) { tasks_.add(run(std::move(ended))); }

Co<void> MarkerWriter::run(EndedTransaction ended) {
  std::vector<kj::Promise<void>> partitions;
  for (const TopicPartition& partition : ended.partitions) partitions.push_back(writeUntilDone(ended, partition));
  for (auto& partition : partitions) co_await partition;
  done_(ended.transactionalId, ended.producer);
}

Co<void> MarkerWriter::writeUntilDone(const EndedTransaction& ended, const TopicPartition& partition) {
  const Instant began = shard_.now();
  bool isTold = false;
  for (Duration pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    auto written = co_await tryOnce(ended, partition);
    if (written) co_return;
    const Failure& why = written.failure();
    // The producer has gone on there, or another coordinator writes: what the marker would end is ended.
    if (why.error == Error::invalidProducerEpoch || why.error == Error::transactionCoordinatorFenced) {
      shard_.log().warning("marker-refused", "{}: {} takes no marker of producer {} epoch {}: {}",
                           ended.transactionalId, partition, ended.producer.id, ended.producer.epoch, why.message);
      co_return;
    }
    auto topic = feed_.image()->topic(partition.topic);
    if (topic == nullptr || topic->partition(partition.partition) == nullptr) co_return;  // deleted
    if (!isTold && shard_.now() - began > kTellAfter) {
      isTold = true;
      shard_.log().warning("marker-slow", "{}: {} has no marker yet: {} {}; trying on", ended.transactionalId,
                           partition, why.error, why.message);
    }
    co_await shard_.after(pause);
  }
}

kj::Promise<Result<void>> MarkerWriter::tryOnce(const EndedTransaction& ended, const TopicPartition& partition) {
  auto topic = feed_.image()->topic(partition.topic);
  const metadata::Partition* place = topic == nullptr ? nullptr : topic->partition(partition.partition);
  if (place == nullptr) return Result<void>(Error::unknownTopicOrPartition);
  MarkerRequest request{.partition = {topic->id, partition.partition},
                        .marker = {ended.producer, coordinatorEpoch_.value(), ended.commits},
                        .strict = ended.clientVersion >= kEpochPerTransaction};
  if (place->leader == kNoNode) return Result<void>(Error::leaderNotAvailable);
  if (place->leader == node_.id || node_.others == nullptr) return writeMarkerHere(shard_, node_.shards, request);
  return shard_
      .call(0, [others = node_.others, leader = place->leader,
                request] { return others->writeMarker(leader, request, kRemoteWithin); })
      .catch_([](kj::Exception&& e) { return Result<void>(Failure(Error::networkException, describe(e))); });
}

}  // namespace mq::coordinator

// Produce: each partition's batch is handed to its owner at once, in the order of the request, before the next request
// is parsed; the answer waits for all of them, or with acks=all for the request's time-out.
//
// A batch of a transaction goes through the shard's TransactionGate, which asks the transaction's coordinator first.
//
// The batch is not copied: it goes to disk from the frame it came in. So the frame lives on in Appends until every
// append has ended, also when the client is gone or its time-out has answered.
#include <algorithm>

#include "coordinator/transaction_gate.h"
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "record/batch.h"
#include "wire/produce_request.h"
#include "wire/produce_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kZstdFrom = 7;  // earlier clients cannot read it (KIP-110)

constexpr int16_t kCurrentLeaderFrom = 10;
constexpr int16_t kAbortableFrom = 11;
constexpr int16_t kAddsToTransactionFrom = 12;                 // KIP-890
constexpr std::string_view kAdministrator = "__admin_client";  // as in Kafka: who repairs coordinator state by hand

struct Outcome {
  std::optional<Result<replica::Produced>> result;
  std::vector<record::RecordError> recordErrors;  // the owner's until there is a result
};

// The appends of one request. Belongs to the connection's shard; each append under way holds a reference.
struct Appends : kj::Refcounted {
  Frame frame;
  std::vector<Outcome> outcomes;
  size_t outstanding = 0;
  kj::Own<kj::PromiseFulfiller<void>> settled;

  void settle(size_t place, Result<replica::Produced>&& result) {
    outcomes[place].result = std::move(result);
    if (--outstanding == 0 && settled) settled->fulfill();
  }
};

kj::Promise<Result<replica::Produced>> append(replica::Partitions& partitions, const TopicIdPartition& id,
                                              MutableBytes batch, replica::Acks acks,
                                              std::vector<record::RecordError>* recordErrors) {
  if (replica::Partition* partition = partitions.find(id)) return partition->append(batch, acks, recordErrors);
  return Result<replica::Produced>(partitions.whyMissing(id));
}

// What can be told from the header alone; none: hand it on.
Failure refusal(Bytes batch, int16_t version) {
  if (batch.empty()) return {Error::invalidRecord, "the request carries no records for the partition"};
  if (batch.size() < record::Layout::kHeaderBytes) return Error::none;  // the log says what is wrong
  record::BatchView view(batch);
  if (view.magic() != record::kMagic) return Error::none;
  if (version < kZstdFrom && view.codec() == record::Codec::zstd) {
    return {Error::unsupportedCompressionType, "zstd needs Produce version 7"};
  }
  return Error::none;
}

// Of all batches of a request. Set once for it.
struct Transactional {
  std::string id;
  bool adds = false;
  bool knowsAbortable = false;
};

bool isTransactional(Bytes batch) {
  return batch.size() >= record::Layout::kHeaderBytes && record::BatchView(batch).magic() == record::kMagic &&
         record::BatchView(batch).isTransactional() && record::BatchView(batch).hasProducerId();
}

kj::Promise<Result<replica::Produced>> appendInTransaction(Server& server, const Transactional& transaction,
                                                           const TopicIdPartition& id, const std::string& topic,
                                                           MutableBytes batch, replica::Acks acks,
                                                           std::vector<record::RecordError>* recordErrors) {
  record::BatchView view(batch);
  coordinator::TransactionGate::Asked asked{.id = id,
                                            .topic = topic,
                                            .transactionalId = transaction.id,
                                            .producer = {view.producerId(), view.producerEpoch()},
                                            .adds = transaction.adds,
                                            .knowsAbortable = transaction.knowsAbortable};
  uint32_t owner = server.shardOf(id);
  coordinator::TransactionGate& gate = server.gateOf(owner);
  if (owner == server.shard().index()) return gate.append(std::move(asked), batch, acks, recordErrors);
  return server.shard().call(owner, [&gate, asked = std::move(asked), batch, acks, recordErrors]() mutable {
    return gate.append(std::move(asked), batch, acks, recordErrors);
  });
}

void start(Request& request, kj::Own<Appends>& appends, size_t place, const TopicIdPartition& id,
           const std::string& topic, MutableBytes batch, replica::Acks acks, const Transactional& transaction) {
  Server& server = request.server;
  ++appends->outstanding;
  auto* recordErrors = &appends->outcomes[place].recordErrors;
  auto promise = isTransactional(batch)
                     ? appendInTransaction(server, transaction, id, topic, batch, acks, recordErrors)
                     : atOwner(server, id, [id, batch, acks, recordErrors](replica::Partitions& partitions) {
                         return append(partitions, id, batch, acks, recordErrors);
                       });
  auto held = kj::addRef(*appends);
  Appends& state = *held;
  server.tasks().add(
      promise
          .then([&state, place](Result<replica::Produced>&& result) { state.settle(place, std::move(result)); },
                [&state, place](kj::Exception&& e) {
                  state.settle(place, Failure(Error::kafkaStorageError, describe(e)));
                })
          .attach(kj::mv(held)));
}

// What is wrong with the transactional batches of a request taken together; none: nothing.
Failure refusedTransaction(const wire::ProduceRequest& asked) {
  std::optional<coordinator::ProducerEpoch> one;
  for (const auto& topic : asked.topicData) {
    for (const auto& part : topic.partitionData) {
      Bytes batch = part.records ? part.records->view() : Bytes();
      if (!isTransactional(batch)) continue;
      if (!asked.transactionalId)
        return {Error::transactionalIdAuthorizationFailed, "a batch of a transaction, but no transactional id"};
      record::BatchView view(batch);
      coordinator::ProducerEpoch producer{view.producerId(), view.producerEpoch()};
      if (one && *one != producer)
        return {Error::invalidProducerIdMapping, "transactional batches of more than one producer"};
      one = producer;
    }
  }
  return Error::none;
}

void fill(wire::ProduceResponse::PartitionProduceResponse& into, const Failure& failure) {
  into.errorCode = failure.error;
  into.baseOffset = -1;
  if (!failure.message.empty()) into.errorMessage = failure.message;
}

void fill(Request& request, const TopicIdPartition& id, wire::ProduceResponse::PartitionProduceResponse& into,
          Outcome& outcome) {
  const Result<replica::Produced>& result = *outcome.result;
  if (result) {
    into.baseOffset = result->baseOffset.value();
    into.logAppendTimeMs = result->logAppendTime.value();
    into.logStartOffset = result->logStart.value();
    return;
  }
  fill(into, result.failure());
  for (record::RecordError& record : outcome.recordErrors) {
    into.recordErrors.push_back({.batchIndex = record.index, .batchIndexErrorMessage = std::move(record.message)});
  }
  if (result.failure().error == Error::notLeaderOrFollower && request.version >= kCurrentLeaderFrom) {
    if (const auto* partition = request.server.image().partition(id)) {
      into.currentLeader = {.leaderId = partition->leader.value(), .leaderEpoch = partition->leaderEpoch.value()};
    }
  }
}

Response answer(Request& request, int16_t acks, wire::ProduceResponse& response) {
  Error first = Error::none;
  for (const auto& topic : response.responses) {
    for (const auto& partition : topic.partitionResponses) {
      if (partition.errorCode != Error::none && first == Error::none) first = partition.errorCode;
    }
  }
  if (first != Error::none) request.server.metrics(request.api).errors.add();
  if (acks != 0) return respond(request, response);
  if (first == Error::none) return {};
  return Response::close(
      fmt::format("sent a Produce with acks=0 that failed with {}, which only a close can tell it", first));
}

Co<Response> whenSettled(Request& request, kj::Promise<void> settled, kj::Own<Appends> appends,
                         std::vector<TopicIdPartition> ids, int16_t acks, int32_t timeoutMs,
                         wire::ProduceResponse response) {
  if (acks == -1) {
    auto limit = std::chrono::milliseconds(std::max(timeoutMs, 0));
    co_await settled.exclusiveJoin(request.server.shard().after(limit));
  } else {
    co_await settled;
  }
  size_t place = 0;
  for (auto& topic : response.responses) {
    for (auto& partition : topic.partitionResponses) {
      Outcome& outcome = appends->outcomes[place];
      if (partition.errorCode != Error::none) {
        // refused before it was handed on
      } else if (outcome.result) {
        fill(request, ids[place], partition, outcome);
      } else {
        fill(partition, {Error::requestTimedOut, "written, but not acknowledged within the request's time-out"});
      }
      ++place;
    }
  }
  appends->settled = nullptr;
  co_return answer(request, acks, response);
}

}  // namespace

kj::Promise<Response> produce(Request& request, wire::ProduceRequest asked) {
  Server& server = request.server;
  bool byId = request.version >= 13;
  bool acksValid = asked.acks >= -1 && asked.acks <= 1;

  size_t count = 0;
  for (const auto& topic : asked.topicData) count += topic.partitionData.size();
  auto appends = kj::refcounted<Appends>();
  appends->frame = request.frame;
  appends->outcomes.resize(count);
  std::vector<TopicIdPartition> ids(count);

  const Failure outside = refusedTransaction(asked);
  const Transactional transaction{.id = asked.transactionalId.value_or(""),
                                  .adds = request.version >= kAddsToTransactionFrom,
                                  .knowsAbortable = request.version >= kAbortableFrom};

  wire::ProduceResponse response;
  response.responses.reserve(asked.topicData.size());
  size_t place = 0;
  for (auto& topic : asked.topicData) {
    metadata::TopicRef known = byId ? server.image().topic(topic.topicId) : server.image().topic(topic.name);
    auto& answered = response.responses.emplace_back();
    answered.name = std::move(topic.name);
    answered.topicId = topic.topicId;
    answered.partitionResponses.resize(topic.partitionData.size());
    for (size_t i = 0; i < topic.partitionData.size(); ++i, ++place) {
      const auto& part = topic.partitionData[i];
      auto& into = answered.partitionResponses[i];
      into.index = part.index;
      if (!acksValid) {
        fill(into, Error::invalidRequiredAcks);
        continue;
      }
      if (outside.error != Error::none) {
        fill(into, outside);
        continue;
      }
      auto found = locate(known.get(), part.index, byId ? Error::unknownTopicId : Error::unknownTopicOrPartition);
      if (found.error != Error::none) {
        fill(into, found.error);
        continue;
      }
      if (known && isInternal(known->name) && request.session.clientId != kAdministrator) {
        fill(into, {Error::invalidTopicException, "the records of this topic are the coordinators' own"});
        continue;
      }
      Bytes view = part.records ? part.records->view() : Bytes();
      if (auto refused = refusal(view, request.version); refused.error != Error::none) {
        fill(into, refused);
        continue;
      }
      ids[place] = found.id;
      // The view lies in our own frame, which nobody else reads.
      MutableBytes batch =
          request.frame.bytes.subspan(static_cast<size_t>(view.data() - request.frame.bytes.data()), view.size());
      start(request, appends, place, found.id, known->name, batch, static_cast<replica::Acks>(asked.acks), transaction);
    }
  }
  if (appends->outstanding == 0) return answer(request, asked.acks, response);

  auto paf = kj::newPromiseAndFulfiller<void>();
  appends->settled = kj::mv(paf.fulfiller);
  return whenSettled(request, kj::mv(paf.promise), kj::mv(appends), std::move(ids), asked.acks, asked.timeoutMs,
                     std::move(response));
}

}  // namespace mq::kafka

#include "peer/coordinator_messages.h"

#include <kj/debug.h>

#include "base/bytes.h"

namespace mq::peer {
namespace {

kj::StringPtr asText(const std::string& text) { return {text.c_str(), text.size()}; }
std::string asString(capnp::Text::Reader text) { return std::string(text.begin(), text.size()); }

int32_t partitionIn(int32_t value) {
  KJ_REQUIRE(value >= 0, "a partition that is none", value);
  return value;
}

template <class Builder>
void writeProducer(Builder into, const coordinator::ProducerEpoch& producer) {
  into.setProducer(producer.id.value());
  into.setProducerEpoch(producer.epoch);
}
template <class Reader>
coordinator::ProducerEpoch readProducer(Reader from) {
  return {.id = ProducerId(from.getProducer()), .epoch = from.getProducerEpoch()};
}

}  // namespace

void write(schema::MarkerRequest::Builder into, const coordinator::MarkerRequest& request) {
  const TopicIdPartition& id = request.partition;
  into.setTopicHigh(loadBigEndian<uint64_t>(id.topic.bytes.data()));
  into.setTopicLow(loadBigEndian<uint64_t>(id.topic.bytes.data() + 8));
  into.setPartition(id.partition);
  writeProducer(into, request.marker.producer);
  into.setCoordinatorEpoch(request.marker.coordinatorEpoch);
  into.setCommits(request.marker.commits);
  into.setStrict(request.strict);
}

coordinator::MarkerRequest read(schema::MarkerRequest::Reader request) {
  KJ_REQUIRE(request.getCoordinatorEpoch() >= 0, "a coordinator epoch that is none", request.getCoordinatorEpoch());
  return {.partition = {Uuid::fromHalves(request.getTopicHigh(), request.getTopicLow()),
                        partitionIn(request.getPartition())},
          .marker = {.producer = readProducer(request),
                     .coordinatorEpoch = request.getCoordinatorEpoch(),
                     .commits = request.getCommits()},
          .strict = request.getStrict()};
}

void write(schema::EntryRequest::Builder into, const coordinator::EntryRequest& request) {
  into.setTransactionalId(asText(request.transactionalId));
  writeProducer(into, request.producer);
  into.setTopic(asText(request.partition.topic));
  into.setPartition(request.partition.partition);
  into.setAdds(request.adds);
}

coordinator::EntryRequest read(schema::EntryRequest::Reader request) {
  return {.transactionalId = asString(request.getTransactionalId()),
          .producer = readProducer(request),
          .partition = {asString(request.getTopic()), partitionIn(request.getPartition())},
          .adds = request.getAdds()};
}

}  // namespace mq::peer

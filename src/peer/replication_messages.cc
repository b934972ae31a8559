#include "peer/replication_messages.h"

#include <kj/debug.h>

#include <algorithm>

namespace mq::peer {
namespace {

constexpr unsigned kItemsMax = 1 << 20;  // of one list

template <class Builder>
void writeId(Builder into, const TopicIdPartition& id) {
  into.setTopicHigh(loadBigEndian<uint64_t>(id.topic.bytes.data()));
  into.setTopicLow(loadBigEndian<uint64_t>(id.topic.bytes.data() + 8));
  into.setPartition(id.partition);
}
template <class Reader>
TopicIdPartition readId(Reader from) {
  KJ_REQUIRE(from.getPartition() >= 0, "a partition that is none", from.getPartition());
  return {.topic = Uuid::fromHalves(from.getTopicHigh(), from.getTopicLow()), .partition = from.getPartition()};
}

Offset offsetAtLeast(int64_t least, int64_t value) {
  KJ_REQUIRE(value >= least, "an offset that is none", value);
  return Offset(value);
}
LeaderEpoch epochOf(int32_t value) {
  KJ_REQUIRE(value >= -1, "a leader epoch that is none", value);
  return LeaderEpoch(value);
}

template <class List>
unsigned checkedSize(const List& list) {
  KJ_REQUIRE(list.size() <= kItemsMax, "a list of too many items", list.size());
  return static_cast<unsigned>(list.size());
}

}  // namespace

void write(schema::FollowRequest::Builder into, const replica::FollowRequest& request) {
  auto places = into.initPlaces(checkedSize(request.places));
  for (unsigned i = 0; i < places.size(); ++i) {
    const replica::FollowPlace& place = request.places[i];
    writeId(places[i], place.id);
    places[i].setLeaderEpoch(place.leaderEpoch.value());
    places[i].setFrom(place.from.value());
    places[i].setLastEpoch(place.lastEpoch.value());
    places[i].setDurable(place.durable.value());
    places[i].setLogStart(place.logStart.value());
  }
  auto dropped = into.initDropped(checkedSize(request.dropped));
  for (unsigned i = 0; i < dropped.size(); ++i) writeId(dropped[i], request.dropped[i]);
  into.setBytesMax(request.bytesMax);
  into.setAtMostUs(static_cast<uint64_t>(std::max<int64_t>(0, request.atMost / 1us)));
}

replica::FollowRequest read(schema::FollowRequest::Reader request) {
  replica::FollowRequest result;
  result.places.reserve(checkedSize(request.getPlaces()));
  for (auto place : request.getPlaces()) {
    result.places.push_back({.id = readId(place),
                             .leaderEpoch = epochOf(place.getLeaderEpoch()),
                             .from = offsetAtLeast(0, place.getFrom()),
                             .lastEpoch = epochOf(place.getLastEpoch()),
                             .durable = offsetAtLeast(0, place.getDurable()),
                             .logStart = offsetAtLeast(0, place.getLogStart())});
  }
  result.dropped.reserve(checkedSize(request.getDropped()));
  for (auto dropped : request.getDropped()) result.dropped.push_back(readId(dropped));
  result.bytesMax = std::min(request.getBytesMax(), kFollowBytesMax);
  result.atMost = std::chrono::microseconds(std::min<uint64_t>(request.getAtMostUs(), kFollowMax / 1us));
  return result;
}

void write(schema::Followed::Builder into, const replica::Followed& followed) {
  writeId(into, followed.id);
  into.setError(static_cast<int16_t>(followed.error));
  into.setLeaderEpoch(followed.leaderEpoch.value());
  into.setHighWatermark(followed.highWatermark.value());
  into.setLogStart(followed.logStart.value());
  into.setDivergingEpoch(followed.diverging.epoch.value());
  into.setDivergingEnd(followed.diverging.end.value());
}

std::vector<replica::Followed> read(schema::FollowResponse::Reader response) {
  std::vector<replica::Followed> result;
  result.reserve(checkedSize(response.getPartitions()));
  for (auto from : response.getPartitions()) {
    auto bytes = from.getBytes();
    replica::Followed& followed = result.emplace_back();
    followed.id = readId(from);
    // One that a newer node has is an error all the same.
    followed.error = isKnownError(from.getError()) ? static_cast<Error>(from.getError()) : Error::unknownServerError;
    followed.leaderEpoch = epochOf(from.getLeaderEpoch());
    followed.highWatermark = offsetAtLeast(-1, from.getHighWatermark());
    followed.logStart = offsetAtLeast(-1, from.getLogStart());
    followed.diverging = {epochOf(from.getDivergingEpoch()), offsetAtLeast(-1, from.getDivergingEnd())};
    // Const is only the reader's view of the memory: a message that was received lies in an array of its own.
    followed.bytes = {const_cast<uint8_t*>(bytes.begin()), bytes.size()};
  }
  return result;
}

void write(capnp::List<schema::DurableReport>::Builder into, const std::vector<replica::DurableReport>& reports) {
  for (unsigned i = 0; i < into.size(); ++i) {
    writeId(into[i], reports[i].id);
    into[i].setLeaderEpoch(reports[i].leaderEpoch.value());
    into[i].setDurable(reports[i].durable.value());
    into[i].setLogStart(reports[i].logStart.value());
  }
}

std::vector<replica::DurableReport> read(capnp::List<schema::DurableReport>::Reader reports) {
  std::vector<replica::DurableReport> result;
  result.reserve(checkedSize(reports));
  for (auto report : reports) {
    result.push_back({.id = readId(report),
                      .leaderEpoch = epochOf(report.getLeaderEpoch()),
                      .durable = offsetAtLeast(-1, report.getDurable()),
                      .logStart = offsetAtLeast(0, report.getLogStart())});
  }
  return result;
}

}  // namespace mq::peer

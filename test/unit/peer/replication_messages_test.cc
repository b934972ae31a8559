#include "peer/replication_messages.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <doctest/doctest.h>

#include "base/random.h"

using namespace mq;
using namespace mq::peer;

namespace {

struct Samples {
  Prng random;
  int64_t offset() { return static_cast<int64_t>(random.next() >> random.between(2, 63)); }
  int32_t small() { return static_cast<int32_t>(random.below(1000)); }
  LeaderEpoch epoch() { return LeaderEpoch(small() - 1); }
  TopicIdPartition id() { return {Uuid::random(random.next(), random.next()), small()}; }
  replica::FollowRequest request() {
    replica::FollowRequest request{.places = {},
                                   .dropped = {},
                                   .bytesMax = static_cast<uint32_t>(random.below(kFollowBytesMax + 1)),
                                   .atMost = std::chrono::microseconds(random.below(1'000'000))};
    for (uint64_t i = random.below(20); i-- > 0;) {
      request.places.push_back({.id = id(),
                                .leaderEpoch = epoch(),
                                .from = Offset(offset()),
                                .lastEpoch = epoch(),
                                .durable = Offset(offset()),
                                .logStart = Offset(offset())});
    }
    for (uint64_t i = random.below(5); i-- > 0;) request.dropped.push_back(id());
    return request;
  }
  replica::Followed followed() {
    return {.id = id(),
            .error = random.chance(1, 2) ? Error::none : Error::fencedLeaderEpoch,
            .leaderEpoch = epoch(),
            .highWatermark = Offset(offset()),
            .logStart = Offset(random.chance(1, 2) ? -1 : offset()),
            .diverging = {epoch(), Offset(random.chance(1, 2) ? -1 : offset())}};
  }
};

}  // namespace

TEST_CASE("replication messages: every kind survives the way") {
  Samples samples{Prng(1)};
  for (size_t i = 0; i < 1000; ++i) {
    capnp::MallocMessageBuilder builder;
    replica::FollowRequest request = samples.request();
    auto into = builder.initRoot<schema::FollowRequest>();
    write(into, request);
    replica::FollowRequest got = read(into.asReader());
    REQUIRE(got.places.size() == request.places.size());
    for (size_t p = 0; p < got.places.size(); ++p) {
      REQUIRE(got.places[p].id == request.places[p].id);
      REQUIRE(got.places[p].leaderEpoch == request.places[p].leaderEpoch);
      REQUIRE(got.places[p].from == request.places[p].from);
      REQUIRE(got.places[p].lastEpoch == request.places[p].lastEpoch);
      REQUIRE(got.places[p].durable == request.places[p].durable);
      REQUIRE(got.places[p].logStart == request.places[p].logStart);
    }
    REQUIRE(got.dropped == request.dropped);
    REQUIRE(got.bytesMax == request.bytesMax);
    REQUIRE(got.atMost == request.atMost);

    capnp::MallocMessageBuilder second;
    std::vector<replica::Followed> sent;
    for (uint64_t n = samples.random.below(10); n-- > 0;) sent.push_back(samples.followed());
    auto response = second.initRoot<schema::FollowResponse>();
    auto partitions = response.initPartitions(static_cast<unsigned>(sent.size()));
    for (unsigned p = 0; p < partitions.size(); ++p) {
      write(partitions[p], sent[p]);
      if (p % 2 == 0) partitions[p].initBytes(p + 1)[p] = static_cast<uint8_t>(p);
    }
    std::vector<replica::Followed> arrived = read(response.asReader());
    REQUIRE(arrived.size() == sent.size());
    for (size_t p = 0; p < sent.size(); ++p) {
      REQUIRE(arrived[p].id == sent[p].id);
      REQUIRE(arrived[p].error == sent[p].error);
      REQUIRE(arrived[p].leaderEpoch == sent[p].leaderEpoch);
      REQUIRE(arrived[p].highWatermark == sent[p].highWatermark);
      REQUIRE(arrived[p].logStart == sent[p].logStart);
      REQUIRE(arrived[p].diverging.epoch == sent[p].diverging.epoch);
      REQUIRE(arrived[p].diverging.end == sent[p].diverging.end);
      REQUIRE(arrived[p].bytes.size() == (p % 2 == 0 ? p + 1 : 0));
      if (p % 2 == 0) REQUIRE(arrived[p].bytes[p] == static_cast<uint8_t>(p));
    }

    capnp::MallocMessageBuilder third;
    std::vector<replica::DurableReport> reports = {{samples.id(), samples.epoch(), Offset(samples.offset())}};
    auto list = third.initRoot<capnp::AnyPointer>().initAs<capnp::List<schema::DurableReport>>(1);
    write(list, reports);
    auto told = read(list.asReader());
    REQUIRE(told.size() == 1);
    REQUIRE(told[0].id == reports[0].id);
    REQUIRE(told[0].leaderEpoch == reports[0].leaderEpoch);
    REQUIRE(told[0].durable == reports[0].durable);
  }
}

TEST_CASE("replication messages: a report that only asks for an answer arrives, and those beside it") {
  const std::vector<replica::DurableReport> reports = {{.id = {Uuid::fromHalves(1, 2), 3}},
                                                       {{Uuid::fromHalves(1, 2), 4}, LeaderEpoch(5), Offset(6)}};
  capnp::MallocMessageBuilder builder;
  auto list = builder.initRoot<capnp::AnyPointer>().initAs<capnp::List<schema::DurableReport>>(2);
  write(list, reports);
  auto told = read(list.asReader());
  REQUIRE(told.size() == 2);
  CHECK(told[0].durable == Offset(-1));
  CHECK(told[0].leaderEpoch == kNoLeaderEpoch);
  CHECK(told[1].durable == Offset(6));
}

TEST_CASE("replication messages: what is asked stays within bounds, what is no message is refused") {
  auto with = [](auto change) {
    capnp::MallocMessageBuilder builder;
    auto request = builder.initRoot<schema::FollowRequest>();
    change(request);
    return read(request.asReader());
  };
  CHECK(with([](auto request) { request.setBytesMax(UINT32_MAX); }).bytesMax == kFollowBytesMax);
  CHECK(with([](auto request) { request.setAtMostUs(UINT64_MAX); }).atMost == kFollowMax);
  CHECK_THROWS_AS(with([](auto request) { request.initPlaces(1)[0].setFrom(-1); }), kj::Exception);
  CHECK_THROWS_AS(with([](auto request) { request.initPlaces(1)[0].setPartition(-1); }), kj::Exception);
  CHECK_THROWS_AS(with([](auto request) { request.initPlaces(1)[0].setLastEpoch(-2); }), kj::Exception);
  CHECK_THROWS_AS(with([](auto request) { request.initDropped(1)[0].setPartition(-1); }), kj::Exception);
}

TEST_CASE("replication messages: changed bytes are a message, or an exception") {
  Samples samples{Prng(2)};
  size_t refused = 0, taken = 0;
  for (size_t i = 0; i < 20'000; ++i) {
    capnp::MallocMessageBuilder builder;
    if (i % 2 == 0) {
      write(builder.initRoot<schema::FollowRequest>(), samples.request());
    } else {
      auto partitions = builder.initRoot<schema::FollowResponse>().initPartitions(3);
      for (auto partition : partitions) {
        write(partition, samples.followed());
        partition.initBytes(static_cast<unsigned>(samples.random.below(100)));
      }
    }
    auto words = capnp::messageToFlatArray(builder);
    auto raw = words.asBytes();
    for (uint64_t changes = samples.random.between(1, 8); changes-- > 0;)
      raw[samples.random.below(raw.size())] = static_cast<uint8_t>(samples.random.next());
    try {
      capnp::FlatArrayMessageReader reader(words, {.traversalLimitInWords = words.size() * 2, .nestingLimit = 16});
      if (i % 2 == 0) {
        read(reader.getRoot<schema::FollowRequest>());
      } else {
        for (auto& followed : read(reader.getRoot<schema::FollowResponse>()))
          for (uint8_t& byte : followed.bytes) byte = 0;  // all of it is ours
      }
      ++taken;
    } catch (const kj::Exception&) {
      ++refused;
    }
  }
  CHECK(taken > 1000);
  CHECK(refused > 1000);
}

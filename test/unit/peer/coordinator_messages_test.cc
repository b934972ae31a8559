#include "peer/coordinator_messages.h"

#include <capnp/message.h>
#include <doctest/doctest.h>

#include "base/random.h"

using namespace mq;
using namespace mq::peer;

TEST_CASE("coordinator messages: every field survives the way") {
  Prng random(1);
  auto flag = [&] { return random.chance(1, 2); };
  auto small = [&] { return static_cast<int32_t>(random.below(1000)); };
  auto producer = [&] {
    return coordinator::ProducerEpoch{ProducerId(static_cast<int64_t>(random.next())),
                                      static_cast<int16_t>(random.next())};
  };
  auto text = [&] {
    std::string text(random.below(300), ' ');
    for (char& c : text) c = static_cast<char>(random.next());
    return text;
  };
  for (int i = 0; i < 1000; ++i) {
    coordinator::MarkerRequest marker{
        .partition = {Uuid::random(random.next(), random.next()), small()},
        .marker = {.producer = producer(), .coordinatorEpoch = small(), .commits = flag()},
        .strict = flag()};
    capnp::MallocMessageBuilder first;
    auto into = first.initRoot<schema::MarkerRequest>();
    write(into, marker);
    coordinator::MarkerRequest got = read(into.asReader());
    REQUIRE(got.partition == marker.partition);
    REQUIRE(got.marker.producer == marker.marker.producer);
    REQUIRE(got.marker.coordinatorEpoch == marker.marker.coordinatorEpoch);
    REQUIRE(got.marker.commits == marker.marker.commits);
    REQUIRE(got.strict == marker.strict);

    coordinator::EntryRequest entry{
        .transactionalId = text(), .producer = producer(), .partition = {text(), small()}, .adds = flag()};
    capnp::MallocMessageBuilder second;
    auto entryInto = second.initRoot<schema::EntryRequest>();
    write(entryInto, entry);
    coordinator::EntryRequest gotEntry = read(entryInto.asReader());
    REQUIRE(gotEntry.transactionalId == entry.transactionalId);
    REQUIRE(gotEntry.producer == entry.producer);
    REQUIRE(gotEntry.partition == entry.partition);
    REQUIRE(gotEntry.adds == entry.adds);
  }
}

TEST_CASE("coordinator messages: what is out of its range is no message") {
  capnp::MallocMessageBuilder builder;
  auto marker = builder.initRoot<schema::MarkerRequest>();
  CHECK_NOTHROW(read(marker.asReader()));
  marker.setPartition(-1);
  CHECK_THROWS_AS(read(marker.asReader()), kj::Exception);
  marker.setPartition(0);
  marker.setCoordinatorEpoch(-1);
  CHECK_THROWS_AS(read(marker.asReader()), kj::Exception);
  capnp::MallocMessageBuilder second;
  auto entry = second.initRoot<schema::EntryRequest>();
  CHECK_NOTHROW(read(entry.asReader()));
  entry.setPartition(-1);
  CHECK_THROWS_AS(read(entry.asReader()), kj::Exception);
}

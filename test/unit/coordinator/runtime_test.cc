#include "coordinator/runtime.h"

#include "coordinator_site.h"

namespace mq::coordinator {
namespace {

using namespace test;

Co<Error> ask(Site& site, int32_t partition) {
  auto answered =
      co_await site.groups.ask<Left>(partition, [](Groups&, const Now&, Answer<Left> answer, Effects& effects) {
        effects.answer(std::move(answer), Result<Left>());
      });
  co_return answered.errorCode();
}

TEST_CASE("Runtime: a new leader reads what its log holds when that is committed, and others need not wait for it") {
  sim::SimWorld world({.seed = 1});
  const std::string topic(kOffsetsTopic);
  live(world, [&](Site& site) -> Co<void> {
    site.topic(topic, {{.leader = 1}, {.leader = 1}});
    replica::Partition* partition = co_await site.open(topic, 0);
    Buffer batch = batchOf();
    auto appended = co_await partition->append(batch, replica::Acks::all, nullptr, storage::Origin::coordinator);
    CHECK(appended.errorCode() == Error::none);
    co_await site.until([&] { return site.groups.figures().loading == 0; });
  });
  // It comes back as the leader of an ISR of which the other is away: whether the record was committed is not known.
  live(world, [&](Site& site) -> Co<void> {
    Place place{.replicas = {1, 2}, .leader = 1, .leaderEpoch = 1};
    site.topic(topic, {place, {.leader = 1, .leaderEpoch = 1}});
    replica::Partition* partition = co_await site.open(topic, 0);
    CHECK(partition->highWatermark() == Offset(0));
    CHECK(partition->logEnd() == Offset(1));
    co_await site.until([&] { return site.groups.figures().loading == 1; });
    co_await site.shard.after(10s);
    CHECK(co_await ask(site, 0) == Error::coordinatorLoadInProgress);
    CHECK(co_await ask(site, 1) == Error::none);
    CHECK(site.groups.counters().unknown == 0);
    place.isr = {1};
    site.move(topic, 0, place);
    co_await site.until([&] { return site.groups.figures().loading == 0; });
    CHECK(co_await ask(site, 0) == Error::none);
    CHECK(site.groups.counters().unknown == 1);  // our record means nothing to groups, but it was read
    // Another epoch is another life; without leadership there is none.
    place.leaderEpoch = 2;
    site.move(topic, 0, place);
    CHECK(co_await ask(site, 0) == Error::coordinatorLoadInProgress);
    co_await site.until([&] { return site.groups.figures().loading == 0; });
    CHECK(site.groups.counters().unknown == 2);
    site.move(topic, 0, {.replicas = {1, 2}, .leader = 2, .leaderEpoch = 3});
    CHECK(co_await ask(site, 0) == Error::notCoordinator);
    CHECK(co_await ask(site, 1) == Error::none);
  });
}

}  // namespace
}  // namespace mq::coordinator

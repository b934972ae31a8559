#include "kafka/fetch_sessions.h"

#include <doctest/doctest.h>

namespace mq::kafka {
namespace {

constexpr Instant kStart{};

FetchWish wish(std::string topic, int32_t partition, int64_t from = 0) {
  return {.topic = std::move(topic), .partition = partition, .from = Offset(from), .bytesMax = 1 << 20};
}

std::string order(FetchSession& session) {
  std::string text;
  for (const auto& [number, entry] : session.entries()) {
    text += fmt::format("{}{}-{}", text.empty() ? "" : " ", entry.wish.topic, entry.wish.partition);
  }
  return text;
}

TEST_CASE("FetchSessions: epochs go up by one, and wrap to one") {
  Prng random(1);
  FetchSessions sessions(random, 0, 1, 10);
  int32_t id = sessions.create(false, kStart)->id();
  CHECK(sessions.resume(id, 1, false, kStart));
  CHECK(sessions.resume(id, 1, false, kStart).errorCode() == Error::invalidFetchSessionEpoch);
  CHECK(sessions.resume(id, 3, false, kStart).errorCode() == Error::invalidFetchSessionEpoch);
  CHECK(sessions.resume(id, 2, false, kStart));
  CHECK(sessions.resume(id + 1, 1, false, kStart).errorCode() == Error::fetchSessionIdNotFound);

  FetchSession last(1, false);
  while (last.nextEpoch() < 3) last.advance();
  CHECK(last.nextEpoch() == 3);
}

TEST_CASE("FetchSessions: a session speaks of topics by name or by id, not both") {
  Prng random(1);
  FetchSessions sessions(random, 0, 1, 10);
  int32_t id = sessions.create(true, kStart)->id();
  CHECK(sessions.resume(id, 1, false, kStart).errorCode() == Error::fetchSessionTopicIdError);
  CHECK(sessions.resume(id, 1, true, kStart));
}

TEST_CASE("FetchSessions: a second request is refused while the first one is served") {
  Prng random(1);
  FetchSessions sessions(random, 0, 1, 10);
  auto first = sessions.create(false, kStart);
  CHECK(sessions.resume(first->id(), 1, false, kStart).errorCode() == Error::invalidFetchSessionEpoch);
  int32_t id = first->id();
  first = {};
  CHECK(sessions.resume(id, 1, false, kStart));
}

TEST_CASE("FetchSessions: a session that is closed while it is used stays whole for its user") {
  Prng random(1);
  FetchSessions sessions(random, 0, 1, 10);
  auto use = sessions.create(false, kStart);
  use->update(wish("a", 0));
  sessions.close(use->id());
  CHECK(order(*use.operator->()) == "a-0");
  CHECK(sessions.size() == 0);
}

TEST_CASE("FetchSessions: slots are few, and only a session long unused gives its own up") {
  Prng random(1);
  FetchSessions sessions(random, 0, 1, 2);
  int32_t a = sessions.create(false, kStart)->id();
  int32_t b = sessions.create(false, kStart)->id();
  CHECK_FALSE(sessions.create(false, kStart + 1min));
  CHECK(sessions.resume(a, 1, false, kStart + 1min));
  CHECK(sessions.create(false, kStart + FetchSessions::kEvictAfter + 1s));
  CHECK(sessions.resume(a, 2, false, kStart + 1min));
  CHECK(sessions.resume(b, 1, false, kStart).errorCode() == Error::fetchSessionIdNotFound);
}

TEST_CASE("FetchSessions: no slots, no sessions") {
  Prng random(1);
  FetchSessions sessions(random, 0, 1, 0);
  CHECK_FALSE(sessions.create(false, kStart));
}

TEST_CASE("FetchSessions: ids tell the shards apart and are never zero") {
  Prng random(1);
  FetchSessions sessions(random, 2, 4, 1000);
  for (int i = 0; i < 500; ++i) {
    int32_t id = sessions.create(false, kStart)->id();
    CHECK(id > 0);
    CHECK(id % 4 == 2);
  }
}

TEST_CASE("FetchSession: what is added or changed is stale until it is taken, what is forgotten is dropped") {
  FetchSession session(1, false);
  session.update(wish("a", 0));
  session.update(wish("a", 1));
  session.update(wish("b", 0));
  session.update(wish("a", 1, 42));
  CHECK(order(session) == "a-0 a-1 b-0");
  CHECK(std::next(session.entries().begin())->second.wish.from == Offset(42));
  CHECK(session.takeStale() == std::vector<uint64_t>{0, 1, 2});
  CHECK(session.takeStale().empty());
  session.update(wish("a", 1, 43));
  CHECK(session.takeStale() == std::vector<uint64_t>{1});
  TopicIdPartition followed{Uuid::fromHalves(0, 5), 0};
  session.find(2)->followed = followed;
  session.setStale(2);
  session.forget({.topic = "b", .partition = 0});
  session.forget({.topic = "b", .partition = 0});
  session.forget({.topic = "nosuch", .id = Uuid::fromHalves(0, 5), .partition = 7});
  CHECK(order(session) == "a-0 a-1");
  CHECK(session.size() == 2);
  CHECK(session.find(2) == nullptr);
  CHECK(session.takeStale().empty());
  CHECK(session.takeDropped() == std::vector<TopicIdPartition>{followed});
  CHECK(session.takeDropped().empty());
  session.update(wish("b", 0));
  CHECK(order(session) == "a-0 a-1 b-0");
  CHECK(session.takeStale() == std::vector<uint64_t>{3});
  session.setAllStale();
  CHECK(session.takeStale() == std::vector<uint64_t>{0, 1, 3});
}

}  // namespace
}  // namespace mq::kafka

#include "replica/reader.h"

#include <doctest/doctest.h>
#include <kj/async.h>

namespace mq::replica {
namespace {

constexpr int kCount = 10'000;

TopicIdPartition partition(int32_t index) { return {Uuid::fromHalves(0, 7), index}; }

// A shard of partitions, as a reader sees it: where each ends, and how many were looked at.
struct World {
  std::map<TopicIdPartition, int64_t> ends;
  Error error = Error::none;
  size_t looks = 0;

  auto fetcher() {
    return [this](const TopicIdPartition& id, const Fetch& request) {
      ++looks;
      Fetched fetched{.error = error, .highWatermark = Offset(ends[id]), .lastStableOffset = Offset(ends[id] / 2)};
      int64_t end = request.isolation == Isolation::readCommitted ? ends[id] / 2 : ends[id];
      uint64_t there = static_cast<uint64_t>(std::max<int64_t>(end - request.from.value(), 0));  // a byte per offset
      fetched.length = static_cast<uint32_t>(std::min<uint64_t>(there, request.bytesMax));
      if (request.firstBatchWhole) fetched.length = static_cast<uint32_t>(there);
      return fetched;
    };
  }
};

Reader::Place place(int32_t index, int64_t from = 0, Isolation isolation = Isolation::readUncommitted) {
  return {.id = partition(index),
          .tag = static_cast<uint64_t>(index),
          .fetch = {.from = Offset(from), .bytesMax = 1000, .isolation = isolation}};
}

std::vector<uint64_t> tags(const std::vector<Reader::Found>& found) {
  std::vector<uint64_t> list;
  for (const auto& each : found) list.push_back(each.tag);
  return list;
}

TEST_CASE("Reader: a look costs what changed, not what is listed") {
  World world;
  Reader reader;
  for (int i = 0; i < kCount; ++i) reader.name(place(i));
  CHECK(reader.look(1 << 20, world.fetcher()).size() == kCount);
  world.looks = 0;
  CHECK(reader.look(1 << 20, world.fetcher()).empty());
  CHECK(world.looks == 0);

  world.ends[partition(17)] = 5;
  reader.readable(partition(17), 5);
  reader.readable(partition(17), 1);
  reader.changed(partition(4711), false);
  reader.changed(partition(kCount), true);  // not listed
  auto found = reader.look(1 << 20, world.fetcher());
  CHECK(tags(found) == std::vector<uint64_t>{17, 4711});
  CHECK(found[0].fetched.length == 5);
  CHECK(world.looks == 2);
}

TEST_CASE("Reader: what the client has not read yet, or what is wrong, comes again each time") {
  World world;
  Reader reader;
  world.ends[partition(0)] = 5;
  reader.name(place(0));
  for (int i = 0; i < 3; ++i) CHECK(reader.look(1000, world.fetcher()).at(0).fetched.length == 5);
  reader.name(place(0, 5));
  CHECK(reader.look(1000, world.fetcher()).size() == 1);  // named: told once
  CHECK(reader.look(1000, world.fetcher()).empty());

  world.error = Error::notLeaderOrFollower;
  reader.changed(partition(0), true);
  for (int i = 0; i < 3; ++i) CHECK(reader.look(1000, world.fetcher()).at(0).fetched.error == world.error);
  world.error = Error::none;
  CHECK(reader.look(1000, world.fetcher()).size() == 1);
  CHECK(reader.look(1000, world.fetcher()).empty());
}

TEST_CASE("Reader: committed records are what counts for who asks for them") {
  World world;
  Reader reader;
  world.ends[partition(0)] = 10;
  reader.name(place(0, 5, Isolation::readCommitted));
  CHECK(reader.look(1000, world.fetcher()).size() == 1);
  CHECK(reader.look(1000, world.fetcher()).empty());
  reader.name(place(0, 5));
  CHECK(reader.look(1000, world.fetcher()).at(0).fetched.length == 5);
}

TEST_CASE("Reader: within a limit the first batch comes whole, and who was served goes last") {
  World world;
  Reader reader;
  for (int i = 0; i < 3; ++i) {
    world.ends[partition(i)] = 500;
    reader.name(place(i));
  }
  auto lengths = [&] {
    std::vector<uint32_t> list(3);
    for (const auto& each : reader.look(10, world.fetcher())) list[each.tag] = each.fetched.length;
    return list;
  };
  CHECK(lengths() == std::vector<uint32_t>{500, 0, 0});
  reader.serveLast(partition(0));
  CHECK(lengths() == std::vector<uint32_t>{0, 500, 0});
  reader.drop(partition(1));
  CHECK(lengths() == std::vector<uint32_t>{0, 0, 500});
  reader.drop(partition(1));
  reader.serveLast(partition(1));
  CHECK(reader.dueCount() == 2);
  CHECK(reader.size() == 2);
}

TEST_CASE("Reader: a wait ends with enough bytes since the last look, with urgent news, or when it is told to") {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  World world;
  Reader reader;
  reader.name(place(0));
  reader.look(1000, world.fetcher());

  reader.readable(partition(0), 60);  // between the look and the wait
  auto enough = reader.wait(100);
  CHECK_FALSE(enough.poll(scope));
  reader.changed(partition(0), false);
  CHECK_FALSE(enough.poll(scope));
  reader.readable(partition(0), 40);
  CHECK(enough.poll(scope));
  CHECK(reader.wait(100).poll(scope));

  reader.look(1000, world.fetcher());
  auto urgent = reader.wait(100);
  CHECK_FALSE(urgent.poll(scope));
  reader.changed(partition(0), true);
  CHECK(urgent.poll(scope));

  reader.look(1000, world.fetcher());
  auto first = reader.wait(0), second = reader.wait(0);
  CHECK(first.poll(scope));
  CHECK_FALSE(second.poll(scope));
  reader.endWait();
  CHECK(second.poll(scope));
}

}  // namespace
}  // namespace mq::replica

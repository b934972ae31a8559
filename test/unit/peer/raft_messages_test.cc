#include "peer/raft_messages.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <doctest/doctest.h>

#include "base/random.h"

using namespace mq;
using namespace mq::peer;

namespace {

kj::Array<capnp::word> encoded(const raft::Message& message) {
  capnp::MallocMessageBuilder builder;
  write(builder.initRoot<schema::RaftMessage>(), message);
  return capnp::messageToFlatArray(builder);
}

raft::Message decoded(kj::ArrayPtr<const capnp::word> words) {
  capnp::FlatArrayMessageReader reader(words);
  return read(reader.getRoot<schema::RaftMessage>());
}

Buffer bytes(Prng& random, size_t max) {
  Buffer result(random.below(max + 1));
  for (uint8_t& byte : result) byte = static_cast<uint8_t>(random.next());
  return result;
}
int64_t number(Prng& random) { return static_cast<int64_t>(random.next() >> random.between(1, 63)); }
raft::Position position(Prng& random) { return {number(random), number(random)}; }
raft::Replica replica(Prng& random) {
  return {NodeId(static_cast<int32_t>(random.below(100))), Uuid::random(random.next(), random.next())};
}
raft::SnapshotInfo snapshot(Prng& random) {
  raft::SnapshotInfo info{.id = position(random), .bytes = random.next(), .members = {}};
  for (uint64_t i = random.below(8); i-- > 0;)
    info.members.members.push_back({.replica = replica(random), .isVoter = random.chance(1, 2)});
  return info;
}

// One of each kind, in turn.
raft::Message message(Prng& random, size_t kind) {
  raft::Message result{.from = replica(random), .to = replica(random), .term = number(random), .body = {}};
  switch (kind) {
    case 0:
      result.body = raft::VoteRequest{
          .last = position(random), .isPreVote = random.chance(1, 2), .isTransfer = random.chance(1, 2)};
      break;
    case 1: result.body = raft::VoteReply{random.chance(1, 2), random.chance(1, 2)}; break;
    case 2: {
      raft::Append append{.previous = {number(random) / 2, number(random)}, .entries = {}, .commit = number(random)};
      int64_t index = append.previous.index;
      for (uint64_t i = random.below(20); i-- > 0;) {
        append.entries.push_back({.index = ++index,
                                  .term = number(random),
                                  .type = static_cast<raft::EntryType>(random.below(3)),
                                  .data = bytes(random, 300)});
      }
      result.body = std::move(append);
      break;
    }
    case 3: result.body = raft::AppendReply{number(random), random.chance(1, 2), position(random)}; break;
    case 4: result.body = raft::Heartbeat{number(random), number(random)}; break;
    case 5: result.body = raft::HeartbeatReply{number(random)}; break;
    case 6:
      result.body =
          raft::InstallSnapshot{.snapshot = snapshot(random), .offset = random.next(), .chunk = bytes(random, 5000)};
      break;
    case 7: result.body = raft::SnapshotReply{position(random), random.next()}; break;
    case 8: result.body = raft::TimeoutNow{}; break;
    default: result.body = raft::Removed{number(random)}; break;
  }
  return result;
}

constexpr size_t kKinds = std::variant_size_v<decltype(raft::Message::body)>;

}  // namespace

TEST_CASE("raft messages: every kind survives the way") {
  Prng random(1);
  for (size_t i = 0; i < 2000; ++i) {
    raft::Message sent = message(random, i % kKinds);
    kj::Array<capnp::word> words = encoded(sent);
    raft::Message got = decoded(words);
    // Again: equal bytes from what arrived, and nothing that is compared by its text alone.
    kj::Array<capnp::word> again = encoded(got);
    REQUIRE(words.asBytes() == again.asBytes());
    REQUIRE(raft::show(got) == raft::show(sent));
    REQUIRE(got.body.index() == sent.body.index());
    REQUIRE(costOf(got) == costOf(sent));
    // The bound is on what was said to be the cost.
    REQUIRE(words.asBytes().size() <= 2 * costOf(sent) + 1024);
  }
}

TEST_CASE("raft messages: entries and chunks go by the bulk channel, what keeps a leader in office does not") {
  Prng random(2);
  std::vector<size_t> bulk;
  for (size_t kind = 0; kind < kKinds; ++kind)
    if (isBulk(message(random, kind))) bulk.push_back(kind);
  CHECK(bulk == std::vector<size_t>{2, 6});
}

TEST_CASE("raft messages: changed bytes are a message, or an exception; never more memory than they are") {
  Prng random(3);
  size_t refused = 0, taken = 0;
  for (size_t i = 0; i < 20'000; ++i) {
    kj::Array<capnp::word> words = encoded(message(random, i % kKinds));
    auto raw = words.asBytes();
    for (uint64_t changes = random.between(1, 8); changes-- > 0;)
      raw[random.below(raw.size())] = static_cast<uint8_t>(random.next());
    size_t length = random.chance(1, 4) ? random.below(words.size() + 1) : words.size();
    try {
      capnp::FlatArrayMessageReader reader(words.slice(0, length),
                                           {.traversalLimitInWords = words.size() * 2, .nestingLimit = 16});
      raft::Message got = read(reader.getRoot<schema::RaftMessage>());
      // Pointers may share bytes, up to the traversal limit.
      REQUIRE(costOf(got) <= 100 * words.size() * sizeof(capnp::word) + 1000);
      ++taken;
    } catch (const kj::Exception&) {
      ++refused;
    }
  }
  CHECK(taken > 1000);
  CHECK(refused > 1000);
}

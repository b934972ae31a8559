// What text scenarios do not show: any message at all, bounds under load, what a restart knows.
#include "raft/core.h"

#include <doctest/doctest.h>

#include "base/check.h"

using namespace mq;
using namespace mq::raft;

namespace {

Replica replicaOf(int id) { return {NodeId(id), {}}; }

Membership votersOf(int count) {
  Membership membership;
  for (int id = 1; id <= count; ++id) membership.members.push_back({replicaOf(id), true});
  return membership;
}

Options smallOptions() {
  Options options;
  options.entryBytesMax = 200;
  options.batchBytesMax = 600;
  options.windowBytesMax = 2'000;
  options.windowMessagesMax = 4;
  options.uncommittedBytesMax = 5'000;
  options.tailBytesMax = 1'000;
  options.unsyncedBytesMax = 6'000;
  options.writeBytesMax = 700;
  options.applyBytesMax = 500;
  options.snapshotChunkBytes = 50;
  options.snapshotBytesMax = 500;
  options.readsMax = 5;
  return options;
}

// A core whose disk keeps everything at once, unless told to wait.
struct Rig {
  Options options = smallOptions();
  Core core;
  std::vector<Entry> disk;
  Position start;
  std::vector<Message> out;
  std::optional<Write> writing;
  bool isSlow = false;
  Instant now{};

  explicit Rig(int voters)
      : core(options,
             Start{.self = replicaOf(1), .hardState = {}, .snapshot = {.members = votersOf(voters)}, .logStart = {}}, 1,
             Instant()) {}

  void perform(const Write& write) {
    if (write.install) {
      disk.clear();
      start = write.install->snapshot.id;
    }
    if (!write.append.empty()) {
      disk.resize(static_cast<size_t>(write.append.front().index - start.index - 1));
      disk.insert(disk.end(), write.append.begin(), write.append.end());
    }
    core.persisted(write.number);
  }

  void pump() {
    for (Ready ready = core.take(); !ready.isEmpty(); ready = core.take()) {
      for (Message& message : ready.messages) {
        REQUIRE(isSane(message, options));
        out.push_back(std::move(message));
      }
      for (const LogRead& read : ready.reads) {
        auto at = [&](int64_t index) { return disk.begin() + (index - start.index - 1); };
        core.loaded(read,
                    read.from > start.index ? std::vector<Entry>(at(read.from), at(read.end)) : std::vector<Entry>());
      }
      for (const SnapshotRead& read : ready.snapshotReads) core.loaded(read, std::nullopt);
      if (!ready.write) continue;
      if (isSlow)
        writing = std::move(ready.write);
      else
        perform(*ready.write);
    }
  }

  void tick(Duration by) {
    now += by;
    core.tick(now);
    pump();
  }

  void step(int from, int64_t term, auto body) {
    core.step({.from = replicaOf(from), .to = replicaOf(1), .term = term, .body = std::move(body)});
    pump();
  }

  void becomeLeader() {
    tick(core.wakeAt() - now);
    for (int id = 2; id <= 3; ++id) step(id, core.term(), VoteReply{.isPreVote = true, .isGranted = true});
    for (int id = 2; id <= 3; ++id) step(id, core.term(), VoteReply{.isPreVote = false, .isGranted = true});
    MQ_CHECK(core.state() == State::leader);
  }
};

int64_t someNumber(Prng& chance, int64_t near) {
  switch (chance.below(8)) {
    case 0: return static_cast<int64_t>(chance.next());
    case 1: return chance.chance(1, 2) ? -1 : INT64_MAX;
    default: return near + static_cast<int64_t>(chance.below(7)) - 3;
  }
}

// Something like what a replica could say now, with any part of it wrong.
Message someMessage(Prng& chance, const Core& core) {
  int64_t last = core.log().lastIndex();
  auto position = [&] {
    int64_t index = std::max<int64_t>(0, someNumber(chance, chance.chance(1, 2) ? last : core.commitIndex()));
    return Position{
        index, chance.chance(3, 4) ? core.log().termAt(index).value_or(core.term()) : someNumber(chance, core.term())};
  };
  Message message;
  message.from = replicaOf(static_cast<int>(chance.below(5)));
  message.to = replicaOf(chance.chance(1, 20) ? 2 : 1);
  if (chance.chance(1, 20)) message.from.directory = Uuid::fromHalves(1, 1);
  message.term = chance.chance(2, 3) ? core.term() : someNumber(chance, core.term());
  switch (chance.below(10)) {
    case 0: message.body = VoteRequest{position(), chance.chance(1, 2), chance.chance(1, 2)}; break;
    case 1: message.body = VoteReply{chance.chance(1, 2), chance.chance(1, 2)}; break;
    case 2:
    case 3: {
      Append append{.previous = position(), .entries = {}, .commit = someNumber(chance, last)};
      int64_t index = std::min(append.previous.index, INT64_MAX - 10), term = append.previous.term;
      for (uint64_t count = chance.below(5); count > 0; --count) {
        if (chance.chance(1, 3)) term = message.term;
        append.entries.push_back({chance.chance(1, 30) ? someNumber(chance, index) : ++index,
                                  std::max<int64_t>(1, term),
                                  chance.chance(1, 10) ? static_cast<EntryType>(chance.below(4)) : EntryType::records,
                                  Buffer(chance.below(250))});
        if (append.entries.back().type == EntryType::membership && chance.chance(3, 4))
          append.entries.back().data = encodeMembership(votersOf(static_cast<int>(chance.below(5))));
      }
      message.body = std::move(append);
      break;
    }
    case 4: message.body = AppendReply{someNumber(chance, last), chance.chance(1, 2), position()}; break;
    case 5: message.body = Heartbeat{someNumber(chance, core.commitIndex()), someNumber(chance, 2)}; break;
    case 6: message.body = HeartbeatReply{someNumber(chance, 2)}; break;
    case 7: {
      uint64_t bytes = chance.below(120);
      message.body = InstallSnapshot{.snapshot = {position(), bytes, votersOf(static_cast<int>(chance.below(4)))},
                                     .offset = chance.chance(1, 2) ? 0 : chance.below(130),
                                     .chunk = Buffer(chance.below(60))};
      break;
    }
    case 8: message.body = SnapshotReply{position(), chance.below(200)}; break;
    default:
      if (chance.chance(1, 2))
        message.body = TimeoutNow();
      else
        message.body = Removed{someNumber(chance, core.membershipIndex())};
  }
  return message;
}

}  // namespace

TEST_CASE("Any message at all is taken, answered, ignored, or stops the node; nothing outgrows its bound") {
  std::map<std::string, int> ends;
  std::map<State, int> states;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Prng chance(seed);
    Rig rig(static_cast<int>(chance.between(1, 3)));
    const Options& options = rig.options;
    for (int step = 0; step < 400 && !rig.core.stopReason(); ++step) {
      uint64_t what = chance.below(20);
      rig.isSlow = chance.chance(1, 3);
      if (what == 0) rig.tick(rig.core.wakeAt() - rig.now);
      if (what == 1) rig.tick(Duration(chance.below(100'000'000)));
      if (what == 2) (void)rig.core.propose(Buffer(chance.below(250)));
      if (what == 3) (void)rig.core.read(1);
      if (what == 4) (void)rig.core.setMember({replicaOf(static_cast<int>(chance.below(5))), chance.chance(1, 2)});
      if (what == 5) (void)rig.core.transfer(NodeId(static_cast<int32_t>(chance.below(4))));
      if (what == 6 && rig.core.state() != State::leader && chance.chance(1, 2))
        for (int id = 2; id <= 3; ++id)
          for (bool isPreVote : {true, false}) rig.step(id, rig.core.term(), VoteReply{isPreVote, true});
      if (rig.writing && chance.chance(1, 2)) {
        Write write = *std::exchange(rig.writing, std::nullopt);
        if (chance.chance(1, 10))
          rig.core.refused(std::move(write));
        else
          rig.perform(write);
      }
      if (what > 6) rig.core.step(someMessage(chance, rig.core));
      rig.pump();
      rig.out.clear();
      ++states[rig.core.state()];
      REQUIRE(rig.core.log().unsyncedBytes() <= options.unsyncedBytesMax + options.batchBytesMax);
      REQUIRE(rig.core.log().tailBytes() <= options.tailBytesMax + rig.core.log().unsyncedBytes());
      REQUIRE(rig.core.uncommittedBytes() <= options.uncommittedBytesMax + 1'000);
      REQUIRE(rig.core.appliedIndex() <= rig.core.commitIndex());
      REQUIRE(rig.core.commitIndex() <= rig.core.log().lastIndex());
    }
    if (rig.core.stopReason()) ++ends[rig.core.stopReason()->substr(0, 4)];
  }
  CHECK(ends.contains("both"));
  CHECK(ends.contains("node"));
  for (State state : {State::follower, State::preCandidate, State::candidate, State::leader, State::stopped})
    CHECK(states[state] > 100);
}

TEST_CASE(
    "To a follower that does not answer goes one window, however much is proposed, and no more waits than is allowed") {
  Rig rig(3);
  rig.becomeLeader();
  rig.step(2, 1, AppendReply{.index = 1, .isAccepted = true, .hint = {}});
  CHECK(rig.core.commitIndex() == 1);
  rig.out.clear();
  int taken = 0;
  while (taken < 1'000 && rig.core.propose(Buffer(100))) {
    ++taken;
    rig.pump();
  }
  CHECK(taken == 5'000 / 132);
  CHECK(rig.core.propose(Buffer(100)).errorCode() == Error::throttlingQuotaExceeded);
  size_t messages = 0;
  for (const Message& message : rig.out)
    messages += message.to.id == NodeId(2) && std::holds_alternative<Append>(message.body);
  CHECK(messages <= rig.options.windowMessagesMax);
  CHECK(rig.core.progressOf(NodeId(2))->windowBytes() <= rig.options.windowBytesMax + rig.options.batchBytesMax);
  CHECK(rig.core.log().tailBytes() <=
        rig.options.tailBytesMax);  // all on disk: the rest is read back when it is asked for
  rig.step(2, 1, AppendReply{.index = rig.core.log().lastIndex(), .isAccepted = true, .hint = {}});
  CHECK(rig.core.uncommittedBytes() == 0);
  CHECK(rig.core.appliedIndex() == rig.core.log().lastIndex());
  CHECK(rig.core.propose(Buffer(100)));
}

TEST_CASE("A follower whose disk stands still takes no more than it may keep, and goes on when it moves") {
  Rig rig(3);
  rig.isSlow = true;
  int64_t index = 0;
  for (int round = 0; round < 100; ++round) {
    Append append{.previous = {index, index == 0 ? 0 : 1}, .entries = {}, .commit = 0};
    for (int i = 0; i < 3; ++i)
      append.entries.push_back({append.previous.index + i + 1, 1, EntryType::records, Buffer(100)});
    rig.step(2, 1, append);
    index = rig.core.log().lastIndex();
  }
  CHECK(rig.core.log().unsyncedBytes() < rig.options.unsyncedBytesMax + rig.options.batchBytesMax);
  rig.isSlow = false;
  while (rig.writing) {
    rig.perform(*std::exchange(rig.writing, std::nullopt));
    rig.pump();
  }
  CHECK(rig.core.log().unsyncedBytes() == 0);
  auto* last = std::get_if<AppendReply>(&rig.out.back().body);
  REQUIRE(last);
  CHECK(last->index == index);
}

TEST_CASE("Reads under way are bounded, and none is forgotten when leadership ends") {
  Rig rig(3);
  rig.becomeLeader();
  for (ReadId id = 1; id <= 5; ++id) CHECK(rig.core.read(id));
  CHECK(rig.core.read(6).errorCode() == Error::throttlingQuotaExceeded);
  rig.core.step({.from = replicaOf(2), .to = replicaOf(1), .term = 9, .body = Heartbeat{}});
  CHECK(rig.core.take().readsFailed == std::vector<ReadId>{1, 2, 3, 4, 5});
}

TEST_CASE("A new cluster begins with the same first entry on each voter") {
  Entry first = bootstrapEntry(votersOf(1));
  Core core(Options(), {.self = replicaOf(1), .hardState = {.term = 1}, .snapshot = {}, .logStart = {}}, 1, Instant());
  core.restore({first});
  CHECK(core.mayCampaign());
  core.tick(Instant());
  Ready ready = core.take();
  REQUIRE(ready.write);
  CHECK(ready.write->hardState == HardState{2, NodeId(1)});
  core.persisted(ready.write->number);
  CHECK(core.state() == State::leader);
  // Without it there is nobody to ask.
  Core empty(Options(), {.self = replicaOf(1), .hardState = {}, .snapshot = {}, .logStart = {}}, 1, Instant());
  empty.tick(Instant(std::chrono::hours(1)));
  CHECK(!empty.mayCampaign());
  CHECK(empty.state() == State::follower);
}

TEST_CASE("A restart reads the log behind the snapshot, and what lies before it is not taken twice") {
  Membership now = votersOf(2);
  Core core(Options(),
            {.self = replicaOf(1),
             .hardState = {.term = 3},
             .snapshot = {.id = {3, 2}, .bytes = 9, .members = now},
             .logStart = {1, 1}},
            1, Instant());
  core.restore({{2, 1, EntryType::membership, encodeMembership(votersOf(3))}, {3, 2, EntryType::noop, {}}});
  core.restore({{4, 2, EntryType::membership, encodeMembership(votersOf(4))}});
  CHECK(core.commitIndex() == 3);
  CHECK(core.appliedIndex() == 3);
  CHECK(core.log().termAt(1) == 1);
  CHECK(show(core.membership()) == "1 2 3 4");
  CHECK(show(core.membershipAt(3)) == "1 2");
  Core bad(Options(), {.self = replicaOf(1), .hardState = {.term = 3}, .snapshot = {}, .logStart = {}}, 1, Instant());
  bad.restore({{1, 1, EntryType::membership, {9}}});
  CHECK(bad.stopReason() == "entry 1 of the log is no membership");
}

#include "world.h"

#include "base/check.h"

namespace mq::raft::sim {
namespace {

// A snapshot: index and hash of the state machine, and a filling.
Buffer snapshotOf(const Node& node, size_t filling) {
  Buffer data;
  ByteWriter writer(data);
  writer.int64(node.machineIndex);
  writer.int64(static_cast<int64_t>(node.machineChain));
  data.resize(data.size() + filling, static_cast<uint8_t>(node.machineIndex));
  return data;
}

void loadSnapshot(Node& node, const Buffer& data) {
  ByteReader reader(data);
  node.machineIndex = reader.int64();
  node.machineChain = static_cast<uint64_t>(reader.int64());
  MQ_CHECK(reader.ok());
}

}  // namespace

World::World(const RunOptions& options, Settings drawn, Prng random)
    : settings(std::move(drawn)), chance(random), options_(options) {}

void World::at(Instant when, std::function<void()> what) { events_.push({when, ++eventNumber_, std::move(what)}); }

bool World::runUntil(Instant end, const std::function<bool()>& isDone) {
  while (checks.violation().empty() && !events_.empty() && events_.top().when <= end) {
    now_ = events_.top().when;
    auto what = std::move(const_cast<Event&>(events_.top()).what);
    events_.pop();
    what();
    if (isDone && isDone()) return true;
  }
  return false;
}

Duration World::between(Duration low, Duration high) {
  return Duration(chance.between(static_cast<uint64_t>(low.count()), static_cast<uint64_t>(high.count())));
}

Instant World::localNow(const Node& node) const {
  auto passed = static_cast<double>((now_ - node.upSince).count()) * node.clockRate;
  return node.localStart + Duration(static_cast<int64_t>(passed));
}

void World::start(Node& node, const Membership& first) {
  MQ_CHECK(!node.core);
  ++node.life;
  node.upSince = now_;
  node.localStart = Instant(Duration(chance.below(1'000'000'000)));
  node.wakeAt = Instant::max();
  SnapshotInfo snapshot = node.disk.snapshot;
  if (snapshot.id.index == 0) snapshot.members = first;
  node.core = std::make_unique<Core>(
      settings.raft,
      Start{
          .self = node.replica, .hardState = node.disk.hardState, .snapshot = snapshot, .logStart = node.disk.logStart},
      chance.next(), node.localStart);
  node.core->restore(node.disk.log);
  node.machineIndex = 0;
  node.machineChain = 1;
  if (snapshot.id.index > 0) loadSnapshot(node, node.disk.snapshotData);
  node.commitTraced = node.core->commitIndex();
  node.stateTraced = State::follower;
  checks.restarted(node.replica.id);
  trace("{} starts with log {} to {}, term {}", node.replica.id, show(node.disk.logStart),
        show(node.core->log().last()), node.core->term());
  pump(node);
}

void World::crash(Node& node) {
  if (!node.core) return;
  trace("{} crashes", node.replica.id);
  mark(node.disk.isWriting() ? "crash-in-write" : "crash");
  node.core.reset();
  ++node.life;
  node.disk.crash(chance);
  if (options_.lyingDisk && chance.chance(1, 2)) node.disk.forgetLastWrite();
}

void World::with(Node& node, const std::function<void(Core&)>& what) {
  if (!node.core) return;
  node.core->tick(localNow(node));
  what(*node.core);
  pump(node);
}

void World::atNode(Node& node, Duration wait, std::function<void(Core&)> what) {
  after(wait, [this, &node, life = node.life, what = std::move(what)] {
    if (node.life == life) with(node, what);
  });
}

void World::pump(Node& node) {
  checks.look(*node.core, node.replica.id, settings.raft);
  while (true) {
    Ready ready = node.core->take();
    note(node);
    if (ready.isEmpty()) break;
    for (const Message& message : ready.messages) {
      checks.sent(message, settings.raft);
      send(message);
    }
    for (const Entry& entry : ready.apply) {
      if (entry.index != node.machineIndex + 1)
        return checks.broken("node {} applies entry {} after entry {}", node.replica.id, entry.index,
                             node.machineIndex);
      node.machineIndex = entry.index;
      node.machineChain = mix(node.machineChain, mix(hashOf(entry), static_cast<uint64_t>(entry.term))) | 1;
      checks.applied(node.replica.id, entry, node.machineChain);
      if (onApplied) onApplied(node, entry);
    }
    for (ReadId id : ready.readsReady) onRead(node, id, true);
    for (ReadId id : ready.readsFailed) onRead(node, id, false);
    for (const LogRead& read : ready.reads) {
      mark("log-read");
      atNode(node, between(0ms, settings.syncMax),
             [&node, read](Core& core) { core.loaded(read, node.disk.read(read.from, read.end, read.bytesMax)); });
    }
    for (const SnapshotRead& read : ready.snapshotReads) {
      atNode(node, between(0ms, settings.syncMax), [&node, read](Core& core) {
        const Buffer& data = node.disk.snapshotData;
        bool isThere = node.disk.snapshot.id == read.id;
        auto from = data.begin() + static_cast<ptrdiff_t>(isThere ? read.offset : 0);
        core.loaded(read,
                    isThere ? std::optional(Buffer(from, from + static_cast<ptrdiff_t>(read.count))) : std::nullopt);
      });
    }
    if (ready.write) perform(node, std::move(*ready.write));
    checks.look(*node.core, node.replica.id, settings.raft);
  }
  if (node.core->stopReason() && checks.violation().empty())
    return checks.broken("node {} has stopped: {}", node.replica.id, *node.core->stopReason());
  snapshotIfDue(node);
  setWake(node);
}

void World::perform(Node& node, Write write) {
  if (node.disk.isWriting()) return checks.broken("node {} has two writes under way", node.replica.id);
  checks.written(*node.core, write);
  if (!write.append.empty() && write.append.front().index <= node.disk.lastIndex()) mark("suffix-replaced");
  bool isStall = chance.below(1000) < settings.stallPerMille;
  Duration took =
      isStall ? between(0ms, 2 * settings.raft.electionTimeout) : between(settings.syncMin, settings.syncMax);
  bool isInstall = write.install.has_value();
  node.disk.begin(std::move(write));
  atNode(node, took, [this, &node, isInstall](Core& core) {
    if (node.isFull) {
      mark("no-space");
      return core.refused(node.disk.refuse());
    }
    uint64_t number = node.disk.finish();
    if (isInstall) {
      mark("snapshot-installed");
      loadSnapshot(node, node.disk.snapshotData);
      trace("{} has installed snapshot {}", node.replica.id, show(node.disk.snapshot.id));
      checks.installed(node.replica.id, node.machineIndex, node.machineChain);
    }
    core.persisted(number);
  });
}

void World::snapshotIfDue(Node& node) {
  if (node.disk.isWriting() || node.machineIndex - node.disk.snapshot.id.index < settings.snapshotEvery) return;
  // A snapshot that came in is ahead of the state machine until it is written.
  if (node.core->appliedIndex() != node.machineIndex) return;
  Position position{node.machineIndex, node.disk.termAt(node.machineIndex).value()};
  Buffer data = snapshotOf(node, chance.below(settings.snapshotBytesMax));
  SnapshotInfo info{position, data.size(), node.core->membershipAt(position.index)};
  int64_t keep = static_cast<int64_t>(chance.below(static_cast<uint64_t>(settings.keepMax) + 1));
  node.disk.saveSnapshot(info, std::move(data), position.index - keep);
  node.core->compacted(info, node.disk.logStart);
  mark("snapshot-saved");
  pump(node);
}

void World::setWake(Node& node) {
  Instant wake = node.core->wakeAt();
  if (wake == Instant::max()) return;
  auto wait = static_cast<double>(std::max<int64_t>(0, (wake - localNow(node)).count())) / node.clockRate;
  Instant when = now_ + Duration(static_cast<int64_t>(wait) + 1);
  if (node.wakeAt > now_ && node.wakeAt <= when) return;  // by then it is asked again
  node.wakeAt = when;
  at(when, [this, &node, life = node.life, when] {
    if (node.life != life || node.wakeAt != when) return;
    node.wakeAt = Instant::max();
    with(node, [](Core&) {});
  });
}

void World::send(const Message& message) {
  traceHash_ = mix(traceHash_, mix(static_cast<uint64_t>(now_.time_since_epoch().count()),
                                   static_cast<uint64_t>(message.term) * 16 + message.body.index()));
  if (options_.trace) trace("{}", show(message));
  int copies = chance.below(1000) < settings.repeatPerMille ? 2 : 1;
  for (; copies > 0; --copies) {
    if (chance.below(1000) < settings.lossPerMille) continue;
    after(between(settings.delayMin, settings.delayMax), [this, message] {
      auto to = nodes.find(message.to.id);
      if (cuts.contains({message.from.id, message.to.id}) || to == nodes.end()) return;
      with(to->second, [&](Core& core) { core.step(message); });
    });
  }
}

void World::note(Node& node) {
  const Core& core = *node.core;
  if (core.state() != node.stateTraced) {
    if (core.state() == State::leader) mark("elected");
    if (node.stateTraced == State::leader) mark("deposed");
    node.stateTraced = core.state();
    static constexpr const char* kNames[] = {"follower", "pre-candidate", "candidate", "leader", "stopped"};
    trace("{} is {} in term {}", node.replica.id, kNames[static_cast<size_t>(core.state())], core.term());
  }
  if (core.commitIndex() != node.commitTraced) {
    node.commitTraced = core.commitIndex();
    trace("{} has committed {}", node.replica.id, node.commitTraced);
  }
}

}  // namespace mq::raft::sim

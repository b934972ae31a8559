// Scenarios of consensus: cores, a network that stands still until told, and disks that may be held.
//
//   nodes 1,2,3 [observers=4] [others=5] [bootstrapped]   begins anew; options: [promotion=N] [window=N] [batch=BYTES]
//         [uncommitted=BYTES] [tail=BYTES] [chunk=BYTES]
//   log N terms=1,1,4 [term=T] [vote=V]   starts N anew with this log
//   timeout N              N's clock, and only its, goes on to what it waits for
//   elect N                timeout N and settle, without a word
//   run MS                 time passes for all; messages arrive at once
//   sleep N,N MS           time passes for some; messages wait
//   settle                 messages arrive until there are none
//   deliver A>B [COUNT]    some arrive; "deliver" alone: one each of what is under way now
//   drop A>B | drop        what is under way is lost
//   flight                 what is under way
//   cut 1|2,3 ... | cut 1>2 | heal
//   propose N TEXT [times=K]   change N voter=4|observer=4|remove=4   transfer N to=2   read N id=7
//   disk N hold|go|full|free|fail     crash N   start N   wipe N     hold: writes begin and do not end
//   compact N [keep=K]     a snapshot of what is applied; the log before it goes, except the last K entries
//   inject FROM>TO TERM append PREV +TERM,TERM commit=C | vote LAST | pre-vote LAST | heartbeat commit=C | now |
//                 has INDEX | removed INDEX
//   state | logs           who is what; terms of all entries on disk, those in brackets not yet
//
// Printed: what changes at a node, in the order of events; with deliver, the messages too.
#include <map>
#include <set>
#include <sstream>

#include "base/check.h"
#include "command.h"
#include "raft/core.h"
#include "scenario.h"

namespace mq::raft {
namespace {

using scenario::Command;
using scenario::durationOf;
using scenario::numberOf;

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(by, at), text.size());
    if (end > at) parts.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

NodeId nodeOf(std::string_view text) { return NodeId(static_cast<int32_t>(numberOf(text))); }

Position positionOf(std::string_view text) {
  auto parts = split(text, '/');
  return {numberOf(parts.at(0)), numberOf(parts.at(1))};
}

std::string textOf(const Entry& entry) {
  if (entry.type == EntryType::noop) return "-";
  if (entry.type == EntryType::records) return entry.data.empty() ? "." : std::string(asText(entry.data));
  return "[" + show(decodeMembership(entry.data).value()) + "]";
}

std::string_view nameOf(State state) {
  static constexpr std::string_view kNames[] = {"follower", "pre-candidate", "candidate", "leader", "stopped"};
  return kNames[static_cast<size_t>(state)];
}

// What survives.
struct Disk {
  HardState hard;
  SnapshotInfo snapshot;
  Buffer snapshotData;
  Position start;
  std::vector<Entry> log;  // behind start

  int64_t last() const { return start.index + static_cast<int64_t>(log.size()); }
  std::vector<Entry> slice(int64_t from, int64_t end) const {
    if (from <= start.index) return {};
    return {log.begin() + (from - start.index - 1), log.begin() + (end - start.index - 1)};
  }
};

struct Node {
  Replica replica;
  Disk disk;
  std::unique_ptr<Core> core;
  Instant now{};
  bool isHeld = false, isFull = false, isBroken = false;
  std::optional<Write> writing;
  std::string machine;  // what is applied
  std::string said;     // of its state
  int64_t commitSaid = 0;
};

class RaftWorld {
 public:
  std::string step(const std::string& commands) {
    std::string text;
    std::istringstream in(commands);
    for (std::string line; std::getline(in, line);) {
      command(Command(line));
      for (auto& [id, node] : nodes_) pump(node);
      text += std::exchange(out_, {});
    }
    return text;
  }

 private:
  void say(const Node& node, const std::string& what) { out_ += fmt::format("{}: {}\n", node.replica.id, what); }

  void command(Command command) {
    const std::string& verb = command.verb;
    if (verb == "nodes") return nodes(command);
    if (verb == "run") return run(durationOf(command.word(0)));
    if (verb == "sleep") return sleep(command);
    if (verb == "settle") return settle();
    if (verb == "deliver") return deliver(command);
    if (verb == "drop") return drop(command);
    if (verb == "flight") return flight();
    if (verb == "cut") return cut(command);
    if (verb == "heal") return cuts_.clear();
    if (verb == "inject") return inject(command);
    if (verb == "state") return state();
    if (verb == "logs") return logs();
    Node& node = nodes_.at(nodeOf(command.word(0)));
    if (verb == "log") return log(node, command);
    if (verb == "disk") return disk(node, command.word(1));
    if (verb == "crash") return crash(node);
    if (verb == "start") return start(node);
    if (verb == "wipe") return wipe(node);
    MQ_CHECK(node.core, command.verb);
    if (verb == "timeout") return timeout(node);
    if (verb == "elect") {
      timeout(node);
      settle();
      return out_.clear();
    }
    if (verb == "propose") return propose(node, command);
    if (verb == "change") return change(node, command);
    if (verb == "transfer") return answer(node, node.core->transfer(nodeOf(*command.take("to"))));
    if (verb == "read") return answer(node, node.core->read(static_cast<ReadId>(numberOf(*command.take("id")))));
    if (verb == "compact") return compact(node, command);
    out_ += "no such command: " + verb + "\n";
  }

  void nodes(Command& command) {
    nodes_.clear();
    flight_.clear();
    cuts_.clear();
    options_ = Options();
    auto number = [&](const char* name, auto& into) {
      if (auto text = command.take(name)) into = static_cast<std::decay_t<decltype(into)>>(numberOf(*text));
    };
    number("promotion", options_.promotionLagMax);
    number("window", options_.windowMessagesMax);
    number("batch", options_.batchBytesMax);
    number("uncommitted", options_.uncommittedBytesMax);
    number("tail", options_.tailBytesMax);
    number("chunk", options_.snapshotChunkBytes);
    options_.entryBytesMax = std::min(options_.entryBytesMax, options_.uncommittedBytesMax - kEntryOverheadBytes);
    Membership membership;
    for (auto& id : split(command.word(0), ',')) membership.members.push_back({{nodeOf(id), {}}, true});
    if (auto observers = command.take("observers"))
      for (auto& id : split(*observers, ',')) membership.members.push_back({{nodeOf(id), {}}, false});
    for (const Member& member : membership.members) {
      Node& node = nodes_[member.replica.id];
      node.replica = member.replica;
      if (std::find(command.plain.begin(), command.plain.end(), "bootstrapped") == command.plain.end()) {
        node.disk.snapshot.members = membership;
      } else {
        node.disk.log = {bootstrapEntry(membership)};
        node.disk.hard.term = 1;
      }
      start(node);
    }
    if (auto others = command.take("others")) {  // no members of anything
      for (auto& id : split(*others, ',')) {
        Node& node = nodes_[nodeOf(id)];
        node.replica = {nodeOf(id), {}};
        start(node);
      }
    }
  }

  void start(Node& node) {
    node.core = std::make_unique<Core>(options_,
                                       Start{.self = node.replica,
                                             .hardState = node.disk.hard,
                                             .snapshot = node.disk.snapshot,
                                             .logStart = node.disk.start},
                                       static_cast<uint64_t>(node.replica.id.value()), node.now);
    node.core->restore(node.disk.log);
    node.machine = std::string(asText(node.disk.snapshotData));
    node.commitSaid = node.core->commitIndex();
    node.said = stateOf(node);
  }

  void log(Node& node, Command& command) {
    node.disk.log.clear();
    int64_t index = 0;
    for (auto& term : split(*command.take("terms"), ',')) {
      ++index;
      node.disk.log.push_back({index, numberOf(term), EntryType::records, {}});
    }
    node.disk.hard.term = node.disk.log.empty() ? 0 : node.disk.log.back().term;
    if (auto term = command.take("term")) node.disk.hard.term = numberOf(*term);
    if (auto vote = command.take("vote")) node.disk.hard.vote = nodeOf(*vote);
    start(node);
  }

  void crash(Node& node) {
    node.core.reset();
    node.writing.reset();
    std::erase_if(flight_, [&](const Message& message) { return message.from == node.replica; });
  }

  // Its directory is lost; it comes up again as somebody else.
  void wipe(Node& node) {
    crash(node);
    node.disk = Disk();
    node.replica.directory = Uuid::fromHalves(0, ++directories_);
    start(node);
  }

  void disk(Node& node, const std::string& what) {
    if (what == "fail") node.isBroken = true;
    if (what == "hold") node.isHeld = true;
    if (what == "full") node.isFull = true;
    if (what == "free") node.isFull = false;
    if (what == "go") {
      node.isHeld = false;
      if (node.writing) perform(node, std::move(*std::exchange(node.writing, std::nullopt)));
    }
  }

  void perform(Node& node, Write write) {
    Disk& disk = node.disk;
    if (node.isBroken) return node.core->fail("the disk failed");
    if (write.hardState) disk.hard = *write.hardState;
    if (node.isFull && (write.install || !write.append.empty())) {
      say(node, "no space");
      return node.core->refused(std::move(write));
    }
    if (write.install) {
      disk.snapshot = write.install->snapshot;
      disk.snapshotData = write.install->data;
      disk.start = disk.snapshot.id;
      disk.log.clear();
      node.machine = std::string(asText(disk.snapshotData));
      say(node, fmt::format("snapshot {} installed:{}", show(disk.snapshot.id), node.machine));
    }
    if (!write.append.empty()) {
      int64_t first = write.append.front().index;
      MQ_CHECK(first > disk.start.index && first <= disk.last() + 1, first, disk.start.index, disk.last());
      if (first <= disk.last()) say(node, fmt::format("entries {} to {} replaced", first, disk.last()));
      disk.log.resize(static_cast<size_t>(first - disk.start.index - 1));
      disk.log.insert(disk.log.end(), write.append.begin(), write.append.end());
    }
    node.core->persisted(write.number);
  }

  std::string stateOf(const Node& node) const {
    std::string text = fmt::format("{} T{}", nameOf(node.core->state()), node.core->term());
    if (node.core->stopReason()) text += ": " + *node.core->stopReason();
    if (node.core->state() == State::follower && node.core->leader() != kNoNode)
      text += fmt::format(" of {}", node.core->leader());
    return text;
  }

  // Says what is new, and does what the core wants done.
  void pump(Node& node) {
    while (node.core) {
      if (std::string state = stateOf(node); state != node.said) say(node, node.said = state);
      if (int64_t commit = node.core->commitIndex(); commit != node.commitSaid) {
        say(node, fmt::format("commit {}", commit));
        node.commitSaid = commit;
      }
      Ready ready = node.core->take();
      if (ready.isEmpty()) return;
      for (Message& message : ready.messages) flight_.push_back(std::move(message));
      for (ReadId id : ready.readsFailed) say(node, fmt::format("read {} failed", id));
      if (!ready.apply.empty()) {
        std::string text;
        for (const Entry& entry : ready.apply) text += " " + textOf(entry);
        say(node, "applied" + text);
        node.machine += text;
      }
      for (ReadId id : ready.readsReady) say(node, fmt::format("read {} sees{}", id, node.machine));
      for (const LogRead& read : ready.reads) {
        say(node, fmt::format("reads entries from {} for {}", read.from,
                              read.target == kNoNode ? "itself" : fmt::format("{}", read.target)));
        node.core->loaded(read, node.disk.slice(read.from, read.end));
      }
      for (const SnapshotRead& read : ready.snapshotReads) {
        const Buffer& data = node.disk.snapshotData;
        auto begin = data.begin() + static_cast<ptrdiff_t>(read.offset);
        node.core->loaded(read, read.id == node.disk.snapshot.id
                                    ? std::optional(Buffer(begin, begin + static_cast<ptrdiff_t>(read.count)))
                                    : std::nullopt);
      }
      if (!ready.write) continue;
      if (node.isHeld)
        node.writing = std::move(ready.write);
      else
        perform(node, std::move(*ready.write));
    }
  }

  bool isCut(const Message& message) const { return cuts_.contains({message.from.id, message.to.id}); }

  void arrive(Message message) {
    Node& node = nodes_.at(message.to.id);
    if (!node.core || isCut(message)) return;
    node.core->step(std::move(message));
    pump(node);
  }

  void settle() {
    for (auto& [id, node] : nodes_) pump(node);
    for (int round = 0; !flight_.empty(); ++round) {
      MQ_CHECK(round < 10'000, "messages without end");
      Message message = std::move(flight_.front());
      flight_.erase(flight_.begin());
      arrive(std::move(message));
    }
  }

  void run(Duration span) {
    for (Duration left = span; left > 0ms; left -= 10ms) {
      for (auto& [id, node] : nodes_) {
        node.now += 10ms;
        if (node.core) node.core->tick(node.now);
      }
      settle();
    }
  }

  void sleep(const Command& command) {
    for (auto& id : split(command.word(0), ',')) {
      Node& node = nodes_.at(nodeOf(id));
      node.now += durationOf(command.word(1));
      node.core->tick(node.now);
    }
  }

  void timeout(Node& node) {
    node.now = std::max(node.now, node.core->wakeAt());
    node.core->tick(node.now);
  }

  // "1>2": of the messages under way, those.
  std::vector<Message> take(const Command& command, size_t count) {
    std::vector<Message> taken;
    auto ends = command.plain.empty() ? std::vector<std::string>() : split(command.word(0), '>');
    for (auto at = flight_.begin(); at != flight_.end() && taken.size() < count;) {
      if (!ends.empty() && (at->from.id != nodeOf(ends[0]) || at->to.id != nodeOf(ends[1]))) {
        ++at;
        continue;
      }
      taken.push_back(std::move(*at));
      at = flight_.erase(at);
    }
    return taken;
  }

  void deliver(const Command& command) {
    size_t count = command.plain.size() > 1 ? static_cast<size_t>(numberOf(command.word(1))) : flight_.size();
    for (Message& message : take(command, count)) {
      out_ += show(message) + "\n";
      arrive(std::move(message));
    }
  }

  void drop(const Command& command) {
    for (const Message& message : take(command, flight_.size())) out_ += "lost " + show(message) + "\n";
  }

  void flight() {
    for (const Message& message : flight_) out_ += show(message) + "\n";
  }

  void cut(const Command& command) {
    for (const std::string& word : command.plain) {
      if (auto way = split(word, '>'); way.size() == 2) {
        cuts_.insert({nodeOf(way[0]), nodeOf(way[1])});
        continue;
      }
      auto sides = split(word, '|');
      for (auto& a : sides)
        for (auto& b : sides)
          if (&a != &b)
            for (auto& from : split(a, ','))
              for (auto& to : split(b, ',')) cuts_.insert({nodeOf(from), nodeOf(to)});
    }
  }

  template <class T>
  void answer(const Node& node, const Result<T>& result) {
    if (!result) say(node, fmt::format("{}: {}", result.failure().error, result.failure().message));
  }

  void propose(Node& node, Command& command) {
    int64_t times = 1;
    if (auto text = command.take("times")) times = numberOf(*text);
    for (; times > 0; --times) {
      Bytes text = asBytes(command.plain.at(1));
      auto proposed = node.core->propose(Buffer(text.begin(), text.end()));
      answer(node, proposed);
      if (!proposed) return;
    }
  }

  void change(Node& node, Command& command) {
    for (const char* role : {"voter", "observer"}) {
      auto id = command.take(role);
      if (!id) continue;
      auto known = nodes_.find(nodeOf(*id));
      Replica replica = known == nodes_.end() ? Replica{nodeOf(*id), {}} : known->second.replica;
      answer(node, node.core->setMember({replica, std::string_view(role) == "voter"}));
    }
    if (auto id = command.take("remove")) answer(node, node.core->removeMember(nodeOf(*id)));
  }

  void compact(Node& node, Command& command) {
    int64_t at = node.core->appliedIndex();
    Disk& disk = node.disk;
    disk.snapshotData = Buffer(node.machine.begin(), node.machine.end());
    int64_t term = at == disk.start.index ? disk.start.term : disk.slice(at, at + 1).front().term;
    disk.snapshot = {{at, term}, disk.snapshotData.size(), node.core->membershipAt(at)};
    int64_t keep = 0;
    if (auto text = command.take("keep")) keep = numberOf(*text);
    int64_t start = std::max(disk.start.index, at - keep);
    if (start > disk.start.index) {
      Position position{start, disk.slice(start, start + 1).front().term};
      disk.log.erase(disk.log.begin(), disk.log.begin() + (start - disk.start.index));
      disk.start = position;
    }
    node.core->compacted(disk.snapshot, disk.start);
  }

  void inject(Command& command) {
    auto ends = split(command.word(0), '>');
    Message message;
    message.from = nodes_.contains(nodeOf(ends[0])) ? nodes_.at(nodeOf(ends[0])).replica : Replica{nodeOf(ends[0]), {}};
    Node& target = nodes_.at(nodeOf(ends[1]));
    message.to = target.replica;
    // As its sender knows it.
    if (auto sender = nodes_.find(message.from.id); sender != nodes_.end() && sender->second.core)
      if (const Member* member = sender->second.core->membership().find(target.replica.id))
        message.to = member->replica;
    message.term = numberOf(command.word(1));
    int64_t commit = 0;
    if (auto text = command.take("commit")) commit = numberOf(*text);
    std::string kind = command.word(2);
    if (kind == "append") {
      Append append{.previous = positionOf(command.word(3)), .entries = {}, .commit = commit};
      if (command.plain.size() > 4) {
        int64_t index = append.previous.index;
        for (auto& term : split(command.word(4).substr(1), ','))
          append.entries.push_back({++index, numberOf(term), EntryType::records, {'i'}});
      }
      message.body = append;
    } else if (kind == "vote" || kind == "pre-vote") {
      message.body = VoteRequest{.last = positionOf(command.word(3)), .isPreVote = kind == "pre-vote"};
    } else if (kind == "heartbeat") {
      message.body = Heartbeat{.commit = commit};
    } else if (kind == "now") {
      message.body = TimeoutNow();
    } else if (kind == "has") {
      message.body = AppendReply{.index = numberOf(command.word(3)), .isAccepted = true, .hint = {}};
    } else if (kind == "removed") {
      message.body = Removed{numberOf(command.word(3))};
    } else {
      out_ += "no such message: " + kind + "\n";
    }
    arrive(std::move(message));
  }

  void state() {
    for (auto& [id, node] : nodes_) {
      if (!node.core) {
        say(node, "down");
        continue;
      }
      say(node, fmt::format("{} commit {} applied {} last {} members {}{}", stateOf(node), node.core->commitIndex(),
                            node.core->appliedIndex(), show(node.core->log().last()), show(node.core->membership()),
                            node.core->mayCampaign() ? "" : " silent"));
    }
  }

  void logs() {
    for (auto& [id, node] : nodes_) {
      std::string text;
      if (node.disk.start.index > 0) text += fmt::format(" ..{}", show(node.disk.start));
      for (const Entry& entry : node.disk.log) text += fmt::format(" {}", entry.term);
      if (node.core && node.core->log().durableIndex() < node.core->log().lastIndex()) {
        text += " [";
        for (int64_t index = node.core->log().durableIndex() + 1; index <= node.core->log().lastIndex(); ++index)
          text += fmt::format("{}{}", text.back() == '[' ? "" : " ", node.core->log().termAt(index).value_or(-1));
        text += "]";
      }
      say(node, "log" + text);
    }
  }

  Options options_;
  std::map<NodeId, Node> nodes_;
  std::vector<Message> flight_;
  std::set<std::pair<NodeId, NodeId>> cuts_;
  uint64_t directories_ = 0;
  std::string out_;
};

}  // namespace
}  // namespace mq::raft

int main(int argc, char** argv) {
  return mq::scenario::run(argc, argv, [] {
    auto world = std::make_shared<mq::raft::RaftWorld>();
    return [world](const std::string& commands) { return world->step(commands); };
  });
}

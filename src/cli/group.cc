// `mq group list|describe|members|lag|history|watch`: looking at consumer groups. group_change.cc changes them.
#include <poll.h>

#include <algorithm>
#include <chrono>

#include "cli/commands.h"
#include "cli/group_admin.h"
#include "cli/group_lag.h"
#include "cli/json_record.h"
#include "cli/kafka_client.h"
#include "cli/output.h"

namespace mq::cli {
namespace {
using Clock = std::chrono::steady_clock;

std::string quoted(std::string_view text) {
  std::string json;
  appendJsonBytes(json, asBytes(text));
  return json;
}

template <class T>
std::string orNull(const std::optional<T>& number) {
  return number ? fmt::format("{}", *number) : "null";
}

std::string orDash(const std::optional<int64_t>& number) { return number ? std::to_string(*number) : "-"; }

std::string secondsJson(const std::optional<int64_t>& ms) { return ms ? secondsText(ms) : "null"; }

// "orders:0,1 payments:2"
std::string assignedText(const GroupMember& member) {
  std::string text;
  for (const auto& [topic, partitions] : member.assigned) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", topic, fmt::join(partitions, ","));
  }
  return text.empty() ? "-" : text;
}

int runList(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  Output out;
  Table table({"GROUP", "STATE", "TYPE", "PROTOCOL"});
  bool json = arguments.has("json");
  for (const ListedGroup& group : listGroups(client)) {
    if (auto state = arguments.text("state"); state && *state != group.state) continue;
    if (json) {
      out.write(fmt::format("{{\"group\":{},\"state\":{},\"type\":{},\"protocolType\":{}}}\n", quoted(group.name),
                            quoted(group.state), quoted(group.type), quoted(group.protocolType)));
    } else {
      auto orNone = [](const std::string& text) { return text.empty() ? std::string("-") : text; };
      table.row({group.name, orNone(group.state), orNone(group.type), orNone(group.protocolType)});
    }
  }
  if (!json) table.print(out);
  out.flush();
  return exitDone;
}

// What `lag`, `describe` and `watch` show of a group at one moment.
struct Moment {
  GroupView view;
  Lags lags;
  std::map<TopicPartition, const GroupMember*> owners;
};

Moment look(Client& client, const std::string& name, const std::vector<std::string>& topics) {
  Moment moment;
  StoredOffsets stored = storedOffsets(client, name);
  auto found = findGroup(client, name);
  if (!found && stored.empty()) noSuchGroup(client, name);
  if (found)
    moment.view = std::move(*found);
  else
    moment.view = {.name = name, .state = "-", .type = "-"};
  auto isWanted = [&](const std::string& topic) {
    return topics.empty() || std::find(topics.begin(), topics.end(), topic) != topics.end();
  };
  std::set<TopicPartition> assigned;
  for (const GroupMember& member : moment.view.members) {
    for (const auto& [topic, partitions] : member.assigned) {
      if (!isWanted(topic)) continue;
      for (int32_t partition : partitions) {
        assigned.insert({topic, partition});
        moment.owners[{topic, partition}] = &member;
      }
    }
  }
  std::erase_if(stored, [&](const auto& entry) { return !isWanted(entry.first.topic); });
  moment.lags = lagsOf(client, stored, assigned, wallClockMs());
  return moment;
}

std::string ownerOf(const Moment& moment, const TopicPartition& at) {
  auto owner = moment.owners.find(at);
  if (owner == moment.owners.end()) return "-";
  return owner->second->instance ? *owner->second->instance : owner->second->id;
}

void tellProblems(const Moment& moment) {
  for (const auto& [at, lag] : moment.lags) {
    if (!lag.problem.empty()) fmt::print(stderr, "mq: {}: {}\n", at.text(), lag.problem);
  }
}

void printLags(Output& out, const Moment& moment) {
  Table table({"TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "SECONDS", "MEMBER"},
              {false, true, true, true, true, true, false});
  for (const auto& [at, lag] : moment.lags) {
    table.row({at.topic, std::to_string(at.partition), orDash(lag.committed), orDash(lag.end), orDash(lag.records),
               secondsText(lag.ms), ownerOf(moment, at)});
  }
  table.print(out);
}

std::string lagJson(const Moment& moment, const TopicPartition& at, const PartitionLag& lag) {
  std::string owner = ownerOf(moment, at);
  return fmt::format(
      "{{\"group\":{},\"topic\":{},\"partition\":{},\"committed\":{},\"end\":{},\"lag\":{},\"lagSeconds\":{},"
      "\"member\":{}}}",
      quoted(moment.view.name), quoted(at.topic), at.partition, orNull(lag.committed), orNull(lag.end),
      orNull(lag.records), secondsJson(lag.ms), moment.owners.contains(at) ? quoted(owner) : "null");
}

std::string totalText(const TotalLag& total) {
  std::string text = fmt::format("{} records, {} s", total.records, secondsText(total.ms));
  if (total.unknown > 0) text += fmt::format(" ({} partitions not known)", total.unknown);
  return text;
}

std::string membersJson(const GroupView& view) {
  std::string json = "[";
  for (const GroupMember& member : view.members) {
    json +=
        fmt::format("{}{{\"id\":{},\"instance\":{},\"clientId\":{},\"host\":{},\"assigned\":{{",
                    json.size() > 1 ? "," : "", quoted(member.id), member.instance ? quoted(*member.instance) : "null",
                    quoted(member.clientId), quoted(member.host));
    bool first = true;
    for (const auto& [topic, partitions] : member.assigned) {
      json += fmt::format("{}{}:[{}]", first ? "" : ",", quoted(topic), fmt::join(partitions, ","));
      first = false;
    }
    json += "}}";
  }
  return json + "]";
}

int runDescribe(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  Output out;
  bool first = true;
  for (const std::string& name : arguments.positionals()) {
    Moment moment = look(client, name, {});
    const GroupView& view = moment.view;
    TotalLag total = totalOf(moment.lags);
    if (arguments.has("json")) {
      std::string line = fmt::format(
          "{{\"group\":{},\"state\":{},\"type\":{},\"protocol\":{},\"coordinator\":{},\"lag\":{},\"lagSeconds\":{},"
          "\"members\":{},\"partitions\":[",
          quoted(name), quoted(view.state), quoted(view.type), quoted(view.protocol), view.coordinator, total.records,
          secondsJson(total.ms), membersJson(view));
      bool firstLag = true;
      for (const auto& [at, lag] : moment.lags) {
        line += (firstLag ? "" : ",") + lagJson(moment, at, lag);
        firstLag = false;
      }
      out.write(line + "]}\n");
    } else {
      if (!first) out.write("\n");
      out.write(
          fmt::format("group        {}\nstate        {}\ntype         {}\nprotocol     {}\ncoordinator  {}\n"
                      "members      {}\nlag          {}\n\n",
                      name, view.state, view.type, view.protocol.empty() ? "-" : view.protocol, view.coordinator,
                      view.members.size(), totalText(total)));
      printLags(out, moment);
    }
    first = false;
    tellProblems(moment);
  }
  out.flush();
  return exitDone;
}

int runMembers(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  GroupView view = describeGroup(client, *arguments.positional(0));
  Output out;
  if (arguments.has("json")) {
    for (const GroupMember& member : view.members) {
      GroupView one{.name = view.name};
      one.members = {member};
      std::string list = membersJson(one);
      out.write(list.substr(1, list.size() - 2) + "\n");
    }
  } else {
    Table table({"MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"});
    for (const GroupMember& member : view.members)
      table.row({member.id, member.instance.value_or("-"), member.clientId, member.host, assignedText(member)});
    table.print(out);
  }
  out.flush();
  return exitDone;
}

int runLag(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  const auto& words = arguments.positionals();
  Moment moment = look(client, words[0], {words.begin() + 1, words.end()});
  Output out;
  if (arguments.has("json")) {
    for (const auto& [at, lag] : moment.lags) out.write(lagJson(moment, at, lag) + "\n");
  } else {
    printLags(out, moment);
  }
  out.flush();
  tellProblems(moment);
  if (moment.lags.empty() && words.size() > 1)
    fail(exitNothing, "group '{}' has neither offsets nor members for {}", words[0],
         fmt::join(words.begin() + 1, words.end(), ", "));
  return exitDone;
}

int runHistory(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  GroupView view = describeGroup(client, *arguments.positional(0), true);
  if (view.historySinceMs < 0) {
    fail(exitFailed, "{} does not tell why group '{}' was rebalanced: only brokers that are mq remember it",
         client.where(), view.name);
  }
  Output out;
  Table table({"BEGAN", "TOOK", "GENERATION", "MEMBERS", "REASON"}, {false, true, true, true, false});
  for (const auto& rebalance : view.history) {
    bool isOver = rebalance.endedMs >= 0;
    if (arguments.has("json")) {
      out.write(
          fmt::format("{{\"group\":{},\"began\":{},\"ended\":{},\"generation\":{},\"members\":{},\"reason\":{}}}\n",
                      quoted(view.name), rebalance.beganMs, isOver ? std::to_string(rebalance.endedMs) : "null",
                      rebalance.generation, rebalance.members, quoted(rebalance.reason)));
      continue;
    }
    uint64_t took = static_cast<uint64_t>(std::max<int64_t>(0, rebalance.endedMs - rebalance.beganMs));
    table.row({isoTime(rebalance.beganMs), isOver ? humanDuration(took) : "not over",
               std::to_string(rebalance.generation), isOver ? std::to_string(rebalance.members) : "-",
               rebalance.reason});
  }
  if (!arguments.has("json")) table.print(out);
  out.flush();
  fmt::print(stderr, "mq: {} remembers group '{}' since {}\n", client.where(), view.name, isoTime(view.historySinceMs));
  return exitDone;
}

// Until the time is over or a signal comes.
void pause(Clock::time_point until) {
  while (!Interrupts::any()) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return;
    ::poll(nullptr, 0, static_cast<int>(std::min<int64_t>(left, 1000)));
  }
}

int runWatch(const Arguments& arguments) {
  const auto& words = arguments.positionals();
  std::vector<std::string> topics(words.begin() + 1, words.end());
  auto every = std::chrono::milliseconds(arguments.number("every", 100, 86'400'000).value_or(1000));
  auto seconds = arguments.number("seconds", 0, 86'400 * 365);
  bool json = arguments.has("json"), redraw = stdoutIsTerminal() && !json;
  ClientOptions options = clientOptions(arguments);
  auto client = std::make_unique<Client>(options);
  Interrupts interrupts;
  Output out;
  auto begin = Clock::now();
  for (auto next = begin; !Interrupts::any();) {
    std::string line;
    try {
      Moment moment = look(*client, words[0], topics);
      TotalLag total = totalOf(moment.lags);
      std::string now = isoTime(wallClockMs());
      if (json) {
        line = fmt::format(
            "{{\"time\":{},\"group\":{},\"state\":{},\"members\":{},\"lag\":{},\"lagSeconds\":{},\"unknown\":{}}}\n",
            quoted(now), quoted(words[0]), quoted(moment.view.state), moment.view.members.size(), total.records,
            secondsJson(total.ms), total.unknown);
      } else if (redraw) {
        out.write("\x1b[H\x1b[2J");
        out.write(fmt::format("{}  {}  {}, {} members, {}\n\n", now, words[0], moment.view.state,
                              moment.view.members.size(), totalText(total)));
        printLags(out, moment);
      } else {
        line =
            fmt::format("{} {} {} members, {}\n", now, moment.view.state, moment.view.members.size(), totalText(total));
      }
    } catch (const CommandError& error) {
      // What was there once may come back: a broker that restarts, a coordinator that moves.
      if (next == begin || error.exitCode == exitPipe || error.exitCode == exitDenied) throw;
      fmt::print(stderr, "mq: {}\n", error.message);
      client = std::make_unique<Client>(options);
    }
    out.write(line);
    out.flush();
    next = std::max(next + every, Clock::now());
    if (seconds && next > begin + std::chrono::seconds(*seconds)) return exitDone;
    pause(next);
  }
  return Interrupts::exitCode();
}

const Positional kGroup = {.name = "GROUP", .help = "the group"};
const Positional kGroups = {.name = "GROUP", .help = "one or more groups", .repeats = true};
const Positional kTopics = {
    .name = "TOPIC", .help = "only these topics (default: all of the group)", .required = false, .repeats = true};

constexpr std::string_view kLagDetails =
    "Lag is counted in records and in seconds. Records: the end of the partition minus the committed offset; records "
    "of "
    "open and aborted transactions and transaction markers have offsets too and count. Seconds: now minus the time at "
    "which the broker appended the first record that is not committed; 0 when there is none, - when it is not known. "
    "With message.timestamp.type=LogAppendTime that is the broker's time; otherwise it is the largest timestamp of the "
    "batch with that record, which its producer gave.";

}  // namespace

std::vector<Command> groupCommands() {
  return {
      {.path = "group", .summary = "Show, move, save and delete consumer groups"},
      {.path = "group list",
       .summary = "List groups",
       .flags = withBrokerFlags(
           {{.name = "state", .value = "STATE", .help = "only those in this state: Stable, Empty, ..."}, kJson}),
       .run = runList},
      {.path = "group describe",
       .summary = "Show state, members, offsets and lag",
       .details = kLagDetails,
       .positionals = {kGroups},
       .flags = withBrokerFlags({kJson}),
       .run = runDescribe},
      {.path = "group members",
       .summary = "Show the members of a group and what each reads",
       .positionals = {kGroup},
       .flags = withBrokerFlags({kJson}),
       .run = runMembers},
      {.path = "group lag",
       .summary = "Show how far a group is behind, in records and in seconds",
       .details = kLagDetails,
       .positionals = {kGroup, kTopics},
       .flags = withBrokerFlags({kJson}),
       .examples = {{"mq group lag billing -J | jq 'select(.lagSeconds > 60)'", "partitions a minute behind"}},
       .run = runLag},
      {.path = "group history",
       .summary = "Show every rebalance of a group and its reason",
       .details =
           "The broker that coordinates the group remembers its last 32 rebalances, in memory: since when is told on "
           "stderr. What began while another rebalance was going on is part of that one's reason. Other brokers than "
           "mq do not tell.",
       .positionals = {kGroup},
       .flags = withBrokerFlags({kJson}),
       .run = runHistory},
      {.path = "group watch",
       .summary = "Show a group's lag again and again",
       .details =
           "On a terminal the screen is drawn anew each time; elsewhere, and with -J, each time is one line with "
           "the totals. Ends with Ctrl-C, or after --seconds.",
       .positionals = {kGroup, kTopics},
       .flags = withBrokerFlags({{.name = "every", .value = "MS", .help = "between two looks (default 1000)"},
                                 {.name = "seconds", .value = "N", .help = "end after so long"},
                                 kJson}),
       .run = runWatch},
  };
}

}  // namespace mq::cli

// `mq group seek|reset|delete|delete-offsets|export|import`: changing and saving what groups have committed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <kj/io.h>

#include "cli/commands.h"
#include "cli/group_admin.h"
#include "cli/input.h"
#include "cli/json_record.h"
#include "cli/offset_range.h"
#include "cli/output.h"
#include "wire/delete_groups_request.h"
#include "wire/delete_groups_response.h"
#include "wire/offset_delete_request.h"
#include "wire/offset_delete_response.h"

namespace mq::cli {
namespace {

OffsetPoint pointOf(const std::string& text, std::string_view where) {
  auto range = parseOffsetRange(text, wallClockMs());
  if (!range || range->to) fail(exitUsage, "{}: {}", where, range ? "one point, not a range" : range.failure().message);
  return range->from;
}

// Where the partitions of a topic are to go. A point beyond the end is the end.
void resolve(Client& client, const TopicSelection& selection, const OffsetPoint& point, StoredOffsets& into) {
  std::vector<int32_t> there = partitionsOf(client, selection.topic);
  std::vector<int32_t> wanted = selection.partitions.empty() ? there : selection.partitions;
  for (int32_t partition : wanted) {
    if (std::find(there.begin(), there.end(), partition) == there.end())
      fail(exitNotFound, "topic '{}' has no partition {}; it has 0 to {}", selection.topic, partition, there.back());
  }
  auto ends = listOffsets(client, selection.topic, wanted, -1, Read::uncommitted);
  for (const auto& [partition, bound] :
       resolveBounds(client, selection.topic, wanted, {.from = point}, false, Read::uncommitted)) {
    StoredOffset& stored = into[{selection.topic, partition}];
    stored = {.offset = std::min(bound.from, ends[partition])};
    using Kind = OffsetPoint::Kind;
    if ((point.kind == Kind::absolute || point.kind == Kind::fromStart) && point.value != stored.offset &&
        (point.kind == Kind::absolute || bound.from > ends[partition])) {
      fmt::print(stderr, "mq: {}-{}: {}{} is not there, the nearest is {}\n", selection.topic, partition,
                 point.kind == Kind::fromStart ? "+" : "", point.value, stored.offset);
    }
  }
}

void printMoves(const Arguments& arguments, const std::string& group, const StoredOffsets& before,
                const StoredOffsets& after) {
  Output out;
  Table table({"TOPIC", "PARTITION", "FROM", "TO", "CHANGE"}, {false, true, true, true, true});
  for (const auto& [at, to] : after) {
    auto from = before.find(at);
    bool isNew = from == before.end();
    if (arguments.has("json")) {
      std::string line = "{\"group\":";
      appendJsonBytes(line, asBytes(group));
      line += ",\"topic\":";
      appendJsonBytes(line, asBytes(at.topic));
      line += fmt::format(",\"partition\":{},\"from\":{},\"to\":{}}}\n", at.partition,
                          isNew ? "null" : std::to_string(from->second.offset), to.offset);
      out.write(line);
    } else {
      table.row({at.topic, std::to_string(at.partition), isNew ? "-" : std::to_string(from->second.offset),
                 std::to_string(to.offset), isNew ? "new" : fmt::format("{:+}", to.offset - from->second.offset)});
    }
  }
  if (!arguments.has("json")) table.print(out);
  out.flush();
}

int runSeek(const Arguments& arguments) {
  const auto& words = arguments.positionals();
  std::vector<std::pair<TopicSelection, OffsetPoint>> targets;
  for (size_t i = 1; i < words.size(); ++i) {
    auto [selection, point] = parseTarget(words[i]);
    targets.emplace_back(std::move(selection), pointOf(point, words[i]));
  }
  Client client(clientOptions(arguments));
  if (auto group = findGroup(client, words[0])) refuseMembers(*group, "move");
  StoredOffsets before = storedOffsets(client, words[0]), wanted;
  for (const auto& [selection, point] : targets) resolve(client, selection, point, wanted);
  Outcome outcome;
  StoredOffsets done = arguments.has("dry-run") ? wanted : storeOffsets(client, words[0], wanted, outcome);
  printMoves(arguments, words[0], before, done);
  if (arguments.has("dry-run")) fmt::print(stderr, "mq: nothing was changed (--dry-run)\n");
  return outcome.exitCode();
}

int runReset(const Arguments& arguments) {
  std::string name = *arguments.positional(0);
  auto to = arguments.text("to");
  if (!to) fail(exitUsage, "where to? --to start, --to end, --to @-1h, ...");
  OffsetPoint point = pointOf(*to, "--to");
  std::vector<TopicSelection> selections;
  for (const std::string& text : arguments.all("topic")) selections.push_back(parseSelection(text, "--topic"));
  Client client(clientOptions(arguments));
  auto group = findGroup(client, name);
  StoredOffsets before = storedOffsets(client, name), wanted;
  if (!group && before.empty()) noSuchGroup(client, name);
  if (group) refuseMembers(*group, "reset");
  if (selections.empty()) {
    for (const auto& [at, stored] : before) {
      if (selections.empty() || selections.back().topic != at.topic) selections.push_back({at.topic, {}});
      selections.back().partitions.push_back(at.partition);
    }
  }
  if (selections.empty()) fail(exitNothing, "group '{}' has committed nothing; --topic TOPIC says what to set", name);
  for (const TopicSelection& selection : selections) resolve(client, selection, point, wanted);
  printMoves(arguments, name, before, wanted);
  if (arguments.has("dry-run")) return exitDone;
  confirm(arguments, fmt::format("set these {} offsets of group '{}'?", wanted.size(), name));
  Outcome outcome;
  storeOffsets(client, name, wanted, outcome);
  return outcome.exitCode();
}

int runDelete(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  std::string list;
  size_t offsets = 0;
  for (const std::string& name : arguments.positionals()) {
    auto group = findGroup(client, name);
    StoredOffsets stored = storedOffsets(client, name);
    if (!group && stored.empty()) noSuchGroup(client, name);
    if (group) refuseMembers(*group, "delete");
    list += fmt::format("{}'{}'", list.empty() ? "" : ", ", name);
    offsets += stored.size();
  }
  Output out;
  if (arguments.has("dry-run")) {
    out.write(fmt::format("would delete {} with {} offsets\n", list, offsets));
    out.flush();
    return exitDone;
  }
  confirm(arguments, fmt::format("delete {} with {} offsets?", list, offsets));
  Outcome outcome;
  for (const std::string& name : arguments.positionals()) {
    auto response = client.callCoordinator(name, wire::DeleteGroupsRequest{.groupsNames = {name}}, [](auto& answer) {
      return answer.results.empty() ? Error::none : answer.results[0].errorCode;
    });
    for (const auto& result : response.results) {
      outcome.add(fmt::format("group '{}'", name), result.errorCode, result.errorMessage);
      if (result.errorCode == Error::none) out.write(fmt::format("deleted {}\n", name));
    }
  }
  out.flush();
  return outcome.exitCode();
}

int runDeleteOffsets(const Arguments& arguments) {
  const auto& words = arguments.positionals();
  Client client(clientOptions(arguments));
  StoredOffsets stored = storedOffsets(client, words[0]), wanted;
  if (stored.empty() && !findGroup(client, words[0])) noSuchGroup(client, words[0]);
  for (size_t i = 1; i < words.size(); ++i) {
    TopicSelection selection = parseSelection(words[i], "what to delete");
    bool any = false;
    for (const auto& [at, offset] : stored) {
      bool isChosen = selection.partitions.empty() ||
                      std::find(selection.partitions.begin(), selection.partitions.end(), at.partition) !=
                          selection.partitions.end();
      if (at.topic != selection.topic || !isChosen) continue;
      wanted[at] = offset;
      any = true;
    }
    if (!any) fail(exitNothing, "group '{}' has committed nothing for {}", words[0], words[i]);
  }
  Output out;
  auto print = [&](std::string_view verb, const TopicPartition& at, const StoredOffset& offset) {
    out.write(fmt::format("{} {} {} {}\n", verb, at.topic, at.partition, offset.offset));
  };
  if (arguments.has("dry-run")) {
    for (const auto& [at, offset] : wanted) print("would delete", at, offset);
    out.flush();
    return exitDone;
  }
  confirm(arguments, fmt::format("delete {} offsets of group '{}'?", wanted.size(), words[0]));
  wire::OffsetDeleteRequest request;
  request.groupId = words[0];
  for (const auto& [at, offset] : wanted) {
    if (request.topics.empty() || request.topics.back().name != at.topic) request.topics.emplace_back().name = at.topic;
    request.topics.back().partitions.emplace_back().partitionIndex = at.partition;
  }
  auto response = client.callCoordinator(words[0], request, [](const auto& answer) { return answer.errorCode; });
  Outcome outcome;
  outcome.add(fmt::format("group '{}'", words[0]), response.errorCode, std::nullopt);
  for (const auto& topic : response.topics) {
    for (const auto& partition : topic.partitions) {
      TopicPartition at{topic.name, partition.partitionIndex};
      outcome.add(fmt::format("group '{}', {}", words[0], at.text()), partition.errorCode, std::nullopt);
      if (partition.errorCode == Error::none) print("deleted", at, wanted[at]);
    }
  }
  out.flush();
  return outcome.exitCode();
}

int runExport(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  std::vector<std::string> names = arguments.positionals();
  if (arguments.has("all")) {
    if (!names.empty()) fail(exitUsage, "--all, or the groups by name");
    for (ListedGroup& group : listGroups(client)) names.push_back(std::move(group.name));
  } else if (names.empty()) {
    fail(exitUsage, "which groups? Their names, or --all");
  }
  Output out;
  std::string line;
  for (const std::string& name : names) {
    StoredOffsets stored = storedOffsets(client, name);
    if (stored.empty() && !findGroup(client, name)) noSuchGroup(client, name);
    for (const auto& [at, offset] : stored) {
      line.clear();
      appendOffsetLine(line, name, at, offset);
      out.write(line);
    }
  }
  out.flush();
  return exitDone;
}

int runImport(const Arguments& arguments) {
  auto name = arguments.text("group");
  std::map<std::string, StoredOffsets> groups;
  constexpr size_t kLineBytesMax = 1 << 20;
  std::string from = arguments.positional(0).value_or("stdin");
  kj::AutoCloseFd file;
  if (arguments.positional(0)) {
    file = kj::AutoCloseFd(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) fail(exitFailed, "cannot read {}: {}", from, strerror(errno));
  }
  Input input(arguments.positional(0) ? file.get() : STDIN_FILENO, from, {.recordBytesMax = kLineBytesMax});
  for (InputRecord record; input.next(record);) {
    if (record.oversize == 0 && (!record.value || record.value->empty())) continue;
    auto line = record.oversize > 0
                    ? Result<OffsetLine>(failure(Error::invalidRequest, "{} bytes are no such line", record.oversize))
                    : parseOffsetLine(asText(*record.value));
    if (!line) fail(exitFailed, "{}: line {}: {}; nothing was changed", from, record.number, line.failure().message);
    if (!name && !line->group)
      fail(exitFailed, "{}: line {}: no \"group\", and no --group; nothing was changed", from, record.number);
    groups[name ? *name : *line->group][line->at] = std::move(line->stored);
  }
  Client client(clientOptions(arguments));
  for (const auto& [group, offsets] : groups) {
    if (auto view = findGroup(client, group)) refuseMembers(*view, "import into");
  }
  Outcome outcome;
  Output out;
  bool dry = arguments.has("dry-run");
  for (const auto& [group, offsets] : groups) {
    size_t done = dry ? offsets.size() : storeOffsets(client, group, offsets, outcome).size();
    out.write(fmt::format("{} {} {} offsets\n", dry ? "would import" : "imported", group, done));
  }
  out.flush();
  return outcome.exitCode();
}

const Positional kGroup = {.name = "GROUP", .help = "the group"};
const Positional kGroups = {.name = "GROUP", .help = "one or more groups", .repeats = true};
const Flag kReallyDo = {.name = "yes", .shortNames = "y", .help = "do not ask", .aliases = "execute"};
constexpr std::string_view kPoints =
    "POINT: start, end, N, -N (before the end), +N (behind the start), @TIME, where TIME is epoch seconds or "
    "milliseconds, a date, RFC 3339, or -1h, -30m: from then on.\n\nA group with members is left alone: they would not "
    "notice, and commit over it.";

}  // namespace

std::vector<Command> groupChangeCommands() {
  static const std::string seekDetails =
      fmt::format("Commits an offset for each partition of TOPIC, or for those that are named. {}", kPoints);
  static const std::string resetDetails = fmt::format(
      "Prints where each partition is and where it goes, then asks; where nobody can be asked it takes --execute. {}",
      kPoints);
  return {
      {.path = "group seek",
       .summary = "Set the offsets of a group, one target a topic",
       .details = seekDetails,
       .positionals = {kGroup,
                       {.name = "TARGET", .help = "TOPIC=POINT or TOPIC:0,3=POINT; one or more", .repeats = true}},
       .flags = withBrokerFlags({kDryRun, kJson}),
       .examples = {{"mq group seek billing orders=@-1h payments:3=1042", "an hour back, and to one offset"}},
       .run = runSeek},
      {.path = "group reset",
       .summary = "Move a whole group to one point",
       .details = resetDetails,
       .positionals = {kGroup},
       .flags = withBrokerFlags({{.name = "to", .value = "POINT", .help = "where to"},
                                 {.name = "topic",
                                  .shortNames = "t",
                                  .value = "TOPIC[:N,...]",
                                  .help = "only this topic or these partitions (default: all the group has committed)",
                                  .repeats = true},
                                 kReallyDo,
                                 kDryRun,
                                 kJson}),
       .examples = {{"mq group reset billing --to @2026-11-28T00:00Z", "prints the plan and asks"},
                    {"mq group reset billing -t orders --to start --execute", "in a script"}},
       .run = runReset},
      {.path = "group delete",
       .summary = "Delete groups and what they have committed",
       .positionals = {kGroups},
       .flags = withBrokerFlags({kYes, kDryRun}),
       .run = runDelete},
      {.path = "group delete-offsets",
       .summary = "Delete what a group has committed for topics",
       .details = "A topic that members of the group read keeps its offsets.",
       .positionals = {kGroup, {.name = "TOPIC", .help = "TOPIC or TOPIC:0,3; one or more", .repeats = true}},
       .flags = withBrokerFlags({kYes, kDryRun}),
       .run = runDeleteOffsets},
      {.path = "group export",
       .summary = "Print what groups have committed as JSON lines",
       .details = "One line an offset, with everything it has: group, topic, partition, offset, leaderEpoch, metadata. "
                  "mq group import reads them.",
       .positionals = {{.name = "GROUP", .help = "which groups", .required = false, .repeats = true}},
       .flags = withBrokerFlags({{.name = "all", .help = "all groups"}}),
       .examples = {{"mq group export billing | mq group import --group billing-copy", "a copy"}},
       .run = runExport},
      {.path = "group import",
       .summary = "Commit offsets from JSON lines",
       .details = "Reads all lines before anything is changed. Of several lines for one partition the last one counts. "
                  "A group with members is left alone, and then all are.",
       .positionals = {{.name = "FILE", .help = "instead of stdin", .required = false}},
       .flags = withBrokerFlags(
           {{.name = "group", .shortNames = "g", .value = "GROUP", .help = "into this group, whatever the lines say"},
            kDryRun}),
       .examples = {{"mq group import < offsets.jsonl", "what mq group export printed"},
                    {"jq -c '{topic,partition,offset:(.offset+1)}' batch.jsonl | mq group import -g billing",
                     "commit by hand what mq consume -J --no-commit has printed"}},
       .run = runImport},
  };
}

}  // namespace mq::cli

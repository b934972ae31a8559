// `mq txn list|describe|producers|hanging`: looking at transactions. txn_change.cc ends them.
#include <algorithm>

#include "cli/commands.h"
#include "cli/json_record.h"
#include "cli/offset_range.h"
#include "cli/output.h"
#include "cli/txn_admin.h"

namespace mq::cli {
namespace {

std::string quoted(std::string_view text) {
  std::string json;
  appendJsonBytes(json, asBytes(text));
  return json;
}

// "3 m 2 s", or "-" for a moment that is none.
std::string ageText(int64_t since, int64_t now) {
  return since < 0 ? "-" : humanDuration(static_cast<uint64_t>(std::max<int64_t>(now - since, 0)));
}

std::string orDash(int64_t number) { return number < 0 ? "-" : std::to_string(number); }
std::string orNull(int64_t number) { return number < 0 ? "null" : std::to_string(number); }

std::vector<TopicSelection> selectionsOf(const Arguments& arguments) {
  std::vector<TopicSelection> selections;
  for (const std::string& word : arguments.positionals()) selections.push_back(parseSelection(word, "TOPIC"));
  return selections;
}

int runList(const Arguments& arguments) {
  wire::ListTransactionsRequest filter;
  filter.stateFilters = arguments.all("state");
  if (auto age = arguments.number("older-than", 0, INT64_MAX / 1000)) filter.durationFilter = *age * 1000;
  filter.transactionalIdPattern = arguments.text("pattern");
  Client client(clientOptions(arguments));
  Output out;
  Table table({"ID", "STATE", "PRODUCER", "COORDINATOR"}, {false, false, true, true});
  const bool json = arguments.has("json");
  for (const ListedTransaction& row : listTransactions(client, filter)) {
    // Brokers count an id that has begun no transaction as one that began in 1970.
    if (filter.durationFilter >= 0 && row.state == "Empty") continue;
    if (json) {
      out.write(fmt::format("{{\"id\":{},\"state\":{},\"producer\":{},\"coordinator\":{}}}\n", quoted(row.id),
                            quoted(row.state), row.producerId, row.coordinator));
    } else {
      table.row({row.id, row.state, std::to_string(row.producerId), std::to_string(row.coordinator)});
    }
  }
  if (!json) table.print(out);
  out.flush();
  return exitDone;
}

int runDescribe(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  Output out;
  for (const std::string& id : arguments.positionals()) {
    auto view = findTransaction(client, id);
    if (!view) fail(exitNotFound, "there is no transactional id '{}'; mq txn list shows all", id);
    if (arguments.has("json")) {
      std::string partitions;
      for (const TopicPartition& at : view->partitions)
        partitions += fmt::format("{}{{\"topic\":{},\"partition\":{}}}", partitions.empty() ? "" : ",",
                                  quoted(at.topic), at.partition);
      out.write(
          fmt::format("{{\"id\":{},\"state\":{},\"producer\":{},\"epoch\":{},\"timeoutMs\":{},\"startedMs\":{},"
                      "\"coordinator\":{},\"partitions\":[{}]}}\n",
                      quoted(id), quoted(view->state), view->producerId, view->epoch, view->timeoutMs,
                      orNull(view->startedMs), view->coordinator, partitions));
      continue;
    }
    out.write(fmt::format("id:          {}\nstate:       {}\nproducer:    {} epoch {}\ncoordinator: {}\n", id,
                          view->state, view->producerId, view->epoch, view->coordinator));
    const bool isOpen = view->state == "Ongoing" && view->startedMs >= 0;
    out.write(fmt::format("open:        {} (time-out {})\n", isOpen ? ageText(view->startedMs, wallClockMs()) : "no",
                          humanDuration(static_cast<uint64_t>(std::max(view->timeoutMs, 0)))));
    std::string partitions;
    for (const TopicPartition& at : view->partitions) partitions += (partitions.empty() ? "" : " ") + at.text();
    out.write(fmt::format("partitions:  {}\n", partitions.empty() ? "none" : partitions));
  }
  out.flush();
  return exitDone;
}

int runProducers(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  Outcome outcome;
  Output out;
  Table table({"TOPIC", "PARTITION", "PRODUCER", "EPOCH", "SEQUENCE", "LAST", "OPEN FROM"},
              {false, true, true, true, true, true, true});
  const int64_t now = wallClockMs();
  for (const ProducerView& producer : listProducers(client, selectionsOf(arguments), outcome)) {
    const auto& state = producer.state;
    if (arguments.has("open") && !producer.isOpen()) continue;
    if (arguments.has("json")) {
      out.write(
          fmt::format("{{\"topic\":{},\"partition\":{},\"producer\":{},\"epoch\":{},\"lastSequence\":{},"
                      "\"lastMs\":{},\"openFrom\":{},\"coordinatorEpoch\":{}}}\n",
                      quoted(producer.at.topic), producer.at.partition, state.producerId, state.producerEpoch,
                      orNull(state.lastSequence), orNull(state.lastTimestamp), orNull(state.currentTxnStartOffset),
                      orNull(state.coordinatorEpoch)));
    } else {
      table.row({producer.at.topic, std::to_string(producer.at.partition), std::to_string(state.producerId),
                 std::to_string(state.producerEpoch), orDash(state.lastSequence), ageText(state.lastTimestamp, now),
                 orDash(state.currentTxnStartOffset)});
    }
  }
  if (!arguments.has("json")) table.print(out);
  out.flush();
  return outcome.exitCode();
}

int runHanging(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  Outcome outcome;
  const int64_t olderThan = arguments.number("older-than", 0, INT64_MAX / 1000).value_or(kHangingAfterSeconds) * 1000;
  auto hanging = findHanging(client, selectionsOf(arguments), olderThan, outcome);
  Output out;
  Table table({"TOPIC", "PARTITION", "PRODUCER", "EPOCH", "LAST", "OPEN FROM", "ID"},
              {false, true, true, true, true, true, false});
  const int64_t now = wallClockMs();
  for (const Hanging& row : hanging) {
    const auto& [at, leader, state] = row.producer;
    if (arguments.has("json")) {
      out.write(fmt::format(
          "{{\"topic\":{},\"partition\":{},\"producer\":{},\"epoch\":{},\"lastMs\":{},\"openFrom\":{},\"id\":{}}}\n",
          quoted(at.topic), at.partition, state.producerId, state.producerEpoch, orNull(state.lastTimestamp),
          state.currentTxnStartOffset, row.id.empty() ? "null" : quoted(row.id)));
    } else {
      table.row({at.topic, std::to_string(at.partition), std::to_string(state.producerId),
                 std::to_string(state.producerEpoch), ageText(state.lastTimestamp, now),
                 std::to_string(state.currentTxnStartOffset), row.id.empty() ? "-" : row.id});
    }
  }
  if (!arguments.has("json") && !hanging.empty()) table.print(out);
  out.flush();
  if (hanging.empty() && outcome.exitCode() == exitDone) fmt::print(stderr, "mq: nothing hangs\n");
  if (!hanging.empty()) {
    const auto& [at, leader, state] = hanging.front().producer;
    fmt::print(stderr, "mq: end one with: mq txn abort --producer {} {}:{}\n", state.producerId, at.topic,
               at.partition);
  }
  return outcome.exitCode() != exitDone ? outcome.exitCode() : hanging.empty() ? exitDone : exitUnhealthy;
}

const Positional kIds = {.name = "ID", .help = "one or more transactional ids", .repeats = true};
const Positional kSelections = {.name = "TOPIC[:N,...]",
                                .help = "only these topics or partitions (default: all)",
                                .required = false,
                                .repeats = true};

}  // namespace

std::vector<Command> txnCommands() {
  return {
      {.path = "txn", .summary = "Show and end transactions"},
      {.path = "txn list",
       .summary = "List transactional ids and how far the transaction of each is",
       .flags = withBrokerFlags({{.name = "state",
                                  .value = "STATE",
                                  .help = "only in this state: Ongoing, CompleteCommit, ...",
                                  .repeats = true},
                                 {.name = "older-than", .value = "SECONDS", .help = "only those that began longer ago"},
                                 {.name = "pattern", .value = "REGEX", .help = "only ids that it matches as a whole"},
                                 kJson}),
       .examples = {{"mq txn list --state Ongoing --older-than 60", "what has been open for more than a minute"}},
       .run = runList},
      {.path = "txn describe",
       .summary = "Show a transactional id: its producer, its open transaction and the partitions of it",
       .positionals = {kIds},
       .flags = withBrokerFlags({kJson}),
       .run = runDescribe},
      {.path = "txn producers",
       .summary = "Show the producers that partitions know, and which of them have a transaction open there",
       .details =
           "OPEN FROM is the first offset of the open transaction: readers of committed records wait in front of "
           "the lowest of a partition. LAST is how long ago the producer wrote.",
       .positionals = {kSelections},
       .flags = withBrokerFlags({{.name = "open", .help = "only those with an open transaction"}, kJson}),
       .examples = {{"mq txn producers --open orders", "who holds up the readers of orders"}},
       .run = runProducers},
      {.path = "txn hanging",
       .summary = "Find transactions that are open on a partition and that no coordinator will end",
       .details = "Readers of committed records wait for them for ever. Looked at are those whose producer has written "
                  "nothing for --older-than seconds. Ends with 10 if there are any.",
       .positionals = {kSelections},
       .flags =
           withBrokerFlags({{.name = "older-than",
                             .value = "SECONDS",
                             .help = "silent for so long (default 900, the longest that a transaction may be open)"},
                            kJson}),
       .run = runHanging},
  };
}

}  // namespace mq::cli

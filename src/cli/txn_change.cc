// `mq txn abort`: ending a transaction that nobody else ends.
#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/txn_admin.h"
#include "wire/init_producer_id_request.h"
#include "wire/init_producer_id_response.h"
#include "wire/write_txn_markers_request.h"
#include "wire/write_txn_markers_response.h"

namespace mq::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPause{50};

// Another InitProducerId of the id: the coordinator aborts what is open, and its producer is fenced.
void fence(Client& client, const TransactionView& view, std::chrono::milliseconds timeout, Outcome& outcome) {
  wire::InitProducerIdRequest request;
  request.transactionalId = view.id;
  request.transactionTimeoutMs = view.timeoutMs;
  const Clock::time_point deadline = Clock::now() + timeout;
  for (;;) {
    auto answer = client.callCoordinator(
        view.id, request, [](const auto& response) { return response.errorCode; }, 5, Client::Kind::transaction);
    // Its markers are being written.
    if (answer.errorCode != Error::concurrentTransactions || Clock::now() >= deadline)
      return outcome.add(fmt::format("transactional id '{}'", view.id), answer.errorCode, std::nullopt);
    std::this_thread::sleep_for(kPause);
  }
}

int abortIds(const Arguments& arguments) {
  const ClientOptions options = clientOptions(arguments);
  Client client(options);
  std::vector<TransactionView> views;
  std::string text;
  for (const std::string& id : arguments.positionals()) {
    auto view = findTransaction(client, id);
    if (!view) fail(exitNotFound, "there is no transactional id '{}'; mq txn list shows all", id);
    if (view->state != "Ongoing")
      fail(exitConflict, "transactional id '{}' has no open transaction: it is in {}", id, view->state);
    text += fmt::format("{}'{}' ({} partitions)", text.empty() ? "" : ", ", id, view->partitions.size());
    views.push_back(std::move(*view));
  }
  if (arguments.has("dry-run")) {
    fmt::print(stderr, "mq: would abort {} and fence the producers\n", text);
    return exitDone;
  }
  confirm(arguments, fmt::format("abort the transactions of {} and fence their producers?", text));
  Outcome outcome;
  for (const TransactionView& view : views) fence(client, view, options.timeout, outcome);
  return outcome.exitCode();
}

// On the partitions alone, past the coordinator: for what no coordinator knows of.
int abortOnPartitions(const Arguments& arguments, int64_t producerId) {
  Client client(clientOptions(arguments));
  Outcome outcome;
  std::vector<TopicSelection> selections;
  for (const std::string& word : arguments.positionals()) selections.push_back(parseSelection(word, "TOPIC:N"));
  if (selections.empty())
    fail(exitUsage, "--producer takes the partitions, too: mq txn abort --producer {} TOPIC:N", producerId);
  auto producers = listProducers(client, selections, outcome);
  std::erase_if(producers, [&](const ProducerView& producer) {
    return producer.state.producerId != producerId || !producer.isOpen();
  });
  if (outcome.exitCode() != exitDone) return outcome.exitCode();
  if (producers.empty()) fail(exitNothing, "producer {} has no open transaction there", producerId);
  // What a coordinator still knows is its to end: a marker from elsewhere could tear the transaction.
  if (!arguments.has("force")) {
    wire::ListTransactionsRequest filter;
    filter.producerIdFilters = {producerId};
    for (const ListedTransaction& listed : listTransactions(client, filter)) {
      auto view = findTransaction(client, listed.id);
      if (!view) continue;
      for (const ProducerView& producer : producers) {
        if (std::binary_search(view->partitions.begin(), view->partitions.end(), producer.at))
          fail(exitConflict,
               "the coordinator has {} in the transaction of '{}': mq txn abort {} (--force to go past it)",
               producer.at.text(), view->id, view->id);
      }
    }
  }
  std::string text;
  for (const ProducerView& producer : producers)
    text += fmt::format("{}{} from offset {}", text.empty() ? "" : ", ", producer.at.text(),
                        producer.state.currentTxnStartOffset);
  if (arguments.has("dry-run")) {
    fmt::print(stderr, "mq: would write abort markers of producer {} to {}\n", producerId, text);
    return exitDone;
  }
  confirm(arguments, fmt::format("write abort markers of producer {} to {}?", producerId, text));
  for (const ProducerView& producer : producers) {
    wire::WriteTxnMarkersRequest request;
    auto& marker = request.markers.emplace_back();
    marker.producerId = producerId;
    marker.producerEpoch = static_cast<int16_t>(producer.state.producerEpoch);
    marker.transactionResult = false;
    marker.coordinatorEpoch = std::max(producer.state.coordinatorEpoch, 0);
    marker.topics = {{.name = producer.at.topic, .partitionIndexes = {producer.at.partition}}};
    for (const auto& told : client.call(request, producer.leader, 1).markers)
      for (const auto& topic : told.topics)
        for (const auto& partition : topic.partitions)
          outcome.add(producer.at.text(), partition.errorCode, std::nullopt);
  }
  return outcome.exitCode();
}

int runAbort(const Arguments& arguments) {
  if (auto producer = arguments.number("producer", 0, INT64_MAX)) return abortOnPartitions(arguments, *producer);
  if (arguments.positionals().empty()) fail(exitUsage, "which? Transactional ids, or --producer N TOPIC:N");
  return abortIds(arguments);
}

}  // namespace

std::vector<Command> txnChangeCommands() {
  return {
      {.path = "txn abort",
       .summary = "Abort an open transaction",
       .details =
           "By transactional id: the coordinator aborts it on all its partitions, and the producer is fenced. With "
           "--producer, on the named partitions only, past the coordinator: for what mq txn hanging finds.",
       .positionals = {{.name = "ID|TOPIC:N",
                        .help = "transactional ids; with --producer partitions",
                        .required = false,
                        .repeats = true}},
       .flags = withBrokerFlags({{.name = "producer", .value = "N", .help = "the producer id whose transaction hangs"},
                                 {.name = "force", .help = "--producer: also if a coordinator knows the transaction"},
                                 kYes,
                                 kDryRun}),
       .examples = {{"mq txn abort billing-1", "asks, then aborts and fences"},
                    {"mq txn abort --producer 1042 orders:3 --yes", "what hangs on one partition"}},
       .run = runAbort}};
}

}  // namespace mq::cli

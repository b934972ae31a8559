// ListTransactions: of all partitions of __transaction_state that this node leads.
#include "coordinator/topic_pattern.h"
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/transaction.h"
#include "wire/list_transactions_request.h"
#include "wire/list_transactions_response.h"

namespace mq::kafka {

namespace {

using coordinator::Transactions;
using Listed = Transactions::Listed;

Co<Result<Listed>> listShard(coordinator::TransactionCoordinator& there, wire::ListTransactionsRequest filter) {
  Listed all;
  for (int32_t partition : there.led()) {
    auto listed = co_await there.ask<Listed>(
        partition, [&](Transactions& transactions, const coordinator::Now& now, coordinator::Answer<Listed> answer,
                       coordinator::Effects& effects) { transactions.list(filter, now, std::move(answer), effects); });
    if (!listed && listed.failure().error == Error::notCoordinator) continue;  // it has just moved
    if (!listed) co_return listed.failure();
    std::move(listed->begin(), listed->end(), std::back_inserter(all));
  }
  co_return all;
}

}  // namespace

Co<wire::ListTransactionsResponse> listTransactions(Request& request, wire::ListTransactionsRequest asked) {
  Server& server = request.server;
  wire::ListTransactionsResponse response;
  for (const std::string& state : asked.stateFilters)
    if (!coordinator::transactionStateOf(state)) response.unknownStateFilters.push_back(state);
  std::optional<coordinator::TopicPattern> pattern;
  if (asked.transactionalIdPattern && !asked.transactionalIdPattern->empty()) {
    auto compiled = coordinator::TopicPattern::compile(*asked.transactionalIdPattern);
    if (!compiled) {
      response.errorCode = compiled.failure().error;
      co_return response;
    }
    pattern = std::move(*compiled);
  }
  std::vector<kj::Promise<Result<Listed>>> shards;
  for (uint32_t shard = 0; shard < server.shard().count(); ++shard) {
    shards.push_back(
        server.shard().call(shard, [&there = server.transactionsOf(shard), asked] { return listShard(there, asked); }));
  }
  for (auto& shard : shards) {
    auto listed = co_await shard;
    if (listed) {
      std::move(listed->begin(), listed->end(), std::back_inserter(response.transactionStates));
    } else {
      response.errorCode = listed.failure().error;
    }
  }
  if (response.errorCode != Error::none) response.transactionStates.clear();
  std::erase_if(response.transactionStates,
                [&](const auto& listed) { return pattern && !pattern->matches(listed.transactionalId); });
  co_return response;
}

}  // namespace mq::kafka

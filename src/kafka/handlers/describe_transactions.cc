#include "kafka/handlers/handlers.h"
#include "kafka/handlers/transaction.h"
#include "wire/describe_transactions_request.h"
#include "wire/describe_transactions_response.h"

namespace mq::kafka {

namespace {

using Described = coordinator::Transactions::Described;

Co<Described> describe(Server& server, std::string id) {
  Described none;
  none.transactionalId = id;
  if (id.empty()) {
    none.errorCode = Error::invalidRequest;
    co_return none;
  }
  auto described =
      co_await atTransaction<Described>(server, id, [id](auto& transactions, const auto&, auto answer, auto& effects) {
        transactions.describe(id, std::move(answer), effects);
      });
  if (described) co_return std::move(*described);
  none.errorCode = described.failure().error;
  co_return none;
}

}  // namespace

Co<wire::DescribeTransactionsResponse> describeTransactions(Request& request, wire::DescribeTransactionsRequest asked) {
  std::vector<Co<Described>> all;
  for (const auto& id : asked.transactionalIds) all.push_back(describe(request.server, id));
  wire::DescribeTransactionsResponse response;
  for (auto& one : all) response.transactionStates.push_back(co_await one);
  co_return response;
}

}  // namespace mq::kafka

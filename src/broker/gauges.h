// ShardGauges: what the modules of one shard keep as plain figures, brought into its metrics whenever a scrape looks.
// Lives on its shard; shard 0's also tells of what there is once in a node.
#pragma once
#include <functional>

#include "coordinator/group_coordinator.h"
#include "coordinator/transaction_coordinator.h"
#include "metrics/registry.h"
#include "replica/partitions.h"
#include "runtime/process.h"
#include "runtime/shard.h"
#include "storage/log_directory.h"

namespace mq::broker {

using ProcessProbe = std::function<ProcessUsage()>;  // null: there is no process (in simulation)

class ShardGauges {
 public:
  // All outlive it. `process` is used on shard 0 only.
  ShardGauges(Shard& shard, metrics::Registry& registry, const storage::LogDirectory& directory,
              const storage::LogShard& logs, const replica::Partitions& partitions,
              coordinator::GroupCoordinator& groups, const coordinator::TransactionCoordinator& transactions,
              ProcessProbe process);
  KJ_DISALLOW_COPY(ShardGauges);

 private:
  void refresh();
  void refreshNode();
  void refreshProcess(const ProcessUsage& usage);

  Shard& shard_;
  metrics::ShardMetrics& metrics_;
  const storage::LogDirectory& directory_;
  const storage::LogShard& logs_;
  const replica::Partitions& partitions_;
  coordinator::GroupCoordinator& groups_;
  const coordinator::TransactionCoordinator& transactions_;
  ProcessProbe probe_;
  metrics::DirectoryMetrics directoryMetrics_;
  metrics::ProcessMetrics processMetrics_;
  metrics::Registration directoryShown_;
  metrics::Registration processShown_;
};

}  // namespace mq::broker

#include "broker/gauges.h"

#include <algorithm>

namespace mq::broker {
namespace {
int64_t signedOf(uint64_t value) { return static_cast<int64_t>(value); }
}  // namespace

ShardGauges::ShardGauges(Shard& shard, metrics::Registry& registry, const storage::LogDirectory& directory,
                         const storage::LogShard& logs, const replica::Partitions& partitions,
                         coordinator::GroupCoordinator& groups, const coordinator::TransactionCoordinator& transactions,
                         ProcessProbe process)
    : shard_(shard),
      metrics_(registry.shard),
      directory_(directory),
      logs_(logs),
      partitions_(partitions),
      groups_(groups),
      transactions_(transactions),
      probe_(std::move(process)) {
  directoryShown_ = registry.add(directoryMetrics_, {.value = directory.options().path}, [this] { refresh(); });
  if (shard.index() == 0 && probe_) {
    processShown_ = registry.add(processMetrics_, {}, [this] { refreshProcess(probe_()); });
  }
}

void ShardGauges::refresh() {
  const replica::Partitions::Counts counts = partitions_.counts();
  metrics_.partitions.set(signedOf(counts.held));
  metrics_.partitionsLed.set(signedOf(counts.led));
  metrics_.partitionsOffline.set(signedOf(counts.offline));

  const storage::LogShard::Figures figures = logs_.figures();
  metrics_.filesOpen.set(signedOf(figures.openFiles));
  metrics_.filesOpened.value = figures.openedFiles;
  metrics_.recoveryPartitions.value = figures.recoveredLogs;
  metrics_.recoveryScanned.value = figures.scannedBytes;
  metrics_.recoveryCut.value = figures.cutBytes;
  metrics_.scrubbed.value = figures.scrubbedBytes;
  metrics_.scrubFailures.value = figures.damagedBatches;
  metrics_.diskTrimmed.value = figures.trimmedBytes;

  const coordinator::GroupCoordinator::Figures groups = groups_.figures();
  metrics_.groups.set(signedOf(groups.groups));
  metrics_.committedOffsets.set(signedOf(groups.offsets));
  metrics_.groupPartitionsLoading.set(signedOf(groups.loading));
  metrics_.groupAnswersWaiting.set(signedOf(groups.waiting));
  const coordinator::Groups::Counters& counted = groups_.counters();
  metrics_.groupRebalances.value = counted.rebalances;
  metrics_.offsetCommits.value = counted.commits;
  metrics_.offsetsExpired.value = counted.expired;
  metrics_.groupRecordsSkipped.value = counted.unknown;
  metrics_.compactions.value = figures.cleans;
  metrics_.compactionRead.value = figures.cleanReadBytes;
  metrics_.compactionWritten.value = figures.cleanWrittenBytes;
  metrics_.compactionDropped.value = figures.cleanRecordsDropped;
  metrics_.compactionKeyless.value = figures.cleanKeyless;
  metrics_.uncleanable.set(signedOf(figures.uncleanable));
  metrics_.pendingOffsets.set(signedOf(groups.pending));

  const coordinator::TransactionCoordinator::Figures transactions = transactions_.figures();
  metrics_.transactionalIds.set(signedOf(transactions.ids));
  metrics_.transactionsOpen.set(signedOf(transactions.ongoing));
  metrics_.transactionsEnding.set(signedOf(transactions.ending));
  metrics_.transactionPartitionsLoading.set(signedOf(transactions.loading));
  const coordinator::Transactions::Counters& ended = transactions_.counters();
  metrics_.transactionsCommitted.value = ended.committed;
  metrics_.transactionsAborted.value = ended.aborted;
  metrics_.transactionsTimedOut.value = ended.timedOut;
  metrics_.transactionalIdsExpired.value = ended.expired;
  metrics_.transactionRecordsSkipped.value = ended.unknown;

  const TurnStats& turns = shard_.turns();
  metrics_.turn = turns.lengths;
  metrics_.turnsSlow.value = turns.overOneMs;
  metrics_.mailboxTasks.value = turns.tasksReceived;

  directoryMetrics_.used.set(signedOf(counts.bytes));
  directoryMetrics_.syncRounds.value = figures.syncRounds;
  directoryMetrics_.syncs.value = figures.syncedFiles;
  directoryMetrics_.sync = figures.syncTime;
  if (shard_.index() == 0) refreshNode();
}

void ShardGauges::refreshNode() {
  const storage::DirectoryUsage usage = directory_.usage();
  directoryMetrics_.free.set(signedOf(usage.availableBytes));
  directoryMetrics_.total.set(signedOf(usage.totalBytes));
  directoryMetrics_.full.set(!directory_.writable());
  directoryMetrics_.offline.set(directory_.offlineReason().has_value());
  directoryMetrics_.lastCompaction.set(Duration(std::max<int64_t>(directory_.lastClean().value(), 0) * 1ms).count());
  directoryMetrics_.dirtyPercent.set(directory_.dirtyPercentMax());
}

void ShardGauges::refreshProcess(const ProcessUsage& usage) {
  processMetrics_.residentMemory.set(signedOf(usage.residentBytes));
  processMetrics_.virtualMemory.set(signedOf(usage.virtualBytes));
  processMetrics_.openDescriptors.set(signedOf(usage.openDescriptors));
  processMetrics_.maxDescriptors.set(signedOf(usage.maxDescriptors));
  processMetrics_.threads.set(signedOf(usage.threads));
  processMetrics_.cpu.value = static_cast<uint64_t>(usage.cpu.count());
  processMetrics_.startTime.set(Duration(usage.started.value() * 1ms).count());
}

}  // namespace mq::broker

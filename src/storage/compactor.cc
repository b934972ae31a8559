#include "storage/compactor.h"

#include <algorithm>

#include "storage/shard_logs.h"

namespace mq::storage {
namespace {

constexpr uint64_t kPieceBytes = 1_MiB;
constexpr Duration kBusyPause = 200ms;  // until a place among the cleans of the node may be free

}  // namespace

Compactor::Compactor(ShardLogs& logs)
    : logs_(logs), ended_(kj::Promise<void>(kj::READY_NOW).fork()), tasks_(logs.shard.log(), "compaction-failed") {
  auto paf = kj::newPromiseAndFulfiller<void>();
  ended_ = paf.promise.fork();
  tasks_.add(run().attach(kj::defer([fulfiller = kj::mv(paf.fulfiller)]() mutable { fulfiller->fulfill(); })));
}

void Compactor::tuned() {
  if (wake_) wake_->fulfill();
}

kj::Promise<void> Compactor::stop() {
  stopping_ = true;
  if (wake_) wake_->fulfill();
  return ended_.addBranch();
}

size_t Compactor::uncleanable() const {
  return static_cast<size_t>(
      std::ranges::count_if(logs_.logs, [](const auto& entry) { return entry.second->uncleanable_.has_value(); }));
}

bool Compactor::enabled() const { return logs_.tuning.cleansMax > 0 && !logs_.offline && !stopping_; }

// Ends early when somebody wakes it.
Co<void> Compactor::pause(Duration wait) {
  if (stopping_) co_return;
  auto paf = kj::newPromiseAndFulfiller<void>();
  wake_ = kj::mv(paf.fulfiller);
  co_await logs_.shard.after(wait).exclusiveJoin(kj::mv(paf.promise));
  wake_ = nullptr;
}

Co<void> Compactor::run() {
  while (!stopping_) {
    bool cleaned = false;
    try {
      cleaned = co_await cleanDirtiest();
    } catch (...) {
      logs_.shard.log().warning("compaction-failed", "{}", describe(caughtException()));
    }
    if (!cleaned) co_await pause(logs_.tuning.cleanBackoff);
  }
}

// True: there may be more to do.
Co<bool> Compactor::cleanDirtiest() {
  Log* log = enabled() ? dirtiest() : nullptr;
  if (log == nullptr) co_return false;
  const TopicPartition name = log->name_;
  const uint64_t epoch = log->cleanEpoch_;
  if (!co_await logs_.takeClean()) {
    co_await pause(kBusyPause);
    co_return true;
  }
  bool cleaned = false;
  std::optional<kj::Exception> failed;
  try {
    cleaned = co_await clean(name, epoch);
  } catch (...) {
    failed.emplace(caughtException());
  }
  logs_.giveClean(cleaned);
  if (failed) kj::throwFatalException(kj::mv(*failed));
  co_return cleaned;
}

Log* Compactor::find(const TopicPartition& name, uint64_t epoch) {
  auto at = logs_.logs.find(name);
  return at != logs_.logs.end() && at->second->cleanEpoch_ == epoch ? at->second.get() : nullptr;
}

// Kafka's choice: among those over their min.cleanable.dirty.ratio or late by max.compaction.lag.ms.
Log* Compactor::dirtiest() {
  Log* found = nullptr;
  double ratio = 0, ratioMax = 0;
  for (auto& [name, log] : logs_.logs) {
    log->rollForCompaction();
    auto range = log->cleanRange();
    if (!range) continue;
    ratioMax = std::max(ratioMax, range->ratio());
    bool isDue = range->isLate || range->ratio() > log->settings_.minCleanableDirtyRatio;
    if (!isDue || (found != nullptr && range->ratio() <= ratio)) continue;
    ratio = range->ratio();
    found = log.get();
  }
  logs_.tellDirty(static_cast<uint32_t>(ratioMax * 100));
  return found;
}

Co<bool> Compactor::clean(TopicPartition name, uint64_t epoch) {
  Log* log = find(name, epoch);
  auto range = log == nullptr ? std::nullopt : log->cleanRange();
  auto plan = range ? log->planClean(*range) : std::nullopt;
  if (!plan) co_return false;
  plan->mapBytes = logs_.tuning.cleanMapBytes;
  plan->loadFactor = logs_.tuning.cleanLoadFactor;
  plan->ioBytes = logs_.tuning.cleanIoBytes;
  plan->seed = logs_.shard.random().next();
  const std::string directory = plan->directory;
  const Offset first = plan->segments.front().base;
  auto job = std::make_shared<CleanJob>(logs_.shard.files(), std::move(*plan));
  std::optional<kj::Exception> failed;
  bool cleaned = false;
  try {
    cleaned = co_await work(name, epoch, job, first);
  } catch (...) {
    failed.emplace(caughtException());
  }
  const CleanJob::Figures figures = job->figures();
  logs_.figures.cleanReadBytes += figures.readBytes;
  logs_.figures.cleanWrittenBytes += figures.writtenBytes;
  logs_.figures.cleanKeyless += figures.records.keyless;
  const Offset end = job->end();
  // Its memory goes where it was used.
  co_await logs_.shard.run(Pool::background, [job = std::move(job)]() mutable { job = nullptr; });
  if (cleaned) {
    ++logs_.figures.cleans;
    logs_.figures.cleanRecordsDropped += figures.records.recordsRead - figures.records.recordsKept;
    logs_.shard.log().info("compacted", "{}: [{}, {}) of it, {} of {} records are left; {} bytes read, {} written",
                           name, range->dirty, end, figures.records.recordsKept, figures.records.recordsRead,
                           figures.readBytes, figures.writtenBytes);
    co_return true;
  }
  co_await discard(name, epoch, directory);
  if (!failed) co_return false;
  log = find(name, epoch);
  if (log != nullptr && !log->unusable() && !isNoSpace(*failed)) {
    logs_.diskFailed("compacting " + directory, *failed);
  } else {
    logs_.shard.log().warning("compaction-failed", "{} is not compacted now: {}", name, describe(*failed));
  }
  co_return false;
}

// False: the log has moved on, cannot be cleaned, or we are stopping.
Co<bool> Compactor::work(TopicPartition name, uint64_t epoch, std::shared_ptr<CleanJob> job, Offset first) {
  while (true) {
    Log* log = find(name, epoch);
    if (log == nullptr || log->unusable() || !enabled()) co_return false;
    const Instant began = logs_.shard.now();
    const CleanJob::Figures before = job->figures();
    ++log->jobs_;  // the log, and with it the directory, stays until the step is over
    std::optional<Result<CleanJob::State>> stepped;
    {
      KJ_DEFER({
        --log->jobs_;
        log->checkIdle();
      });
      stepped = co_await logs_.shard.run(Pool::background, [job] { return job->step(kPieceBytes); });
    }
    if (!*stepped) {
      log = find(name, epoch);
      if (log == nullptr || log->unusable() || log->segments_.begin()->first != first)
        co_return false;  // deleted under our hands
      log->uncleanable_ = stepped->failure().message;
      logs_.shard.log().error("uncleanable", "{} is not compacted any more: {}", name, *log->uncleanable_);
      co_return false;
    }
    if (**stepped == CleanJob::State::group) {
      log = find(name, epoch);
      if (log == nullptr || !co_await log->replaceSegments(job->group(), epoch)) co_return false;
    } else if (**stepped == CleanJob::State::done) {
      log = find(name, epoch);
      if (log == nullptr) co_return false;
      co_await log->cleanedTo(job->end());
      co_return true;
    }
    const CleanJob::Figures after = job->figures();
    const auto bytes =
        static_cast<double>(after.readBytes + after.writtenBytes - before.readBytes - before.writtenBytes);
    const double due = bytes * 1e9 / std::max(logs_.tuning.cleanBytesPerSecond, 1.0);
    const double spent = static_cast<double>((logs_.shard.now() - began).count());
    if (due > spent) co_await pause(Duration(static_cast<int64_t>(std::min(due - spent, 60e9))));
  }
}

Co<void> Compactor::discard(TopicPartition name, uint64_t epoch, std::string directory) {
  Log* log = find(name, epoch);
  if (log == nullptr || log->unusable()) co_return;
  ++log->jobs_;
  KJ_DEFER({
    --log->jobs_;
    log->checkIdle();
  });
  co_await logs_.shard.run(Pool::background,
                           [&files = logs_.shard.files(), directory] { discardCleaned(files, directory); });
}

}  // namespace mq::storage

#include "storage/shard_logs.h"

#include <algorithm>

#include "base/check.h"
#include "storage/compactor.h"
#include "storage/recovery.h"
#include "storage/scrubber.h"

namespace mq::storage {
namespace {

constexpr size_t kIdleWorkspacesMax = 2;
constexpr size_t kScratchKept = 4_MiB;

// A promise for work that goes on whoever waits for it.
kj::Promise<void> detached(Tasks& tasks, kj::Promise<void> work) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  auto& fulfiller = *paf.fulfiller;
  tasks.add(work.then([&fulfiller] { fulfiller.fulfill(); },
                      [&fulfiller](kj::Exception&& reason) { fulfiller.reject(kj::mv(reason)); })
                .attach(kj::mv(paf.fulfiller)));
  return kj::mv(paf.promise);
}

}  // namespace

ShardLogs::ShardLogs(Shard& s, LogDirectory::State& directory)
    : shard(s),
      options(directory.options),
      tuning(directory.options.tuning),
      files(s.files(), directory.options.openFilesMax),
      syncs(s, directory.options.syncParallel),
      wall(s),
      directory_(directory),
      scrubber_(std::make_unique<Scrubber>(*this)),
      compactor_(std::make_unique<Compactor>(*this)),
      tasks_(s.log(), "log-shard-task-failed") {
  // In order before every open(), which goes the same way.
  shard.post(0, [this, &directory] {
    directory.join(*this);
    bool writable = directory.writable;
    directory.shard.post(shard.index(), [this, writable, offline = directory.offline, tuning = directory.tuning] {
      this->writable = writable;
      tune(tuning);
      if (offline) goOffline(*offline);
    });
  });
  tasks_.add(storeMarksRegularly());
  tasks_.add(syncPageCacheRegularly());
  tasks_.add(enforceRetentionRegularly());
  tasks_.add(expireProducersRegularly());
}

ShardLogs::~ShardLogs() {
  tasks_.cancelAll();
  scrubber_ = nullptr;
  compactor_ = nullptr;
  logs.clear();
}

// --- opening and removing

kj::Promise<Result<Log*>> ShardLogs::open(TopicPartition name, TopicId topic, config::TopicSettings settings) {
  auto paf = kj::newPromiseAndFulfiller<Result<Log*>>();
  auto& answer = *paf.fulfiller;
  tasks_.add(openNow(std::move(name), topic, std::move(settings), answer)
                 .catch_([&answer](kj::Exception&& reason) {
                   answer.fulfill(Result<Log*>(Failure(Error::kafkaStorageError, describe(reason))));
                 })
                 .attach(kj::mv(paf.fulfiller)));
  return kj::mv(paf.promise);
}

Co<void> ShardLogs::openNow(TopicPartition name, TopicId topic, config::TopicSettings settings,
                            kj::PromiseFulfiller<Result<Log*>>& answer) {
  if (auto at = logs.find(name); at != logs.end()) {
    if (at->second->topic() == topic) {
      answer.fulfill(Result<Log*>(at->second.get()));
    } else {
      answer.fulfill(Result<Log*>(failure(Error::inconsistentTopicId, "{} is open with topic id {}, not {}", name,
                                          at->second->topic(), topic)));
    }
    co_return;
  }
  OpenTicket ticket =
      co_await shard.call(0, [&directory = directory_, name, topic] { return directory.prepareOpen(name, topic); });
  if (offline) {
    answer.fulfill(Result<Log*>(Failure(Error::kafkaStorageError, *offline)));
    co_return;
  }
  RecoveredLog recovered;
  recovered.start = recovered.end = ticket.start;
  if (ticket.files) {
    const std::string directory = options.path + "/" + fmt::format("{}", name);
    RecoverySettings how{.topic = topic,
                         .clean = ticket.clean,
                         .mark = ticket.mark,
                         .start = ticket.start,
                         .indexIntervalBytes = static_cast<uint32_t>(settings.indexIntervalBytes),
                         .now = wall.now()};
    try {
      recovered = co_await shard.run(
          Pool::background, [&system = shard.files(), directory, how] { return recoverLog(system, directory, how); });
    } catch (...) {
      recovered = {};
      recovered.start = recovered.end = ticket.start;
      recovered.exists = true;
      recovered.damage = describe(caughtException());
    }
    if (ticket.listed && !recovered.exists) {
      recovered.damage = fmt::format("{} is missing, but its partition is in the list of partitions", directory);
    }
    recovered.listed = ticket.listed;
    recovered.cleanedTo = ticket.cleanedTo;
    // What is appended from now on must not be taken for clean.
    if (ticket.cleanedTo > recovered.end && !recovered.damage) co_await storeCleaned(name, recovered.start);
    for (const std::string& note : recovered.notes) shard.log().warning("recovery", "{}", note);
    if (recovered.damage) shard.log().error("log-damaged", "{} stays offline: {}", name, *recovered.damage);
    figures.recoveredLogs += recovered.wasClean ? 0 : 1;
    figures.cutBytes += recovered.cutBytes;
    figures.scannedBytes += recovered.scannedBytes;
    if (ticket.listed) sentMarks_[name] = ticket.mark;
  }
  std::unique_ptr<Log> log(new Log(*this, name, topic, std::move(settings), std::move(recovered)));
  if (offline) log->goOffline(*offline);
  Log* opened = log.get();
  logs[std::move(name)] = std::move(log);
  answer.fulfill(Result<Log*>(opened));
}

kj::Promise<void> ShardLogs::remove(TopicPartition name, TopicId topic) {
  return detached(tasks_, removeNow(std::move(name), topic));
}

Co<void> ShardLogs::removeNow(TopicPartition name, TopicId topic) {
  auto at = logs.find(name);
  if (at != logs.end() && at->second->topic() == topic) {
    std::unique_ptr<Log> log = std::move(at->second);
    logs.erase(at);
    sentMarks_.erase(name);
    co_await log->abandon();
  }
  co_await shard.call(0, [&directory = directory_, name, topic] { return directory.removePartition(name, topic); });
}

kj::Promise<void> ShardLogs::close() { return closeNow(); }

Co<void> ShardLogs::closeNow() {
  scrubber_->stop();
  co_await compactor_->stop();
  auto closing = kj::heapArrayBuilder<kj::Promise<void>>(logs.size());
  for (auto& [name, log] : logs) closing.add(log->close());
  co_await kj::joinPromises(closing.finish());
  tasks_.cancelAll();
  auto marks = movedMarks();
  if (!offline && !marks.empty()) {
    co_await shard.call(
        0, [&directory = directory_, marks = std::move(marks)]() mutable { directory.noteMarks(std::move(marks)); });
  }
  std::vector<TopicPartition> closed;
  for (const auto& [name, log] : logs) closed.push_back(name);
  co_await shard.call(0, [&directory = directory_, index = shard.index(), closed = std::move(closed)]() mutable {
    return directory.leave(index, std::move(closed));
  });
  // The logs, closed, stay for those who still observe them; they go with this.
}

// --- the directory on shard 0

kj::Promise<void> ShardLogs::list(TopicPartition name, TopicId topic) {
  return shard.call(0, [&directory = directory_, name, topic] { return directory.list(name, topic); });
}

kj::Promise<void> ShardLogs::storeStart(TopicPartition name, Offset start) {
  return shard.call(0, [&directory = directory_, name, start] { return directory.storeStart(name, start); });
}

kj::Promise<void> ShardLogs::storeMark(TopicPartition name, Offset mark) {
  sentMarks_[name] = mark;
  return shard.call(0, [&directory = directory_, name, mark] { return directory.storeMark(name, mark); });
}

kj::Promise<void> ShardLogs::storeCleaned(TopicPartition name, Offset cleanedTo) {
  return shard.call(0, [&directory = directory_, name, cleanedTo] { return directory.storeCleaned(name, cleanedTo); });
}

kj::Promise<bool> ShardLogs::takeClean() {
  return shard.call(0, [&directory = directory_] { return directory.takeClean(); });
}

void ShardLogs::tellDirty(uint32_t percent) {
  if (std::exchange(dirtyPercent_, percent) == percent) return;
  shard.post(0,
             [&directory = directory_, index = shard.index(), percent] { directory.dirtyPercents[index] = percent; });
}

size_t ShardLogs::uncleanable() const { return compactor_->uncleanable(); }

void ShardLogs::giveClean(bool cleaned) {
  shard.post(0, [&directory = directory_, cleaned] { directory.giveClean(cleaned); });
}

std::vector<std::pair<TopicPartition, Offset>> ShardLogs::movedMarks() {
  std::vector<std::pair<TopicPartition, Offset>> moved;
  for (const auto& [name, log] : logs) {
    auto mark = log->durableMark();
    if (!mark) continue;
    auto [at, added] = sentMarks_.try_emplace(name, *mark);
    if (!added && at->second == *mark) continue;
    at->second = *mark;
    moved.emplace_back(name, *mark);
  }
  return moved;
}

void ShardLogs::markMoved() {
  if (std::exchange(marksSoon_, true)) return;
  tasks_.add(kj::evalLast([this] {
    marksSoon_ = false;
    auto moved = movedMarks();
    if (moved.empty() || offline) return;
    shard.post(
        0, [&directory = directory_, moved = std::move(moved)]() mutable { directory.noteMarks(std::move(moved)); });
  }));
}

Co<void> ShardLogs::storeMarksRegularly() {
  while (true) {
    co_await shard.after(options.markInterval);
    markMoved();
  }
}

Co<void> ShardLogs::syncPageCacheRegularly() {
  while (true) {
    co_await shard.after(options.pageCacheSyncInterval);
    for (auto& [name, log] : logs) {
      if (log->hasUnsynced() && !log->unusable()) syncs.request(*log);
    }
  }
}

Co<void> ShardLogs::enforceRetentionRegularly() {
  while (true) {
    co_await shard.after(options.retentionInterval);
    wall.now();
    for (auto& [name, log] : logs) log->enforceRetention();
  }
}

Co<void> ShardLogs::expireProducersRegularly() {
  while (true) {
    co_await shard.after(options.producerCheckInterval);
    for (auto& [name, log] : logs) log->expireProducers();
  }
}

void ShardLogs::tune(const Tuning& now) {
  bool rate = tuning.scrubBytesPerSecond != now.scrubBytesPerSecond;
  tuning = now;
  compactor_->tuned();
  if (rate) scrubber_->restart();
}

kj::Promise<void> ShardLogs::trim(uint64_t wanted) { return detached(tasks_, trimNow(wanted)); }

Co<void> ShardLogs::trimNow(uint64_t wanted) {
  uint64_t freed = 0;
  while (freed < wanted) {
    // The least recently written first, whatever partition it is of.
    Log* oldest = nullptr;
    std::optional<Log::Trimmable> found;
    for (auto& [name, log] : logs) {
      auto candidate = log->trimmable();
      if (candidate && (!found || candidate->lastAppend < found->lastAppend)) {
        found = candidate;
        oldest = log.get();
      }
    }
    if (oldest == nullptr) break;
    shard.log().warning("disk-trim", "{}: {} bytes up to offset {} are deleted before their time: the disk is full",
                        oldest->name(), found->bytes, found->end);
    if (!co_await oldest->trimTo(found->end)) break;
    freed += found->bytes;
    figures.trimmedBytes += found->bytes;
  }
  while (unlinking > 0) co_await shard.after(10ms);
}

void ShardLogs::diskFailed(const std::string& what, const kj::Exception& reason) {
  if (offline) return;
  std::string text = fmt::format("log directory {} is offline: {}: {}", options.path, what, describe(reason));
  shard.log().error("directory-offline", "{}", text);
  goOffline(text);
  shard.post(0, [&directory = directory_, text] { directory.goOffline(text); });
}

void ShardLogs::goOffline(const std::string& reason) {
  if (offline) return;
  offline = reason;
  for (auto& [name, log] : logs) log->goOffline(reason);
  for (auto& call : offlineCalls) call(reason);
}

// --- end of turn

void ShardLogs::flushAtEndOfTurn(Log& log) {
  toFlush_.push_back(&log);
  if (std::exchange(turnEnds_, true)) return;
  tasks_.add(kj::evalLast([this] { endTurn(); }));
}

void ShardLogs::endTurn() {
  turnEnds_ = false;
  for (Log* log : std::exchange(toFlush_, {})) log->endTurn();
}

void ShardLogs::forget(Log& log) { std::erase(toFlush_, &log); }

std::unique_ptr<record::Workspace> ShardLogs::takeWorkspace() {
  if (idle_.empty()) return std::make_unique<record::Workspace>();
  auto workspace = std::move(idle_.back());
  idle_.pop_back();
  return workspace;
}

void ShardLogs::giveBack(std::unique_ptr<record::Workspace> used) {
  used->plain.releaseAbove(kScratchKept);
  if (idle_.size() < kIdleWorkspacesMax) idle_.push_back(std::move(used));
}

// --- LogShard

LogShard::LogShard(Shard& shard, LogDirectory& directory)
    : logs_(std::make_unique<ShardLogs>(shard, *directory.state_)) {}
LogShard::~LogShard() = default;

kj::Promise<Result<Log*>> LogShard::open(TopicPartition name, TopicId topic, config::TopicSettings settings) {
  return logs_->open(std::move(name), topic, std::move(settings));
}

Log* LogShard::find(const TopicPartition& name) {
  auto at = logs_->logs.find(name);
  return at == logs_->logs.end() ? nullptr : at->second.get();
}

std::vector<Log*> LogShard::logs() {
  std::vector<Log*> all;
  for (auto& [name, log] : logs_->logs) all.push_back(log.get());
  return all;
}

kj::Promise<void> LogShard::remove(TopicPartition name, TopicId topic) { return logs_->remove(std::move(name), topic); }
bool LogShard::writable() const { return logs_->writable; }
const std::optional<std::string>& LogShard::offlineReason() const { return logs_->offline; }
void LogShard::onOffline(std::function<void(const std::string& reason)> call) {
  logs_->offlineCalls.push_back(std::move(call));
}

LogShard::Figures LogShard::figures() const {
  Figures figures = logs_->figures;
  figures.syncRounds = logs_->syncs.figures().rounds;
  figures.syncedFiles = logs_->syncs.figures().files;
  figures.syncTime = logs_->syncs.figures().time;
  figures.openFiles = logs_->files.openCount();
  figures.openedFiles = logs_->files.opened();
  figures.uncleanable = logs_->uncleanable();
  return figures;
}

kj::Promise<void> LogShard::close() { return logs_->close(); }

}  // namespace mq::storage

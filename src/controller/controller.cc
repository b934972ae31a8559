#include "controller/controller.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include <kj/debug.h>

#include "base/check.h"
#include "controller/planner.h"
#include "controller/raft_log.h"
#include "metadata/record.h"
#include "runtime/tasks.h"

namespace mq::controller {

using metadata::Applied;
using metadata::DeltaRef;
using metadata::ImageRef;
using metadata::Record;

namespace {

constexpr size_t kFrameDataMax = 1 << 20;   // of entries written together; one alone may be bigger
constexpr size_t kReplayDataMax = 4 << 20;  // read at a time

template <class... Args>
kj::Exception broken(kj::Exception::Type type, fmt::format_string<Args...> format, Args&&... args) {
  return kj::Exception(type, __FILE__, __LINE__,
                       kj::heapString(fmt::format(format, std::forward<Args>(args)...).c_str()));
}

}  // namespace

class Controller::Impl {
 public:
  Impl(Shard& shard, ControllerOptions options, std::vector<MetadataFeed*> feeds)
      : shard_(shard),
        options_(std::move(options)),
        feeds_(std::move(feeds)),
        planner_({options_.node, options_.config, options_.producerIdBlock}),
        snapshotAfterBytes_(static_cast<uint64_t>(options_.config.settings().metadataSnapshotBytes)),
        failed_(kj::newPromiseAndFulfiller<kj::Exception>()),
        tasks_(shard.log(), "controller") {
    MQ_CHECK(feeds_.size() == shard.count(), feeds_.size(), shard.count());
    log_ = RaftLog::load(shard.files(), shard.log(),
                         {.directory = options_.directory,
                          .node = options_.node,
                          .newDirectoryId = newId(shard.random()),
                          .mustExist = options_.mustExist});
    replay();
    lead();
    decided_ = committed_;
  }

  Co<void> start() {
    return publish(
        {{committed_, std::make_shared<metadata::Delta>(metadata::difference(*metadata::emptyImage(), *committed_))}});
  }

  Co<void> stop() {
    stopping_ = true;
    co_await tasks_.onEmpty();
    if (!failure_) co_await shard_.run(Pool::sync, [log = log_] { log->close(); });
  }

  kj::Promise<kj::Exception> failed() { return kj::mv(failed_.promise); }

  // The life of a request: decide, wait until what was decided is durable and visible everywhere, answer.
  template <class Decide>
  auto perform(Decide decide) -> Co<decltype(decide(std::declval<Now>()).response)> {
    checkOpen();
    // The disk was full a moment ago; it may not be any more.
    if (space_ != Space::plenty) co_await enqueue({}, true);
    Space space = space_;
    for (;;) {
      auto plan = decide(Now{*decided_, shard_.random(), space});
      if (plan.records.empty()) {
        if (writing_ || publishing_ > 0) co_await enqueue({}, false);
        co_return std::move(plan.response);
      }
      if (co_await enqueue(std::move(plan.records), false)) co_return std::move(plan.response);
      checkOpen();
      space = Space::none;  // nothing was written: the decision is taken again, to say so
    }
  }

  const Planner& planner() const { return planner_; }
  const ImageRef& committed() const { return committed_; }
  const RaftLog& log() const { return *log_; }

 private:
  struct Waiting {
    std::optional<LogEntry> entry;  // none: only waits its turn
    Applied applied;
    bool wantsSpace = false;                   // tries to set aside the log's reserve again
    kj::Own<kj::PromiseFulfiller<bool>> done;  // false: no space, nothing written
  };
  using Updates = std::vector<Applied>;

  void checkOpen() const {
    if (failure_) throw kj::Exception(*failure_);
    if (stopping_) throw broken(kj::Exception::Type::DISCONNECTED, "the controller is stopping");
  }

  // Rebuilds the image from snapshot and log. Every entry counts: the only voter has synced it.
  void replay() {
    committed_ = metadata::emptyImage();
    if (auto snapshot = log_->readSnapshot())
      replayEntry(snapshot->data, snapshot->id.index, snapshot->id.term, "the snapshot");
    int64_t end = log_->lastIndex() + 1;
    for (int64_t next = committed_->offset() + 1; next < end;) {
      for (auto& entry : log_->read(next, end, kReplayDataMax)) {
        switch (entry.type) {
          case EntryType::noop: replayRecords({}, entry.index, entry.term); break;
          case EntryType::records: replayEntry(entry.data, entry.index, entry.term, "the log"); break;
          default:
            throw broken(kj::Exception::Type::FAILED,
                         "entry {} of the metadata log in {} has type {}: start a newer mq", entry.index,
                         options_.directory, static_cast<int>(entry.type));
        }
        next = entry.index + 1;
      }
    }
  }
  void replayEntry(Bytes data, int64_t index, int64_t term, std::string_view where) {
    auto records = metadata::decodeRecords(data);
    if (!records)
      throw broken(kj::Exception::Type::FAILED, "entry {} of the metadata in {} ({}) cannot be read: {}", index,
                   options_.directory, where, records.failure().message);
    replayRecords(*records, index, term);
  }
  void replayRecords(std::span<const Record> records, int64_t index, int64_t term) {
    committed_ = metadata::apply(committed_, records, index, term).image;
  }

  // A sole voter wins the election it holds with itself: a new term, its own vote, and a first entry of that term.
  void lead() {
    bool isNew = log_->lastIndex() == 0;
    if (!isNew) checkIdentity();
    term_ = log_->hardState().term + 1;
    log_->saveHardState({term_, options_.node});
    std::vector<Record> records;
    if (isNew) {
      Uuid clusterId = options_.clusterId.isZero() ? newId(shard_.random()) : options_.clusterId;
      records = planner_.bootstrap(clusterId, log_->directoryId());
      shard_.log().info("cluster-created", "new cluster {} with voter {} in {}", clusterId, options_.node,
                        options_.directory);
    }
    LogEntry entry{log_->lastIndex() + 1, term_, isNew ? EntryType::records : EntryType::noop, {}};
    if (isNew) entry.data = metadata::encodeRecords(records);
    space_ = log_->append(std::span(&entry, 1));
    if (space_ == Space::none)
      throw broken(kj::Exception::Type::FAILED, "no space for the metadata log in {}: free some", options_.directory);
    replayRecords(records, entry.index, entry.term);
  }

  void checkIdentity() {
    const Uuid& cluster = committed_->clusterId();
    if (cluster.isZero())
      throw broken(kj::Exception::Type::FAILED,
                   "the metadata log in {} does not say which cluster it belongs to: restore it from a copy",
                   options_.directory);
    if (!options_.clusterId.isZero() && cluster != options_.clusterId)
      throw broken(kj::Exception::Type::FAILED, "the metadata log in {} belongs to cluster {}, not {}",
                   options_.directory, cluster, options_.clusterId);
    metadata::Voter self{options_.node, log_->directoryId()};
    auto& voters = committed_->voters();
    if (std::find(voters.begin(), voters.end(), self) == voters.end())
      throw broken(kj::Exception::Type::FAILED, "node {} with metadata directory {} ({}) is no voter of cluster {}",
                   self.id, self.directory, options_.directory, cluster);
    if (voters.size() != 1)
      throw broken(kj::Exception::Type::FAILED, "cluster {} has {} voters, and this mq runs clusters of one", cluster,
                   voters.size());
  }

  // True once the records are durable and published, and so is all that was enqueued before. Decided from now on.
  kj::Promise<bool> enqueue(std::vector<Record> records, bool wantsSpace) {
    auto paf = kj::newPromiseAndFulfiller<bool>();
    Waiting waiting;
    waiting.wantsSpace = wantsSpace;
    waiting.done = kj::mv(paf.fulfiller);
    if (!records.empty()) {
      int64_t index = decided_->offset() + 1;
      waiting.entry = LogEntry{index, term_, EntryType::records, metadata::encodeRecords(records)};
      MQ_CHECK(waiting.entry->data.size() <= log_format::kEntryBytesMax, waiting.entry->data.size());
      waiting.applied = metadata::apply(decided_, records, index, term_);
      decided_ = waiting.applied.image;
    }
    queue_.push_back(std::move(waiting));
    if (!writing_) {
      writing_ = true;
      // Entries that come in this turn of the loop share the first frame.
      tasks_.add(kj::evalLater([this] { return write(); }));
    }
    return kj::mv(paf.promise);
  }

  Co<void> write() {
    try {
      while (!queue_.empty()) co_await writeSome();
    } catch (...) {
      fail(caughtException());
    }
    writing_ = false;
  }

  // One frame with what has come together.
  Co<void> writeSome() {
    std::vector<Waiting> batch;
    std::vector<LogEntry> entries;
    size_t bytes = 0;
    bool wantsSpace = false;
    while (!queue_.empty()) {
      auto& next = queue_.front();
      size_t more = next.entry ? next.entry->data.size() : 0;
      if (!entries.empty() && bytes + more > kFrameDataMax) break;
      bytes += more;
      wantsSpace = wantsSpace || next.wantsSpace;
      if (next.entry) entries.push_back(std::move(*next.entry));
      batch.push_back(std::move(next));
      queue_.pop_front();
    }
    inHand_ = kj::mv(batch);
    if (!entries.empty() || wantsSpace) {
      Space space =
          co_await shard_.run(Pool::sync, [log = log_, entries = std::move(entries)] { return log->append(entries); });
      if (space != space_) reportSpace(space);
      space_ = space == Space::none ? Space::low : space;
      if (space == Space::none) {
        refuseAll();
        co_return;
      }
    }
    Updates updates;
    for (auto& waiting : inHand_)
      if (waiting.applied.image) {
        committed_ = waiting.applied.image;
        updates.push_back(std::move(waiting.applied));
      }
    tasks_.add(publishAndAnswer(std::move(updates), std::exchange(inHand_, {})));
    co_await snapshotIfDue();
  }

  // Nothing of the batch was written, so nothing decided on top of it stands either.
  void refuseAll() {
    decided_ = committed_;
    for (auto& waiting : std::exchange(inHand_, {})) waiting.done->fulfill(false);
    for (auto& waiting : std::exchange(queue_, {})) waiting.done->fulfill(false);
  }

  void reportSpace(Space space) {
    if (space == Space::plenty)
      shard_.log().info("metadata-space", "there is space for the metadata log in {} again", options_.directory);
    else
      shard_.log().warning("metadata-space",
                           "no space to extend the metadata log in {}: only deletions and registrations go on",
                           options_.directory);
  }

  Co<void> publishAndAnswer(Updates updates, std::vector<Waiting> batch) {
    ++publishing_;
    try {
      if (!updates.empty()) co_await publish(std::move(updates));
    } catch (...) {
      fail(caughtException());
    }
    --publishing_;
    for (auto& waiting : batch) {
      if (failure_)
        waiting.done->reject(kj::Exception(*failure_));
      else
        waiting.done->fulfill(true);
    }
  }

  // Every shard gets the images in order. Posted before the first wait, so that batches cannot overtake one another.
  Co<void> publish(Updates updates) {
    auto shared = std::make_shared<const Updates>(std::move(updates));
    auto publications = kj::heapArrayBuilder<kj::Promise<void>>(feeds_.size());
    for (uint32_t shard = 0; shard < feeds_.size(); ++shard)
      publications.add(shard_.call(shard, [feed = feeds_[shard], shared] {
        for (auto& update : *shared) feed->publish(update.image, *update.delta);
      }));
    co_await kj::joinPromises(publications.finish());
  }

  Co<void> snapshotIfDue() {
    if (log_->bytesSinceSnapshot() < snapshotAfterBytes_) co_return;
    SnapshotId id{committed_->offset(), committed_->epoch()};
    bool saved = co_await shard_.run(Pool::sync, [log = log_, image = committed_, id] {
      return log->saveSnapshot(id, metadata::encodeRecords(metadata::recordsOf(*image)));
    });
    auto every = static_cast<uint64_t>(options_.config.settings().metadataSnapshotBytes);
    snapshotAfterBytes_ = saved ? every : log_->bytesSinceSnapshot() + every;
    if (!saved)
      shard_.log().warning("metadata-snapshot-skipped", "no space for a snapshot of the metadata in {}",
                           options_.directory);
  }

  void fail(kj::Exception reason) {
    if (failure_) return;
    shard_.log().error("metadata-log-failed", "{}", describe(reason));
    failure_.emplace(reason);
    for (auto& waiting : std::exchange(inHand_, {})) waiting.done->reject(kj::Exception(reason));
    for (auto& waiting : std::exchange(queue_, {})) waiting.done->reject(kj::Exception(reason));
    failed_.fulfiller->fulfill(kj::mv(reason));
  }

  Shard& shard_;
  ControllerOptions options_;
  std::vector<MetadataFeed*> feeds_;
  Planner planner_;
  std::shared_ptr<RaftLog> log_;  // shared with the job that uses it; never used by two at a time
  int64_t term_ = 0;
  ImageRef committed_;  // durable
  ImageRef decided_;    // with what is on its way to the disk
  Space space_ = Space::plenty;
  std::deque<Waiting> queue_;    // in the order of the decisions
  std::vector<Waiting> inHand_;  // being written
  bool writing_ = false;
  int publishing_ = 0;
  bool stopping_ = false;
  std::optional<kj::Exception> failure_;
  uint64_t snapshotAfterBytes_;
  kj::PromiseFulfillerPair<kj::Exception> failed_;
  Tasks tasks_;
};

Controller::Controller(Shard& shard, ControllerOptions options, std::vector<MetadataFeed*> feeds)
    : impl_(kj::heap<Impl>(shard, std::move(options), std::move(feeds))) {}
Controller::~Controller() noexcept(false) {}

kj::Promise<void> Controller::start() { return impl_->start(); }
kj::Promise<void> Controller::stop() { return impl_->stop(); }
kj::Promise<kj::Exception> Controller::failed() { return impl_->failed(); }
kj::Promise<CreateTopicsResponse> Controller::createTopics(CreateTopicsRequest request) {
  return impl_->perform([&planner = impl_->planner(), request = std::move(request)](Now now) {
    return planner.createTopics(now, request);
  });
}
kj::Promise<DeleteTopicsResponse> Controller::deleteTopics(DeleteTopicsRequest request) {
  return impl_->perform([&planner = impl_->planner(), request = std::move(request)](Now now) {
    return planner.deleteTopics(now, request);
  });
}
kj::Promise<CreatePartitionsResponse> Controller::createPartitions(CreatePartitionsRequest request) {
  return impl_->perform([&planner = impl_->planner(), request = std::move(request)](Now now) {
    return planner.createPartitions(now, request);
  });
}
kj::Promise<AlterConfigsResponse> Controller::alterConfigs(AlterConfigsRequest request) {
  return impl_->perform([&planner = impl_->planner(), request = std::move(request)](Now now) {
    return planner.alterConfigs(now, request);
  });
}
kj::Promise<Result<void>> Controller::updateFeatures(UpdateFeaturesRequest request) {
  return impl_->perform([&planner = impl_->planner(), request = std::move(request)](Now now) {
    return planner.updateFeatures(now, request);
  });
}
kj::Promise<EnsureTopicsResponse> Controller::ensureTopics(EnsureTopicsRequest request) {
  return impl_->perform([&planner = impl_->planner(), request = std::move(request)](Now now) {
    return planner.ensureTopics(now, request);
  });
}
kj::Promise<Result<ProducerIdBlock>> Controller::allocateProducerIds() {
  return impl_->perform([&planner = impl_->planner()](Now now) { return planner.allocateProducerIds(now); });
}
kj::Promise<Result<RegisteredBroker>> Controller::registerBroker(BrokerRegistration registration) {
  return impl_->perform([&planner = impl_->planner(), registration = std::move(registration)](Now now) {
    return planner.registerBroker(now, registration);
  });
}

const ImageRef& Controller::image() const { return impl_->committed(); }
const Uuid& Controller::directoryId() const { return impl_->log().directoryId(); }

kj::Promise<CreateTopicsResponse> ControllerClient::createTopics(CreateTopicsRequest request) {
  return shard_.call(0, [&there = controller_, request = std::move(request)]() mutable {
    return there.createTopics(std::move(request));
  });
}
kj::Promise<DeleteTopicsResponse> ControllerClient::deleteTopics(DeleteTopicsRequest request) {
  return shard_.call(0, [&there = controller_, request = std::move(request)]() mutable {
    return there.deleteTopics(std::move(request));
  });
}
kj::Promise<CreatePartitionsResponse> ControllerClient::createPartitions(CreatePartitionsRequest request) {
  return shard_.call(0, [&there = controller_, request = std::move(request)]() mutable {
    return there.createPartitions(std::move(request));
  });
}
kj::Promise<AlterConfigsResponse> ControllerClient::alterConfigs(AlterConfigsRequest request) {
  return shard_.call(0, [&there = controller_, request = std::move(request)]() mutable {
    return there.alterConfigs(std::move(request));
  });
}
kj::Promise<Result<void>> ControllerClient::updateFeatures(UpdateFeaturesRequest request) {
  return shard_.call(0, [&there = controller_, request = std::move(request)]() mutable {
    return there.updateFeatures(std::move(request));
  });
}
kj::Promise<EnsureTopicsResponse> ControllerClient::ensureTopics(EnsureTopicsRequest request) {
  return shard_.call(0, [&there = controller_, request = std::move(request)]() mutable {
    return there.ensureTopics(std::move(request));
  });
}
kj::Promise<Result<ProducerIdBlock>> ControllerClient::allocateProducerIds() {
  return shard_.call(0, [&there = controller_] { return there.allocateProducerIds(); });
}
kj::Promise<Result<RegisteredBroker>> ControllerClient::registerBroker(BrokerRegistration registration) {
  return shard_.call(0, [&there = controller_, registration = std::move(registration)]() mutable {
    return there.registerBroker(std::move(registration));
  });
}

}  // namespace mq::controller

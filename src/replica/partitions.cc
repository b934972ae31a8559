#include "replica/partitions.h"

#include <algorithm>

#include "controller/dynamic_config.h"

namespace mq::replica {

uint32_t shardOf(const TopicIdPartition& id, uint32_t shards) {
  uint64_t topic = 0;
  for (uint8_t byte : id.topic.bytes) topic = topic * 31 + byte;
  return static_cast<uint32_t>((topic + static_cast<uint32_t>(id.partition)) % shards);
}

Partitions::Partitions(Shard& shard, NodeId self, config::BrokerConfig config, storage::LogShard& logs,
                       controller::MetadataFeed& feed, metrics::Registry& metrics)
    : shard_(shard),
      self_(self),
      started_(config),
      config_(std::move(config)),
      logs_(logs),
      metrics_(metrics),
      image_(metadata::emptyImage()),
      tasks_(shard.log(), "partition-failed") {
  subscription_ =
      feed.subscribe([this](const metadata::ImageRef& image, const metadata::Delta& delta) { follow(image, delta); });
}

Partitions::~Partitions() noexcept { close(); }

void Partitions::close() {
  subscription_ = nullptr;
  stopWaiting();
  following_ = nullptr;
  inSync_ = nullptr;
  while (!sessions_.empty()) {
    ServedFollower& session = *sessions_.begin()->second;
    sessions_.erase(sessions_.begin());
    session.end("the node is stopping");
  }
  tasks_.cancelAll();
  for (auto& [id, partition] : partitions_) {
    partition->stop(failure(Error::notLeaderOrFollower, "the broker is stopping"));
  }
  partitions_.clear();
}

void Partitions::connect(Peers peers) {
  const config::BrokerSettings& settings = config_.settings();
  const Duration backoff = std::chrono::milliseconds(settings.replicaFetchBackoffMs);
  peers_ = std::move(peers);
  auto find = [this](const TopicIdPartition& id) { return this->find(id); };
  inSync_ = std::make_unique<InSync>(
      shard_,
      InSync::Options{.self = self_, .lagMax = std::chrono::milliseconds(settings.replicaLagMaxMs), .backoff = backoff},
      find, peers_.propose);
  inSync_->setImage(image_);
  if (peers_.leaders != nullptr) {
    following_ = std::make_unique<Following>(
        shard_, *peers_.leaders,
        Fetcher::Options{.waitMax = std::chrono::milliseconds(settings.replicaFetchWaitMaxMs),
                         .bytesMax = static_cast<uint32_t>(settings.replicaFetchBytesMax),
                         .backoff = backoff},
        find);
  }
  for (auto& [id, partition] : partitions_) {
    if (following_) following_->update(*partition, false);
    if (partition->isInSyncWatched()) inSync_->watch(id);
  }
  tasks_.add(endSilentSessions());
}

Partition* Partitions::find(const TopicIdPartition& id) {
  auto found = partitions_.find(id);
  return found == partitions_.end() ? nullptr : found->second.get();
}

Failure Partitions::whyMissing(const TopicIdPartition& id) const {
  if (auto found = failed_.find(id); found != failed_.end()) return found->second;
  const metadata::Partition* assignment = image_->partition(id);
  if (!assignment) return Error::unknownTopicOrPartition;
  if (opening_.contains(id)) return failure(Error::notLeaderOrFollower, "partition {} is being opened", id.partition);
  return Error::notLeaderOrFollower;
}

// --- metadata

void Partitions::follow(const metadata::ImageRef& image, const metadata::Delta& delta) {
  image_ = image;
  if (inSync_) inSync_->setImage(image);
  if (controller::changesConfigOf(self_, delta)) {
    config_ = controller::configOf(self_, started_, *image);
    for (auto& [id, partition] : partitions_) partition->setSettings(settingsOf(partition->name().topic));
  }
  for (const metadata::TopicRef& topic : delta.deleted) {
    for (int32_t i = 0; i < topic->partitionCount(); ++i) drop(*topic, i, Error::unknownTopicOrPartition);
  }
  for (const metadata::TopicRef& topic : delta.created) {
    for (int32_t i = 0; i < topic->partitionCount(); ++i) take(*topic, i);
  }
  for (const metadata::Delta::ChangedTopic& changed : delta.changed) {
    for (int32_t i : changed.partitions) take(*changed.after, i);
  }
  for (const metadata::ConfigResource& resource : delta.configs) {
    if (resource.type == metadata::ResourceType::topic) applySettings(resource.name);
  }
  if (!delta.brokers.empty()) {
    auto sessions = sessions_;  // one may end
    for (auto& [number, session] : sessions) session->brokersChanged();
  }
  checkOpened();
}

config::TopicSettings Partitions::settingsOf(std::string_view topic) const {
  std::vector<std::string> ignored;
  config::TopicSettings settings =
      config::resolveTopic(config_.settings().topicDefaults, *image_->topicConfigs(topic), &ignored);
  for (const std::string& name : ignored) {
    shard_.log().warning("topic-config-ignored",
                         "{}: {} is not understood by this version; the broker's default is in force", topic, name);
  }
  return settings;
}

void Partitions::applySettings(const std::string& topic) {
  metadata::TopicRef found = image_->topic(topic);
  if (!found) return;
  config::TopicSettings settings = settingsOf(topic);
  for (int32_t i = 0; i < found->partitionCount(); ++i) {
    if (Partition* partition = find({found->id, i})) partition->setSettings(settings);
  }
}

bool Partitions::isHeldHere(const metadata::Partition* assignment) const {
  return assignment != nullptr && std::ranges::find(assignment->replicas, self_) != assignment->replicas.end();
}

void Partitions::take(const metadata::Topic& topic, int32_t index) {
  TopicIdPartition id{topic.id, index};
  if (shardOf(id, shard_.count()) != shard_.index()) return;
  const metadata::Partition& assignment = *topic.partition(index);
  // A committed record has taken it from us: what we have of it goes, as with its topic.
  if (!isHeldHere(&assignment)) return drop(topic, index, Error::notLeaderOrFollower);
  if (Partition* partition = find(id)) {
    partition->setAssignment(assignment);
    if (following_) following_->update(*partition, false);
    return;
  }
  // Those that are being opened or removed look at the image when they come to their end.
  if (opening_.contains(id) || failed_.contains(id) || removing_.contains(id)) return;
  opening_.insert(id);
  tasks_.add(open(id, {topic.name, index}));
}

kj::Promise<void> Partitions::open(TopicIdPartition id, TopicPartition name) {
  auto run = [](Partitions& self, TopicIdPartition id, TopicPartition name) -> Co<void> {
    Result<storage::Log*> log = co_await self.logs_.open(name, id.topic, self.settingsOf(name.topic));
    self.opening_.erase(id);
    const metadata::Partition* assignment = self.image_->partition(id);
    if (!self.isHeldHere(assignment)) {  // taken from us while it was being opened
      if (log) co_await self.remove(id, name);
    } else if (!log) {
      self.failed_.emplace(id, log.failure());
      self.shard_.log().error("partition-offline", "{}: {}", name, log.failure().message);
    } else {
      auto partition =
          std::make_shared<Partition>(self.shard_, id, name, self.self_, **log, static_cast<Partition::Watcher&>(self));
      if (const auto& reason = (*log)->offlineReason())
        self.shard_.log().error("partition-offline", "{}: {}", name, *reason);
      self.partitions_.emplace(id, partition);
      partition->setSettings(self.settingsOf(name.topic));
      partition->setAssignment(*assignment);
      partition->show(self.metrics_);
      if (self.following_) self.following_->update(*partition, false);
    }
    self.checkOpened();
  };
  return run(*this, id, std::move(name));
}

void Partitions::drop(const metadata::Topic& topic, int32_t index, Error why) {
  TopicIdPartition id{topic.id, index};
  if (shardOf(id, shard_.count()) != shard_.index()) return;
  if (following_) following_->drop(id);
  bool failed = failed_.erase(id) > 0;
  auto found = partitions_.find(id);
  if (found == partitions_.end() && !failed) return;
  if (found != partitions_.end()) {
    auto partition = std::move(found->second);
    partitions_.erase(found);
    partition->stop(failure(why, "{}-{} {}", topic.name, index,
                            why == Error::unknownTopicOrPartition ? "was deleted" : "is not held here any more"));
  }
  tasks_.add(remove(id, {topic.name, index}));
}

kj::Promise<void> Partitions::remove(TopicIdPartition id, TopicPartition name) {
  removing_.insert(id);
  return logs_.remove(name, id.topic).then([this, id] {
    removing_.erase(id);
    // It may have been given to us again.
    metadata::TopicRef topic = image_->topic(id.topic);
    if (topic && isHeldHere(topic->partition(id.partition))) take(*topic, id.partition);
  });
}

kj::Promise<void> Partitions::whenOpened() {
  if (opening_.empty()) return kj::READY_NOW;
  auto promise = kj::newPromiseAndFulfiller<void>();
  whenOpened_.push_back(kj::mv(promise.fulfiller));
  return kj::mv(promise.promise);
}

void Partitions::checkOpened() {
  if (!opening_.empty()) return;
  for (auto& waiting : whenOpened_) waiting->fulfill();
  whenOpened_.clear();
}

std::vector<Partitions::Usage> Partitions::usage() const {
  std::vector<Usage> rows;
  rows.reserve(partitions_.size());
  for (const auto& [id, partition] : partitions_) {
    rows.push_back({partition->name(), id, partition->sizeBytes(), partition->offlineReason().has_value()});
  }
  return rows;
}

Partitions::Counts Partitions::counts() const {
  Counts counts{.held = partitions_.size() + failed_.size(), .offline = failed_.size()};
  for (const auto& [id, partition] : partitions_) {
    counts.led += partition->isLeader();
    counts.offline += partition->offlineReason().has_value();
    counts.bytes += partition->sizeBytes();
  }
  return counts;
}

// --- long polls

kj::Promise<void> Partitions::waitForData(uint64_t token, std::vector<WaitOn> on, uint64_t bytesWanted,
                                          Duration atMost) {
  if (stopping_) return kj::READY_NOW;
  for (const WaitOn& item : on) {
    Partition* partition = find(item.partition);
    if (!partition) return kj::READY_NOW;
    Offset end =
        item.isolation == Isolation::readCommitted ? partition->lastStableOffset() : partition->highWatermark();
    if (end != item.end || partition->offlineReason()) return kj::READY_NOW;
  }
  auto promise = kj::newPromiseAndFulfiller<void>();
  Wait& wait = waits_[token];
  wait.bytesWanted = std::max<uint64_t>(bytesWanted, 1);
  wait.done = kj::mv(promise.fulfiller);
  wait.partitions.reserve(on.size());
  for (const WaitOn& item : on) {
    wait.partitions.push_back(item.partition);
    audiences_[item.partition].waits.insert(token);
  }
  // Ended by data, by time, or by being dropped: the entry goes in each case.
  return promise.promise.exclusiveJoin(shard_.after(atMost)).attach(kj::defer([this, token] { wake(token); }));
}

void Partitions::cancelWait(uint64_t token) {
  wake(token);
  if (auto reader = readers_.find(token); reader != readers_.end()) reader->second.endWait();
}

void Partitions::wake(uint64_t token) {
  auto found = waits_.find(token);
  if (found == waits_.end()) return;
  Wait wait = std::move(found->second);
  waits_.erase(found);
  for (const TopicIdPartition& id : wait.partitions) leave(id, &Audience::waits, token);
  wait.done->fulfill();
}

void Partitions::stopWaiting() {
  stopping_ = true;
  while (!waits_.empty()) wake(waits_.begin()->first);
  for (auto& [token, reader] : readers_) reader.endWait();
}

Partitions::Audience* Partitions::audienceOf(const TopicIdPartition& id) {
  auto found = audiences_.find(id);
  return found == audiences_.end() ? nullptr : &found->second;
}

void Partitions::leave(const TopicIdPartition& id, std::set<uint64_t> Audience::* part, uint64_t token) {
  auto found = audiences_.find(id);
  if (found == audiences_.end()) return;
  (found->second.*part).erase(token);
  const Audience& left = found->second;
  if (left.waits.empty() && left.readers.empty() && left.followers.empty()) audiences_.erase(found);
}

std::vector<Reader::Found> Partitions::look(uint64_t token, const ReaderChanges& changes, uint64_t bytesMax) {
  Reader& reader = readers_[token];
  for (const TopicIdPartition& id : changes.served) reader.serveLast(id);
  for (const TopicIdPartition& id : changes.dropped) {
    reader.drop(id);
    leave(id, &Audience::readers, token);
  }
  for (const Reader::Place& place : changes.named) {
    reader.name(place);
    audiences_[place.id].readers.insert(token);
  }
  return reader.look(bytesMax, [this](const TopicIdPartition& id, const Fetch& request) {
    Partition* partition = find(id);
    return partition ? partition->fetch(request) : Fetched{.error = whyMissing(id).error};
  });
}

kj::Promise<void> Partitions::waitForNews(uint64_t token, uint64_t bytesWanted, Duration atMost) {
  auto reader = readers_.find(token);
  if (stopping_ || reader == readers_.end()) return kj::READY_NOW;
  return reader->second.wait(bytesWanted).exclusiveJoin(shard_.after(atMost));
}

void Partitions::endReader(uint64_t token) {
  auto found = readers_.find(token);
  if (found == readers_.end()) return;
  found->second.endWait();
  found->second.forEach([&](const TopicIdPartition& id) { leave(id, &Audience::readers, token); });
  readers_.erase(found);
}

void Partitions::readable(Partition& partition, uint64_t bytes) {
  Audience* audience = audienceOf(partition.id());
  if (!audience) return;
  tellFollowers(partition.id(), false);
  for (uint64_t token : audience->readers) readers_.at(token).readable(partition.id(), bytes);
  std::vector<uint64_t> due;
  for (uint64_t token : audience->waits) {
    Wait& wait = waits_.at(token);
    wait.bytesWanted -= std::min(wait.bytesWanted, bytes);
    if (wait.bytesWanted == 0) due.push_back(token);
  }
  for (uint64_t token : due) wake(token);
}

void Partitions::changed(Partition& partition) {
  if (following_ && partition.offlineReason()) following_->drop(partition.id());
  Audience* audience = audienceOf(partition.id());
  if (!audience) return;
  tellFollowers(partition.id(), true);
  for (uint64_t token : audience->readers) readers_.at(token).changed(partition.id(), true);
  std::vector<uint64_t> due(audience->waits.begin(), audience->waits.end());
  for (uint64_t token : due) wake(token);
}

void Partitions::startMoved(Partition& partition) {
  Audience* audience = audienceOf(partition.id());
  if (!audience) return;
  tellFollowers(partition.id(), true);
  for (uint64_t token : audience->readers) readers_.at(token).changed(partition.id(), false);
}

// --- leaders and followers

void Partitions::written(Partition& partition) { tellFollowers(partition.id(), true); }

void Partitions::tellFollowers(const TopicIdPartition& id, bool isUrgent) {
  Audience* audience = audienceOf(id);
  if (!audience) return;
  for (uint64_t number : audience->followers) sessions_.at(number)->moved(id, isUrgent);
}

void Partitions::lags(Partition& partition) {
  if (inSync_) inSync_->watch(partition.id());
}

void Partitions::hasCandidate(Partition& partition) {
  if (inSync_) inSync_->hasCandidate(partition.id());
}

void Partitions::followAnew(Partition& partition) {
  if (following_) following_->update(partition, true);
}

void Partitions::durableHere(Partition& partition) {
  if (following_) following_->durable(partition.id());
}

kj::Own<FollowerSession> Partitions::serveFollower(Follower who) {
  FollowerId id{.node = who.node, .incarnation = who.incarnation, .session = ++lastSession_};
  auto session = kj::heap<ServedFollower>(shard_, static_cast<ServedFollower::Home&>(*this), id);
  if (stopping_) {
    session->end("the node is stopping");
  } else {
    sessions_.emplace(id.session, session.get());
  }
  return session;
}

void Partitions::hear(const TopicIdPartition& id, ServedFollower& session) {
  audiences_[id].followers.insert(session.who().session);
}

void Partitions::hearNoMore(const TopicIdPartition& id, ServedFollower& session) {
  leave(id, &Audience::followers, session.who().session);
}

void Partitions::recognised(ServedFollower& session) {
  auto sessions = sessions_;
  for (auto& [number, other] : sessions) {
    if (other->who().node == session.who().node && number < session.who().session)
      other->end("the node has opened another session");
  }
}

void Partitions::forget(ServedFollower& session) { sessions_.erase(session.who().session); }

Co<void> Partitions::endSilentSessions() {
  const Duration limit = std::chrono::milliseconds(config_.settings().replicaLagMaxMs);
  for (;;) {
    co_await shard_.after(std::max<Duration>(limit / 4, 100ms));
    auto sessions = sessions_;
    for (auto& [number, session] : sessions) {
      if (session->isSilent(shard_.now(), limit)) session->end("nothing was asked for too long");
    }
  }
}

}  // namespace mq::replica

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
  tasks_.cancelAll();
  for (auto& [id, partition] : partitions_) {
    partition->stop(failure(Error::notLeaderOrFollower, "the broker is stopping"));
  }
  partitions_.clear();
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
  if (controller::changesConfigOf(self_, delta)) {
    config_ = controller::configOf(self_, started_, *image);
    for (auto& [id, partition] : partitions_) partition->setSettings(settingsOf(partition->name().topic));
  }
  for (const metadata::TopicRef& topic : delta.deleted) {
    for (int32_t i = 0; i < topic->partitionCount(); ++i) drop(*topic, i);
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

void Partitions::take(const metadata::Topic& topic, int32_t index) {
  TopicIdPartition id{topic.id, index};
  if (shardOf(id, shard_.count()) != shard_.index()) return;
  const metadata::Partition& assignment = *topic.partition(index);
  if (std::find(assignment.replicas.begin(), assignment.replicas.end(), self_) == assignment.replicas.end()) return;
  if (Partition* partition = find(id)) {
    partition->setAssignment(assignment);
    return;
  }
  if (opening_.contains(id) || failed_.contains(id)) return;
  opening_.insert(id);
  tasks_.add(open(id, {topic.name, index}));
}

kj::Promise<void> Partitions::open(TopicIdPartition id, TopicPartition name) {
  auto run = [](Partitions& self, TopicIdPartition id, TopicPartition name) -> Co<void> {
    Result<storage::Log*> log = co_await self.logs_.open(name, id.topic, self.settingsOf(name.topic));
    const metadata::Partition* assignment = self.image_->partition(id);
    bool wanted = self.opening_.erase(id) > 0 && assignment;
    if (!wanted) {  // deleted while it was being opened
      if (log) co_await self.logs_.remove(name, id.topic);
    } else if (!log) {
      self.failed_.emplace(id, log.failure());
      self.shard_.log().error("partition-offline", "{}: {}", name, log.failure().message);
    } else {
      auto partition = std::make_shared<Partition>(id, name, self.self_, **log, static_cast<Partition::Watcher&>(self));
      if (const auto& reason = (*log)->offlineReason())
        self.shard_.log().error("partition-offline", "{}: {}", name, *reason);
      partition->setSettings(self.settingsOf(name.topic));
      partition->setAssignment(*assignment);
      partition->show(self.metrics_);
      self.partitions_.emplace(id, std::move(partition));
    }
    self.checkOpened();
  };
  return run(*this, id, std::move(name));
}

void Partitions::drop(const metadata::Topic& topic, int32_t index) {
  TopicIdPartition id{topic.id, index};
  if (shardOf(id, shard_.count()) != shard_.index()) return;
  if (opening_.erase(id) > 0) return;  // open() removes it when it comes to its end
  bool failed = failed_.erase(id) > 0;
  auto found = partitions_.find(id);
  if (found == partitions_.end() && !failed) return;
  if (found != partitions_.end()) {
    found->second->stop(failure(Error::unknownTopicOrPartition, "{}-{} was deleted", topic.name, index));
    partitions_.erase(found);
  }
  tasks_.add(logs_.remove({topic.name, index}, topic.id));
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
  if (found->second.waits.empty() && found->second.readers.empty()) audiences_.erase(found);
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
  Audience* audience = audienceOf(partition.id());
  if (!audience) return;
  for (uint64_t token : audience->readers) readers_.at(token).changed(partition.id(), true);
  std::vector<uint64_t> due(audience->waits.begin(), audience->waits.end());
  for (uint64_t token : due) wake(token);
}

void Partitions::startMoved(Partition& partition) {
  Audience* audience = audienceOf(partition.id());
  if (!audience) return;
  for (uint64_t token : audience->readers) readers_.at(token).changed(partition.id(), false);
}

}  // namespace mq::replica

// Image: everything the cluster has agreed on (topics, partitions, configs, brokers, features, producer ids), as of one
// entry of the metadata log. Immutable: all shards of a node share one by ImageRef and keep it as long as they like; a
// change is a new image that shares with the old one what did not change.
//
//   apply(image 41, records of entry 42) -> image 42, and the Delta that says what a reader of image 41 must look at
//
// apply is pure and cannot fail: what the records must look like was decided before they were written. A record about
// something that is not there changes nothing. All lists iterate in one fixed order (names, ids, numbers ascending).
// Images of equal content print equally (print.h), however they came about.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/types.h"
#include "metadata/sorted_map.h"

namespace mq::metadata {

struct Partition {
  std::vector<NodeId> replicas;  // in order of preference; the first one is the preferred leader
  std::vector<NodeId> isr;
  NodeId leader = kNoNode;              // -1: offline
  LeaderEpoch leaderEpoch{0};           // grows with each change of the leader
  int32_t partitionEpoch = 0;           // grows with each change of anything here
  std::vector<NodeId> eligibleLeaders;  // out of the ISR, but holding all that was committed (KIP-966)
  std::vector<NodeId> lastKnownEligible;
  std::vector<NodeId> adding;  // of a reassignment under way
  std::vector<NodeId> removing;
  std::vector<Uuid> directories;  // one per replica; empty: not told
  friend bool operator==(const Partition&, const Partition&) = default;
};
using PartitionRef = std::shared_ptr<const Partition>;

struct Topic {
  TopicId id;
  std::string name;
  std::vector<PartitionRef> partitions;  // by index, without gaps

  int32_t partitionCount() const { return static_cast<int32_t>(partitions.size()); }
  const Partition* partition(int32_t index) const {  // null: no such partition
    return index >= 0 && index < partitionCount() ? partitions[static_cast<size_t>(index)].get() : nullptr;
  }
};
using TopicRef = std::shared_ptr<const Topic>;

struct Listener {
  std::string name;  // "PLAINTEXT", "INSIDE", ...
  std::string host;  // advertised; empty: the address that the client reached
  uint16_t port = 0;
  int16_t securityProtocol = 0;  // Kafka's numbers: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
  friend bool operator==(const Listener&, const Listener&) = default;
};

// What a cluster can be told to do otherwise, by levels: a new cluster begins with the highest, one that was made by an
// earlier version stays where it is. 0: off.
struct Feature {
  std::string_view name;
  int16_t levelMax = 0;
};
inline constexpr Feature kFeatures[] = {
    {"group.version", 1},        // 1: the consumer protocol of KIP-848
    {"transaction.version", 2},  // 2: an epoch for each transaction (KIP-890)
};

struct Broker {
  NodeId id = kNoNode;
  Uuid incarnation;    // another one with each start of the process
  int64_t epoch = -1;  // index of the log entry that registered this incarnation
  std::vector<Listener> listeners;
  std::optional<std::string> rack;
  bool fenced = false;
  std::vector<Uuid> directories;
  Address peer;           // where other nodes reach it; host empty: not told
  bool stopping = false;  // is shutting down
  bool drained = false;   // somebody asked that it lead nothing

  bool mayHold() const { return !fenced && !stopping; }  // new replicas, and be in sync
  bool mayLead() const { return mayHold() && !drained; }

  const Listener* listener(std::string_view name) const;  // null: none of that name
  friend bool operator==(const Broker&, const Broker&) = default;
};
using BrokerRef = std::shared_ptr<const Broker>;

// Kafka's numbers.
enum class ResourceType : int8_t { topic = 2, broker = 4, brokerLogger = 8, clientMetrics = 16, group = 32 };

struct ConfigResource {
  ResourceType type = ResourceType::topic;
  std::string name;  // topic name; node id in decimal, or empty for the default of all brokers
  friend auto operator<=>(const ConfigResource&, const ConfigResource&) = default;
};
using Configs = std::map<std::string, std::string, std::less<>>;  // overrides only
using ConfigsRef = std::shared_ptr<const Configs>;

struct Voter {
  NodeId id = kNoNode;
  Uuid directory;  // of its metadata log: a wiped node has another one, and is then no voter
  friend bool operator==(const Voter&, const Voter&) = default;
};

class Image;
struct Record;  // record.h
using ImageRef = std::shared_ptr<const Image>;

class Image {
 public:
  int64_t offset() const { return offset_; }            // index of the last log entry in it; 0: none yet
  int64_t epoch() const { return epoch_; }              // term of that entry
  const Uuid& clusterId() const { return clusterId_; }  // zero only before the first entry
  const std::vector<Voter>& voters() const { return voters_; }
  const std::vector<Voter>& observers() const { return observers_; }

  TopicRef topic(std::string_view name) const;  // null: no such topic
  TopicRef topic(const TopicId& id) const;
  // The topic whose name differs from this one only in '.' and '_', which metric names cannot tell apart; null: none.
  TopicRef collidingTopic(std::string_view name) const;
  const SortedMap<std::string, TopicRef>& topics() const { return topics_; }  // by name
  const Partition* partition(const TopicIdPartition& id) const;               // null: no such topic or index
  int64_t partitionCount() const { return partitionCount_; }                  // of all topics
  int64_t replicaCount(NodeId node) const;                                    // replicas placed on that broker

  // The overrides of one resource, never null; empty when there are none.
  ConfigsRef configs(const ConfigResource& resource) const;
  ConfigsRef topicConfigs(std::string_view topic) const;
  const SortedMap<ConfigResource, ConfigsRef>& allConfigs() const { return configs_; }

  const Broker* broker(NodeId id) const;  // null: never registered
  const std::map<NodeId, BrokerRef>& brokers() const { return brokers_; }

  // Whether the topic was deleted, of the last kDeletedTopicsMax: a broker that was away when that happened may delete
  // what it still has of it. Ids are never used again.
  bool wasDeleted(const TopicId& id) const;
  const std::vector<TopicId>& deletedTopics() const { return *deletedTopics_; }  // oldest first
  static constexpr size_t kDeletedTopicsMax = 4096;

  const std::map<std::string, int16_t>& features() const { return features_; }  // finalized levels
  int16_t level(const std::string& feature) const {                             // 0: the cluster does not name it
    auto found = features_.find(feature);
    return found == features_.end() ? int16_t{0} : found->second;
  }
  int64_t nextProducerId() const { return nextProducerId_; }

 private:
  friend class Applier;  // image.cc
  int64_t offset_ = 0;
  int64_t epoch_ = 0;
  Uuid clusterId_;
  std::vector<Voter> voters_, observers_;
  SortedMap<std::string, TopicRef> topics_;
  SortedMap<TopicId, TopicRef> topicsById_;
  SortedMap<std::string, TopicId> topicsByMetricName_;  // of names with '.' or '_' in them
  int64_t partitionCount_ = 0;
  std::map<NodeId, int64_t> replicaCounts_;
  SortedMap<ConfigResource, ConfigsRef> configs_;
  std::map<NodeId, BrokerRef> brokers_;
  std::map<std::string, int16_t> features_;
  int64_t nextProducerId_ = 0;
  std::shared_ptr<const std::vector<TopicId>> deletedTopics_ = std::make_shared<const std::vector<TopicId>>();
  ConfigsRef none_ = std::make_shared<const Configs>();
};

// What changed between two images. A topic that was deleted and made anew under its name is in both lists, with two
// ids.
struct Delta {
  struct ChangedTopic {
    TopicRef before, after;           // same id
    std::vector<int32_t> partitions;  // new or changed ones, ascending
  };
  std::vector<TopicRef> created;  // each list by name
  std::vector<TopicRef> deleted;
  std::vector<ChangedTopic> changed;
  std::vector<ConfigResource> configs;  // look their new overrides up in the image
  std::vector<NodeId> brokers;
  bool features = false;

  bool empty() const {
    return created.empty() && deleted.empty() && changed.empty() && configs.empty() && brokers.empty() && !features;
  }
};
using DeltaRef = std::shared_ptr<const Delta>;

struct Applied {
  ImageRef image;
  DeltaRef delta;
};

// The name with '_' for each '.': topics that share one collide.
std::string metricName(std::string_view topic);

ImageRef emptyImage();
// The records of log entry `offset` with term `epoch`.
Applied apply(const ImageRef& image, std::span<const Record> records, int64_t offset, int64_t epoch);
// What a reader of `before` must look at to follow `after`: for one that skipped some, or starts with a snapshot.
Delta difference(const Image& before, const Image& after);
// Records that make the image out of an empty one: the content of a snapshot. The same image gives the same records.
std::vector<Record> recordsOf(const Image& image);

}  // namespace mq::metadata

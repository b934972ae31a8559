// What may be asked of the controller and what it answers, in plain values that cross shards and (in a cluster) nodes.
// Every answer lists its items in the order of the request; an item given twice is answered once, with an error, where
// it first stood. Messages are meant for the person who asked.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "config/setting.h"
#include "metadata/image.h"

namespace mq::controller {

struct ReplicaAssignment {
  int32_t partition = 0;
  std::vector<NodeId> replicas;
};

struct ConfigEntry {
  std::string name;
  std::optional<std::string> value;  // none: the default
};

// CreateTopics. -1 means the broker's default (num.partitions, default.replication.factor), and must be -1 where the
// replicas are given by hand.
struct NewTopic {
  std::string name;
  int32_t partitions = -1;
  int16_t replicationFactor = -1;
  std::vector<ReplicaAssignment> assignments;
  std::vector<ConfigEntry> configs;
};
struct CreatedTopic {
  TopicId id;
  int32_t partitions = 0;
  int16_t replicationFactor = 0;
  metadata::Configs configs;  // its overrides
};
struct CreateTopicsRequest {
  std::vector<NewTopic> topics;
  bool validateOnly = false;
};
struct CreateTopicsResponse {
  struct Topic {
    std::string name;
    Result<CreatedTopic> result;
  };
  std::vector<Topic> topics;
};

// DeleteTopics: by name, or by id when that is not zero (never both).
struct TopicSelector {
  std::string name;
  TopicId id;
};
struct DeleteTopicsRequest {
  std::vector<TopicSelector> topics;
};
struct DeleteTopicsResponse {
  struct Topic {
    std::optional<std::string> name;  // none: asked by an id that is unknown
    TopicId id;                       // zero: asked by a name that is unknown
    Result<void> result;
  };
  std::vector<Topic> topics;
};

// CreatePartitions: `count` is the new total.
struct NewPartitions {
  std::string topic;
  int32_t count = 0;
  std::optional<std::vector<std::vector<NodeId>>> assignments;  // replicas of each added partition
};
struct CreatePartitionsRequest {
  std::vector<NewPartitions> topics;
  bool validateOnly = false;
};
struct CreatePartitionsResponse {
  struct Topic {
    std::string name;
    Result<void> result;
  };
  std::vector<Topic> topics;
};

// AlterConfigs replaces all overrides of a resource (its changes are all of kind `set`; one without a value counts as
// not named); IncrementalAlterConfigs changes some.
struct AlterConfigsRequest {
  struct Resource {
    metadata::ConfigResource resource;  // type as the client sent it; unknown ones are refused
    std::vector<config::Alteration> changes;
  };
  std::vector<Resource> resources;
  bool replaceAll = false;  // AlterConfigs: what is not named goes back to its default
  bool validateOnly = false;
};
struct AlterConfigsResponse {
  struct Resource {
    metadata::ConfigResource resource;
    Result<void> result;
  };
  std::vector<Resource> resources;
};

// UpdateFeatures (KIP-584, KIP-778): all of them or none.
struct UpdateFeaturesRequest {
  enum class Kind : int8_t { upgrade = 1, safeDowngrade = 2, unsafeDowngrade = 3 };  // Kafka's numbers
  struct Feature {
    std::string name;
    int16_t level = 0;  // 0: off
    Kind kind = Kind::upgrade;
  };
  std::vector<Feature> features;
  bool validateOnly = false;
};

struct ProducerIdBlock {  // [first, first + count), handed out once and never again
  int64_t first = 0;
  int32_t count = 0;
};

struct BrokerRegistration {
  NodeId id = kNoNode;
  Uuid clusterId;    // zero: whichever it is
  Uuid incarnation;  // drawn anew at each start
  std::vector<metadata::Listener> listeners;
  std::optional<std::string> rack;
  std::vector<Uuid> directories;
  bool mayLack = false;  // its last stop was not clean: it may have lost what it acknowledged without syncing it
};
struct RegisteredBroker {
  int64_t epoch = -1;
};

// For first use of a topic that is not there (auto.create.topics.enable): the caller has checked that it may.
struct EnsureTopicsRequest {
  std::vector<std::string> names;
};
struct EnsureTopicsResponse {
  struct Topic {
    std::string name;
    Result<TopicId> result;  // whoever created it
  };
  std::vector<Topic> topics;
};

}  // namespace mq::controller

// What may be asked of the controller and what it answers, in plain values that cross shards and (in a cluster) nodes.
// Every answer lists its items in the order of the request; an item given twice is answered once, with an error, where
// it first stood. Messages are meant for the person who asked.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/address.h"
#include "base/error.h"
#include "base/types.h"
#include "config/setting.h"
#include "metadata/image.h"
#include "raft/types.h"

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
  Address peer;          // where other nodes reach it; host empty: it is alone
  // The cluster is this node: it lives from now on, without heartbeats. Else it is fenced until its first one.
  bool isAlone = false;
};
struct RegisteredBroker {
  int64_t epoch = -1;
};

// From a registered broker, several times within its session: without, it is fenced.
struct BrokerHeartbeat {
  NodeId id = kNoNode;
  int64_t epoch = -1;      // of its registration
  int64_t offset = 0;      // of its image
  bool wantsStop = false;  // asks for its leaderships to be moved
};
struct BrokerState {
  bool isFenced = false;
  bool mayStop = false;  // it leads nothing any more
};

// A leader proposes the in-sync replicas of its partitions (KIP-497, KIP-903): taken when leader epoch and partition
// epoch are the present ones and each member is alive in the named registration.
struct InSyncReplica {
  NodeId node = kNoNode;
  int64_t brokerEpoch = -1;
};
struct AlterPartitionsRequest {
  struct Partition {
    TopicIdPartition id;
    LeaderEpoch leaderEpoch = kNoLeaderEpoch;
    int32_t partitionEpoch = -1;
    std::vector<InSyncReplica> isr;
  };
  NodeId broker = kNoNode;
  int64_t brokerEpoch = -1;
  std::vector<Partition> partitions;
};
// A refusal is final: the proposal will never come to be. What was taken shows in the image.
struct AlterPartitionsResponse {
  struct Partition {
    TopicIdPartition id;
    Result<void> result;
  };
  std::vector<Partition> partitions;
};

// ElectLeaders (KIP-460).
struct ElectLeadersRequest {
  std::vector<TopicPartition> partitions;
  bool all = false;      // `partitions` is empty: every partition that needs it
  bool unclean = false;  // else: to the preferred replica
};
struct ElectLeadersResponse {
  struct Partition {
    TopicPartition partition;
    Result<void> result;  // electionNotNeeded, ...
  };
  std::vector<Partition> partitions;
};

// AlterPartitionReassignments (KIP-455).
struct AlterReassignmentsRequest {
  struct Partition {
    TopicPartition partition;
    std::optional<std::vector<NodeId>> replicas;  // none: cancels the one under way
  };
  std::vector<Partition> partitions;
  bool mayChangeFactor = true;
};
struct AlterReassignmentsResponse {
  struct Partition {
    TopicPartition partition;
    Result<void> result;
  };
  std::vector<Partition> partitions;
};

struct UnregisterBrokerRequest {
  NodeId id = kNoNode;
};
struct DrainBrokerRequest {  // it leads nothing until this is taken back
  NodeId id = kNoNode;
  bool drained = true;
};

// AddRaftVoter, RemoveRaftVoter (KIP-853). A voter must have been an observer that has caught up.
struct ChangeVoterRequest {
  NodeId id = kNoNode;
  Uuid directory;
  bool isVoter = true;  // false: it goes
};

// DescribeQuorum (KIP-595).
struct DescribeQuorumRequest {};
struct QuorumState {
  struct Replica {
    NodeId id = kNoNode;
    Uuid directory;
    int64_t logEnd = -1;  // -1: not known
    WallMs lastFetch;     // answered last; -1: never
    WallMs lastCaughtUp;
  };
  NodeId leader = kNoNode;
  int64_t term = -1;
  int64_t highWatermark = -1;
  std::vector<Replica> voters, observers;
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

// All of them as one, for the way to the controller of another node.
struct AllocateProducerIdsRequest {};
using Request = std::variant<CreateTopicsRequest, DeleteTopicsRequest, CreatePartitionsRequest, AlterConfigsRequest,
                             UpdateFeaturesRequest, EnsureTopicsRequest, AllocateProducerIdsRequest, BrokerRegistration,
                             BrokerHeartbeat, AlterPartitionsRequest, ElectLeadersRequest, AlterReassignmentsRequest,
                             UnregisterBrokerRequest, DrainBrokerRequest, ChangeVoterRequest, DescribeQuorumRequest>;
using Response =
    std::variant<CreateTopicsResponse, DeleteTopicsResponse, CreatePartitionsResponse, AlterConfigsResponse,
                 EnsureTopicsResponse, ProducerIdBlock, RegisteredBroker, BrokerState, AlterPartitionsResponse,
                 ElectLeadersResponse, AlterReassignmentsResponse, QuorumState,
                 std::monostate>;  // done, there is nothing more to say

// A response, and the entry of the metadata log whose image shows it. Refused as a whole: notController (nothing was
// done), requestTimedOut (what was asked may still come to be).
struct Answered {
  int64_t offset = 0;
  Response response;
};

// What a node tells another one that looks for its cluster.
struct NodeStatus {
  raft::Replica replica;
  std::optional<Uuid> cluster;
  bool isEmpty = false;      // its metadata log holds nothing, and it has promised nothing
  raft::Membership members;  // as it knows them; none while it is empty
  NodeId leader = kNoNode;   // of the quorum; kNoNode: not known
  int64_t term = 0;
  std::vector<std::pair<NodeId, Address>> controllers;  // as its settings list them
};

// A node that is no member yet wants the metadata log. The leader makes it an observer; any other node answers with who
// leads. Said again until the log comes.
struct JoinRequest {
  raft::Replica replica;
  Address address;  // where it listens for peers
};

}  // namespace mq::controller

# Messages of controller/requests.h. Fields and kinds are only ever added: nodes of the version before and of the next
# understand each other.
#
# What is optional is a null pointer when it is not there. Errors are Kafka's numbers.
@0xe1b0c5d93f7a4826;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("mq::peer::schema");
using Replica = import "raft.capnp".Replica;
using Member = import "raft.capnp".Member;

struct Request {
  union {
    createTopics @0 :CreateTopicsRequest;
    deleteTopics @1 :DeleteTopicsRequest;
    createPartitions @2 :CreatePartitionsRequest;
    alterConfigs @3 :AlterConfigsRequest;
    updateFeatures @4 :UpdateFeaturesRequest;
    ensureTopics @5 :EnsureTopicsRequest;
    allocateProducerIds @6 :Void;
    registerBroker @7 :BrokerRegistration;
    heartbeat @8 :BrokerHeartbeat;
    alterPartitions @9 :AlterPartitionsRequest;
    electLeaders @10 :ElectLeadersRequest;
    alterReassignments @11 :AlterReassignmentsRequest;
    unregisterBroker @12 :UnregisterBrokerRequest;
    drainBroker @13 :DrainBrokerRequest;
    changeVoter @14 :ChangeVoterRequest;
    describeQuorum @15 :Void;
  }
}

struct Answer {
  union {
    answered @0 :Answered;
    failed @1 :Status;
  }
}

struct Answered {
  offset @0 :Int64;
  response :union {
    done @1 :Void;
    createTopics @2 :CreateTopicsResponse;
    deleteTopics @3 :DeleteTopicsResponse;
    createPartitions @4 :CreatePartitionsResponse;
    alterConfigs @5 :AlterConfigsResponse;
    ensureTopics @6 :EnsureTopicsResponse;
    producerIds @7 :ProducerIdBlock;
    registered @8 :Int64;  # broker epoch
    brokerState @9 :BrokerState;
    alterPartitions @10 :AlterPartitionsResponse;
    electLeaders @11 :PartitionStatuses;
    alterReassignments @12 :PartitionStatuses;
    quorum @13 :QuorumState;
  }
}

struct Status {
  error @0 :Int16;  # 0: success
  message @1 :Text;
}

struct Address {
  host @0 :Text;
  port @1 :UInt16;
}

struct TopicPartition {
  topic @0 :Text;
  partition @1 :Int32;
}

struct TopicIdPartition {
  topic @0 :Data;  # 16 bytes, as every id here
  partition @1 :Int32;
}

struct PartitionStatus {
  partition @0 :TopicPartition;
  status @1 :Status;
}
struct PartitionStatuses {
  partitions @0 :List(PartitionStatus);
}

# --- topics

struct ConfigEntry {
  name @0 :Text;
  value @1 :Text;  # optional
}

struct ReplicaAssignment {
  partition @0 :Int32;
  replicas @1 :List(Int32);
}

struct NewTopic {
  name @0 :Text;
  partitions @1 :Int32;
  replicationFactor @2 :Int16;
  assignments @3 :List(ReplicaAssignment);
  configs @4 :List(ConfigEntry);
}
struct CreatedTopic {
  id @0 :Data;
  partitions @1 :Int32;
  replicationFactor @2 :Int16;
  configs @3 :List(ConfigEntry);
}
struct CreateTopicsRequest {
  topics @0 :List(NewTopic);
  validateOnly @1 :Bool;
}
struct CreateTopicsResponse {
  topics @0 :List(Topic);
  struct Topic {
    name @0 :Text;
    result :union {
      created @1 :CreatedTopic;
      failed @2 :Status;
    }
  }
}

struct TopicSelector {
  name @0 :Text;
  id @1 :Data;
}
struct DeleteTopicsRequest {
  topics @0 :List(TopicSelector);
}
struct DeleteTopicsResponse {
  topics @0 :List(Topic);
  struct Topic {
    name @0 :Text;  # optional
    id @1 :Data;
    status @2 :Status;
  }
}

struct NewPartitions {
  topic @0 :Text;
  count @1 :Int32;
  assignments @2 :List(List(Int32));  # optional
}
struct CreatePartitionsRequest {
  topics @0 :List(NewPartitions);
  validateOnly @1 :Bool;
}
struct CreatePartitionsResponse {
  topics @0 :List(Topic);
  struct Topic {
    name @0 :Text;
    status @1 :Status;
  }
}

struct EnsureTopicsRequest {
  names @0 :List(Text);
}
struct EnsureTopicsResponse {
  topics @0 :List(Topic);
  struct Topic {
    name @0 :Text;
    result :union {
      id @1 :Data;
      failed @2 :Status;
    }
  }
}

# --- settings, features, producer ids

struct ConfigResource {
  type @0 :Int8;
  name @1 :Text;
}
struct Alteration {
  name @0 :Text;
  op @1 :Int8;
  value @2 :Text;  # optional
}
struct AlterConfigsRequest {
  resources @0 :List(Resource);
  replaceAll @1 :Bool;
  validateOnly @2 :Bool;
  struct Resource {
    resource @0 :ConfigResource;
    changes @1 :List(Alteration);
  }
}
struct AlterConfigsResponse {
  resources @0 :List(Resource);
  struct Resource {
    resource @0 :ConfigResource;
    status @1 :Status;
  }
}

struct UpdateFeaturesRequest {
  features @0 :List(Feature);
  validateOnly @1 :Bool;
  struct Feature {
    name @0 :Text;
    level @1 :Int16;
    kind @2 :Int8;
  }
}

struct ProducerIdBlock {
  first @0 :Int64;
  count @1 :Int32;
}

# --- brokers and partitions

struct BrokerListener {
  name @0 :Text;
  host @1 :Text;
  port @2 :UInt16;
  securityProtocol @3 :Int16;
}
struct BrokerRegistration {
  id @0 :Int32;
  clusterId @1 :Data;
  incarnation @2 :Data;
  listeners @3 :List(BrokerListener);
  rack @4 :Text;  # optional
  directories @5 :List(Data);
  mayLack @6 :Bool;
  peer @7 :Address;
}
struct BrokerHeartbeat {
  id @0 :Int32;
  epoch @1 :Int64;
  offset @2 :Int64;
  wantsStop @3 :Bool;
}
struct BrokerState {
  isFenced @0 :Bool;
  mayStop @1 :Bool;
}

struct InSyncReplica {
  node @0 :Int32;
  brokerEpoch @1 :Int64;
}
struct AlterPartitionsRequest {
  broker @0 :Int32;
  brokerEpoch @1 :Int64;
  partitions @2 :List(Partition);
  struct Partition {
    id @0 :TopicIdPartition;
    leaderEpoch @1 :Int32;
    partitionEpoch @2 :Int32;
    isr @3 :List(InSyncReplica);
  }
}
struct AlterPartitionsResponse {
  partitions @0 :List(Partition);
  struct Partition {
    id @0 :TopicIdPartition;
    status @1 :Status;
  }
}

struct ElectLeadersRequest {
  partitions @0 :List(TopicPartition);
  all @1 :Bool;
  unclean @2 :Bool;
}
struct AlterReassignmentsRequest {
  partitions @0 :List(Partition);
  mayChangeFactor @1 :Bool;
  struct Partition {
    partition @0 :TopicPartition;
    replicas @1 :List(Int32);  # optional
  }
}
struct UnregisterBrokerRequest {
  id @0 :Int32;
}
struct DrainBrokerRequest {
  id @0 :Int32;
  drained @1 :Bool;
}

# --- the quorum

struct ChangeVoterRequest {
  id @0 :Int32;
  directory @1 :Data;
  isVoter @2 :Bool;
}
struct QuorumState {
  leader @0 :Int32;
  term @1 :Int64;
  highWatermark @2 :Int64;
  voters @3 :List(Replica);
  observers @4 :List(Replica);
  struct Replica {
    id @0 :Int32;
    directory @1 :Data;
    logEnd @2 :Int64;
    lastFetch @3 :Int64;
    lastCaughtUp @4 :Int64;
  }
}

struct NodeStatus {
  replica @0 :Replica;
  cluster @1 :Data;  # optional
  isEmpty @2 :Bool;
  members @3 :List(Member);
  leader @4 :Int32;
  term @5 :Int64;
  controllers @6 :List(Controller);
  struct Controller {
    node @0 :Int32;
    address @1 :Address;
  }
}
struct JoinRequest {
  replica @0 :Replica;
  address @1 :Address;
}

// BrokerSettings: what one process can be told. Kafka's names and units where Kafka has the option; ours otherwise.
// BrokerConfig: the settings with the layers they came from:
//
//   default < mq.toml < environment (MQ_CFG_NUM_PARTITIONS) < flags (--set, --listen) < dynamic default < dynamic
//   broker
//
// The last two are committed cluster state and change while the broker runs; the others are fixed at start.
// A module takes an Options struct of its own, filled by broker/ from here; it never sees this one.
// Both are plain values: a change makes a new one.
#pragma once
#include <cstdint>
#include <expected>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/types.h"
#include "config/topic_settings.h"

namespace mq::config {

inline constexpr std::string_view kDefaultListenerName = "PLAINTEXT";  // of a listener without a name

// [NAME=]HOST:PORT
struct Endpoint {
  std::string name;  // as written; may be empty
  Address address;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
  // What pairs a listener with its advertised address.
  std::string listenerName() const { return name.empty() ? std::string(kDefaultListenerName) : name; }
  std::string toString() const;
};

// ID@HOST:PORT
struct Voter {
  int32_t id = 0;
  Address address;
  friend bool operator==(const Voter&, const Voter&) = default;
  std::string toString() const;
};

struct Roles {
  bool broker = true;
  bool controller = true;
  friend bool operator==(const Roles&, const Roles&) = default;
};

enum class LogDetail : uint8_t { debug, info, warning, error };
enum class LogFormat : uint8_t { automatic, text, json };                              // automatic: text on a terminal
enum class MigrationPolicy : uint8_t { disabled, upgrade, downgrade, bidirectional };  // of groups, between protocols

struct BrokerSettings {
  // This node.
  Roles roles;
  int32_t nodeId = 1;
  std::string rack;
  std::string dataDir = "./mq-data";
  int32_t shards = 0;  // 0: one per processor
  int64_t shutdownTimeoutMs = 30000;
  LogDetail logDetail = LogDetail::info;
  LogFormat logFormat = LogFormat::automatic;

  // Addresses.
  std::vector<Endpoint> listeners = {{"", {"127.0.0.1", 9092}}};
  std::vector<Endpoint> advertised;  // of a listener not named here: what the client connected to
  std::vector<Endpoint> peerListen = {{"", {"127.0.0.1", 9093}}};  // exactly one
  std::vector<Endpoint> httpListen;                                // none: off; otherwise exactly one
  std::vector<Voter> controllers;                                  // none: this node alone

  // Connections and requests.
  int32_t requestBytesMax = 104857600;     // of one frame
  int64_t requestMemoryBytes = 268435456;  // of all requests and responses held at a time, all shards together
  int64_t requestReadTimeoutMs = 30000;    // for a frame whose first byte has arrived
  int32_t connectionsMax = std::numeric_limits<int32_t>::max();
  int32_t connectionsPerAddressMax = std::numeric_limits<int32_t>::max();
  int64_t connectionsIdleMaxMs = 600000;
  int32_t fetchBytesMax = 57671680;  // of one Fetch response
  int32_t fetchSessionsMax = 1000;
  int32_t describePartitionsMax = 2000;  // of one DescribeTopicPartitions response

  // Topics.
  bool autoCreateTopics = false;
  bool deleteTopics = true;
  int32_t partitionsDefault = 1;
  int32_t replicationFactorDefault = 1;
  int32_t partitionsMax = 100000;  // replicas that this broker may hold

  // The log.
  int64_t retentionCheckMs = 300000;
  int32_t durableMarkMs = 5000;  // log.flush.offset.checkpoint.interval.ms
  int32_t recoveryThreads = 2;
  int32_t syncThreads = 4;
  int32_t openFilesMax = 400;           // data files that may be open at a time
  int64_t diskFloorBytes = 1073741824;  // writes stop below the smaller of the two floors
  int32_t diskFloorPercent = 5;
  int64_t diskReserveBytes = 16777216;  // given up so that a broker can start on a full disk
  bool retentionDiskTrim = false;
  int64_t scrubBytesPerSecond = 8388608;  // 0: no scrubbing
  bool ioUring = true;
  int64_t producerIdExpirationMs = 86400000;
  int32_t producerIdExpirationCheckMs = 600000;
  bool cleanerEnable = true;
  int32_t cleanerThreads = 1;
  int64_t cleanerDedupeBytes = 134217728;
  int32_t cleanerIoBytes = 524288;
  double cleanerLoadFactor = 0.9;
  double cleanerBytesPerSecond = std::numeric_limits<double>::max();
  int64_t cleanerBackoffMs = 15000;
  int64_t metadataSnapshotBytes = 20971520;  // of metadata log between snapshots

  // Replication.
  int64_t replicaLagMaxMs = 10000;  // replica.lag.time.max.ms
  int32_t replicaFetchWaitMaxMs = 500;
  int32_t replicaFetchBytesMax = 10485760;  // of one answer
  int32_t replicaFetchBackoffMs = 1000;

  // Consumer groups.
  int32_t offsetsTopicPartitions = 50;
  int32_t offsetsTopicReplicationFactor = 3;  // at most: as many as there are brokers
  int32_t offsetsTopicSegmentBytes = 104857600;
  int32_t offsetsRetentionMinutes = 10080;
  int64_t offsetsRetentionCheckMs = 600000;
  int32_t offsetMetadataBytesMax = 4096;  // of one commit
  int32_t offsetsCommitTimeoutMs = 5000;
  int32_t groupSessionMinMs = 6000;
  int32_t groupSessionMaxMs = 1800000;
  int32_t groupInitialDelayMs = 3000;
  int32_t consumerSessionMs = 45000;
  int32_t consumerSessionMinMs = 45000;
  int32_t consumerSessionMaxMs = 60000;
  int32_t consumerHeartbeatMs = 5000;
  int32_t consumerHeartbeatMinMs = 5000;
  int32_t consumerHeartbeatMaxMs = 15000;
  MigrationPolicy consumerMigration = MigrationPolicy::bidirectional;
  int32_t consumerSizeMax = std::numeric_limits<int32_t>::max();
  int32_t groupSizeMax = std::numeric_limits<int32_t>::max();

  // Transactions.
  int32_t transactionTopicPartitions = 50;
  int32_t transactionTopicReplicationFactor = 3;  // at most: as many as there are brokers
  int32_t transactionTopicSegmentBytes = 104857600;
  int32_t transactionTimeoutMaxMs = 900000;
  int32_t transactionAbortCheckMs = 10000;
  int32_t transactionalIdExpirationMs = 604800000;
  int32_t transactionalIdExpirationCheckMs = 3600000;

  // The cluster.
  int32_t quorumElectionTimeoutMs = 400;
  int32_t brokerSessionTimeoutMs = 5000;
  int32_t brokerHeartbeatMs = 500;
  bool leaderRebalance = true;
  int32_t leaderImbalanceCheckSeconds = 30;

  // Metrics.
  int32_t metricsSeriesMax = 50000;  // of one scrape

  // What a topic without overrides gets; set by Kafka's broker names, such as log.retention.ms.
  TopicSettings topicDefaults;

  friend bool operator==(const BrokerSettings&, const BrokerSettings&) = default;
};

Table brokerTable();  // with the topic defaults under their broker names as a last section

// One value given from outside.
struct Given {
  std::string name;
  std::string value;
  std::string where;  // "mq.toml:12", "--set"
  size_t line = 0;    // of a file
};

struct Problem {
  std::string where;  // "mq.toml:12"; may be empty
  std::string text;
  size_t line = 0;  // of a file
  std::string toString() const;
};

// What the process was started with. config/ reads nothing itself.
struct StartInput {
  std::string tomlPath;                                          // for messages only
  std::string toml;                                              // its content; empty: none
  std::vector<std::pair<std::string, std::string>> environment;  // all of it
  std::vector<Given> flags;                                      // in the order of the command line
};

class BrokerConfig {
 public:
  BrokerConfig() = default;  // all defaults

  // Either a configuration or everything that is wrong with it, in reading order.
  static std::expected<BrokerConfig, std::vector<Problem>> load(const StartInput& input);

  // This one with other dynamic values: cluster-wide ones and this broker's own (the latter win). They were checked
  // when they were committed; what cannot be understood is left out.
  BrokerConfig withDynamic(const Overrides& clusterWide, const Overrides& own) const;

  const BrokerSettings& settings() const { return settings_; }

  // By setting name, in order of name, as Kafka lists them; aliases with a value of their own come under their own
  // names.
  std::vector<Entry> describe() const;
  // The layers of one broker setting, strongest first; the default is always the last.
  std::vector<Synonym> synonyms(const Setting& row) const;

 private:
  enum class Layer : uint8_t { file, environment, flags };
  struct Fixed {
    Given given;
    Layer layer;
  };
  BrokerSettings resolve() const;

  std::vector<Fixed> fixed_;  // each name at most once per layer
  Overrides clusterWide_;
  Overrides own_;
  BrokerSettings settings_;
};

// As checkTopic and alterTopic, for dynamic broker values. Only settings with Change::live can be set; others are
// Error::invalidRequest, as Kafka answers.
Result<void> checkBroker(const Overrides& overrides);
Result<Overrides> alterBroker(const BrokerConfig& config, const Overrides& now,
                              std::span<const Alteration> alterations);

}  // namespace mq::config

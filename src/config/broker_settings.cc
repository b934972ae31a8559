#include "config/broker_settings.h"

#include <algorithm>
#include <set>

#include "config/names.h"
#include "config/text.h"

namespace mq::config {
namespace {

using B = BrokerSettings;

constexpr Setting kNode[] = {
    {.name = "roles",
     .field = &kField<&B::roles>,
     .doc = "What this process is: broker serves clients, controller keeps the cluster's metadata."},
    {.name = "node.id",
     .field = &kField<&B::nodeId>,
     .min = 0,
     .doc =
         "Number of this node, different for each node of a cluster. A data directory belongs to one node for good."},
    {.name = "broker.rack",
     .field = &kField<&B::rack>,
     .max = 255,
     .doc = "Name of the rack or zone: replicas are spread over racks, and consumers read from a replica in theirs."},
    {.name = "data.dir",
     .field = &kField<&B::dataDir>,
     .min = 1,
     .doc = "Directory of the logs and metadata. Locked while in use."},
    {.name = "shards",
     .field = &kField<&B::shards>,
     .min = 0,
     .max = 256,
     .sim = {1, 4},
     .doc = "Threads that serve connections and partitions. 0: one per processor."},
    {.name = "shutdown.timeout.ms",
     .field = &kField<&B::shutdownTimeoutMs>,
     .min = 0,
     .doc = "After SIGTERM, flushing and answering may take this long; then the process ends as it is. A second "
            "SIGTERM ends it at once."},
    {.name = "logging.level",
     .field = &kField<&B::logDetail>,
     .doc = "Least severe lines that are written to standard error."},
    {.name = "logging.format",
     .field = &kField<&B::logFormat>,
     .doc = "Form of those lines. auto: text on a terminal, JSON otherwise."},
};

constexpr Setting kAddresses[] = {
    {.name = "listeners",
     .field = &kField<&B::listeners>,
     .doc = "Addresses for clients, as [NAME=]HOST:PORT; an IPv6 host in brackets. Port 0 takes any free one."},
    {.name = "advertised.listeners",
     .field = &kField<&B::advertised>,
     .doc = "Addresses that clients are told to connect to, paired with listeners by NAME. Without one, clients are "
            "told the address "
            "that they reached. A wildcard address is refused."},
    {.name = "peer.listen", .field = &kField<&B::peerListen>, .doc = "Address for the other nodes of the cluster."},
    {.name = "http.listen",
     .field = &kField<&B::httpListen>,
     .doc = "Address of /livez, /readyz and /metrics. Empty: none. There is no authentication: keep it on an inside "
            "address."},
    {.name = "controllers",
     .field = &kField<&B::controllers>,
     .doc = "Nodes with the controller role, as ID@HOST:PORT of their peer.listen. Empty: this node alone."},
};

constexpr Setting kRequests[] = {
    {.name = "socket.request.max.bytes",
     .field = &kField<&B::requestBytesMax>,
     .min = 1024,
     .doc = "The largest request that is read; a longer one closes its connection."},
    {.name = "queued.max.request.bytes",
     .field = &kField<&B::requestMemoryBytes>,
     .min = 1048576,
     .doc = "Memory that requests and responses of all connections may hold at a time. When it is spent, connections "
            "with data "
            "are not read until some is free; a reserve keeps small requests going."},
    {.name = "request.read.timeout.ms",
     .field = &kField<&B::requestReadTimeoutMs>,
     .min = 100,
     .sim = {1000, 60000},
     .doc = "A request whose first byte has arrived must be complete after this time, or its connection is closed."},
    {.name = "max.connections",
     .field = &kField<&B::connectionsMax>,
     .min = 0,
     .doc = "Client connections that may be open at a time."},
    {.name = "max.connections.per.ip",
     .field = &kField<&B::connectionsPerAddressMax>,
     .min = 0,
     .doc = "Of these, from one address."},
    {.name = "connections.max.idle.ms",
     .field = &kField<&B::connectionsIdleMaxMs>,
     .min = -1,
     .doc = "A connection without requests for this long is closed. -1: never."},
    {.name = "fetch.max.bytes",
     .field = &kField<&B::fetchBytesMax>,
     .min = 1024,
     .sim = {1024, 57671680},
     .doc = "The most bytes of records in one fetch response, whatever the consumer asks for; a first batch beyond it "
            "is sent all the same."},
    {.name = "max.incremental.fetch.session.cache.slots",
     .field = &kField<&B::fetchSessionsMax>,
     .min = 0,
     .sim = {0, 20},
     .doc = "Incremental fetch sessions kept. Consumers beyond it name all their partitions in each request."},
    {.name = "max.request.partition.size.limit",
     .field = &kField<&B::describePartitionsMax>,
     .min = 1,
     .doc = "The most partitions in one answer that describes topics; clients page through more."},
};

constexpr Setting kTopics[] = {
    {.name = "auto.create.topics.enable",
     .field = &kField<&B::autoCreateTopics>,
     .doc = "Whether a topic is created when a client first names it."},
    {.name = "delete.topic.enable", .field = &kField<&B::deleteTopics>, .doc = "Whether topics can be deleted."},
    {.name = "num.partitions",
     .field = &kField<&B::partitionsDefault>,
     .min = 1,
     .doc = "Partitions of a new topic that does not say."},
    {.name = "default.replication.factor",
     .field = &kField<&B::replicationFactorDefault>,
     .min = 1,
     .max = 32767,
     .doc = "Replicas of a new topic that does not say."},
    {.name = "max.partitions",
     .field = &kField<&B::partitionsMax>,
     .min = 1,
     .doc = "Replicas that this broker may hold. Creating more is refused, so that a mistake does not cost the memory "
            "of all."},
};

constexpr Setting kLog[] = {
    {.name = "log.retention.check.interval.ms",
     .field = &kField<&B::retentionCheckMs>,
     .min = 1,
     .sim = {100, 60000},
     .doc = "How often retention looks for segments to delete."},
    {.name = "log.flush.offset.checkpoint.interval.ms",
     .field = &kField<&B::durableMarkMs>,
     .min = 0,
     .sim = {100, 30000},
     .doc = "How often the synced end of each log is noted. After a crash, recovery reads what lies beyond."},
    {.name = "num.recovery.threads.per.data.dir",
     .field = &kField<&B::recoveryThreads>,
     .min = 1,
     .max = 64,
     .doc = "Threads that check logs after a crash, and scrub and delete them later."},
    {.name = "log.sync.threads",
     .field = &kField<&B::syncThreads>,
     .min = 1,
     .max = 64,
     .doc = "Syncs that run at a time."},
    {.name = "log.open.files.max",
     .field = &kField<&B::openFilesMax>,
     .min = 16,
     .sim = {16, 64},
     .doc = "Data files that are kept open. Others are opened when used."},
    {.name = "disk.free.min.bytes",
     .field = &kField<&B::diskFloorBytes>,
     .min = 0,
     .change = Change::live,
     .doc = "When less is free, writes are refused; reading and deleting go on. The smaller of this and "
            "disk.free.min.percent counts."},
    {.name = "disk.free.min.percent",
     .field = &kField<&B::diskFloorPercent>,
     .min = 0,
     .max = 99,
     .change = Change::live,
     .doc = "The same as a part of the file system."},
    {.name = "disk.reserve.bytes",
     .field = &kField<&B::diskReserveBytes>,
     .min = 0,
     .doc = "Space held by a file that is given up so that a broker can start on a full disk."},
    {.name = "retention.disk.trim",
     .field = &kField<&B::retentionDiskTrim>,
     .change = Change::live,
     .doc = "Whether the oldest segments are deleted before their time when writes would be refused for lack of space. "
            "Each is logged and counted."},
    {.name = "log.scrub.bytes.per.second",
     .field = &kField<&B::scrubBytesPerSecond>,
     .min = 0,
     .change = Change::live,
     .doc = "How fast sealed segments are read again and checked for bit rot. 0: not at all."},
    {.name = "io.uring.enable",
     .field = &kField<&B::ioUring>,
     .doc =
         "This version makes no use of io_uring, whatever this says: Debian 12's libuv has none, and disks are written "
         "by plain calls. Kept, like UV_USE_IO_URING=0 in the environment, so that scripts that turn it off work with "
         "every version."},
    {.name = "producer.id.expiration.ms",
     .field = &kField<&B::producerIdExpirationMs>,
     .min = 1,
     .sim = {1000, 600000},
     .doc = "The state of an idempotent producer is forgotten this long after its last record in a partition."},
    {.name = "producer.id.expiration.check.interval.ms",
     .field = &kField<&B::producerIdExpirationCheckMs>,
     .min = 1,
     .sim = {100, 60000},
     .doc = "How often such states are looked for."},
    {.name = "metadata.log.max.record.bytes.between.snapshots",
     .field = &kField<&B::metadataSnapshotBytes>,
     .min = 1,
     .sim = {1024, 1048576},
     .doc = "A snapshot of the cluster's metadata after so many bytes of changes."},
};

constexpr Setting kCleaner[] = {
    {.name = "log.cleaner.enable",
     .field = &kField<&B::cleanerEnable>,
     .doc = "Whether topics with cleanup.policy=compact are compacted. Without it such topics only grow."},
    {.name = "log.cleaner.threads",
     .field = &kField<&B::cleanerThreads>,
     .min = 0,
     .max = 64,
     .change = Change::live,
     .sim = {1, 2},
     .doc = "Partitions that are compacted at the same time, at most one per shard. 0: none."},
    {.name = "log.cleaner.dedupe.buffer.size",
     .field = &kField<&B::cleanerDedupeBytes>,
     .min = 1048576,
     .change = Change::live,
     .sim = {1048576, 2097152},
     .doc = "Memory for the keys of what is being compacted, shared by log.cleaner.threads; a key takes 24 bytes. More "
            "keys are compacted in several passes."},
    {.name = "log.cleaner.io.buffer.load.factor",
     .field = &kField<&B::cleanerLoadFactor>,
     .min = 0,
     .max = 1,
     .change = Change::live,
     .doc = "How full that memory may get."},
    {.name = "log.cleaner.io.buffer.size",
     .field = &kField<&B::cleanerIoBytes>,
     .min = 0,
     .change = Change::live,
     .doc = "Memory for reading and writing, shared by log.cleaner.threads. Each has at least 128 KiB, and more for a "
            "larger batch."},
    {.name = "log.cleaner.io.max.bytes.per.second",
     .field = &kField<&B::cleanerBytesPerSecond>,
     .min = 0,
     .change = Change::live,
     .doc = "Bytes that compaction reads and writes in a second."},
    {.name = "log.cleaner.backoff.ms",
     .field = &kField<&B::cleanerBackoffMs>,
     .min = 0,
     .change = Change::live,
     .sim = {100, 5000},
     .doc = "Pause when there is nothing to compact."},
};

constexpr Setting kReplication[] = {
    {.name = "replica.lag.time.max.ms",
     .field = &kField<&B::replicaLagMaxMs>,
     .min = 100,
     .sim = {1000, 10000},
     .doc =
         "A follower that has not held all of its leader's records for this long is no longer in sync: then acks=all "
         "does not wait for it."},
    {.name = "replica.fetch.wait.max.ms",
     .field = &kField<&B::replicaFetchWaitMaxMs>,
     .min = 1,
     .max = 30000,
     .sim = {10, 1000},
     .doc = "The longest that a leader keeps a follower's request while there is nothing new."},
    {.name = "replica.fetch.response.max.bytes",
     .field = &kField<&B::replicaFetchBytesMax>,
     .min = 1024,
     .max = 67108864,
     .sim = {1024, 10485760},
     .doc = "The most bytes of records in one answer to a follower; a first batch beyond it is sent all the same."},
    {.name = "replica.fetch.backoff.ms",
     .field = &kField<&B::replicaFetchBackoffMs>,
     .min = 1,
     .sim = {10, 1000},
     .doc = "Pause of a follower when its leader cannot be reached, or refuses a partition."},
};

constexpr Setting kGroups[] = {
    {.name = "offsets.topic.num.partitions",
     .field = &kField<&B::offsetsTopicPartitions>,
     .min = 1,
     .max = 10000,
     .sim = {1, 4},
     .doc = "Partitions of __consumer_offsets, over which groups are spread, when it is made: at the first use of a "
            "group."},
    {.name = "offsets.topic.replication.factor",
     .field = &kField<&B::offsetsTopicReplicationFactor>,
     .min = 1,
     .max = 32767,
     .doc = "Replicas of it; fewer if there are fewer brokers at that time."},
    {.name = "offsets.topic.segment.bytes",
     .field = &kField<&B::offsetsTopicSegmentBytes>,
     .min = 1048576,
     .doc = "Its segment.bytes: small segments are compacted, and so read at a start, in less time."},
    {.name = "offsets.retention.minutes",
     .field = &kField<&B::offsetsRetentionMinutes>,
     .min = 1,
     .doc = "What a group has committed is forgotten so long after its last member has left; what a consumer without "
            "a group has committed, so long after it did."},
    {.name = "offsets.retention.check.interval.ms",
     .field = &kField<&B::offsetsRetentionCheckMs>,
     .min = 1,
     .sim = {1000, 600000},
     .doc = "How often such offsets are looked for."},
    {.name = "offset.metadata.max.bytes",
     .field = &kField<&B::offsetMetadataBytesMax>,
     .min = 0,
     .doc = "Text that a consumer may put beside an offset."},
    {.name = "offsets.commit.timeout.ms",
     .field = &kField<&B::offsetsCommitTimeoutMs>,
     .min = 1,
     .doc = "How long a change of a group may take to be committed before its client is told to try again."},
    {.name = "group.min.session.timeout.ms",
     .field = &kField<&B::groupSessionMinMs>,
     .min = 1,
     .doc = "The shortest session.timeout.ms that a member may ask for."},
    {.name = "group.max.session.timeout.ms", .field = &kField<&B::groupSessionMaxMs>, .min = 1, .doc = "The longest."},
    {.name = "group.initial.rebalance.delay.ms",
     .field = &kField<&B::groupInitialDelayMs>,
     .min = 0,
     .sim = {0, 3000},
     .doc = "How long the first members of a group wait for more of them, so that one rebalance does for all."},
    {.name = "group.consumer.session.timeout.ms",
     .field = &kField<&B::consumerSessionMs>,
     .min = 1,
     .doc = "In the consumer protocol, how long a member may be silent before it is out. A group can have a value of "
            "its own (consumer.session.timeout.ms)."},
    {.name = "group.consumer.min.session.timeout.ms",
     .field = &kField<&B::consumerSessionMinMs>,
     .min = 1,
     .doc = "The shortest that can be set, for all groups or for one."},
    {.name = "group.consumer.max.session.timeout.ms",
     .field = &kField<&B::consumerSessionMaxMs>,
     .min = 1,
     .doc = "The longest."},
    {.name = "group.consumer.heartbeat.interval.ms",
     .field = &kField<&B::consumerHeartbeatMs>,
     .min = 1,
     .doc = "In the consumer protocol, how often members are told to send heartbeats. A group can have a value of its "
            "own (consumer.heartbeat.interval.ms)."},
    {.name = "group.consumer.min.heartbeat.interval.ms",
     .field = &kField<&B::consumerHeartbeatMinMs>,
     .min = 1,
     .doc = "The shortest that can be set, for all groups or for one."},
    {.name = "group.consumer.max.heartbeat.interval.ms",
     .field = &kField<&B::consumerHeartbeatMaxMs>,
     .min = 1,
     .doc = "The longest."},
    {.name = "group.consumer.migration.policy",
     .field = &kField<&B::consumerMigration>,
     .doc = "Whether a group may change its protocol while it has members: to the consumer protocol when the first "
            "member of it comes, back to the classic one when the last of it goes. Without members it always may."},
    {.name = "group.consumer.max.size",
     .field = &kField<&B::consumerSizeMax>,
     .min = 1,
     .doc = "Members that a group in the consumer protocol may have."},
    {.name = "group.max.size", .field = &kField<&B::groupSizeMax>, .min = 1, .doc = "Members that a group may have."},
};

constexpr Setting kTransactions[] = {
    {.name = "transaction.state.log.num.partitions",
     .field = &kField<&B::transactionTopicPartitions>,
     .min = 1,
     .max = 10000,
     .sim = {1, 4},
     .doc = "Partitions of __transaction_state, over which transactional ids are spread, when it is made: at the first "
            "use of one."},
    {.name = "transaction.state.log.replication.factor",
     .field = &kField<&B::transactionTopicReplicationFactor>,
     .min = 1,
     .max = 32767,
     .doc = "Replicas of it; fewer if there are fewer brokers at that time."},
    {.name = "transaction.state.log.segment.bytes",
     .field = &kField<&B::transactionTopicSegmentBytes>,
     .min = 1048576,
     .doc = "Its segment.bytes: small segments are compacted, and so read at a start, in less time."},
    {.name = "transaction.max.timeout.ms",
     .field = &kField<&B::transactionTimeoutMaxMs>,
     .min = 1,
     .doc = "The longest transaction.timeout.ms that a producer may ask for: after that time its open transaction is "
            "aborted."},
    {.name = "transaction.abort.timed.out.transaction.cleanup.interval.ms",
     .field = &kField<&B::transactionAbortCheckMs>,
     .min = 1,
     .sim = {100, 10000},
     .doc = "How often such transactions are looked for."},
    {.name = "transactional.id.expiration.ms",
     .field = &kField<&B::transactionalIdExpirationMs>,
     .min = 1,
     .doc = "A transactional id is forgotten so long after its last transaction has ended."},
    {.name = "transaction.remove.expired.transaction.cleanup.interval.ms",
     .field = &kField<&B::transactionalIdExpirationCheckMs>,
     .min = 1,
     .doc = "How often such ids are looked for."},
};

constexpr Setting kCluster[] = {
    {.name = "controller.quorum.election.timeout.ms",
     .field = &kField<&B::quorumElectionTimeoutMs>,
     .min = 50,
     .max = 60000,
     .sim = {200, 1000},
     .doc =
         "A controller that hears nothing from the leading one for this long, and up to twice as long by chance, wants "
         "to be elected itself. The same at all nodes."},
    {.name = "broker.session.timeout.ms",
     .field = &kField<&B::brokerSessionTimeoutMs>,
     .min = 200,
     .max = 3600000,
     .sim = {1000, 9000},
     .doc = "A broker of which the controller hears nothing for this long is fenced: what it led is led by others. One "
            "whose process has ended is fenced at once."},
    {.name = "broker.heartbeat.interval.ms",
     .field = &kField<&B::brokerHeartbeatMs>,
     .min = 20,
     .max = 3600000,
     .sim = {100, 500},
     .doc = "How often a broker tells the controller that it is there."},
    {.name = "auto.leader.rebalance.enable",
     .field = &kField<&B::leaderRebalance>,
     .doc =
         "Whether leadership goes back to the preferred replica, the first of a partition's list, when it is in sync "
         "again."},
    {.name = "leader.imbalance.check.interval.seconds",
     .field = &kField<&B::leaderImbalanceCheckSeconds>,
     .min = 1,
     .sim = {1, 60},
     .doc = "How often that is looked at."},
};

constexpr Setting kMetrics[] = {
    {.name = "metrics.series.max",
     .field = &kField<&B::metricsSeriesMax>,
     .min = 100,
     .doc = "The most labelled sets on one page of /metrics; what is left out is counted there."},
};

std::vector<Setting> makeTopicDefaults() {
  std::vector<Setting> rows;
  for (const Section& section : topicTable()) {
    for (Setting row : section.rows) {
      if (row.broker.empty()) continue;
      row.name = row.broker;
      row.broker = {};
      row.sim = {0, 0};
      rows.push_back(row);
    }
  }
  return rows;
}

const std::vector<Setting>& topicDefaults() {
  static const std::vector<Setting> rows = makeTopicDefaults();
  return rows;
}

std::span<const std::string_view> brokerNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> listed;
    for (const Section& section : brokerTable()) {
      for (const Setting& row : section.rows) {
        listed.push_back(row.name);
        for (const Alias& alias : row.aliases) {
          if (!alias.name.empty()) listed.push_back(alias.name);
        }
      }
    }
    return listed;
  }();
  return names;
}

bool isWildcard(const std::string& host) {
  // Every spelling of the unspecified address: 0.0.0.0, 0, ::, 0:0:0:0:0:0:0:0, ::0, ::ffff:0.0.0.0
  std::string rest = host;
  if (rest.starts_with("::ffff:")) rest = rest.substr(7);
  return host == "*" || rest.find_first_not_of("0:.") == std::string::npos;
}

}  // namespace

Table brokerTable() {
  static const Section sections[] = {
      {"This node", kNode},
      {"Addresses", kAddresses},
      {"Connections and requests", kRequests},
      {"Topics", kTopics},
      {"The log", kLog},
      {"Compaction", kCleaner},
      {"Replication", kReplication},
      {"Consumer groups", kGroups},
      {"Transactions", kTransactions},
      {"The cluster", kCluster},
      {"Metrics", kMetrics},
      {"Defaults of topic settings", topicDefaults()},
  };
  return sections;
}

bool isTopicDefault(const Setting& row) {
  const std::vector<Setting>& rows = topicDefaults();
  return std::less_equal<>()(rows.data(), &row) && std::less<>()(&row, rows.data() + rows.size());
}

void* ownerOf(const Setting& row, BrokerSettings& settings) {
  return isTopicDefault(row) ? static_cast<void*>(&settings.topicDefaults) : &settings;
}

Meaning meaningOf(std::string_view name) {
  for (const Section& section : brokerTable()) {
    for (const Setting& row : section.rows) {
      if (row.name == name) return {&row, 1, 0};
      for (size_t i = 0; i < row.aliases.size(); ++i) {
        if (!row.aliases[i].name.empty() && row.aliases[i].name == name) return {&row, row.aliases[i].factor, i + 1};
      }
    }
  }
  return {};
}

Failure unknownBrokerSetting(std::string_view name) {
  // A topic setting's own name is the likeliest mistake.
  if (const Setting* topic = find(topicTable(), name); topic != nullptr && !topic->hidden) {
    if (topic->broker.empty()) {
      return failure(Error::invalidConfig, "Unknown setting {}: it can be set for a topic only", quoted(name));
    }
    return failure(Error::invalidConfig, "Unknown setting {}: it belongs to a topic; the default for all topics is {}",
                   quoted(name), topic->broker);
  }
  if (Meaning alias = meaningOf(name); alias.row != nullptr && alias.rank > 0) {
    return failure(Error::invalidConfig, "{} cannot be set here; set {}", name, alias.row->name);
  }
  std::string near = nearest(name, brokerNames());
  return failure(Error::invalidConfig, "Unknown setting {}{}", quoted(name),
                 near.empty() ? "; `mq config list` names all" : fmt::format("; did you mean {}?", near));
}

namespace {

void checkQuorum(const BrokerSettings& s, std::vector<std::string>& found) {
  std::set<int32_t> ids;
  for (const Voter& voter : s.controllers) {
    if (!ids.insert(voter.id).second) found.push_back(fmt::format("controllers: names node {} twice", voter.id));
  }
  if (!s.roles.broker) {
    found.emplace_back("roles: a controller without the role broker is not possible in this version");
  } else if (s.controllers.empty() && !s.roles.controller) {
    found.emplace_back("roles: a node without the role controller needs to know some: set controllers");
  } else if (!s.controllers.empty() && s.roles.controller && !ids.contains(s.nodeId)) {
    found.push_back(
        fmt::format("controllers: this node ({}) is not listed, and has the role controller; list it, or give it "
                    "--roles=broker",
                    s.nodeId));
  } else if (ids.contains(s.nodeId) && !s.roles.controller) {
    found.push_back(fmt::format("controllers: lists this node ({}), which has not the role controller", s.nodeId));
  }
  if (!s.controllers.empty()) {
    std::set<std::string> advertised;
    for (const Endpoint& endpoint : s.advertised) advertised.insert(endpoint.listenerName());
    for (const Endpoint& listener : s.listeners) {
      if (isWildcard(listener.address.host) && !advertised.contains(listener.listenerName()))
        found.push_back(
            fmt::format("listeners: {} does not say where clients find this node, which the other nodes of a "
                        "cluster must tell them; set advertised.listeners",
                        listener.toString()));
    }
    for (const Endpoint& endpoint : s.peerListen) {
      if (isWildcard(endpoint.address.host) && !ids.contains(s.nodeId))
        found.push_back(fmt::format("peer.listen: {} does not say where the other nodes find this one; name its host",
                                    endpoint.toString()));
    }
  }
  if (s.brokerHeartbeatMs * 2 > s.brokerSessionTimeoutMs) {
    found.push_back(fmt::format("broker.heartbeat.interval.ms ({}) is more than half of broker.session.timeout.ms ({})",
                                s.brokerHeartbeatMs, s.brokerSessionTimeoutMs));
  }
}

}  // namespace

std::vector<std::string> contradictions(const BrokerSettings& s) {
  std::vector<std::string> found;
  std::set<std::string> names, addresses;
  if (s.listeners.empty() && s.roles.broker) found.emplace_back("listeners: a broker needs at least one");
  for (const Endpoint& listener : s.listeners) {
    if (!names.insert(listener.listenerName()).second) {
      found.push_back(listener.name.empty() ? "listeners: more than one has no name; write NAME=HOST:PORT"
                                            : fmt::format("listeners: two have the name {}", listener.name));
    }
    std::string address = listener.address.toString();
    if (listener.address.port != 0 && !addresses.insert(address).second) {
      found.push_back(fmt::format("listeners: {} is given twice", address));
    }
  }
  std::set<std::string> advertised;
  for (const Endpoint& endpoint : s.advertised) {
    if (isWildcard(endpoint.address.host)) {
      found.push_back(
          fmt::format("advertised.listeners: {} is no address that a client could connect to; name the host as clients "
                      "see it, or leave it out to tell each client the address that it reached",
                      endpoint.toString()));
    } else if (endpoint.address.port == 0) {
      found.push_back(fmt::format("advertised.listeners: {} needs a port", endpoint.toString()));
    }
    if (!names.contains(endpoint.listenerName())) {
      found.push_back(
          endpoint.name.empty()
              ? fmt::format("advertised.listeners: {} has no name, but every listener has one; write NAME={}",
                            endpoint.toString(), endpoint.toString())
              : fmt::format("advertised.listeners: there is no listener with the name {}", endpoint.name));
    }
    if (!advertised.insert(endpoint.listenerName()).second) {
      found.push_back(fmt::format("advertised.listeners: two are for the listener {}",
                                  endpoint.name.empty() ? "without a name" : endpoint.name));
    }
  }
  if (s.peerListen.size() != 1) found.emplace_back("peer.listen: needs exactly one address");
  if (s.httpListen.size() > 1) found.emplace_back("http.listen: takes one address");
  for (const auto* single : {&s.peerListen, &s.httpListen}) {
    for (const Endpoint& endpoint : *single) {
      if (!endpoint.name.empty()) found.push_back(fmt::format("{}: has no names", endpoint.toString()));
    }
  }
  checkQuorum(s, found);
  if (s.requestMemoryBytes < s.requestBytesMax) {
    found.push_back(
        fmt::format("queued.max.request.bytes ({}) is below socket.request.max.bytes ({}): the largest request could "
                    "never be read; lower that, too",
                    s.requestMemoryBytes, s.requestBytesMax));
  }
  if (s.topicDefaults.minCompactionLagMs > s.topicDefaults.maxCompactionLagMs) {
    found.push_back(
        fmt::format("log.cleaner.min.compaction.lag.ms ({}) is above log.cleaner.max.compaction.lag.ms ({})",
                    s.topicDefaults.minCompactionLagMs, s.topicDefaults.maxCompactionLagMs));
  }
  auto between = [&](std::string_view name, int32_t least, int32_t value, int32_t most) {
    if (least <= value && value <= most) return;
    found.push_back(
        fmt::format("group.consumer.{} ({}) is not between group.consumer.min.{} ({}) and "
                    "group.consumer.max.{} ({})",
                    name, value, name, least, name, most));
  };
  between("session.timeout.ms", s.consumerSessionMinMs, s.consumerSessionMs, s.consumerSessionMaxMs);
  between("heartbeat.interval.ms", s.consumerHeartbeatMinMs, s.consumerHeartbeatMs, s.consumerHeartbeatMaxMs);
  if (s.consumerSessionMs <= s.consumerHeartbeatMs) {
    found.push_back(
        fmt::format("group.consumer.session.timeout.ms ({}) must be above "
                    "group.consumer.heartbeat.interval.ms ({})",
                    s.consumerSessionMs, s.consumerHeartbeatMs));
  }
  return found;
}

namespace {

const Setting* findBrokerRow(std::string_view name) { return find(brokerTable(), name); }

}  // namespace

Result<void> checkBroker(const Overrides& overrides) {
  BrokerSettings settings;
  for (const auto& [name, value] : overrides) {
    const Setting* row = findBrokerRow(name);
    if (row == nullptr) return unknownBrokerSetting(name);
    if (row->change != Change::live) {
      return failure(Error::invalidRequest,
                     "Cannot update {} while the broker runs: it needs a restart with a changed mq.toml or "
                     "command line",
                     name);
    }
    if (Result<void> assigned = assign(*row, value, ownerOf(*row, settings)); !assigned) return assigned;
  }
  for (const std::string& contradiction : contradictions(settings)) {
    return failure(Error::invalidConfig, "{}", contradiction);
  }
  return {};
}

Result<Overrides> alterBroker(const BrokerConfig& config, const Overrides& now,
                              std::span<const Alteration> alterations) {
  BrokerSettings settings = config.settings();
  auto effective = [&](const Setting& row) { return row.field->print(ownerOf(row, settings)); };
  Result<Overrides> altered = alter(now, alterations, findBrokerRow, unknownBrokerSetting, effective);
  if (!altered) return altered;
  if (Result<void> checked = checkBroker(*altered); !checked) return checked.failure();
  return altered;
}

}  // namespace mq::config

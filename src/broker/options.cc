#include "broker/options.h"

#include <algorithm>

namespace mq::broker {
namespace {
constexpr uint32_t kOpenFilesMin = 16;  // of a shard
constexpr int64_t kBackoffMsMax = int64_t{1000} * 86400 * 365;
}  // namespace

storage::Tuning storageTuning(const config::BrokerSettings& settings, uint32_t shards) {
  storage::Tuning tuning;
  tuning.freeBytesMin = static_cast<uint64_t>(settings.diskFloorBytes);
  tuning.freePercentMin = static_cast<uint32_t>(settings.diskFloorPercent);
  tuning.trim = settings.retentionDiskTrim;
  // Zero turns it off; a share of little must not.
  auto scrub = static_cast<uint64_t>(settings.scrubBytesPerSecond);
  tuning.scrubBytesPerSecond = scrub == 0 ? 0 : std::max<uint64_t>(scrub / shards, 1);
  const auto threads = static_cast<uint32_t>(settings.cleanerThreads);
  const uint32_t share = std::max<uint32_t>(threads, 1);
  tuning.cleansMax = settings.cleanerEnable ? threads : 0;
  tuning.cleanBackoff = std::chrono::milliseconds(std::clamp<int64_t>(settings.cleanerBackoffMs, 1, kBackoffMsMax));
  tuning.cleanBytesPerSecond = settings.cleanerBytesPerSecond / std::min(share, shards);
  tuning.cleanMapBytes = static_cast<uint64_t>(settings.cleanerDedupeBytes) / share;
  tuning.cleanLoadFactor = settings.cleanerLoadFactor;
  tuning.cleanIoBytes = static_cast<size_t>(settings.cleanerIoBytes) / share / 2;
  return tuning;
}

storage::Options storageOptions(const config::BrokerSettings& settings, const std::string& dataDirectory,
                                uint32_t shards) {
  storage::Options options;
  options.path = dataDirectory;
  options.otherNames = {"metadata"};
  options.tuning = storageTuning(settings, shards);
  options.reserveBytes = static_cast<uint64_t>(settings.diskReserveBytes);
  options.markInterval = std::chrono::milliseconds(settings.durableMarkMs);
  options.syncParallel = static_cast<uint32_t>(settings.syncThreads);
  options.retentionInterval = std::chrono::milliseconds(settings.retentionCheckMs);
  options.producerExpiration = std::chrono::milliseconds(settings.producerIdExpirationMs);
  options.producerCheckInterval = std::chrono::milliseconds(settings.producerIdExpirationCheckMs);
  options.openFilesMax = std::max(static_cast<uint32_t>(settings.openFilesMax) / shards, kOpenFilesMin);
  return options;
}

coordinator::GroupCoordinator::Options coordinatorOptions(const config::BrokerSettings& settings) {
  using std::chrono::milliseconds;
  coordinator::GroupCoordinator::Options options;
  options.node = NodeId(settings.nodeId);
  options.commitWithin = milliseconds(settings.offsetsCommitTimeoutMs);
  options.settings.sessionMin = milliseconds(settings.groupSessionMinMs);
  options.settings.sessionMax = milliseconds(settings.groupSessionMaxMs);
  options.settings.initialDelay = milliseconds(settings.groupInitialDelayMs);
  options.settings.consumer = config::GroupLimits::of(settings);
  using Policy = config::MigrationPolicy;
  const Policy policy = settings.consumerMigration;
  options.settings.upgrades = policy == Policy::upgrade || policy == Policy::bidirectional;
  options.settings.downgrades = policy == Policy::downgrade || policy == Policy::bidirectional;
  options.settings.consumerSizeMax = settings.consumerSizeMax;
  options.settings.sizeMax = settings.groupSizeMax;
  options.settings.offsetsRetention = std::chrono::minutes(settings.offsetsRetentionMinutes);
  options.settings.offsetsCheckEvery = milliseconds(settings.offsetsRetentionCheckMs);
  options.settings.metadataBytesMax = settings.offsetMetadataBytesMax;
  return options;
}

coordinator::TransactionCoordinator::Options transactionOptions(const config::BrokerSettings& settings) {
  using std::chrono::milliseconds;
  coordinator::TransactionCoordinator::Options options;
  options.node = NodeId(settings.nodeId);
  options.settings.timeoutMax = milliseconds(settings.transactionTimeoutMaxMs);
  options.settings.abortEvery = milliseconds(settings.transactionAbortCheckMs);
  options.settings.idExpiration = milliseconds(settings.transactionalIdExpirationMs);
  options.settings.idExpirationEvery = milliseconds(settings.transactionalIdExpirationCheckMs);
  return options;
}

controller::ControllerOptions controllerOptions(const config::BrokerConfig& config, const std::string& dataDirectory,
                                                const Uuid& clusterId, bool mustExist) {
  controller::ControllerOptions options;
  options.node = NodeId(config.settings().nodeId);
  options.directory = dataDirectory + "/metadata";
  options.clusterId = clusterId;
  options.mustExist = mustExist;
  options.config = config;
  options.address = config.settings().peerListen.front().address;
  return options;
}

}  // namespace mq::broker

#include "controller/controller.h"

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>
#include <utility>

#include <kj/debug.h>

#include "base/check.h"
#include "controller/discovery.h"
#include "controller/planner.h"
#include "controller/raft_driver.h"
#include "controller/raft_log.h"
#include "metadata/record.h"
#include "raft/membership.h"
#include "runtime/tasks.h"

namespace mq::controller {

using metadata::Applied;
using metadata::ImageRef;
using metadata::Record;

namespace {

constexpr Duration kWatchEvery = 100ms;
constexpr Duration kRetryEvery = 50ms;
constexpr Duration kJoinEvery = 1s;
constexpr Duration kJoinWithin = 1s;
constexpr Duration kHandOverWithin = 1s;
constexpr Duration kAnswerWithin = 1s;  // before a stop

template <class... Args>
kj::Exception broken(kj::Exception::Type type, fmt::format_string<Args...> format, Args&&... args) {
  return kj::Exception(type, __FILE__, __LINE__,
                       kj::heapString(fmt::format(format, std::forward<Args>(args)...).c_str()));
}

metadata::ClusterRecord clusterRecord(const Uuid& cluster, const raft::Membership& members) {
  metadata::ClusterRecord record;
  record.clusterId = cluster;
  for (const raft::Member& member : members.members)
    (member.isVoter ? record.voters : record.observers)
        .push_back({member.replica.id.value(), member.replica.directory, {}});
  return record;
}

raft::Membership membershipOf(const metadata::ClusterRecord& record) {
  raft::Membership members;
  for (auto& voter : record.voters) members.members.push_back({{NodeId(voter.nodeId), voter.directoryId}, true});
  for (auto& other : record.observers) members.members.push_back({{NodeId(other.nodeId), other.directoryId}, false});
  std::ranges::sort(members.members, {}, [](const raft::Member& member) { return member.replica.id; });
  return members;
}

const metadata::ClusterRecord* findCluster(const std::vector<Record>& records) {
  const metadata::ClusterRecord* found = nullptr;
  for (const Record& record : records)
    if (auto* cluster = std::get_if<metadata::ClusterRecord>(&record)) found = cluster;
  return found;
}

// A decision's response as an answer: what was refused as a whole is a failure.
template <class T>
Result<Answered> answerWith(int64_t offset, Result<T> result) {
  if (!result) return result.failure();
  if constexpr (std::is_void_v<T>)
    return Answered{offset, std::monostate()};
  else
    return Answered{offset, std::move(*result)};
}
template <class T>
Result<Answered> answerWith(int64_t offset, T response) {
  return Answered{offset, std::move(response)};
}

}  // namespace

class Controller::Impl final : public StateMachine {
 public:
  Impl(Shard& shard, ControllerOptions options, std::vector<MetadataFeed*> feeds, Peers* peers)
      : shard_(shard),
        options_(std::move(options)),
        settings_(options_.config.settings()),
        feeds_(std::move(feeds)),
        peers_(peers),
        planner_({options_.node, options_.config, options_.producerIdBlock}),
        committed_(metadata::emptyImage()),
        decided_(committed_),
        failed_(kj::newPromiseAndFulfiller<kj::Exception>()),
        tasks_(shard.log(), "controller") {
    MQ_CHECK(feeds_.size() == shard.count(), feeds_.size(), shard.count());
    log_ = RaftLog::load(shard.files(), shard.log(),
                         {.directory = options_.directory,
                          .node = options_.node,
                          .newDirectoryId = newId(shard.random()),
                          .mustExist = options_.mustExist && !peers_,
                          .segmentBytes = segmentBytes()});
    if (peers_) {
      for (const config::Voter& voter : settings_.controllers)
        if (NodeId(voter.id) != options_.node) addresses_[NodeId(voter.id)] = voter.address;
      tellPeers();
    }
    if (isLogEmpty() && !peers_) bootstrap({{{self(), true}}});
    if (!isLogEmpty()) begin();
    if (!peers_) checkAlone();
  }

  // --- life

  Co<void> start() {
    if (!driver_) {
      FoundQuorum found = co_await findQuorum(shard_, *peers_, self(), settings_.controllers);
      if (found.isNew && options_.mustExist)
        throw broken(kj::Exception::Type::FAILED,
                     "{} is missing or empty beside partitions, and no controller knows a cluster: restore it",
                     options_.directory);
      if (found.isNew) bootstrap(found.members);
      begin();
    }
    if (peers_) tasks_.add(stayMember());
    co_await catchUp();
    checkCluster();
  }

  kj::Promise<void> publish() {
    isPublishing_ = true;
    publish(
        {{committed_, std::make_shared<metadata::Delta>(metadata::difference(*metadata::emptyImage(), *committed_))}});
    return published_.addBranch();
  }

  Co<void> stop() {
    if (!driver_ || failure_) co_return;
    if (isLeading_ && peers_) co_await handOver();
    isStopping_ = true;
    wake();
    if (performing_ > 0) {  // who is being answered
      auto paf = kj::newPromiseAndFulfiller<void>();
      idle_ = kj::mv(paf.fulfiller);
      co_await paf.promise.exclusiveJoin(shard_.after(kAnswerWithin));
    }
    co_await driver_->stop();
    wake();
    if (!failure_) co_await shard_.run(Pool::sync, [log = log_] { log->close(); });
  }

  kj::Promise<kj::Exception> failed() { return kj::mv(failed_.promise); }

  // --- requests

  Co<Result<Answered>> ask(Request request, Duration limit) {
    Instant end = shard_.now() + limit;
    std::string why;
    while (true) {
      checkOpen();
      Result<Answered> answer = isLeading_ ? co_await perform(request) : co_await askLeader(request, end);
      if (answer && !co_await isReached(answer->offset, end))
        co_return failure(Error::requestTimedOut, "done, but this node has not heard of it yet");
      if (answer || answer.errorCode() != Error::notController) co_return answer;
      if (shard_.now() >= end)
        co_return failure(Error::requestTimedOut, "no controller has answered: {}", answer.failure().message);
      co_await changed().exclusiveJoin(shard_.after(kRetryEvery));
    }
  }

  Co<Result<Answered>> askHere(Request request) {
    checkOpen();
    if (!isLeading_) co_return failure(Error::notController, "node {} does not lead", options_.node);
    co_return co_await perform(request);
  }

  // --- peers

  NodeStatus status() const {
    NodeStatus status;
    status.replica = self();
    if (!committed_->clusterId().isZero()) status.cluster = committed_->clusterId();
    status.isEmpty = !driver_ && log_->hardState().term == 0 && !options_.mustExist;
    if (driver_) {
      status.members = driver_->core().membership();
      status.leader = driver_->core().leader();
      status.term = driver_->core().term();
    }
    for (const config::Voter& voter : settings_.controllers)
      status.controllers.emplace_back(NodeId(voter.id), voter.address);
    return status;
  }

  NodeStatus join(const JoinRequest& request) {
    if (peers_ && request.replica.id != options_.node && !request.address.host.empty()) {
      if (std::exchange(addresses_[request.replica.id], request.address) != request.address) tellPeers();
      if (isLeading_) admit(request.replica);
    }
    return status();
  }

  void receive(raft::Message message) {
    if (!driver_ || isStopping_) return;
    NodeId before = leader();
    driver_->receive(std::move(message));
    if (leader() != before) wake();
  }

  void peersChanged() {
    if (isLeading_) tasks_.add(fenceGone());
  }

  NodeId leader() const { return driver_ ? driver_->core().leader() : kNoNode; }
  const ImageRef& committed() const { return committed_; }
  const RaftLog& log() const { return *log_; }

  // --- StateMachine

  void apply(std::span<const raft::Entry> entries) override {
    if (failure_) return;
    try {
      Updates updates;
      for (const raft::Entry& entry : entries) {
        updates.push_back(appliedOf(entry));
        committed_ = updates.back().image;
      }
      if (isPublishing_) publish(std::move(updates));
      wakeReached();
    } catch (...) {
      fail(caughtException());
    }
  }

  Encode snapshot(const raft::Membership& members) override {
    return [image = committed_, members] {
      auto records = metadata::recordsOf(*image);
      std::erase_if(records,
                    [](const Record& record) { return std::holds_alternative<metadata::ClusterRecord>(record); });
      records.insert(records.begin(), clusterRecord(image->clusterId(), members));
      return metadata::encodeRecords(records);
    };
  }

  raft::Membership membersIn(Bytes snapshot) override {
    auto records = decode(snapshot, "its snapshot");
    const metadata::ClusterRecord* cluster = findCluster(records);
    if (!cluster || cluster->voters.empty())
      throw broken(kj::Exception::Type::FAILED, "the snapshot of the metadata in {} does not say who votes",
                   options_.directory);
    return membershipOf(*cluster);
  }

  void install(raft::SnapshotId id, Bytes snapshot) override {
    ImageRef before = committed_;
    committed_ = metadata::apply(metadata::emptyImage(), decode(snapshot, "its snapshot"), id.index, id.term).image;
    if (isPublishing_)
      publish({{committed_, std::make_shared<metadata::Delta>(metadata::difference(*before, *committed_))}});
    wakeReached();
  }

  void leads(int64_t term) override {
    leadsIn_ = term;
    // Not from within the driver.
    tasks_.add(kj::evalLater([this, term] {
      if (leadsIn_ == term) beginLeading(term);
    }));
  }

  void follows() override {
    leadsIn_ = 0;
    isLeading_ = false;
    decided_ = committed_;
    queue_.clear();
    for (auto& [offset, waiting] : std::exchange(undecided_, {})) waiting->fulfill(false);
    wake();
  }

 private:
  struct Decided {
    raft::Position position;
    Applied applied;
  };
  using Updates = std::vector<Applied>;

  // Whole segments go once a snapshot has what is in them: so some for each snapshot.
  uint64_t segmentBytes() const {
    return std::clamp<uint64_t>(static_cast<uint64_t>(settings_.metadataSnapshotBytes) / 4, 4_KiB, 4_MiB);
  }

  raft::Replica self() const { return {options_.node, log_->directoryId()}; }
  bool isLogEmpty() const { return log_->lastIndex() == 0 && log_->snapshot().index == 0; }

  void checkOpen() const {
    if (failure_) throw kj::Exception(*failure_);
    if (isStopping_) throw broken(kj::Exception::Type::DISCONNECTED, "the controller is stopping");
  }

  // --- the beginning

  // The first entry, the same at each voter of a new cluster.
  void bootstrap(const raft::Membership& members) {
    raft::Entry entry = raft::bootstrapEntry(members);
    log_->saveHardState({entry.term, kNoNode});
    if (log_->append(std::span(&entry, 1)) == Space::none)
      throw broken(kj::Exception::Type::FAILED, "no space for the metadata log in {}: free some", options_.directory);
  }

  // With an empty log it is no member yet, whatever others have told: it votes for who has the first entry, and must
  // not campaign without, or it would make another one.
  void begin() {
    RaftDriverOptions options;
    options.raft.electionTimeout = std::chrono::milliseconds(settings_.quorumElectionTimeoutMs);
    options.raft.heartbeat = options.raft.electionTimeout / 5;
    if (!isLogEmpty()) options.members = firstMembers();
    options.snapshotBytes = static_cast<uint64_t>(settings_.metadataSnapshotBytes);
    driver_ = kj::heap<RaftDriver>(
        shard_, log_, *this,
        [this](const raft::Message& message) {
          if (peers_) peers_->send(message);
        },
        std::move(options));
    tasks_.add(driver_->failed().then([this](kj::Exception&& reason) { fail(kj::mv(reason)); }));
  }

  // Logs that were begun before there were quorums name their voter in the first entry's records.
  raft::Membership firstMembers() const {
    if (log_->firstIndex() != 1) return {};
    auto first = log_->read(1, 2, 1);
    if (first.front().type != raft::EntryType::records) return {};
    auto records = decode(first.front().data, "its first entry");
    const metadata::ClusterRecord* cluster = findCluster(records);
    return cluster ? membershipOf(*cluster) : raft::Membership();
  }

  void checkAlone() const {
    const raft::Membership& members = driver_->core().membership();
    if (!members.isVoter(self()))
      throw broken(kj::Exception::Type::FAILED, "node {} with metadata directory {} ({}) is no voter of its cluster",
                   options_.node, log_->directoryId(), options_.directory);
    if (members.voterCount() > 1)
      throw broken(kj::Exception::Type::FAILED,
                   "node {} is one of {} voters of its cluster: name them all with --controllers", options_.node,
                   members.voterCount());
  }

  void checkCluster() const {
    const Uuid& cluster = committed_->clusterId();
    if (cluster.isZero())
      throw broken(kj::Exception::Type::FAILED,
                   "the metadata log in {} does not say which cluster it belongs to: restore it from a copy",
                   options_.directory);
    if (!options_.clusterId.isZero() && cluster != options_.clusterId)
      throw broken(kj::Exception::Type::FAILED, "the metadata log in {} belongs to cluster {}, not {}",
                   options_.directory, cluster, options_.clusterId);
  }

  // Until everything that was committed when we came is applied here.
  Co<void> catchUp() {
    while (true) {
      auto answer = co_await ask(DescribeQuorumRequest(), 5s);
      if (answer) break;
      shard_.log().warning("quorum-awaited", "node {} waits for a controller: {}", options_.node,
                           answer.failure().message);
    }
  }

  // A node that has no place in the quorum, or has not been heard of by its leader, makes itself known.
  Co<void> stayMember() {
    while (!isStopping_) {
      const raft::Core& core = driver_->core();
      if (!core.membership().has(self()) || core.leader() == kNoNode) {
        std::vector<NodeId> whom;
        if (NodeId known = core.leader(); known != kNoNode) whom.push_back(known);
        for (const config::Voter& voter : settings_.controllers) whom.emplace_back(voter.id);
        for (NodeId node : whom) {
          if (node == options_.node) continue;
          try {
            NodeStatus status = co_await peers_->join(node, {self(), options_.address}, kJoinWithin);
            if (status.leader == node) break;
          } catch (...) {
            shard_.log().debug("join-unheard", "node {}: {}", node, describe(caughtException()));
          }
        }
      }
      co_await shard_.after(kJoinEvery);
    }
  }

  // The other nodes' addresses: as listed, as registered, as they said when they joined.
  void tellPeers() {
    if (!peers_) return;
    std::map<NodeId, Address> all = addresses_;
    for (const auto& [id, broker] : committed_->brokers())
      if (!broker->peer.host.empty() && !isListed(id)) all[id] = broker->peer;
    all.erase(options_.node);
    if (all == toldPeers_) return;
    toldPeers_ = all;
    peers_->setPeers(all);
  }
  bool isListed(NodeId node) const {
    return std::ranges::any_of(settings_.controllers,
                               [&](const config::Voter& voter) { return NodeId(voter.id) == node; });
  }

  // --- leading

  void beginLeading(int64_t term) {
    decided_ = committed_;
    queue_.clear();
    isLeading_ = true;
    heard_.clear();
    // Who is known to be dead does not get the time of a session.
    for (const auto& [id, broker] : committed_->brokers()) {
      auto refused = peers_ && id != options_.node ? peers_->refusedAt(id) : std::nullopt;
      heard_[id] = refused ? *refused - 1ns : shard_.now();
    }
    if (committed_->clusterId().isZero()) {
      Uuid cluster = options_.clusterId.isZero() ? newId(shard_.random()) : options_.clusterId;
      tasks_.add(propose(planner_.bootstrap(cluster, *committed_)).ignoreResult());
      shard_.log().info("cluster-created", "new cluster {} with voters {}", cluster,
                        raft::show(driver_->core().membership()));
    }
    if (peers_) shard_.log().info("controller-leads", "node {} leads the quorum in term {}", options_.node, term);
    tasks_.add(watch(term));
    wake();
  }

  Co<void> watch(int64_t term) {
    Instant balanceAt = shard_.now() + balanceEvery();
    while (leadsIn_ == term && !isStopping_) {
      co_await fenceGone();
      if (settings_.leaderRebalance && shard_.now() >= balanceAt) {
        balanceAt = shard_.now() + balanceEvery();
        if (isLeading_) {
          std::ignore = co_await decide([&](Now now) { return planner_.balance(now); });
        }
      }
      co_await shard_.after(kWatchEvery);
    }
  }
  Duration balanceEvery() const { return std::chrono::seconds(settings_.leaderImbalanceCheckSeconds); }

  // Brokers whose session is over, or whose process is known to have ended.
  Co<void> fenceGone() {
    if (!isLeading_ || !peers_) co_return;
    std::vector<NodeId> gone;
    for (const auto& [id, broker] : decided_->brokers()) {
      if (broker->fenced) continue;
      Instant heard = heard_.try_emplace(id, shard_.now()).first->second;
      auto refused = id == options_.node ? std::nullopt : peers_->refusedAt(id);
      bool isDead = refused && *refused > heard;
      if (!isDead && shard_.now() - heard <= sessionTimeout()) continue;
      shard_.log().warning("broker-fenced", "broker {}: {}", id,
                           isDead ? std::string("its process has ended")
                                  : fmt::format("nothing heard for {} ms", (shard_.now() - heard) / 1ms));
      gone.push_back(id);
    }
    if (!gone.empty()) std::ignore = co_await decide([&](Now now) { return planner_.fence(now, gone); });
  }
  Duration sessionTimeout() const { return std::chrono::milliseconds(settings_.brokerSessionTimeoutMs); }

  // To the voter that has most of the log, so that nobody has to wait for an election.
  Co<void> handOver() {
    const raft::Core& core = driver_->core();
    NodeId best = kNoNode;
    int64_t match = -1;
    for (const raft::Member& member : core.membership().members) {
      const raft::Progress* progress = member.isVoter ? core.progressOf(member.replica.id) : nullptr;
      if (progress && progress->match > match && peers_->directoryOf(member.replica.id)) {
        match = progress->match;
        best = member.replica.id;
      }
    }
    if (best == kNoNode || !driver_->transfer(best)) co_return;
    Instant end = shard_.now() + kHandOverWithin;
    while (isLeading_ && shard_.now() < end) co_await changed().exclusiveJoin(shard_.after(end - shard_.now()));
  }

  // A replica that wants the log. One that has lost its data under an old id loses the vote with it: what it had
  // promised is gone.
  void admit(const raft::Replica& replica) {
    const raft::Membership& members = driver_->core().membership();
    if (members.has(replica)) return;
    const raft::Member* present = members.find(replica.id);
    if (present && peers_->directoryOf(replica.id) == present->replica.directory) {
      shard_.log().warning("join-refused",
                           "node id {} is in use by another directory ({}) than that of the one that joins ({})",
                           replica.id, present->replica.directory, replica.directory);
      return;
    }
    bool wasVoter = present && present->isVoter;
    if (changeMembers([&] { return driver_->setMember({replica, false}); }) && wasVoter)
      shard_.log().warning(
          "voter-lost",
          "node {} has come back with another metadata directory: it is an observer until it is made a voter again",
          replica.id);
  }

  template <class Change>
  Result<raft::Position> changeMembers(Change change) {
    if (!isLeading_ || driver_->core().log().lastIndex() != decided_->offset())
      return failure(Error::notController, "node {} does not lead", options_.node);
    Result<raft::Position> position = change();
    if (position) note({clusterRecord(decided_->clusterId(), driver_->core().membership())}, *position);
    return position;
  }

  Co<Result<Answered>> changeVoter(const ChangeVoterRequest& request) {
    const raft::Member* present = driver_->core().membership().find(request.id);
    if (!present || (!request.directory.isZero() && present->replica.directory != request.directory))
      co_return failure(Error::voterNotFound, "node {} is no member of the quorum with that directory", request.id);
    raft::Replica replica = present->replica;
    Result<raft::Position> position = changeMembers([&] { return driver_->setMember({replica, request.isVoter}); });
    if (!position) co_return position.failure();
    if (!co_await committedUpTo(position->index)) co_return failure(Error::requestTimedOut, "leadership was lost");
    co_return Answered{position->index, std::monostate()};
  }

  Co<Result<Answered>> describeQuorum() {
    auto read = co_await driver_->read();
    if (!read) co_return read.failure();
    // Also what the leader itself has begun: in a new cluster, its name.
    if (!co_await committedUpTo(decided_->offset()))
      co_return failure(Error::notController, "node {} does not lead any more", options_.node);
    const raft::Core& core = driver_->core();
    QuorumState state;
    state.leader = options_.node;
    state.term = core.term();
    state.highWatermark = core.commitIndex();
    for (const raft::Member& member : core.membership().members) {
      QuorumState::Replica row{.id = member.replica.id, .directory = member.replica.directory};
      if (member.replica.id == options_.node) {
        row.logEnd = core.log().lastIndex();
        row.lastFetch = row.lastCaughtUp = shard_.wallNow();
      } else if (const raft::Progress* progress = core.progressOf(member.replica.id)) {
        row.logEnd = progress->match;
        row.lastFetch = shard_.wallNow() - static_cast<int64_t>((shard_.now() - progress->heardAt) / 1ms);
        if (progress->match == core.log().lastIndex()) row.lastCaughtUp = row.lastFetch;
      }
      (member.isVoter ? state.voters : state.observers).push_back(row);
    }
    co_return Answered{committed_->offset(), std::move(state)};
  }

  // --- decisions

  Co<Result<Answered>> perform(const Request& request) {
    ++performing_;
    KJ_DEFER(if (--performing_ == 0 && idle_) idle_->fulfill());
    co_return co_await std::visit([this](const auto& one) { return performOne(one); }, request);
  }

  kj::Promise<Result<Answered>> performOne(const CreateTopicsRequest& r) { return plan(&Planner::createTopics, r); }
  kj::Promise<Result<Answered>> performOne(const DeleteTopicsRequest& r) { return plan(&Planner::deleteTopics, r); }
  kj::Promise<Result<Answered>> performOne(const CreatePartitionsRequest& r) {
    return plan(&Planner::createPartitions, r);
  }
  kj::Promise<Result<Answered>> performOne(const AlterConfigsRequest& r) { return plan(&Planner::alterConfigs, r); }
  kj::Promise<Result<Answered>> performOne(const UpdateFeaturesRequest& r) { return plan(&Planner::updateFeatures, r); }
  kj::Promise<Result<Answered>> performOne(const EnsureTopicsRequest& r) { return plan(&Planner::ensureTopics, r); }
  kj::Promise<Result<Answered>> performOne(const AllocateProducerIdsRequest&) {
    return decide([this](Now now) { return planner_.allocateProducerIds(now); });
  }
  kj::Promise<Result<Answered>> performOne(const BrokerRegistration& r) {
    if (auto ok = checkLives(r); !ok) return Result<Answered>(ok.failure());
    heard_[r.id] = shard_.now();
    return plan(&Planner::registerBroker, r);
  }
  kj::Promise<Result<Answered>> performOne(const BrokerHeartbeat& r) {
    const metadata::Broker* broker = decided_->broker(r.id);
    if (broker && broker->epoch == r.epoch) heard_[r.id] = shard_.now();
    return plan(&Planner::heartbeat, r);
  }
  kj::Promise<Result<Answered>> performOne(const AlterPartitionsRequest& r) {
    return plan(&Planner::alterPartitions, r);
  }
  kj::Promise<Result<Answered>> performOne(const ElectLeadersRequest& r) { return plan(&Planner::electLeaders, r); }
  kj::Promise<Result<Answered>> performOne(const AlterReassignmentsRequest& r) {
    return plan(&Planner::alterReassignments, r);
  }
  kj::Promise<Result<Answered>> performOne(const UnregisterBrokerRequest& r) {
    return plan(&Planner::unregisterBroker, r);
  }
  kj::Promise<Result<Answered>> performOne(const DrainBrokerRequest& r) { return plan(&Planner::drainBroker, r); }
  kj::Promise<Result<Answered>> performOne(const ChangeVoterRequest& r) { return changeVoter(r); }
  kj::Promise<Result<Answered>> performOne(const DescribeQuorumRequest&) { return describeQuorum(); }

  template <class Response, class Asked>
  kj::Promise<Result<Answered>> plan(Plan<Response> (Planner::*method)(Now, const Asked&) const, const Asked& request) {
    return decide([this, method, request](Now now) { return (planner_.*method)(now, request); });
  }

  // The same id with other data, while the one before lives.
  Result<void> checkLives(const BrokerRegistration& registration) const {
    const metadata::Broker* present = decided_->broker(registration.id);
    if (!peers_ || !present || present->fenced || present->incarnation == registration.incarnation ||
        present->directories == registration.directories)
      return {};
    auto heard = heard_.find(registration.id);
    if (heard == heard_.end() || shard_.now() - heard->second > sessionTimeout()) return {};
    return failure(Error::duplicateBrokerRegistration,
                   "broker id {} is in use by a broker with another log directory, which lives or ended a moment ago",
                   registration.id);
  }

  template <class Decide>
  Co<Result<Answered>> decide(Decide decision) {
    // The disk was full a moment ago; it may not be any more.
    Space space = driver_->lastSpace();
    if (space != Space::plenty) space = co_await driver_->space();
    if (!isLeading_) co_return failure(Error::notController, "node {} does not lead", options_.node);
    auto made = decision(Now{*decided_, shard_.random(), space});
    int64_t offset = decided_->offset();
    if (!made.records.empty()) {
      auto committing = propose(std::move(made.records));
      offset = decided_->offset();
      Result<raft::Position> done = co_await committing;
      if (!done && done.errorCode() == Error::kafkaStorageError && !isStopping_) {
        auto again = decision(Now{*committed_, shard_.random(), Space::none});  // to say so
        if (again.records.empty()) co_return answerWith(committed_->offset(), std::move(again.response));
      }
      if (auto& reason = driver_->core().stopReason()) throw broken(kj::Exception::Type::FAILED, "{}", *reason);
      if (!done) co_return done.failure();
    } else if (!co_await committedUpTo(offset)) {
      co_return failure(Error::notController, "node {} does not lead any more", options_.node);
    }
    co_await published_.addBranch();
    co_return answerWith(offset, std::move(made.response));
  }

  kj::Promise<Result<raft::Position>> propose(std::vector<Record> records) {
    int64_t before = driver_->core().log().lastIndex();
    if (before != decided_->offset())
      return Result<raft::Position>(failure(Error::notController, "node {} does not lead any more", options_.node));
    auto promise = driver_->propose(metadata::encodeRecords(records));
    if (driver_->core().log().lastIndex() > before) note(records, {before + 1, driver_->core().term()});
    return promise;
  }

  void note(const std::vector<Record>& records, raft::Position position) {
    Applied applied = metadata::apply(decided_, records, position.index, position.term);
    decided_ = applied.image;
    queue_.push_back({position, std::move(applied)});
  }

  // False: leadership was lost before.
  kj::Promise<bool> committedUpTo(int64_t offset) {
    if (committed_->offset() >= offset) return true;
    auto paf = kj::newPromiseAndFulfiller<bool>();
    undecided_.emplace(offset, kj::mv(paf.fulfiller));
    return kj::mv(paf.promise);
  }

  Co<Result<Answered>> askLeader(const Request& request, Instant end) {
    NodeId leading = leader();
    if (!peers_ || leading == kNoNode || leading == options_.node)
      co_return failure(Error::notController, "nobody is known to lead the quorum");
    co_return co_await peers_->ask(leading, request, std::max<Duration>(end - shard_.now(), kRetryEvery));
  }

  // --- the image

  std::vector<Record> decode(Bytes data, std::string_view where) const {
    auto records = metadata::decodeRecords(data);
    if (!records)
      throw broken(kj::Exception::Type::FAILED, "the metadata log in {} ({}) cannot be read: {}", options_.directory,
                   where, records.failure().message);
    return std::move(*records);
  }

  Applied appliedOf(const raft::Entry& entry) {
    if (!queue_.empty() && queue_.front().position == raft::Position{entry.index, entry.term}) {
      Applied applied = std::move(queue_.front().applied);
      queue_.pop_front();
      return applied;
    }
    std::vector<Record> records;
    switch (entry.type) {
      case raft::EntryType::noop: break;
      case raft::EntryType::records: records = decode(entry.data, fmt::format("entry {}", entry.index)); break;
      case raft::EntryType::membership: {
        auto members = raft::decodeMembership(entry.data);
        MQ_CHECK(members.has_value(), entry.index);  // the core has read it
        records.push_back(clusterRecord(committed_->clusterId(), *members));
        break;
      }
      default:
        throw broken(kj::Exception::Type::FAILED, "entry {} of the metadata log in {} has type {}: start a newer mq",
                     entry.index, options_.directory, static_cast<int>(entry.type));
    }
    return metadata::apply(committed_, records, entry.index, entry.term);
  }

  // Every shard gets the images in order: posted at once, so a later publication is never seen before an earlier one.
  void publish(Updates updates) {
    auto shared = std::make_shared<const Updates>(std::move(updates));
    auto publications = kj::heapArrayBuilder<kj::Promise<void>>(feeds_.size());
    for (uint32_t shard = 0; shard < feeds_.size(); ++shard)
      publications.add(shard_.call(shard, [feed = feeds_[shard], shared] {
        for (auto& update : *shared) feed->publish(update.image, *update.delta);
      }));
    published_ = kj::joinPromises(publications.finish()).fork();
    tasks_.add(published_.addBranch());
    if (std::ranges::any_of(*shared, [](const Applied& applied) { return !applied.delta->brokers.empty(); }))
      tellPeers();
  }

  void wakeReached() {
    int64_t offset = committed_->offset();
    for (auto at = undecided_.begin(); at != undecided_.end() && at->first <= offset; at = undecided_.erase(at))
      at->second->fulfill(true);
    for (auto at = awaited_.begin(); at != awaited_.end() && at->first <= offset; at = awaited_.erase(at))
      at->second->fulfill();
  }

  // Every shard has the image of that entry. False: not by then.
  Co<bool> isReached(int64_t offset, Instant end) {
    if (committed_->offset() < offset) {
      auto paf = kj::newPromiseAndFulfiller<void>();
      awaited_.emplace(offset, kj::mv(paf.fulfiller));
      co_await paf.promise.exclusiveJoin(shard_.after(std::max<Duration>(end - shard_.now(), kRetryEvery)));
      if (committed_->offset() < offset) co_return false;
    }
    co_await published_.addBranch();
    co_return true;
  }

  // Somebody else leads, or nobody does.
  kj::Promise<void> changed() {
    auto paf = kj::newPromiseAndFulfiller<void>();
    changed_.push_back(kj::mv(paf.fulfiller));
    return kj::mv(paf.promise);
  }
  void wake() {
    for (auto& waiting : std::exchange(changed_, {})) waiting->fulfill();
  }

  void fail(kj::Exception reason) {
    if (failure_) return;
    shard_.log().error("metadata-log-failed", "{}", describe(reason));
    failure_.emplace(reason);
    isLeading_ = false;
    for (auto& [offset, waiting] : std::exchange(undecided_, {})) waiting->reject(kj::Exception(reason));
    for (auto& [offset, waiting] : std::exchange(awaited_, {})) waiting->reject(kj::Exception(reason));
    wake();
    failed_.fulfiller->fulfill(kj::mv(reason));
  }

  Shard& shard_;
  ControllerOptions options_;
  const config::BrokerSettings& settings_;
  std::vector<MetadataFeed*> feeds_;
  Peers* peers_;  // null: alone
  Planner planner_;
  std::shared_ptr<RaftLog> log_;
  ImageRef committed_;         // and applied
  ImageRef decided_;           // leading: with what is on its way
  std::deque<Decided> queue_;  // leading: that, by index
  bool isPublishing_ = false, isStopping_ = false;
  bool isLeading_ = false;  // and has taken up its office
  int64_t leadsIn_ = 0;     // term; 0: does not lead
  size_t performing_ = 0;
  kj::Own<kj::PromiseFulfiller<void>> idle_;  // stop() waits for them
  std::map<NodeId, Instant> heard_;           // leading: when each broker's session was renewed
  std::map<NodeId, Address> addresses_, toldPeers_;
  kj::ForkedPromise<void> published_ = kj::Promise<void>(kj::READY_NOW).fork();  // the latest; ends after those before
  std::multimap<int64_t, kj::Own<kj::PromiseFulfiller<bool>>> undecided_;
  std::multimap<int64_t, kj::Own<kj::PromiseFulfiller<void>>> awaited_;
  std::vector<kj::Own<kj::PromiseFulfiller<void>>> changed_;
  std::optional<kj::Exception> failure_;
  kj::PromiseFulfillerPair<kj::Exception> failed_;
  kj::Own<RaftDriver> driver_;  // null until the quorum is known
  Tasks tasks_;
};

Controller::Controller(Shard& shard, ControllerOptions options, std::vector<MetadataFeed*> feeds, Peers* peers)
    : impl_(kj::heap<Impl>(shard, std::move(options), std::move(feeds), peers)) {}
Controller::~Controller() noexcept(false) {}

kj::Promise<void> Controller::start() { return impl_->start(); }
kj::Promise<void> Controller::publish() { return impl_->publish(); }
kj::Promise<void> Controller::stop() { return impl_->stop(); }
kj::Promise<kj::Exception> Controller::failed() { return impl_->failed(); }
kj::Promise<Result<Answered>> Controller::ask(Request request, Duration limit) {
  return impl_->ask(std::move(request), limit);
}
kj::Promise<Result<Answered>> Controller::askHere(Request request) { return impl_->askHere(std::move(request)); }
NodeStatus Controller::status() const { return impl_->status(); }
NodeStatus Controller::join(const JoinRequest& request) { return impl_->join(request); }
void Controller::receive(raft::Message message) { impl_->receive(std::move(message)); }
void Controller::peersChanged() { impl_->peersChanged(); }
NodeId Controller::leader() const { return impl_->leader(); }
const ImageRef& Controller::image() const { return impl_->committed(); }
const Uuid& Controller::directoryId() const { return impl_->log().directoryId(); }

}  // namespace mq::controller

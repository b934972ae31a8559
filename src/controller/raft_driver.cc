#include "controller/raft_driver.h"

#include <deque>
#include <map>
#include <utility>

#include <kj/debug.h>

#include "base/check.h"
#include "runtime/tasks.h"

namespace mq::controller {
namespace {

constexpr size_t kRestoreBytes = 4 << 20;  // of the log, read at a time

}  // namespace

class RaftDriver::Impl {
 public:
  Impl(Shard& shard, std::shared_ptr<RaftLog> log, StateMachine& machine, Send send, RaftDriverOptions options)
      : shard_(shard),
        log_(std::move(log)),
        machine_(machine),
        send_(std::move(send)),
        options_(std::move(options)),
        core_(options_.raft, startOf(), shard.random().next(), shard.now()),
        snapshotDueAt_(options_.snapshotBytes),
        failed_(kj::newPromiseAndFulfiller<kj::Exception>()),
        tasks_(shard.log(), "raft") {
    for (int64_t next = log_->firstIndex(); next <= log_->lastIndex();) {
      auto entries = log_->read(next, log_->lastIndex() + 1, kRestoreBytes);
      core_.restore(entries);
      next = entries.back().index + 1;
    }
    if (auto reason = core_.stopReason()) KJ_FAIL_REQUIRE(reason->c_str());
    bytesSinceSnapshot_ = log_->bytesSinceSnapshot();
    driveSoon();
  }

  kj::Promise<Result<raft::Position>> propose(Buffer data) {
    if (isStopping_) return Result<raft::Position>(stopped());
    core_.tick(shard_.now());
    auto position = core_.propose(std::move(data));
    driveSoon();
    if (!position) return Result<raft::Position>(position.failure());
    auto paf = kj::newPromiseAndFulfiller<Result<raft::Position>>();
    proposals_.push_back({*position, kj::mv(paf.fulfiller)});
    return kj::mv(paf.promise);
  }

  kj::Promise<Result<void>> read() {
    if (isStopping_) return Result<void>(stopped());
    raft::ReadId id = ++reads_;
    core_.tick(shard_.now());
    auto asked = core_.read(id);
    driveSoon();
    if (!asked) return Result<void>(asked.failure());
    auto paf = kj::newPromiseAndFulfiller<Result<void>>();
    waitingReads_.emplace(id, kj::mv(paf.fulfiller));
    return kj::mv(paf.promise);
  }

  template <class Change>
  auto change(Change what) -> decltype(what(std::declval<raft::Core&>())) {
    if (isStopping_) return stopped();
    core_.tick(shard_.now());
    auto result = what(core_);
    driveSoon();
    return result;
  }

  void receive(raft::Message message) {
    core_.tick(shard_.now());
    core_.step(std::move(message));
    driveSoon();
  }

  Space lastSpace() const { return space_; }
  Co<Space> space() {
    if (space_ != Space::plenty && !isStopping_) {
      Space now = co_await onLog([](RaftLog& log) { return log.append({}); });
      note(now);
    }
    co_return space_;
  }

  const raft::Core& core() const { return core_; }

  kj::Promise<void> stop() {
    isStopping_ = true;
    loseAll("the node stops");
    return jobs_.addBranch();
  }

  kj::Promise<kj::Exception> failed() { return kj::mv(failed_.promise); }

 private:
  struct Proposal {
    raft::Position position;
    kj::Own<kj::PromiseFulfiller<Result<raft::Position>>> answer;
  };
  // What a job saw of the log when it was done with it.
  struct LogFacts {
    Space space = Space::plenty;
    uint64_t bytesSinceSnapshot = 0;
    raft::Position start;  // the entry before the first one
  };

  raft::Start startOf() {
    raft::SnapshotInfo snapshot{.id = {}, .bytes = 0, .members = options_.members};
    if (auto found = log_->readSnapshot()) {
      snapshot = {.id = found->id, .bytes = found->data.size(), .members = machine_.membersIn(found->data)};
      machine_.install(found->id, found->data);
      applied_ = snapshotIndex_ = found->id.index;
      appliedTerm_ = found->id.term;
    }
    return {.self = {log_->node(), log_->directoryId()},
            .hardState = log_->hardState(),
            .snapshot = std::move(snapshot),
            .logStart = startOf(*log_)};
  }
  static raft::Position startOf(const RaftLog& log) {
    int64_t before = log.firstIndex() - 1;
    auto term = log.termAt(before);
    MQ_CHECK(term.has_value(), before);
    return {before, *term};
  }

  // Nothing is driven any more, so nothing would ever be answered.
  Failure stopped() const { return failure(Error::notController, "node {} stops", self()); }

  // In a later event: what comes together is one write.
  void driveSoon() {
    if (isStopping_ || std::exchange(isSoon_, true)) return;
    tasks_.add(kj::evalLater([this] {
      isSoon_ = false;
      drive();
    }));
  }

  void drive() {
    if (isStopping_) return;
    core_.tick(shard_.now());
    while (true) {
      raft::Ready ready = core_.take();
      noteState();
      if (ready.isEmpty()) break;
      for (const raft::Message& message : ready.messages) send_(message);
      if (!ready.apply.empty()) apply(ready.apply);
      for (raft::ReadId id : ready.readsReady) answer(id, {});
      for (raft::ReadId id : ready.readsFailed)
        answer(id, failure(Error::notController, "node {} does not lead any more", self()));
      if (ready.write) tasks_.add(write(std::move(*ready.write)));
      for (raft::LogRead& read : ready.reads) tasks_.add(load(read));
      for (raft::SnapshotRead& read : ready.snapshotReads) tasks_.add(load(read));
    }
    if (core_.stopReason()) return fail(*core_.stopReason());
    snapshotIfDue();
    armTimer();
  }

  void noteState() {
    bool leads = core_.state() == raft::State::leader;
    if (leads == isLeader_ && (!leads || core_.term() == term_)) return;
    if (std::exchange(isLeader_, leads)) {
      if (std::exchange(isReady_, false)) machine_.follows();
      loseAll("it does not lead any more");
    }
    term_ = core_.term();
  }

  void apply(std::vector<raft::Entry>& entries) {
    machine_.apply(entries);
    applied_ = entries.back().index;
    appliedTerm_ = entries.back().term;
    for (const raft::Entry& entry : entries) {
      while (!proposals_.empty() && proposals_.front().position.index <= entry.index) {
        Proposal proposal = std::move(proposals_.front());
        proposals_.pop_front();
        bool isOurs = proposal.position == raft::Position{entry.index, entry.term};
        proposal.answer->fulfill(isOurs ? Result<raft::Position>(proposal.position)
                                        : failure(Error::notController, "another leader has replaced entry {}",
                                                  raft::show(proposal.position)));
      }
    }
    if (isLeader_ && !isReady_ && appliedTerm_ == term_) {
      isReady_ = true;
      machine_.leads(term_);
    }
  }

  void answer(raft::ReadId id, Result<void> result) {
    auto waiting = waitingReads_.extract(id);
    if (!waiting.empty()) waiting.mapped()->fulfill(std::move(result));
  }

  // What is proposed may still come to be committed, by another leader.
  void loseAll(std::string_view why) {
    for (Proposal& proposal : std::exchange(proposals_, {}))
      proposal.answer->fulfill(failure(Error::requestTimedOut, "node {}: {}", self(), why));
    for (auto& [id, waiting] : std::exchange(waitingReads_, {}))
      waiting->fulfill(failure(Error::notController, "node {}: {}", self(), why));
  }
  // There was no space for the entries behind the last durable one. Where nobody else gets them, they never were.
  void refuseUnwritten() {
    if (core_.membership().members.size() > 1) return;
    while (!proposals_.empty() && proposals_.back().position.index > core_.log().durableIndex()) {
      proposals_.back().answer->fulfill(
          failure(Error::kafkaStorageError, "no space for the metadata log of node {}", self()));
      proposals_.pop_back();
    }
  }

  // --- the log, by one job at a time

  template <class Job>
  auto onLog(Job job) -> Co<decltype(job(std::declval<RaftLog&>()))> {
    kj::Promise<void> before = jobs_.addBranch();
    auto paf = kj::newPromiseAndFulfiller<void>();
    jobs_ = paf.promise.fork();
    auto done = kj::defer([&] { paf.fulfiller->fulfill(); });
    co_await before;
    co_return co_await shard_.run(Pool::sync, [log = log_, job = std::move(job)]() mutable { return job(*log); });
  }

  static LogFacts factsOf(const RaftLog& log, Space space) { return {space, log.bytesSinceSnapshot(), startOf(log)}; }

  Co<void> write(raft::Write w) {
    isWriting_ = true;
    auto write = std::make_shared<raft::Write>(std::move(w));
    try {
      LogFacts facts = co_await onLog([write](RaftLog& log) {
        if (write->hardState) log.saveHardState(*write->hardState);
        if (write->install && !log.install(write->install->snapshot.id, write->install->data))
          return factsOf(log, Space::none);
        Space space = write->append.empty() ? Space::plenty : log.append(write->append);
        KJ_REQUIRE(space != Space::none || !write->install, "no space for the entries behind a snapshot");
        return factsOf(log, space);
      });
      isWriting_ = false;
      bytesSinceSnapshot_ = facts.bytesSinceSnapshot;
      if (!write->append.empty()) note(facts.space);
      if (facts.space == Space::none) {
        refuseUnwritten();
        core_.refused(std::move(*write));
      } else {
        if (write->install) install(*write->install);
        core_.persisted(write->number);
      }
    } catch (...) {
      core_.fail(describe(caughtException()));
    }
    drive();
  }

  void install(const raft::Install& install) {
    machine_.install(install.snapshot.id, install.data);
    applied_ = snapshotIndex_ = install.snapshot.id.index;
    appliedTerm_ = install.snapshot.id.term;
    served_.reset();
    shard_.log().info("raft-snapshot", "node {} has taken over the state as of entry {} ({} bytes)", self(),
                      raft::show(install.snapshot.id), install.data.size());
  }

  void note(Space space) {
    bool wasFull = std::exchange(space_, space) != Space::plenty, isFull = space != Space::plenty;
    if (isFull && !wasFull)
      shard_.log().warning("metadata-space",
                           "no space to extend the metadata log of node {}: only deletions and registrations go on",
                           self());
    if (wasFull && !isFull)
      shard_.log().info("metadata-space", "there is space for the metadata log of node {} again", self());
  }

  Co<void> load(raft::LogRead read) {
    try {
      auto entries = co_await onLog([read](RaftLog& log) -> std::vector<raft::Entry> {
        if (read.from < log.firstIndex() || read.from > log.lastIndex()) return {};
        return log.read(read.from, std::min(read.end, log.lastIndex() + 1), read.bytesMax);
      });
      core_.loaded(read, std::move(entries));
    } catch (...) {
      core_.fail(describe(caughtException()));
    }
    drive();
  }

  // A follower takes a snapshot in many chunks: it is read once.
  Co<void> load(raft::SnapshotRead read) {
    try {
      if (!served_ || served_->id != read.id) served_ = co_await onLog([](RaftLog& log) { return log.readSnapshot(); });
      std::optional<Buffer> chunk;
      if (served_ && served_->id == read.id) {
        Bytes bytes = Bytes(served_->data).subspan(read.offset, read.count);
        chunk.emplace(bytes.begin(), bytes.end());
        if (read.offset + read.count == served_->data.size()) served_.reset();
      }
      core_.loaded(read, std::move(chunk));
    } catch (...) {
      core_.fail(describe(caughtException()));
    }
    drive();
  }

  void snapshotIfDue() {
    if (isWriting_ || isSaving_ || bytesSinceSnapshot_ < snapshotDueAt_ || applied_ <= snapshotIndex_) return;
    if (applied_ != core_.appliedIndex()) return;  // a snapshot that came in is ahead until it is written
    isSaving_ = true;
    tasks_.add(saveSnapshot({applied_, appliedTerm_}));
  }

  Co<void> saveSnapshot(raft::SnapshotId id) {
    raft::SnapshotInfo info{.id = id, .bytes = 0, .members = core_.membershipAt(id.index)};
    auto encode = std::make_shared<StateMachine::Encode>(machine_.snapshot(info.members));
    try {
      struct Saved {
        bool isSaved;
        uint64_t bytes;
        LogFacts facts;
      };
      auto [isSaved, bytes, facts] = co_await onLog([id, encode](RaftLog& log) -> Saved {
        Buffer data = (*encode)();
        bool saved = log.saveSnapshot(id, data);
        return {saved, data.size(), factsOf(log, Space::plenty)};
      });
      info.bytes = bytes;
      bytesSinceSnapshot_ = facts.bytesSinceSnapshot;
      snapshotDueAt_ = isSaved ? options_.snapshotBytes : bytesSinceSnapshot_ + options_.snapshotBytes;
      if (isSaved) {
        snapshotIndex_ = id.index;
        served_.reset();  // whoever was taking the one before begins anew
        core_.compacted(std::move(info), facts.start);
      } else {
        shard_.log().warning("metadata-snapshot-skipped", "no space for a snapshot of the metadata of node {}", self());
      }
    } catch (...) {
      core_.fail(describe(caughtException()));
    }
    isSaving_ = false;
    drive();
  }

  // --- time

  void armTimer() {
    Instant at = core_.wakeAt();
    if (at == Instant::max() || (timerAt_ && *timerAt_ <= at)) return;
    timerAt_ = at;
    timer_ = shard_.after(std::max(Duration(0), at - shard_.now()))
                 .then([this] {
                   timerAt_.reset();
                   driveSoon();
                 })
                 .eagerlyEvaluate(nullptr);
  }

  void fail(const std::string& reason) {
    if (std::exchange(isStopping_, true)) return;
    shard_.log().error("metadata-log-failed", "node {}: {}", self(), reason);
    if (std::exchange(isReady_, false)) machine_.follows();
    loseAll(reason);
    failed_.fulfiller->fulfill(KJ_EXCEPTION(FAILED, kj::str(reason.c_str())));
  }

  NodeId self() const { return log_->node(); }

  Shard& shard_;
  std::shared_ptr<RaftLog> log_;  // shared with the job that uses it; its constants are read from here as well
  StateMachine& machine_;
  Send send_;
  RaftDriverOptions options_;
  int64_t applied_ = 0;  // by the state machine
  int64_t appliedTerm_ = 0;
  int64_t snapshotIndex_ = 0;  // of the newest on the disk
  raft::Core core_;
  bool isSoon_ = false, isStopping_ = false, isWriting_ = false, isSaving_ = false;
  Space space_ = Space::plenty;
  bool isLeader_ = false, isReady_ = false;
  int64_t term_ = 0;
  std::deque<Proposal> proposals_;  // by index
  raft::ReadId reads_ = 0;
  std::map<raft::ReadId, kj::Own<kj::PromiseFulfiller<Result<void>>>> waitingReads_;
  uint64_t bytesSinceSnapshot_ = 0;
  uint64_t snapshotDueAt_;
  std::optional<Snapshot> served_;  // to a follower
  std::optional<Instant> timerAt_;
  kj::Promise<void> timer_ = nullptr;
  kj::ForkedPromise<void> jobs_ = kj::Promise<void>(kj::READY_NOW).fork();  // resolves when the last job is done
  kj::PromiseFulfillerPair<kj::Exception> failed_;
  Tasks tasks_;  // last: uses what is above
};

RaftDriver::RaftDriver(Shard& shard, std::shared_ptr<RaftLog> log, StateMachine& machine, Send send,
                       RaftDriverOptions options)
    : impl_(kj::heap<Impl>(shard, std::move(log), machine, std::move(send), std::move(options))) {}
RaftDriver::~RaftDriver() noexcept(false) {}

kj::Promise<Result<raft::Position>> RaftDriver::propose(Buffer data) { return impl_->propose(std::move(data)); }
kj::Promise<Result<void>> RaftDriver::read() { return impl_->read(); }
Space RaftDriver::lastSpace() const { return impl_->lastSpace(); }
kj::Promise<Space> RaftDriver::space() { return impl_->space(); }
Result<raft::Position> RaftDriver::setMember(raft::Member member) {
  return impl_->change([&](raft::Core& core) { return core.setMember(member); });
}
Result<raft::Position> RaftDriver::removeMember(NodeId node) {
  return impl_->change([&](raft::Core& core) { return core.removeMember(node); });
}
Result<void> RaftDriver::transfer(NodeId node) {
  return impl_->change([&](raft::Core& core) { return core.transfer(node); });
}
void RaftDriver::receive(raft::Message message) { impl_->receive(std::move(message)); }
const raft::Core& RaftDriver::core() const { return impl_->core(); }
kj::Promise<void> RaftDriver::stop() { return impl_->stop(); }
kj::Promise<kj::Exception> RaftDriver::failed() { return impl_->failed(); }

}  // namespace mq::controller

#include "coordinator/runtime.h"

#include <algorithm>

#include "base/check.h"
#include "record/batch.h"
#include "record/builder.h"
#include "record/records.h"

namespace mq::coordinator {
namespace {

constexpr uint32_t kReadBytes = 64_KiB;      // of the log in one turn: about a millisecond
constexpr uint32_t kReadBytesMax = 128_MiB;  // of one batch
constexpr Duration kRetryAfter = 1s;
constexpr Duration kLookAgainAfter = 20ms;
constexpr Duration kProgressEvery = 5s;

}  // namespace

Runtime::Runtime(Shard& shard, replica::Partitions& partitions, controller::MetadataFeed& feed, LoadQueue& loads,
                 Options options, Make make)
    : shard_(shard),
      partitions_(partitions),
      feed_(feed),
      loads_(loads),
      options_(std::move(options)),
      make_(std::move(make)),
      wall_(shard),
      loadingSince_(shard.now()),
      tasks_(shard.log(), "coordinator-failed") {
  tasks_.add(serve());
}

Runtime::~Runtime() {
  tasks_.cancelAll();
  isActive_ = false;
  deeds_.clear();
  machine_ = nullptr;  // who waits in it is told
  answers_.clear();
}

Now Runtime::now() { return {shard_.now(), wall_.now(), shard_.random(), *feed_.image()}; }

Co<void> Runtime::serve() {
  for (;;) {
    loadingSince_ = shard_.now();
    auto loaded = co_await load();
    if (loaded.errorCode() == Error::notLeaderOrFollower) {
      // It is being cut or opened before it leads; or another has been elected, of which we are about to hear.
      co_await shard_.after(kLookAgainAfter);
      continue;
    }
    if (!loaded) {
      shard_.log().warning("coordinator-load-failed", "{}: {}; trying again", options_.name, loaded.failure().message);
      co_await shard_.after(kRetryAfter);
      continue;
    }
    auto failed = kj::newPromiseAndFulfiller<void>();
    failed_ = kj::mv(failed.fulfiller);
    isActive_ = true;
    machine_->loaded(now());
    armTimer();
    co_await failed.promise;
    co_await shard_.after(kRetryAfter);
  }
}

// --- the log into the machine

Co<Result<void>> Runtime::load() {
  LoadQueue::Ticket turn;
  replica::Partition* partition = nullptr;
  while (!(partition = partitions_.find(options_.partition))) {
    Failure why = partitions_.whyMissing(options_.partition);
    if (why.error != Error::notLeaderOrFollower) co_return why;
    co_await partitions_.whenOpened();
    if (!partitions_.find(options_.partition)) co_return partitions_.whyMissing(options_.partition);
  }
  // What the log holds may be committed, and the leader before may have told of it, though our high watermark does not
  // know yet. The followers may take their time: others are read meanwhile.
  do {
    turn = {};
    auto committed = co_await partition->whenCommitted(partition->logEnd());
    if (!committed) co_return committed.failure();
    turn = co_await loads_.enter();
    partition = partitions_.find(options_.partition);
    if (!partition) co_return partitions_.whyMissing(options_.partition);
  } while (partition->highWatermark() < partition->logEnd());
  const Offset end = partition->logEnd();
  ++life_;
  written_ = committed_ = 0;
  machine_ = make_();

  Instant told = shard_.now();
  Offset at{0};
  for (bool first = true;; first = false) {
    partition = partitions_.find(options_.partition);  // after each wait
    if (!partition) co_return partitions_.whyMissing(options_.partition);
    if (first) at = partition->logStart();
    if (at >= end) break;
    replica::Fetched fetched = partition->fetch({.from = at, .bytesMax = kReadBytes, .firstBatchWhole = true});
    if (fetched.error == Error::offsetOutOfRange && partition->logStart() > at) {
      at = partition->logStart();  // deleted under our eyes
      continue;
    }
    if (fetched.error != Error::none) {
      co_return failure(fetched.error, "reading at offset {}: {}", at, meaningOf(fetched.error));
    }
    if (!fetched.file) {  // indexes are being looked at
      co_await shard_.after(10ms);
      continue;
    }
    if (fetched.length > kReadBytesMax) co_return failure(Error::corruptMessage, "a batch of {} bytes", fetched.length);
    Buffer bytes =
        co_await shard_.run(Pool::read, [file = fetched.file, position = fetched.position, length = fetched.length] {
          Buffer read(length);
          read.resize(file->read(position, read));
          return read;
        });
    Offset before = at;
    Bytes left(bytes);
    while (left.size() >= record::Layout::kHeaderBytes) {
      record::BatchView batch(left);
      if (batch.sizeBytes() > left.size()) break;
      if (batch.nextOffset() > at) apply(left.first(batch.sizeBytes()));
      at = std::max(at, batch.nextOffset());
      left = left.subspan(batch.sizeBytes());
    }
    if (at == before) co_return failure(Error::corruptMessage, "no batch at offset {}", at);
    if (shard_.now() - told > kProgressEvery) {
      told = shard_.now();
      shard_.log().info("coordinator-loading", "{}: offset {} of {}", options_.name, at, end);
    }
  }
  Duration took = shard_.now() - loadingSince_;
  if (end > Offset(0)) {
    shard_.log().info("coordinator-loaded", "{}: {} offsets in {} ms", options_.name, end, took / 1ms);
  }
  co_return Result<void>();
}

void Runtime::apply(Bytes bytes) {
  record::BatchView batch(bytes);
  if (batch.isControl()) {
    auto control = record::readControlRecord(batch, workspace_);
    if (control && (control->type == record::ControlType::commit || control->type == record::ControlType::abort))
      machine_->applyEnd(batch.producerId(), control->type == record::ControlType::commit, 0);
    return;
  }
  auto records = record::openRecords(batch, workspace_);
  record::RecordView record;
  while (records && records->next(record)) {
    if (!record.key) continue;
    if (batch.isTransactional())
      machine_->applyPending(batch.producerId(), *record.key, record.value, 0);
    else
      machine_->apply(*record.key, record.value, 0);
  }
  if (!records || !records->ok()) {
    shard_.log().warning("coordinator-record-skipped", "{}: the batch at offset {} cannot be read and is skipped: {}",
                         options_.name, batch.baseOffset(),
                         records ? std::string(records->problem()) : records.failure().message);
  }
}

// --- steps

void Runtime::perform(Effects effects) {
  for (const auto& note : effects.notes) shard_.log().info(note.event, "{}", note.text);
  Revision after = effects.after;
  if (effects.marker) {
    after = ++written_;
    const auto& [producer, coordinatorEpoch, commits] = *effects.marker;
    auto type = commits ? record::ControlType::commit : record::ControlType::abort;
    machine_->applyEnd(producer.id, commits, after);
    append(after, record::endTxnMarker(type, producer.id, producer.epoch, coordinatorEpoch, wall_.now()), 0);
  } else if (!effects.records.empty()) {
    after = ++written_;
    WallMs at = wall_.now();
    record::BatchOptions options;
    if (effects.transaction) {
      options.producerId = effects.transaction->id;
      options.producerEpoch = effects.transaction->epoch;
      options.isTransactional = true;
    }
    record::BatchBuilder builder(options);
    for (size_t i = 0; i < effects.records.size(); ++i) {
      const LogRecord& record = effects.records[i];
      std::optional<Bytes> value;
      if (record.value) value = Bytes(*record.value);
      builder.add({.timestamp = at, .key = Bytes(record.key), .value = value, .headers = {}});
      if (i < effects.applied) continue;
      if (effects.transaction)
        machine_->applyPending(effects.transaction->id, record.key, value, after);
      else
        machine_->apply(record.key, value, after);
    }
    append(after, builder.build(workspace_), effects.guard);
  }
  for (auto& answer : effects.answers) {
    if (after <= committed_) {
      answer();
    } else {
      answers_.push_back({after, shard_.now(), std::move(answer)});
    }
  }
  for (auto& deed : effects.deeds) {
    if (after <= committed_) {
      deed();
    } else {
      deeds_.push_back({after, shard_.now(), std::move(deed)});
    }
  }
  if (isActive_) armTimer();
}

// The log may write from the bytes after this runtime is gone, so the shard keeps them.
void Runtime::append(Revision revision, Buffer bytes, uint64_t guard) {
  auto outcome = kj::newPromiseAndFulfiller<Result<replica::Produced>>();
  if (replica::Partition* partition = partitions_.find(options_.partition)) {
    auto appended = partition->append(bytes, replica::Acks::all, nullptr, storage::Origin::coordinator, guard);
    shard_.spawn(appended
                     .then([to = kj::mv(outcome.fulfiller)](Result<replica::Produced>&& result) mutable {
                       to->fulfill(kj::mv(result));
                     })
                     .attach(std::move(bytes)));
  } else {
    outcome.fulfiller->fulfill(partitions_.whyMissing(options_.partition));
  }
  tasks_.add(outcome.promise.then([this, life = life_, revision](Result<replica::Produced>&& result) {
    if (life != life_) return;
    if (result) {
      committed(revision);
    } else {
      fail(result.failure());
    }
  }));
}

void Runtime::committed(Revision revision) {
  committed_ = std::max(committed_, revision);
  release(answers_);
  release(deeds_);
}

void Runtime::release(std::deque<Waiting>& waiting) {
  // Not in the order of revisions: a reader may have been told to wait for less than the writer before it.
  std::vector<Waiting> released;
  std::deque<Waiting> left;
  for (Waiting& one : waiting) {
    if (one.after > committed_)
      left.push_back(std::move(one));
    else
      released.push_back(std::move(one));
  }
  waiting = std::move(left);
  for (Waiting& one : released) one.call();  // may lead to another step
}

void Runtime::fail(const Failure& why) {
  if (!isActive_) return;
  shard_.log().warning("coordinator-append-failed", "{}: {} {}; its state is read again from the log", options_.name,
                       why.error, why.message);
  isActive_ = false;
  ++life_;
  deeds_.clear();
  machine_ = nullptr;
  answers_.clear();
  failed_->fulfill();
}

// --- time

void Runtime::armTimer() {
  std::optional<Instant> next = machine_->deadline();
  if (!answers_.empty()) {
    Instant overdue = answers_.front().since + options_.commitWithin;
    next = next ? std::min(*next, overdue) : overdue;
  }
  if (!next || (armed_ && *armed_ <= *next)) return;
  armed_ = next;
  Duration wait = std::max<Duration>(*next - shard_.now(), Duration::zero());
  tasks_.add(shard_.after(wait).then([this, at = *next] {
    if (armed_ != at) return;  // an earlier one was set meanwhile
    armed_.reset();
    timeIsUp();
  }));
}

void Runtime::timeIsUp() {
  if (!isActive_) return;
  Instant overdue = shard_.now() - options_.commitWithin;
  size_t given = 0;
  while (!answers_.empty() && answers_.front().since <= overdue) {
    answers_.pop_front();
    ++given;
  }
  if (given > 0) {
    shard_.log().warning("coordinator-commit-slow", "{}: {} answers given up: not committed within {} ms",
                         options_.name, given, options_.commitWithin / 1ms);
  }
  Effects effects{.revision = written_ + 1};
  machine_->expire(now(), effects);
  perform(std::move(effects));
}

}  // namespace mq::coordinator

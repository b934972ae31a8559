#include "sim_node.h"

#include <kj/debug.h>

#include "base/check.h"

namespace mq::sim {

namespace {

constexpr int64_t kWallMsAtBegin = 1'767'225'600'000;  // 2026-01-01

// Log lines become part of the trace.
class SimLog final : public Logger {
 public:
  SimLog(SimLoop& loop, uint32_t node) : loop_(loop), node_(node) {}
  bool enabled(LogLevel) const override { return true; }
  void write(LogLevel level, std::string_view event, std::string_view text) override {
    static constexpr char kLetters[] = {'D', 'I', 'W', 'E'};
    loop_.tell("node {} log {} {}: {}", node_, kLetters[static_cast<size_t>(level)], event, text);
    loop_.logged(node_, event, text);
  }

 private:
  SimLoop& loop_;
  const uint32_t node_;
};

}  // namespace

class SimShard final : public Shard {
 public:
  SimShard(SimNode& node, uint32_t index, Prng random, std::unique_ptr<Network> network);

  uint32_t index() const override { return index_; }
  uint32_t count() const override;
  Instant now() const override { return node_.loop_.now(); }
  WallMs wallNow() const override { return node_.wallNow(); }
  kj::Timer& timer() override { return node_.loop_.timer(); }
  Prng& random() override { return random_; }
  Logger& log() override;
  FileSystem& files() override;
  Network& network() override { return *network_; }
  void post(uint32_t shard, Task task) override;
  void offload(Pool pool, Task job, Task done) override;
  void spawn(kj::Promise<void> task) override { spawned_.add(kj::mv(task)); }
  void atEnd(Task task) override { atEnd_.push_back(std::move(task)); }
  const TurnStats& turns() const override { return turns_; }

  void cancel();  // what is under way
  void finish();  // the atEnd() tasks

 protected:
  Shard& at(uint32_t shard) override { return node_.shard(shard); }

 private:
  const Latency& latency(Pool pool) const;
  // At `when` or after what this shard sent there before.
  void deliver(uint32_t to, Instant when, Task task);

  SimNode& node_;
  const uint32_t index_;
  Prng random_;  // the code's
  Prng fate_;    // the world's
  std::unique_ptr<Network> network_;
  std::vector<Instant> lastDelivery_;  // by receiver
  bool ended_ = false;
  TurnStats turns_;  // code takes no time here
  std::vector<Task> atEnd_;
  Tasks spawned_;
};

struct SimNode::Process {
  std::shared_ptr<bool> frozen = std::make_shared<bool>(false);
  std::unique_ptr<SimLog> log;
  std::unique_ptr<FileSystem> files;
  std::vector<std::unique_ptr<SimShard>> shards;
  Body body;  // before the promise, whose frames may use its captures
  kj::Promise<void> main = nullptr;
  std::optional<kj::Exception> failure;
};

// --- SimShard

SimShard::SimShard(SimNode& node, uint32_t index, Prng random, std::unique_ptr<Network> network)
    : node_(node),
      index_(index),
      random_(random.fork()),
      fate_(random.fork()),
      network_(std::move(network)),
      spawned_(*node.process_->log, "shard_task") {}

uint32_t SimShard::count() const { return static_cast<uint32_t>(node_.process_->shards.size()); }
Logger& SimShard::log() { return *node_.process_->log; }
FileSystem& SimShard::files() { return *node_.process_->files; }

const Latency& SimShard::latency(Pool pool) const {
  switch (pool) {
    case Pool::sync: return node_.options_.sync;
    case Pool::read: return node_.options_.read;
    case Pool::compute: return node_.options_.compute;
    case Pool::background: return node_.options_.background;
  }
  MQ_CHECK(false);
}

void SimShard::deliver(uint32_t to, Instant when, Task task) {
  if (lastDelivery_.size() <= to) lastDelivery_.resize(to + 1);
  when = std::max(when, lastDelivery_[to]);
  lastDelivery_[to] = when;
  node_.loop_.at(when, &node_, std::move(task));
}

void SimShard::post(uint32_t shard, Task task) {
  if (ended_ || *node_.process_->frozen) return;
  Duration wait = shard == index_ ? 0ns : node_.options_.mailbox.draw(fate_);
  deliver(shard, now() + wait, std::move(task));
}

void SimShard::offload(Pool pool, Task job, Task done) {
  if (ended_ || *node_.process_->frozen) return;
  Duration whole = latency(pool).draw(fate_);
  Duration until = Duration(static_cast<int64_t>(fate_.between(0, static_cast<uint64_t>(whole.count()))));
  node_.loop_.after(until, &node_,
                    [this, rest = whole - until, job = std::move(job), done = std::move(done)]() mutable {
                      job();
                      job = nullptr;
                      node_.loop_.after(rest, &node_, std::move(done));
                    });
}

void SimShard::cancel() {
  ended_ = true;
  spawned_.cancelAll();
}

void SimShard::finish() {
  while (!atEnd_.empty()) {
    Task task = std::move(atEnd_.back());
    atEnd_.pop_back();
    task();
  }
  spawned_.cancelAll();
}

// --- SimNode

SimNode::SimNode(SimLoop& loop, SimNetwork& network, uint32_t id, Prng random, NodeOptions options)
    : loop_(loop), network_(network), id_(id), random_(random), options_(options), disk_(random_.fork()) {
  disk_.setClock([this] { return wallNow(); });
}

WallMs SimNode::wallNow() const {
  Duration since = loop_.now().time_since_epoch() + wallOffset_;
  return WallMs(kWallMsAtBegin + since / 1ms);
}

SimNode::~SimNode() {
  if (process_ != nullptr) destroyAbruptly(false);
}

void SimNode::start(uint32_t shards, Body body) {
  MQ_CHECK(process_ == nullptr && shards > 0, id_);
  process_ = std::make_unique<Process>();
  process_->log = std::make_unique<SimLog>(loop_, id_);
  process_->files = disk_.mount(process_->frozen, ++processes_);
  process_->body = std::move(body);
  for (uint32_t i = 0; i < shards; ++i) {
    process_->shards.push_back(
        std::make_unique<SimShard>(*this, i, random_.fork(), network_.attach(id_, process_->frozen)));
  }
  network_.hostUp(id_);
  loop_.tell("node {} start {}", id_, processes_);
  loop_.after(0ns, this, [this] { begin(); });
}

void SimNode::begin() {
  Process& process = *process_;
  process.main = kj::evalNow([&] { return process.body(*process.shards[0]); })
                     .then([] {}, [&process](kj::Exception&& exception) { process.failure.emplace(kj::mv(exception)); })
                     .then([this] {
                       // Through the loop: the promise cannot be destroyed by its own event.
                       loop_.after(0ns, this, [this] { end(std::move(process_)); });
                     })
                     .eagerlyEvaluate(nullptr);
}

void SimNode::destroyAbruptly(bool powerLost) {
  *process_->frozen = true;
  network_.hostDown(id_, powerLost);
  end(std::move(process_));
}

void SimNode::end(std::unique_ptr<Process> process) {
  loop_.tell("node {} ends{}", id_, *process->frozen ? " abruptly" : process->failure ? " by failure" : "");
  process_ = std::move(process);  // its destructors still ask for shards, log and files
  process_->main = nullptr;
  for (auto& shard : process_->shards) shard->cancel();
  loop_.takeBack(this).clear();
  for (size_t i = process_->shards.size(); i-- > 0;) process_->shards[i]->finish();
  network_.hostDown(id_, false);
  *process_->frozen = true;  // a handle that somebody kept is of no use
  auto failure = std::move(process_->failure);
  process_ = nullptr;
  for (auto& waiting : std::exchange(waiting_, {})) {
    if (failure) {
      waiting->reject(kj::cp(*failure));
    } else {
      waiting->fulfill();
    }
  }
}

void SimNode::crash() {
  if (process_ == nullptr) return;
  loop_.tell("node {} crash", id_);
  destroyAbruptly(true);
  disk_.loseUnsynced();
}

void SimNode::kill() {
  if (process_ == nullptr) return;
  loop_.tell("node {} kill", id_);
  destroyAbruptly(false);
}

kj::Promise<void> SimNode::ended() {
  if (process_ == nullptr) return kj::READY_NOW;
  auto pair = kj::newPromiseAndFulfiller<void>();
  waiting_.push_back(kj::mv(pair.fulfiller));
  return kj::mv(pair.promise);
}

Shard& SimNode::shard(uint32_t index) { return *process_->shards[index]; }

}  // namespace mq::sim

// Runtime: one state machine on one partition that this node leads: reads the log into it, then performs its steps.
//
//   loading ──▶ active ──▶ (an append failed) ──▶ loading again after a pause
//
// A step's records are one batch, appended with acks=all; its answers leave when the batch is committed, those of a
// step without records when what they tell is. Only committed records are read at the start: a new leader waits until
// its high watermark has reached where its log ended when it became leader.
//
// When an append fails, what the machine believes is not what the log holds: it is thrown away with everybody who waits
// (NOT_COORDINATOR) and made anew. An answer whose batch is not committed within `commitWithin` is given up, the state
// is not: the batch may still be committed, and then deeds are done. Destroying the runtime, when leadership is lost,
// answers all who wait.
//
// Belongs to the shard of its partition, and is touched only there.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/load_queue.h"
#include "coordinator/state_machine.h"
#include "record/compression.h"
#include "replica/partitions.h"
#include "runtime/shard.h"
#include "runtime/tasks.h"
#include "storage/steady_wall.h"

namespace mq::coordinator {

class Runtime {
 public:
  struct Options {
    TopicIdPartition partition;
    TopicPartition name;
    Duration commitWithin = 5s;
  };
  using Make = std::function<std::unique_ptr<StateMachine>()>;

  Runtime(Shard& shard, replica::Partitions& partitions, controller::MetadataFeed& feed, LoadQueue& loads,
          Options options, Make make);
  ~Runtime();
  KJ_DISALLOW_COPY(Runtime);

  bool isActive() const { return isActive_; }
  Instant loadingSince() const { return loadingSince_; }
  size_t waitingAnswers() const { return answers_.size(); }
  StateMachine* machine() { return isActive_ ? machine_.get() : nullptr; }  // null: loading

  // Decides and performs. Only while active; `decide` gets the machine as it was made.
  template <class Machine, class Decide>
  void step(Decide decide) {
    Effects effects{.revision = written_ + 1};
    decide(static_cast<Machine&>(*machine_), now(), effects);
    perform(std::move(effects));
  }

 private:
  struct Waiting {
    Revision after;
    Instant since;
    std::move_only_function<void()> call;
  };

  Now now();
  Co<void> serve();
  Co<Result<void>> load();
  void apply(Bytes batches);
  void perform(Effects effects);
  void append(Revision revision, Buffer batch, uint64_t guard);
  void committed(Revision revision);
  void release(std::deque<Waiting>& waiting);
  void fail(const Failure& why);
  void armTimer();
  void timeIsUp();

  Shard& shard_;
  replica::Partitions& partitions_;
  controller::MetadataFeed& feed_;
  LoadQueue& loads_;
  const Options options_;
  const Make make_;
  storage::SteadyWall wall_;
  record::Workspace workspace_;

  std::unique_ptr<StateMachine> machine_;
  uint64_t life_ = 0;  // of the machine: what began in an earlier one is not for this one
  bool isActive_ = false;
  Instant loadingSince_;
  Revision written_ = 0;
  Revision committed_ = 0;
  std::deque<Waiting> answers_;  // in the order of the steps
  std::deque<Waiting> deeds_;    // likewise
  std::optional<Instant> armed_;
  kj::Own<kj::PromiseFulfiller<void>> failed_;
  Tasks tasks_;  // last
};

}  // namespace mq::coordinator

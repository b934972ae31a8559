// StateMachine: the state of a coordinator as decide, log, apply, over one partition.
//
//   a step: decide (looks at the state, changes only what no record holds) -> Effects: records, answers
//           -> apply each record at once, so that the next step sees it -> append them as one batch
//           -> the answers leave when the batch is committed
//   a start: apply every record of the log, then loaded()
//
// What records hold is changed by apply() alone. What they do not hold (who waits for an answer, when a session ends)
// belongs to this life of the machine: when an append fails or leadership is lost the whole machine is thrown away,
// whoever waits is told, and a new one is made from the log. A machine is pure: no clock, no disk, no promise.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/random.h"
#include "base/types.h"
#include "metadata/image.h"

namespace mq::coordinator {

// Counts the steps of one machine that wrote records, since it was made.
using Revision = uint64_t;

struct LogRecord {
  Buffer key;
  std::optional<Buffer> value;  // none: deletes the key
};

// What a decision may look at besides the state.
struct Now {
  Instant instant;
  WallMs wall;
  Prng& random;
  const metadata::Image& image;
};

// Whom to answer: called once, with the response or why there is none. One that is dropped says NOT_COORDINATOR, so
// that nobody waits for a machine that is gone.
template <class Response>
class Answer {
 public:
  using Call = std::move_only_function<void(Result<Response>)>;
  Answer() = default;
  template <class Fn>
    requires std::is_invocable_v<Fn&, Result<Response>>
  Answer(Fn call) : call_(std::move(call)) {}  // NOLINT: a lambda is an answer
  Answer(Answer&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  Answer& operator=(Answer&& other) noexcept {
    Answer old(std::move(*this));
    call_ = std::exchange(other.call_, nullptr);
    return *this;
  }
  ~Answer() {
    if (call_) call_(Error::notCoordinator);
  }
  explicit operator bool() const { return static_cast<bool>(call_); }
  void operator()(Result<Response> result) { std::exchange(call_, nullptr)(std::move(result)); }

 private:
  Call call_;
};

struct Left {};  // the answer of what only succeeds or fails

// Which producer's transaction something belongs to.
struct ProducerEpoch {
  ProducerId id = kNoProducer;
  int16_t epoch = -1;
  friend bool operator==(const ProducerEpoch&, const ProducerEpoch&) = default;
};

// The end of a producer's transaction on one partition: what a control batch says.
struct TransactionMarker {
  ProducerEpoch producer;
  int32_t coordinatorEpoch = -1;
  bool commits = false;
};

// What a step leads to.
struct Effects {
  std::vector<LogRecord> records;  // one batch: all or none
  Revision revision = 0;           // that these records will have
  size_t applied = 0;              // of them, by the machine itself, where a decision builds on those before it
  std::optional<ProducerEpoch> transaction;  // set: the records count once this transaction is committed
  uint64_t guard = 0;                        // under which it is open on the partition: Partition::guardTransaction
  std::optional<TransactionMarker> marker;   // instead of records
  // The revision whose commit the answers of a step without records wait for: that of what they tell.
  Revision after = 0;
  std::vector<std::move_only_function<void()>> answers;
  // As answers, but what they lead to must happen: they are not given up while this machine lives.
  std::vector<std::move_only_function<void()>> deeds;
  struct Note {
    std::string event;
    std::string text;
  };
  std::vector<Note> notes;  // for the log, at once

  template <class Response>
  void answer(Answer<Response> to, std::type_identity_t<Result<Response>> with) {
    answers.push_back([to = std::move(to), with = std::move(with)]() mutable { to(std::move(with)); });
  }
};

class StateMachine {
 public:
  virtual ~StateMachine() = default;
  // One record, in the order of the log. Cannot fail: what it does not know it counts and skips. Revision 0: read from
  // the log.
  virtual void apply(Bytes key, std::optional<Bytes> value, Revision revision) = 0;
  // The same of a record in a producer's transaction, and how that ended. For machines whose partitions have such.
  virtual void applyPending(ProducerId, Bytes key, std::optional<Bytes> value, Revision revision) {
    apply(key, value, revision);
  }
  virtual void applyEnd(ProducerId, [[maybe_unused]] bool committed, Revision) {}
  // The log has been read; from here on time passes.
  virtual void loaded(const Now& now) = 0;
  // When the machine next wants to act by itself; it may be earlier than needed, never later.
  virtual std::optional<Instant> deadline() const = 0;
  virtual void expire(const Now& now, Effects& effects) = 0;
};

}  // namespace mq::coordinator

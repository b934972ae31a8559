// Tasks: the background work of one object, as promises that it owns. A task runs to its end whoever waits or does not;
// destroying Tasks cancels what is left. So put it last among the members of its owner: it goes first.
//
// A task that fails is logged, and nothing else happens: one whose failure has consequences catches it itself. A lost
// peer (DISCONNECTED) is daily life and logged at debug.
#pragma once
#include <kj/async.h>

#include <optional>
#include <string>

#include "runtime/logger.h"

namespace mq {

class Tasks final : private kj::TaskSet::ErrorHandler {
 public:
  Tasks(Logger& log, std::string event) : log_(log), event_(std::move(event)), tasks_(std::in_place, errorHandler()) {}

  void add(kj::Promise<void> task) { tasks_->add(kj::mv(task)); }
  bool isEmpty() { return tasks_->isEmpty(); }
  kj::Promise<void> onEmpty() { return tasks_->onEmpty(); }  // one such promise at a time
  void cancelAll() { tasks_.emplace(errorHandler()); }

 private:
  kj::TaskSet::ErrorHandler& errorHandler() { return *this; }
  void taskFailed(kj::Exception&& exception) override;

  Logger& log_;
  std::string event_;  // of the log line
  std::optional<kj::TaskSet> tasks_;
};

// What happened, in one line for people: the description, without the source position and the trace.
std::string describe(const kj::Exception& exception);

}  // namespace mq

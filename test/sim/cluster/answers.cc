#include "answers.h"

#include <fmt/format.h>
#include <kj/debug.h>

namespace mq::sim {

bool isPassing(Error error) {
  switch (error) {
    case Error::unknownTopicOrPartition:  // its metadata is still being read
    case Error::notLeaderOrFollower:
    case Error::fencedLeaderEpoch:
    case Error::unknownLeaderEpoch:
    case Error::notEnoughReplicas:
    case Error::notEnoughReplicasAfterAppend:
    case Error::offsetNotAvailable:
    case Error::notCoordinator:
    case Error::coordinatorLoadInProgress:
    case Error::leaderNotAvailable:
    case Error::kafkaStorageError:
    case Error::requestTimedOut:
    case Error::notController:
    case Error::coordinatorNotAvailable:
    case Error::brokerNotAvailable: return true;
    default: return false;
  }
}

[[noreturn]] void unexpected(const char* where, Error error, const std::string& message) {
  kj::throwFatalException(KJ_EXCEPTION(
      FAILED, kj::str(fmt::format("no-strange-answers: {} was answered with {} {}", where, error, message).c_str())));
}

Co<bool> attempted(kj::Promise<void> attempt) {
  bool done = true;
  co_await attempt.catch_([&done](kj::Exception&& reason) {
    if (reason.getType() == kj::Exception::Type::FAILED) kj::throwFatalException(kj::mv(reason));
    done = false;
  });
  co_return done;
}

}  // namespace mq::sim

// How simulated clients take what they are told: which answers a broker in trouble may give, and which are a mistake.
#pragma once
#include <string>

#include "base/error.h"
#include "base/types.h"
#include "runtime/coro.h"

namespace mq::sim {

inline constexpr Duration kPatience = 8s;  // then a request counts as lost

// A broker that starts, stops or has a bad disk says these; whatever else it says is a mistake of somebody.
bool isPassing(Error error);
[[noreturn]] void unexpected(const char* where, Error error, const std::string& message = {});
// Runs one attempt; false: the connection failed, and what was asked may or may not have been done.
Co<bool> attempted(kj::Promise<void> attempt);

}  // namespace mq::sim

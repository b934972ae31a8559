// How simulated clients take what they are told: which answers a broker in trouble may give, and which are a mistake.
#pragma once
#include <kj/debug.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "base/types.h"
#include "runtime/coro.h"
#include "runtime/shard.h"

namespace mq::sim {

inline constexpr Duration kPatience = 8s;         // then a request counts as lost
inline constexpr Duration kAnsweredWithin = 60s;  // whatever is asked when all is healed

// A broker that starts, stops, has a bad disk or is not the right one says these; whatever else it says is a mistake of
// somebody.
bool isPassing(Error error);
[[noreturn]] void unexpected(const char* where, Error error, const std::string& message = {});
// Runs one attempt; false: the connection failed, and what was asked may or may not have been done.
Co<bool> attempted(kj::Promise<void> attempt);

// When all is healed: attempts, as leaders may still move, until one of them has something to say.
template <class T, class Ask>
Co<T> patiently(Shard& shard, const char* what, Ask ask) {
  const Instant limit = shard.now() + kAnsweredWithin;
  for (;;) {
    std::optional<T> got;
    co_await attempted(ask().then([&got](std::optional<T>&& told) { got = std::move(told); }));
    if (got) co_return std::move(*got);
    KJ_REQUIRE(shard.now() < limit, "drain: no answer although all is healed", what);
    co_await shard.after(100ms);
  }
}

}  // namespace mq::sim

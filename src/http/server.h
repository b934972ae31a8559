// Server: the HTTP port for machines that watch mq.
//
//   /livez             200 as long as the loop turns
//   /readyz            200, or 503 while something is not ready; ?verbose: JSON with the reasons
//   /metrics           OpenMetrics; ?detail=partition: one series per partition
//
// GET and HEAD only, no authentication, nothing that changes anything. Lives on one shard and is bounded there: in
// connections, in the size and time of a request's head (KJ reads at most some 64 KiB of it), and in the time of a
// connection, so that a reader that has fallen asleep holds nothing for long.
//
// A scrape asks each shard for its values in a turn of that shard and formats them in a pool: the data path waits for
// neither. kj-http is included in this folder only.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "metrics/registry.h"
#include "runtime/shard.h"

namespace mq::http {

struct Options {
  Address listen;
  std::string version;               // shown in mq_build_info
  size_t connectionsMax = 64;        // one more is closed at once
  size_t seriesMax = 50000;          // metrics.series.max
  Duration headTimeout = 10s;        // for the head of a request, from the connection or its first byte
  Duration idleTimeout = 5s;         // between requests
  Duration connectionTimeout = 60s;  // then it is cut; from half of it on, answers end it
};

// Something that must be so before clients should come.
struct Check {
  std::string name;
  bool ready = false;
  std::string reason;  // why not
};

struct Providers {
  // Both are called on the server's shard, for each request that asks.
  std::function<std::vector<Check>()> readiness;
  std::function<std::vector<metrics::Registry*>()> registries;  // by shard, as far as they exist; they stay
};

class Server {
 public:
  // Listens from here on. Throws (kj::Exception) naming the address if it cannot.
  Server(Shard& shard, Options options, Providers providers);
  ~Server() noexcept(false);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const Address& local() const;  // with the real port when 0 was asked

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mq::http

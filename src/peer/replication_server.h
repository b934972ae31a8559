// ReplicationServer: the leader's side of replication on one shard: what followers ask of the partitions led there. The
// listening socket is Server's, which hears the greeting and hands the connection over.
//
//   Server (shard 0): Hello -> release -> ReplicationServer (shard n): adopt -> Welcome -> RPC until closed, replaced
//                                                                      or silent
//
// A shard of a follower has one connection here: a new one ends the one before, together with its session. A session is
// of one connection and is destroyed with it, what it was just asked first.
#pragma once
#include <functional>
#include <memory>

#include "peer/server_options.h"
#include "replica/replication.h"
#include "runtime/shard.h"

namespace mq::peer {

class ReplicationServer {
 public:
  using Sessions = std::function<kj::Own<replica::FollowerSession>(replica::Follower)>;
  struct Figures {
    uint64_t accepted = 0;
    uint64_t refused = 0;  // too many, or another node under the same id
    uint64_t ended = 0;    // of those accepted
  };

  ReplicationServer(Shard& shard, Sessions sessions, ServerOptions options);
  ~ReplicationServer() noexcept(false);
  KJ_DISALLOW_COPY(ReplicationServer);

  // Takes over a connection whose greeting was heard and found right. `self` is who welcomes.
  void serve(int descriptor, Greeting caller, Identity self);

  size_t connectionCount() const;
  const Figures& figures() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mq::peer

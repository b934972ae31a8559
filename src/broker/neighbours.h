// Neighbours: the other nodes of the cluster, as the modules of this one see them: links to them, and the server that
// answers theirs. On shard 0; it speaks to the replication links of every shard.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "controller/controller.h"
#include "coordinator/coordinator_shard.h"
#include "coordinator/remote.h"
#include "peer/raft_links.h"
#include "peer/replication_links.h"
#include "peer/replication_server.h"
#include "peer/server.h"
#include "runtime/shard.h"
#include "runtime/tasks.h"

namespace mq::broker {

class Neighbours final : public controller::Peers, public coordinator::RemoteCoordinators {
 public:
  // What lies on one shard; all outlive this.
  struct OnShard {
    peer::ReplicationLinks* links;
    peer::ReplicationServer* server;
  };

  Neighbours(Shard& first, peer::Identity self, std::vector<OnShard> shards);

  // Once the controller is there; it outlives this->stop(), as the coordinators of the shards do. Whose log this is
  // becomes known with it.
  void serve(kj::Own<Listener> socket, controller::Controller& controller,
             std::vector<coordinator::CoordinatorShard> coordinators);
  void setCluster(const Uuid& cluster);
  void stop();  // answers nobody any more

  void setPeers(const std::map<NodeId, Address>& peers) override;
  void send(const raft::Message& message) override { links_.send(message); }
  kj::Promise<controller::NodeStatus> status(NodeId node, Duration limit) override;
  kj::Promise<controller::NodeStatus> join(NodeId node, controller::JoinRequest request, Duration limit) override;
  kj::Promise<Result<controller::Answered>> ask(NodeId node, const controller::Request& request,
                                                Duration limit) override;
  std::optional<Uuid> directoryOf(NodeId node) const override;
  std::optional<Instant> refusedAt(NodeId node) const override;

  kj::Promise<Result<void>> writeMarker(NodeId node, coordinator::MarkerRequest request, Duration limit) override;
  kj::Promise<Result<void>> mayEnter(NodeId node, coordinator::EntryRequest request, Duration limit) override;

 private:
  peer::Link& reach(NodeId node);
  void changed(NodeId node);
  void tellShards();

  Shard& first_;
  peer::Identity self_;
  std::vector<OnShard> shards_;
  mutable peer::RaftLinks links_;
  std::map<NodeId, Instant> refused_;
  controller::Controller* controller_ = nullptr;
  std::unique_ptr<peer::Server> server_;
  Tasks tasks_;
};

}  // namespace mq::broker

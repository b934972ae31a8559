#include "broker/neighbours.h"

#include <kj/debug.h>

#include "coordinator/marker_writer.h"
#include "coordinator/transaction_coordinator.h"

namespace mq::broker {

Neighbours::Neighbours(Shard& first, peer::Identity self, std::vector<OnShard> shards)
    : first_(first),
      self_(std::move(self)),
      shards_(std::move(shards)),
      links_(first, self_, {}),
      tasks_(first.log(), "neighbours") {
  links_.onChange([this](NodeId node) { changed(node); });
}

void Neighbours::serve(kj::Own<Listener> socket, controller::Controller& controller,
                       std::vector<coordinator::CoordinatorShard> coordinators) {
  controller_ = &controller;
  self_.directory = controller.directoryId();
  tellShards();
  peer::Handlers handlers;
  handlers.raft = [&controller](raft::Message message) { controller.receive(std::move(message)); };
  handlers.status = [&controller] { return controller.status(); };
  handlers.join = [&controller](const controller::JoinRequest& request) { controller.join(request); };
  handlers.ask = [&controller](NodeId, controller::Request request) { return controller.askHere(std::move(request)); };
  handlers.writeMarker = [&shard = first_, coordinators](const coordinator::MarkerRequest& request) {
    return coordinator::writeMarkerHere(shard, coordinators, request);
  };
  handlers.mayEnter = [&shard = first_, coordinators, &controller](const coordinator::EntryRequest& request) {
    return coordinator::mayEnterHere(shard, coordinators, *controller.image(), request);
  };
  for (const OnShard& shard : shards_) handlers.replication.push_back(shard.server);
  server_ = std::make_unique<peer::Server>(first_, kj::mv(socket), self_, std::move(handlers), peer::ServerOptions());
}

void Neighbours::setCluster(const Uuid& cluster) {
  if (self_.cluster == cluster) return;
  self_.cluster = cluster;
  tellShards();
}

void Neighbours::stop() {
  server_ = nullptr;
  links_.setPeers({});
  tasks_.cancelAll();
}

void Neighbours::tellShards() {
  for (uint32_t i = 0; i < shards_.size(); ++i)
    first_.post(i, [links = shards_[i].links, self = self_]() mutable { links->setIdentity(std::move(self)); });
}

void Neighbours::setPeers(const std::map<NodeId, Address>& peers) {
  links_.setPeers(peers);
  for (uint32_t i = 0; i < shards_.size(); ++i)
    first_.post(i, [links = shards_[i].links, peers]() mutable { links->setPeers(std::move(peers)); });
}

peer::Link& Neighbours::reach(NodeId node) {
  peer::Link* link = links_.control(node);
  KJ_REQUIRE(link != nullptr, "no address is known of this node", node.value());
  return *link;
}

kj::Promise<controller::NodeStatus> Neighbours::status(NodeId node, Duration limit) {
  return kj::evalNow([&] { return reach(node).status(limit); });
}

kj::Promise<controller::NodeStatus> Neighbours::join(NodeId node, controller::JoinRequest request, Duration limit) {
  return kj::evalNow([&] { return reach(node).join(request, limit); });
}

kj::Promise<Result<controller::Answered>> Neighbours::ask(NodeId node, const controller::Request& request,
                                                          Duration limit) {
  peer::Link* link = links_.control(node);
  if (link == nullptr)
    return Result<controller::Answered>(failure(Error::notController, "no address is known of node {}", node));
  return link->ask(request, limit);
}

kj::Promise<Result<void>> Neighbours::writeMarker(NodeId node, coordinator::MarkerRequest request, Duration limit) {
  peer::Link* link = links_.control(node);
  if (link == nullptr) return Result<void>(failure(Error::networkException, "no address is known of node {}", node));
  return link->writeMarker(request, limit);
}

kj::Promise<Result<void>> Neighbours::mayEnter(NodeId node, coordinator::EntryRequest request, Duration limit) {
  peer::Link* link = links_.control(node);
  if (link == nullptr)
    return Result<void>(failure(Error::coordinatorNotAvailable, "no address is known of node {}", node));
  return link->mayEnter(request, limit);
}

std::optional<Uuid> Neighbours::directoryOf(NodeId node) const {
  const peer::Link* link = links_.control(node);
  if (link == nullptr || !link->isUp() || !link->reached()) return std::nullopt;
  return link->reached()->directory;
}

std::optional<Instant> Neighbours::refusedAt(NodeId node) const {
  const peer::Link* link = links_.control(node);
  auto found = refused_.find(node);
  if (link == nullptr || !link->wasRefused() || found == refused_.end()) return std::nullopt;
  return found->second;
}

void Neighbours::changed(NodeId node) {
  const peer::Link* link = links_.control(node);
  if (link == nullptr || !link->wasRefused()) return;
  refused_[node] = first_.now();
  if (controller_ != nullptr) controller_->peersChanged();
}

}  // namespace mq::broker

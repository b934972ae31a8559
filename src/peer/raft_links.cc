#include "peer/raft_links.h"

#include "peer/raft_messages.h"

namespace mq::peer {

RaftLinks::Pair::Pair(Shard& shard, const Identity& self, NodeId node, const Address& address, LinkOptions options)
    : control(shard, self, {.node = node, .address = address, .channel = Channel::control}, options),
      bulk(shard, self, {.node = node, .address = address, .channel = Channel::bulk}, options) {}

RaftLinks::RaftLinks(Shard& shard, const Identity& self, LinkOptions options)
    : shard_(shard), self_(self), options_(options) {}

void RaftLinks::setPeers(const std::map<NodeId, Address>& peers) {
  std::erase_if(peers_, [&](const auto& peer) {
    auto wanted = peers.find(peer.first);
    return wanted == peers.end() || wanted->second != peer.second->control.target().address;
  });
  for (const auto& [node, address] : peers) {
    if (node == self_.node || peers_.contains(node)) continue;
    auto& pair = peers_.emplace(node, std::make_unique<Pair>(shard_, self_, node, address, options_)).first->second;
    pair->control.onChange([this, peer = node] {
      if (onChange_) onChange_(peer);
    });
  }
}

void RaftLinks::send(const raft::Message& message) {
  auto peer = peers_.find(message.to.id);
  if (peer == peers_.end()) return;
  (isBulk(message) ? peer->second->bulk : peer->second->control).post(message);
}

Link* RaftLinks::control(NodeId node) {
  auto peer = peers_.find(node);
  return peer == peers_.end() ? nullptr : &peer->second->control;
}

const Link* RaftLinks::bulk(NodeId node) const {
  auto peer = peers_.find(node);
  return peer == peers_.end() ? nullptr : &peer->second->bulk;
}

}  // namespace mq::peer

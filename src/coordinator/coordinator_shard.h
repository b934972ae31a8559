// What coordinators use of the shards of their node, by tasks that run there, and of other nodes.
#pragma once
#include <vector>

#include "base/types.h"

namespace mq::replica {
class Partitions;
}

namespace mq::coordinator {

class GroupCoordinator;
class RemoteCoordinators;
class TransactionCoordinator;
class TransactionGate;

struct CoordinatorShard {
  replica::Partitions* partitions = nullptr;
  GroupCoordinator* groups = nullptr;
  TransactionCoordinator* transactions = nullptr;
  TransactionGate* gate = nullptr;
};

struct CoordinatorNode {
  NodeId id = kNoNode;
  std::vector<CoordinatorShard> shards;  // by index
  RemoteCoordinators* others = nullptr;  // on shard 0; null: the node is alone
};

}  // namespace mq::coordinator

// CoordinatorShard: what coordinators use of a shard, by tasks that run there.
#pragma once

namespace mq::replica {
class Partitions;
}

namespace mq::coordinator {

class GroupCoordinator;
class TransactionCoordinator;
class TransactionGate;

struct CoordinatorShard {
  replica::Partitions* partitions = nullptr;
  GroupCoordinator* groups = nullptr;
  TransactionCoordinator* transactions = nullptr;
  TransactionGate* gate = nullptr;
};

}  // namespace mq::coordinator

// What clients can see of the replicas of a cluster: who leads, who is in sync, and whether all hold the same.
//
//   in-sync-again   once all is healed every partition has a leader, all its replicas are in sync, and all brokers say
//   so replicas-equal  then every replica serves the same batches, byte by byte, from the same log start to the same
//   high
//                   watermark
//
// A violation is thrown as kj::Exception that begins with the check's name.
#pragma once
#include <map>
#include <string>

#include "workload.h"

namespace mq::sim {

struct InSyncState {
  std::string problem;            // empty: all are in sync
  size_t replicasMin = SIZE_MAX;  // of any partition
};

Co<InSyncState> lookAtReplicas(Workload& workload);
// Looks until all are in sync; what is still wrong after `limit` is thrown.
Co<void> awaitInSync(Workload& workload, Duration limit);
// Leaders that change, replicas that leave the ISR and come back: counted as marks.
Co<void> watchReplicasUntilStopped(Workload& workload, std::map<std::string, uint64_t>& marks);
// `partitions`: what was read of the leaders. Of all topics but internal ones, which are compacted by each replica in
// its own time.
Co<void> compareReplicas(Workload& workload, std::map<TopicPartition, FinalPartition> partitions);

}  // namespace mq::sim

// Members of consumer groups, and consumers without one, that share, commit, pause, leave and vanish.
#pragma once
#include "group_history.h"
#include "workload.h"

namespace mq::sim {

inline constexpr const char* kGroupTopic = "grouped";  // nobody deletes it
inline constexpr int32_t kGroupPartitions = 5;

// Makes kGroupTopic.
Co<void> prepareGroups(Workload& workload);
// A member of `group` in the classic protocol; `instance`: a static one; `isMixed`: others are in the consumer
// protocol.
Co<void> memberUntilStopped(Workload& workload, GroupHistory& groups, std::string group,
                            std::optional<std::string> instance, bool isMixed = false);
// The same in the consumer protocol.
Co<void> consumerUntilStopped(Workload& workload, GroupHistory& groups, std::string group,
                              std::optional<std::string> instance);
// Commits without a member id, ever higher, and reads back. The only one in its group.
Co<void> commitUntilStopped(Workload& workload, GroupHistory& groups, std::string group);
// All that was committed, once everything is at rest.
Co<void> checkCommits(Workload& workload, GroupHistory& groups, std::vector<std::string> names);

}  // namespace mq::sim

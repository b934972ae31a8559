// metadata.version: Kafka's own name for how far a cluster's metadata has come. Tools look for it, so the level of the
// release whose protocol this is stands here; nothing depends on it. The features that do something are
// metadata::kFeatures.
#pragma once
#include <cstdint>
#include <string_view>

namespace mq::kafka {

inline constexpr std::string_view kMetadataVersion = "metadata.version";
inline constexpr int16_t kMetadataLevel = 33;    // 4.4-IV2
inline constexpr int16_t kMetadataLevelMin = 7;  // 3.3-IV3

}  // namespace mq::kafka

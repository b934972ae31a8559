// Api: what the protocol says about a request/response pair. The table is kApis in wire/apis.h (generated).
// What of it mq serves, and how, is kafka/'s own table.
#pragma once
#include <cstdint>
#include <string_view>

#include "wire/descriptor.h"

namespace mq::wire {

inline constexpr int16_t kApiVersionsKey = 18;

struct Api {
  int16_t key;
  std::string_view name;        // "Produce"
  VersionRange versions;        // that the codecs read and write
  int16_t requestFlexibleFrom;  // INT16_MAX: never
  int16_t responseFlexibleFrom;
  bool latestVersionUnstable;  // versions.last is not for production

  constexpr VersionRange stableVersions() const {
    return {versions.first, static_cast<int16_t>(versions.last - (latestVersionUnstable ? 1 : 0))};
  }
  // Also for versions we do not know, so that an ApiVersions request from the future still yields its correlation id.
  constexpr int16_t requestHeaderVersion(int16_t version) const { return version >= requestFlexibleFrom ? 2 : 1; }
  // A client reads the ApiVersions response before it knows what the broker speaks: its header is never flexible.
  constexpr int16_t responseHeaderVersion(int16_t version) const {
    return key != kApiVersionsKey && version >= responseFlexibleFrom ? 1 : 0;
  }
};

// Null: not a key we know.
const Api* findApi(int16_t key);

}  // namespace mq::wire

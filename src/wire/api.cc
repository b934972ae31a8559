#include "wire/api.h"

#include <algorithm>

#include "wire/apis.h"

namespace mq::wire {

static_assert(std::ranges::is_sorted(kApis, {}, &Api::key));

const Api* findApi(int16_t key) {
  auto found = std::ranges::lower_bound(kApis, key, {}, &Api::key);
  return found != std::end(kApis) && found->key == key ? &*found : nullptr;
}

}  // namespace mq::wire

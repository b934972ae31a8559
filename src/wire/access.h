// Glue between the standard containers and the descriptor tables. Included by generated sources only.
#pragma once
#include <optional>
#include <vector>

#include "wire/descriptor.h"

namespace mq::wire {

template <class T>
inline constexpr ArrayAccess kArray = {
    .stride = sizeof(T),
    .size = [](const void* array) { return static_cast<const std::vector<T>*>(array)->size(); },
    .data = [](const void* array) -> const void* { return static_cast<const std::vector<T>*>(array)->data(); },
    .renew = [](void* array, size_t count) -> void* {
      auto& vector = *static_cast<std::vector<T>*>(array);
      std::vector<T>(count).swap(vector);
      return vector.data();
    },
};

template <class T>
inline constexpr OptionalAccess kOptional = {
    .get = [](const void* optional) -> const void* {
      auto& value = *static_cast<const std::optional<T>*>(optional);
      return value ? &*value : nullptr;
    },
    .emplace = [](void* optional) -> void* { return &static_cast<std::optional<T>*>(optional)->emplace(); },
    .reset = [](void* optional) { static_cast<std::optional<T>*>(optional)->reset(); },
};

template <class T>
void* create() {
  return new T();
}
template <class T>
void destroy(void* message) {
  delete static_cast<T*>(message);
}

}  // namespace mq::wire

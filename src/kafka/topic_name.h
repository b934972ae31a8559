// What a topic may be called.
#pragma once
#include <string_view>

namespace mq::kafka {

inline constexpr size_t kTopicNameMax = 249;  // bytes: the name and "-" and a partition number have to fit a file name

// 1 to 249 of a-z A-Z 0-9 . _ -, but neither "." nor "..".
inline bool checkTopicName(std::string_view name) {
  if (name.empty() || name.size() > kTopicNameMax || name == "." || name == "..") return false;
  for (char c : name) {
    bool fine =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!fine) return false;
  }
  return true;
}

}  // namespace mq::kafka

// Id: a number that is not interchangeable with other numbers. Adding two of them does not compile; adding a plain
// difference does. Half-open ranges everywhere: [first, end).
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <type_traits>

#include <fmt/format.h>

namespace mq {

template <class T, class Tag>
class Id {
 public:
  using Value = T;
  constexpr Id() = default;
  constexpr explicit Id(T value) : value_(value) {}
  constexpr T value() const { return value_; }

  friend constexpr auto operator<=>(Id, Id) = default;
  friend constexpr Id operator+(Id id, T by) { return Id(static_cast<T>(id.value_ + by)); }
  friend constexpr Id operator-(Id id, T by) { return Id(static_cast<T>(id.value_ - by)); }
  friend constexpr T operator-(Id a, Id b) { return static_cast<T>(a.value_ - b.value_); }
  constexpr Id& operator+=(T by) {
    value_ = static_cast<T>(value_ + by);
    return *this;
  }
  constexpr Id& operator++() {
    ++value_;
    return *this;
  }

 private:
  T value_{};
};

}  // namespace mq

template <class T, class Tag>
struct std::hash<mq::Id<T, Tag>> {
  size_t operator()(mq::Id<T, Tag> id) const noexcept { return std::hash<T>{}(id.value()); }
};

template <class T, class Tag>
struct fmt::formatter<mq::Id<T, Tag>> : fmt::formatter<T> {
  template <class Context>
  auto format(mq::Id<T, Tag> id, Context& context) const {
    return fmt::formatter<T>::format(id.value(), context);
  }
};

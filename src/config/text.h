// How C++ types are written as text: Codec<T> parses, prints and says what is allowed. Used by the tables only.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/broker_settings.h"
#include "config/setting.h"

namespace mq::config {

// Null, or what is wrong.
using Complaint = std::optional<std::string>;

template <class T>
struct Codec;

// An enum: a type with `static constexpr std::array names`, in the order of the enumerators.
template <class E>
struct Names;

Complaint parseWhole(const Setting& row, std::string_view text, int64_t min, int64_t max, int64_t& into);
std::string allowedWhole(const Setting& row, int64_t min, int64_t max);
Complaint parseDouble(const Setting& row, std::string_view text, double& into);
std::string printDouble(double value);  // as Java prints it: "0.5", "9.87654321E8"
Complaint parseName(std::string_view text, std::span<const std::string_view> names, size_t& into);
std::string oneOf(std::span<const std::string_view> names);
// "a, b" is {"a", "b"}; "" is {}. Complains about an empty item.
Complaint splitList(std::string_view text, std::vector<std::string>& into);
std::string joinList(const std::vector<std::string>& items);

template <class T>
int64_t rowMin(const Setting& row) {
  return std::max(row.min, int64_t{std::numeric_limits<T>::min()});
}
template <class T>
int64_t rowMax(const Setting& row) {
  return std::min(row.max, int64_t{std::numeric_limits<T>::max()});
}

template <class T>
  requires std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>
struct Codec<T> {
  static constexpr Type type = sizeof(T) == 4 ? Type::int32 : Type::int64;
  static Complaint parse(const Setting& row, std::string_view text, T& into) {
    int64_t value = 0;
    Complaint wrong = parseWhole(row, text, rowMin<T>(row), rowMax<T>(row), value);
    if (!wrong) into = static_cast<T>(value);
    return wrong;
  }
  static std::string print(T value) { return fmt::format_int(value).str(); }
  static std::string allowed(const Setting& row) { return allowedWhole(row, rowMin<T>(row), rowMax<T>(row)); }
};

template <>
struct Codec<bool> {
  static constexpr Type type = Type::boolean;
  static Complaint parse(const Setting& row, std::string_view text, bool& into);
  static std::string print(bool value) { return value ? "true" : "false"; }
  static std::string allowed(const Setting&) { return "true or false"; }
};

template <>
struct Codec<double> {
  static constexpr Type type = Type::float64;
  static Complaint parse(const Setting& row, std::string_view text, double& into) {
    return parseDouble(row, text, into);
  }
  static std::string print(double value) { return printDouble(value); }
  static std::string allowed(const Setting& row);
};

template <>
struct Codec<std::string> {
  static constexpr Type type = Type::string;
  static Complaint parse(const Setting& row, std::string_view text, std::string& into);
  static std::string print(const std::string& value) { return value; }
  static std::string allowed(const Setting& row);
};

template <class E>
  requires std::is_enum_v<E>
struct Codec<E> {
  static constexpr Type type = Type::string;
  static Complaint parse(const Setting&, std::string_view text, E& into) {
    size_t index = 0;
    Complaint wrong = parseName(text, Names<E>::names, index);
    if (!wrong) into = static_cast<E>(index);
    return wrong;
  }
  static std::string print(E value) { return std::string(Names<E>::names[static_cast<size_t>(value)]); }
  static std::string allowed(const Setting&) { return oneOf(Names<E>::names); }
};

// Lists.
template <>
struct Codec<std::vector<std::string>> {  // of throttled replicas, the only plain list
  static constexpr Type type = Type::list;
  static Complaint parse(const Setting& row, std::string_view text, std::vector<std::string>& into);
  static std::string print(const std::vector<std::string>& value) { return joinList(value); }
  static std::string allowed(const Setting&) { return "a list of PARTITION:BROKER, or *"; }
};
template <>
struct Codec<CleanupPolicy> {
  static constexpr Type type = Type::list;
  static Complaint parse(const Setting& row, std::string_view text, CleanupPolicy& into);
  static std::string print(const CleanupPolicy& value);
  static std::string allowed(const Setting&) { return "a list of compact, delete; empty: nothing is ever removed"; }
};
template <>
struct Codec<Roles> {
  static constexpr Type type = Type::list;
  static Complaint parse(const Setting& row, std::string_view text, Roles& into);
  static std::string print(const Roles& value);
  static std::string allowed(const Setting&) { return "a list of broker, controller"; }
};
template <>
struct Codec<std::vector<Endpoint>> {
  static constexpr Type type = Type::list;
  static Complaint parse(const Setting& row, std::string_view text, std::vector<Endpoint>& into);
  static std::string print(const std::vector<Endpoint>& value);
  static std::string allowed(const Setting&) { return "a list of [NAME=]HOST:PORT, an IPv6 host in brackets"; }
};
template <>
struct Codec<std::vector<Voter>> {
  static constexpr Type type = Type::list;
  static Complaint parse(const Setting& row, std::string_view text, std::vector<Voter>& into);
  static std::string print(const std::vector<Voter>& value);
  static std::string allowed(const Setting&) { return "a list of ID@HOST:PORT, an IPv6 host in brackets"; }
};

template <class T>
struct MemberOf;
template <class S, class T>
struct MemberOf<T S::*> {
  using Struct = S;
  using Type = T;
};

template <auto Member>
inline constexpr Field kField = {
    Codec<typename MemberOf<decltype(Member)>::Type>::type,
    [](const Setting& row, std::string_view text, void* object) {
      using Owner = MemberOf<decltype(Member)>;
      return Codec<typename Owner::Type>::parse(row, text, static_cast<typename Owner::Struct*>(object)->*Member);
    },
    [](const void* object) {
      using Owner = MemberOf<decltype(Member)>;
      return Codec<typename Owner::Type>::print(static_cast<const typename Owner::Struct*>(object)->*Member);
    },
    [](const Setting& row) { return Codec<typename MemberOf<decltype(Member)>::Type>::allowed(row); },
    [](const Setting& row, std::string_view text) -> std::optional<std::string> {
      using Value = typename MemberOf<decltype(Member)>::Type;
      Value value{};
      if (Codec<Value>::parse(row, text, value)) return std::nullopt;
      return Codec<Value>::print(value);
    },
};

}  // namespace mq::config

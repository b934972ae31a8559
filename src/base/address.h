// Address: HOST:PORT, as settings, command lines and messages write it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mq {

// host is a name, an IPv4 address or a bare IPv6 address (no brackets); printed with brackets where needed.
struct Address {
  std::string host;
  uint16_t port = 0;
  friend auto operator<=>(const Address&, const Address&) = default;
  std::string toString() const;                         // "127.0.0.1:9092", "[::1]:9092"
  static Result<Address> parse(std::string_view text);  // HOST:PORT, [V6]:PORT; the message says what is wrong
};

}  // namespace mq

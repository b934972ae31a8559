#include "runtime/socket.h"

#include <charconv>

namespace mq {

std::string Address::toString() const {
  bool bare6 = host.find(':') != std::string::npos;
  return bare6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<Address> Address::parse(std::string_view text) {
  auto bad = [&](std::string_view why) {
    return failure(Error::invalidRequest, "\"{}\" is not an address: {}; expected HOST:PORT or [IPV6]:PORT", text, why);
  };
  std::string_view host, port;
  if (text.starts_with('[')) {
    size_t close = text.find(']');
    if (close == std::string_view::npos) return bad("\"[\" without \"]\"");
    host = text.substr(1, close - 1);
    if (host.find(':') == std::string_view::npos) return bad("only an IPv6 address stands in brackets");
    if (close + 1 >= text.size() || text[close + 1] != ':') return bad("the port is missing");
    port = text.substr(close + 2);
  } else {
    size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return bad("the port is missing");
    host = text.substr(0, colon);
    if (host.find(':') != std::string_view::npos) return bad("an IPv6 address needs brackets");
    port = text.substr(colon + 1);
  }
  if (host.empty()) return bad("the host is missing");
  uint16_t number = 0;
  auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || error != std::errc() || end != port.data() + port.size()) {
    return bad("the port is not a number from 0 to 65535");
  }
  return Address{.host = std::string(host), .port = number};
}

}  // namespace mq

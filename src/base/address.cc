#include "base/address.h"

#include <algorithm>
#include <charconv>

namespace mq {
namespace {

bool isIpv6(std::string_view host) {
  size_t zone = host.find('%');
  return host.find(':') != std::string_view::npos && std::ranges::all_of(host.substr(0, zone), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' || c == '.';
         });
}

bool fitsHost(char c) {
  return static_cast<unsigned char>(c) > ' ' && c != '/' && c != '@' && c != '=' && c != '"' && c != '[' && c != 0x7f;
}

}  // namespace

std::string Address::toString() const {
  bool bare6 = host.find(':') != std::string::npos;
  return bare6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<Address> Address::parse(std::string_view text) {
  auto bad = [&](std::string_view why) {
    return failure(Error::invalidRequest, "\"{}\" is not an address: {}; expected HOST:PORT or [IPV6]:PORT", text, why);
  };
  if (text.find("://") != std::string_view::npos) return bad("it is a URL");
  std::string_view host, port;
  if (text.starts_with('[')) {
    size_t close = text.find(']');
    if (close == std::string_view::npos) return bad("\"[\" without \"]\"");
    host = text.substr(1, close - 1);
    if (!isIpv6(host)) return bad("only an IPv6 address stands in brackets");
    if (close + 1 >= text.size() || text[close + 1] != ':') return bad("the port is missing");
    port = text.substr(close + 2);
  } else {
    size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return bad("the port is missing");
    host = text.substr(0, colon);
    if (host.find(':') != std::string_view::npos) return bad("an IPv6 address needs brackets");
    port = text.substr(colon + 1);
  }
  if (host.empty()) return bad("the host is missing (0.0.0.0 is all addresses)");
  if (!std::ranges::all_of(host, fitsHost)) return bad("its host has a character that no host has");
  uint16_t number = 0;
  auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || error != std::errc() || end != port.data() + port.size()) {
    return bad("the port is not a number from 0 to 65535");
  }
  return Address{.host = std::string(host), .port = number};
}

}  // namespace mq

#include "base/address.h"

#include <doctest/doctest.h>

using namespace mq;

TEST_CASE("Address: names, IPv4 and IPv6 parse and print back") {
  for (const char* text : {"127.0.0.1:9092", "localhost:0", "[::1]:65535", "[fe80::1%eth0]:1", "a-b.example:80"}) {
    auto address = Address::parse(text);
    REQUIRE_MESSAGE(address.has_value(), text);
    CHECK(address->toString() == text);
  }
  CHECK(Address::parse("[::1]:9092")->host == "::1");
}

TEST_CASE("Address: what is no address is refused with the reason") {
  auto why = [](std::string_view text) {
    auto address = Address::parse(text);
    return address ? std::string("accepted") : address.failure().message;
  };
  CHECK(why("localhost") == "\"localhost\" is not an address: the port is missing; expected HOST:PORT or [IPV6]:PORT");
  CHECK(why("").find("port is missing") != std::string::npos);
  CHECK(why(":9092").find("host is missing") != std::string::npos);
  CHECK(why("::1:9092").find("needs brackets") != std::string::npos);
  CHECK(why("[::1:9092").find("without \"]\"") != std::string::npos);
  CHECK(why("[::1]").find("port is missing") != std::string::npos);
  CHECK(why("[::1]9092").find("port is missing") != std::string::npos);
  CHECK(why("[]:1").find("only an IPv6") != std::string::npos);
  CHECK(why("h:65536").find("not a number") != std::string::npos);
  CHECK(why("h:").find("not a number") != std::string::npos);
  CHECK(why("h:+1").find("not a number") != std::string::npos);
  CHECK(why("h:12x").find("not a number") != std::string::npos);
  CHECK(why("PLAINTEXT://h:1").find("a URL") != std::string::npos);
  CHECK(why("[h:x]:1").find("only an IPv6") != std::string::npos);
  CHECK(why("a b:1").find("no host has") != std::string::npos);
  CHECK(why("a@b:1").find("no host has") != std::string::npos);
}

#include "cli/base64.h"

#include <doctest/doctest.h>

#include "base/random.h"

using namespace mq;
using namespace mq::cli;

namespace {
std::string encoded(std::string_view text) {
  std::string out;
  appendBase64(out, asBytes(text));
  return out;
}
std::optional<std::string> decoded(std::string_view text) {
  auto bytes = decodeBase64(text);
  if (!bytes) return std::nullopt;
  return std::string(asText(*bytes));
}
}  // namespace

TEST_CASE("base64: the vectors of RFC 4648, both ways") {
  for (auto [plain, code] : {std::pair{"", ""},
                             {"f", "Zg=="},
                             {"fo", "Zm8="},
                             {"foo", "Zm9v"},
                             {"foob", "Zm9vYg=="},
                             {"fooba", "Zm9vYmE="},
                             {"foobar", "Zm9vYmFy"}}) {
    CHECK(encoded(plain) == code);
    CHECK(decoded(code) == plain);
  }
}

TEST_CASE("base64: any bytes come back as they were") {
  Prng random(1);
  for (size_t size = 0; size < 200; ++size) {
    std::string bytes;
    for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(random.below(256));
    CHECK(decoded(encoded(bytes)) == bytes);
  }
}

TEST_CASE("base64: what no encoder writes is refused") {
  // Short, over long, padding inside, other alphabets, blanks, bits behind the last byte.
  for (const char* text : {"Z", "Zg", "Zg=", "Zg===", "=", "====", "Z===", "Zg==Zg==", "Zm9v\n", " Zm9v", "Zm-_",
                           "Zh==", "Zm9=", "Zm9v====", "\xC3\xA9==", "Zm=v"}) {
    CAPTURE(text);
    CHECK_FALSE(decoded(text).has_value());
  }
}

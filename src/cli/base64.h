// Base64 as JSON lines carry bytes that are not text: RFC 4648 section 4, with padding.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace mq::cli {

void appendBase64(std::string& into, Bytes bytes);
std::optional<Buffer> decodeBase64(std::string_view text);  // nullopt: not exactly base64

}  // namespace mq::cli

// A record as one line of JSON, without loss in either direction:
//
//   {"topic":"t","partition":0,"offset":5,"ts":1700000000000,"tstype":"create","leaderEpoch":0,
//    "headers":[["k","v"]],"key":"k","value":"v"}
//
// key, value and header values are a string, null, or {"base64":"..."} when they are not valid UTF-8; so are header
// names that are no text. A field that cannot be known is left out. Output is always valid UTF-8 and valid JSON.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace mq::cli {

using MaybeBytes = std::optional<Buffer>;  // nullopt: null

struct JsonRecord {
  std::optional<std::string> topic;
  std::optional<int32_t> partition;
  std::optional<int64_t> timestamp;
  std::vector<std::pair<std::string, MaybeBytes>> headers;
  MaybeBytes key;
  MaybeBytes value;
  bool logAppendTime = false;  // "tstype" said so
};

// One that is printed; what it points at belongs to others.
struct PrintedRecord {
  std::string_view topic;
  int32_t partition = 0;
  int64_t offset = 0;
  std::optional<int64_t> timestamp;  // of what is not set the line says nothing
  bool logAppendTime = false;
  std::optional<int32_t> leaderEpoch;
  std::vector<std::pair<Bytes, std::optional<Bytes>>> headers;
  std::optional<Bytes> key;
  std::optional<Bytes> value;
};
void appendJsonRecord(std::string& into, const PrintedRecord& record);  // with its newline

// Unknown fields are ignored. The message says what is wrong: no value, nested JSON, a field of the wrong type.
Result<JsonRecord> parseJsonRecord(std::string_view line);

void appendJsonString(std::string& into, std::string_view text);  // quoted; text must be valid UTF-8
void appendJsonBytes(std::string& into, Bytes bytes);             // a string, or {"base64":"..."}
bool isUtf8(Bytes bytes);                                         // RFC 3629: no surrogates, nothing overlong

}  // namespace mq::cli

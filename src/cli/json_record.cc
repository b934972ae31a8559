#include "cli/json_record.h"

#include <nlohmann/json.hpp>

#include "cli/base64.h"

namespace mq::cli {
namespace {
using Json = nlohmann::json;

Failure wrong(std::string_view field, std::string_view what) {
  return failure(Error::invalidRecord, "\"{}\": {}", field, what);
}

Result<MaybeBytes> bytesOf(std::string_view field, const Json& json) {
  if (json.is_null()) return MaybeBytes();
  if (json.is_string()) {
    const auto& text = json.get_ref<const std::string&>();
    return MaybeBytes(Buffer(text.begin(), text.end()));
  }
  if (json.is_object() && json.size() == 1 && json.contains("base64") && json["base64"].is_string()) {
    auto decoded = decodeBase64(json["base64"].get_ref<const std::string&>());
    if (!decoded) return wrong(field, "its base64 is damaged");
    return MaybeBytes(std::move(*decoded));
  }
  return wrong(field, "must be a string, null or {\"base64\":\"...\"}; write nested JSON as a string");
}
}  // namespace

Result<JsonRecord> parseJsonRecord(std::string_view line) {
  Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Failure(Error::invalidRecord, "not valid JSON");
  if (!json.is_object()) return Failure(Error::invalidRecord, "not a JSON object");
  JsonRecord record;
  auto value = json.find("value");
  if (value == json.end()) return Failure(Error::invalidRecord, "no \"value\" (a tombstone is \"value\":null)");
  Result<MaybeBytes> bytes = bytesOf("value", *value);
  if (!bytes) return bytes.failure();
  record.value = std::move(*bytes);
  if (auto key = json.find("key"); key != json.end()) {
    bytes = bytesOf("key", *key);
    if (!bytes) return bytes.failure();
    record.key = std::move(*bytes);
  }
  if (auto topic = json.find("topic"); topic != json.end() && !topic->is_null()) {
    if (!topic->is_string()) return wrong("topic", "must be a string");
    record.topic = topic->get<std::string>();
  }
  if (auto partition = json.find("partition"); partition != json.end() && !partition->is_null()) {
    if (!partition->is_number_integer() || *partition < 0 || *partition > INT32_MAX)
      return wrong("partition", "must be a partition number");
    record.partition = partition->get<int32_t>();
  }
  if (auto ts = json.find("ts"); ts != json.end() && !ts->is_null()) {
    if (!ts->is_number_integer() || (ts->is_number_unsigned() && ts->get<uint64_t>() > INT64_MAX)) {
      return wrong("ts", "must be milliseconds since 1970 as a whole number");
    }
    record.timestamp = ts->get<int64_t>();
  }
  if (auto type = json.find("tstype"); type != json.end()) record.logAppendTime = *type == "append";
  if (auto headers = json.find("headers"); headers != json.end() && !headers->is_null()) {
    if (!headers->is_array()) return wrong("headers", "must be a list of [name, value] pairs");
    for (const Json& pair : *headers) {
      if (!pair.is_array() || pair.size() != 2) return wrong("headers", "must be a list of [name, value] pairs");
      Result<MaybeBytes> name = bytesOf("headers", pair[0]);
      if (!name) return name.failure();
      if (!*name) return wrong("headers", "a name cannot be null");
      bytes = bytesOf("headers", pair[1]);
      if (!bytes) return bytes.failure();
      record.headers.emplace_back(std::string(asText(**name)), std::move(*bytes));
    }
  }
  return record;
}

bool isUtf8(Bytes bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    uint8_t first = bytes[i];
    if (first < 0x80) {
      ++i;
      continue;
    }
    size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4 || i + more >= bytes.size()) return false;
    uint8_t second = bytes[i + 1];
    uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (second < low || second > high) return false;
    for (size_t j = 2; j <= more; ++j) {
      if ((bytes[i + j] & 0xC0) != 0x80) return false;
    }
    i += more + 1;
  }
  return true;
}

void appendJsonString(std::string& into, std::string_view text) {
  into += '"';
  size_t from = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t c = static_cast<uint8_t>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F) continue;
    into.append(text, from, i - from);
    from = i + 1;
    switch (c) {
      case '"': into += "\\\""; break;
      case '\\': into += "\\\\"; break;
      case '\n': into += "\\n"; break;
      case '\r': into += "\\r"; break;
      case '\t': into += "\\t"; break;
      default: {
        constexpr char hex[] = "0123456789abcdef";
        into += "\\u00";
        into += hex[c >> 4];
        into += hex[c & 15];
      }
    }
  }
  into.append(text, from);
  into += '"';
}

void appendJsonRecord(std::string& into, const PrintedRecord& record) {
  auto bytes = [&](const std::optional<Bytes>& given) { given ? appendJsonBytes(into, *given) : void(into += "null"); };
  into += "{\"topic\":";
  appendJsonString(into, record.topic);
  into += fmt::format(",\"partition\":{},\"offset\":{}", record.partition, record.offset);
  if (record.timestamp) {
    into += fmt::format(",\"ts\":{},\"tstype\":\"{}\"", *record.timestamp, record.logAppendTime ? "append" : "create");
  }
  if (record.leaderEpoch) into += fmt::format(",\"leaderEpoch\":{}", *record.leaderEpoch);
  if (!record.headers.empty()) {
    into += ",\"headers\":[";
    for (size_t i = 0; i < record.headers.size(); ++i) {
      into += i ? ",[" : "[";
      appendJsonBytes(into, record.headers[i].first);
      into += ',';
      bytes(record.headers[i].second);
      into += ']';
    }
    into += ']';
  }
  into += ",\"key\":";
  bytes(record.key);
  into += ",\"value\":";
  bytes(record.value);
  into += "}\n";
}

void appendJsonBytes(std::string& into, Bytes bytes) {
  if (isUtf8(bytes)) {
    appendJsonString(into, asText(bytes));
  } else {
    into += "{\"base64\":\"";
    appendBase64(into, bytes);
    into += "\"}";
  }
}

}  // namespace mq::cli

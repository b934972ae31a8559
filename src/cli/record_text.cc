#include "cli/record_text.h"

#include <cstdio>

#include "cli/json_record.h"
#include "cli/output.h"

namespace mq::cli {
namespace {

Bytes bytesOf(const void* data, size_t size) { return {static_cast<const uint8_t*>(data), size}; }

std::optional<Bytes> maybeBytes(const void* data, size_t size) {
  if (data == nullptr) return std::nullopt;
  return bytesOf(data, size);
}

void appendJson(std::string& into, const rd_kafka_message_t& message) {
  PrintedRecord record;
  record.topic = rd_kafka_topic_name(message.rkt);
  record.partition = message.partition;
  record.offset = message.offset;
  rd_kafka_timestamp_type_t type;
  int64_t timestamp = rd_kafka_message_timestamp(&message, &type);
  if (type != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE) record.timestamp = timestamp;
  record.logAppendTime = type == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME;
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    const char* name;
    const void* value;
    size_t size;
    for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; ++i) {
      record.headers.emplace_back(asBytes(name), maybeBytes(value, size));
    }
  }
  record.key = maybeBytes(message.key, message.key_len);
  record.value = maybeBytes(message.payload, message.len);
  appendJsonRecord(into, record);
}

}  // namespace

std::string unescape(const std::string& text, std::string_view flag) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case '0': out += '\0'; break;
      case '\\': out += '\\'; break;
      case 'x': {
        unsigned value = 0;
        if (i + 2 >= text.size() || std::sscanf(text.c_str() + i + 1, "%2x", &value) != 1)
          fail(exitUsage, "--{}: \\x takes two hex digits", flag);
        out += static_cast<char>(value);
        i += 2;
        break;
      }
      default: fail(exitUsage, "--{}: \\{} is no escape (\\n \\t \\r \\0 \\\\ \\xHH are)", flag, text[i]);
    }
  }
  if (out.empty()) fail(exitUsage, "--{} cannot be empty", flag);
  return out;
}

std::vector<Flag> withRecordStyleFlags(std::vector<Flag> own) {
  own.push_back(
      {.name = "json", .shortNames = "J", .help = "JSON lines with everything a record has; mq produce -J reads them"});
  own.push_back({.name = "raw", .help = "value bytes, nothing between them"});
  own.push_back({.name = "len", .help = "each value behind 4 bytes of big-endian length; FFFFFFFF is null"});
  own.push_back({.name = "delimiter",
                 .shortNames = "D",
                 .value = "TEXT",
                 .help = "what is printed behind a record (default \\n)"});
  own.push_back({.name = "null-delimiter", .shortNames = "0", .help = "a NUL byte behind each record"});
  own.push_back({.name = "key-delimiter",
                 .shortNames = "K",
                 .value = "TEXT",
                 .help = "print the key and this in front of each value"});
  return own;
}

RecordStyle recordStyle(const Arguments& arguments) {
  RecordStyle style;
  int kinds = 0;
  for (std::string_view flag : {"json", "raw", "len", "delimiter", "null-delimiter"}) kinds += arguments.has(flag);
  if (kinds > 1) fail(exitUsage, "only one of -J, --raw, --len, -D and -0 makes sense at a time");
  if (arguments.has("json")) style.kind = RecordStyle::Kind::json;
  if (arguments.has("raw")) style.kind = RecordStyle::Kind::raw;
  if (arguments.has("len")) style.kind = RecordStyle::Kind::lengthPrefixed;
  if (auto delimiter = arguments.text("delimiter")) style.delimiter = unescape(*delimiter, "delimiter");
  if (arguments.has("null-delimiter")) style.delimiter = std::string(1, '\0');
  if (auto key = arguments.text("key-delimiter")) {
    if (style.kind != RecordStyle::Kind::delimited) fail(exitUsage, "-K goes with lines, not with -J, --raw or --len");
    style.keyDelimiter = unescape(*key, "key-delimiter");
  }
  style.escape = style.kind == RecordStyle::Kind::delimited && stdoutIsTerminal();
  return style;
}

void appendRecord(std::string& into, const rd_kafka_message_t& message, const RecordStyle& style) {
  Bytes value = bytesOf(message.payload, message.payload ? message.len : 0);
  switch (style.kind) {
    case RecordStyle::Kind::json: appendJson(into, message); return;
    case RecordStyle::Kind::raw: into += asText(value); return;
    case RecordStyle::Kind::lengthPrefixed: {
      uint8_t length[4];
      storeBigEndian<uint32_t>(length, message.payload ? static_cast<uint32_t>(value.size()) : 0xFFFFFFFF);
      into += asText(length);
      into += asText(value);
      return;
    }
    case RecordStyle::Kind::delimited: break;
  }
  if (style.keyDelimiter) {
    Bytes key = bytesOf(message.key, message.key ? message.key_len : 0);
    style.escape ? appendEscaped(into, key) : void(into += asText(key));
    into += *style.keyDelimiter;
  }
  style.escape ? appendEscaped(into, value) : void(into += asText(value));
  into += style.delimiter;
}

}  // namespace mq::cli

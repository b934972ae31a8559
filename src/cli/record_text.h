// How a record is printed: the framings of `mq produce`, the other way round.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <librdkafka/rdkafka.h>

#include "cli/command.h"

namespace mq::cli {

struct RecordStyle {
  enum class Kind { delimited, raw, lengthPrefixed, json } kind = Kind::delimited;
  std::string delimiter = "\n";
  std::optional<std::string> keyDelimiter;  // delimited: the key and this come first
  bool escape = false;                      // non-printing bytes as \xHH: stdout is a terminal
};

std::vector<Flag> withRecordStyleFlags(std::vector<Flag> own);
RecordStyle recordStyle(const Arguments& arguments);
void appendRecord(std::string& into, const rd_kafka_message_t& message, const RecordStyle& style);

// \n \t \r \0 \\ \xHH; ends the command when the text is no such thing or empty.
std::string unescape(const std::string& text, std::string_view flag);

}  // namespace mq::cli

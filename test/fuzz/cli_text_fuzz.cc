// What people and pipes hand to the command line: JSON records, base64, offset ranges, addresses, escapes, and streams
// of bytes in every framing. Nothing crashes; what is taken prints back as it was.
#include <sys/mman.h>
#include <unistd.h>

#include "base/address.h"
#include "base/check.h"
#include "cli/base64.h"
#include "cli/command.h"
#include "cli/input.h"
#include "cli/json_record.h"
#include "cli/offset_range.h"
#include "cli/output.h"
#include "fuzz.h"

namespace mq::fuzz {

using namespace cli;

namespace {

void jsonRecord(std::string_view line) {
  auto record = parseJsonRecord(line);
  if (!record) {
    MQ_CHECK(!record.failure().message.empty());
    return;
  }
  PrintedRecord printed;
  if (record->topic) printed.topic = *record->topic;
  printed.timestamp = record->timestamp;
  auto view = [](const MaybeBytes& bytes) { return bytes ? std::optional<Bytes>(*bytes) : std::nullopt; };
  printed.key = view(record->key);
  printed.value = view(record->value);
  for (const auto& [name, value] : record->headers) printed.headers.emplace_back(asBytes(name), view(value));
  std::string text;
  appendJsonRecord(text, printed);
  auto again = parseJsonRecord(text);
  MQ_CHECK(again.has_value(), text);
  MQ_CHECK(again->key == record->key && again->value == record->value && again->headers == record->headers, text);
  MQ_CHECK(again->timestamp == record->timestamp, text);
}

// Every byte of the input is in a record or a delimiter, in order; so is the offset of each record.
void framings(Bytes content, const InputOptions& options) {
  int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
  MQ_CHECK(descriptor >= 0);
  MQ_CHECK(::write(descriptor, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
  lseek(descriptor, 0, SEEK_SET);
  try {
    Input input(descriptor, "fuzz", options);
    InputRecord record;
    uint64_t number = 0, offset = 0;
    while (input.next(record)) {
      MQ_CHECK(record.number > number, record.number, number);
      MQ_CHECK(record.offset >= offset && record.offset <= content.size(), record.offset, offset);
      number = record.number;
      offset = record.offset;
      if (record.value) MQ_CHECK(record.value->size() <= options.recordBytesMax, record.value->size());
    }
  } catch (const CommandError& error) {
    MQ_CHECK(!error.message.empty());
  }
  ::close(descriptor);
}

}  // namespace

void fuzzOne(Bytes input) {
  if (input.empty()) return;
  Bytes rest = input.subspan(1);
  std::string_view text = asText(rest);
  switch (input[0] % 8) {
    case 0: jsonRecord(text); break;
    case 1:
      if (auto bytes = decodeBase64(text)) {
        std::string again;
        appendBase64(again, *bytes);
        MQ_CHECK(again == text, text);
      }
      break;
    case 2:
      for (int64_t now : {int64_t{0}, int64_t{1'700'000'000'000}}) {
        auto range = parseOffsetRange(text, now);
        if (!range) continue;
        if (range->from.kind == OffsetPoint::Kind::time) MQ_CHECK(range->from.value >= 0, text);
        if (range->to && range->to->kind == OffsetPoint::Kind::time) MQ_CHECK(range->to->value >= 0, text);
      }
      break;
    case 3:
      if (auto address = Address::parse(text)) {
        auto again = Address::parse(address->toString());
        MQ_CHECK(again && *again == *address, text);
      }
      break;
    case 4: framings(rest, {.recordBytesMax = 64}); break;
    case 5: framings(rest, {.delimiter = "--", .keyDelimiter = "=", .recordBytesMax = 64, .emptyIsNull = true}); break;
    case 6: framings(rest, {.framing = Framing::lengthPrefixed, .recordBytesMax = 64}); break;
    case 7: {
      framings(rest, {.framing = Framing::json, .recordBytesMax = 1 << 16});
      framings(rest, {.framing = Framing::chunks, .chunkBytes = 7, .recordBytesMax = 64});
      std::string escaped;
      appendEscaped(escaped, rest);
      MQ_CHECK(isUtf8(asBytes(escaped)), escaped);
      break;
    }
  }
}

std::vector<Buffer> fuzzSeeds() {
  const std::pair<char, std::string> texts[] = {
      {0,
       R"({"topic":"t","partition":3,"ts":1700000000000,"headers":[["k","v"],["n",null]],"key":{"base64":"/w=="},"value":"v"})"},
      {0, R"({"value":null,"tstype":"append","x":[[{"deep":1}]]})"},
      {1, "Zm9vYg=="},
      {2, "@2023-11-14T22:13:20.123+05:30:-1h30m"},
      {2, "-10:+5"},
      {2, "s@1:e@1700000000000"},
      {3, "[fe80::1%eth0]:9092"},
      {3, "broker.example.org:9092"},
      {4, "a\r\n\nb" + std::string(200, 'x') + "\nc"},
      {5, "k=v----=--" + std::string(100, '-')},
      {6, std::string("\0\0\0\1a\xff\xff\xff\xff\0\0\0\0\0\0\1\0", 17) + std::string(256, 'x') +
              std::string("\0\0\0\2b", 5)},
      {7, "{\"value\":\"a\"}\n\n \nno\n{\"value\":{\"base64\":\"Zg==\"}}"},
  };
  std::vector<Buffer> seeds;
  for (const auto& [kind, text] : texts) {
    Buffer& seed = seeds.emplace_back(1, static_cast<uint8_t>(kind));
    seed.insert(seed.end(), text.begin(), text.end());
  }
  return seeds;
}

}  // namespace mq::fuzz

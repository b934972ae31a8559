#include "vectors.h"

#include <algorithm>

#include <doctest/doctest.h>
#include <zlib.h>
#include <nlohmann/json.hpp>

#include "record/builder.h"

namespace mq::record::test {
namespace {

using Json = nlohmann::json;

std::vector<Json> linesOf(const std::string& name) {
  std::string path = std::string(MQ_TEST_DATA) + "/record/" + name;
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE_MESSAGE(file != nullptr, path);
  std::string text;
  char piece[1 << 16];
  for (int count; (count = gzread(file, piece, sizeof piece)) > 0;) text.append(piece, static_cast<size_t>(count));
  gzclose(file);
  std::vector<Json> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    lines.push_back(Json::parse(text.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

Buffer fromHex(const std::string& hex) {
  Buffer bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::optional<Buffer> nullableHex(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return fromHex(json.get<std::string>());
}

ExpectedRecord recordFrom(const Json& json) {
  ExpectedRecord record{.offset = json["offset"],
                        .timestamp = json["timestamp"],
                        .key = nullableHex(json["key"]),
                        .value = nullableHex(json["value"])};
  if (json.contains("headers")) {
    for (const Json& header : json["headers"]) record.headers.emplace_back(header[0], nullableHex(header[1]));
  }
  return record;
}

ExpectedBatch batchFrom(const Json& json) {
  ExpectedBatch batch{.position = json["position"], .sizeBytes = json["size"], .magic = json["magic"]};
  batch.hasError = json.contains("error");
  if (batch.magic != 2) return batch;
  batch.baseOffset = json["baseOffset"];
  batch.leaderEpoch = json["partitionLeaderEpoch"];
  batch.crc = json["crc"];
  batch.attributes = json["attributes"];
  batch.lastOffsetDelta = json["lastOffsetDelta"];
  batch.baseTimestamp = json["baseTimestamp"];
  batch.maxTimestamp = json["maxTimestamp"];
  batch.producerId = json["producerId"];
  batch.producerEpoch = json["producerEpoch"];
  batch.baseSequence = json["baseSequence"];
  batch.recordCount = json["recordCount"];
  batch.lastOffset = json.value("lastOffset", int64_t{0});
  batch.nextOffset = json.value("nextOffset", int64_t{0});
  batch.lastSequence = json.value("lastSequence", int32_t{0});
  batch.isTransactional = json.value("transactional", false);
  batch.isControl = json.value("control", false);
  batch.compression = json.value("compression", "");
  batch.isLogAppendTime = json.value("timestampType", "") == "LogAppendTime";
  if (json.contains("deleteHorizonMs")) batch.deleteHorizon = json["deleteHorizonMs"].get<int64_t>();
  if (!json.contains("records")) return batch;
  for (const Json& record : json["records"]) batch.records.push_back(recordFrom(record));
  if (batch.records.empty()) return batch;
  batch.controlType = json["records"][0].value("controlType", "");
  batch.coordinatorEpoch = json["records"][0].value("coordinatorEpoch", -1);
  return batch;
}

}  // namespace

std::vector<BatchVector> batchVectors() {
  std::vector<BatchVector> vectors;
  for (const Json& json : linesOf("batches.jsonl.gz")) {
    BatchVector vector{.name = json["case"], .bytes = fromHex(json["hex"])};
    for (const Json& batch : json["batches"]) vector.batches.push_back(batchFrom(batch));
    vector.ignoredTail = json.value("ignoredTail", size_t{0});
    const Json& produce = json["produce"];
    vector.produceError = produce["errorCode"];
    vector.storedAsSent = produce.value("storedAsSent", false);
    if (produce.contains("recordErrors")) vector.recordErrors = produce["recordErrors"].get<std::vector<int32_t>>();
    vectors.push_back(std::move(vector));
  }
  return vectors;
}

const BatchVector& batchVector(const std::vector<BatchVector>& all, std::string_view name) {
  auto found = std::ranges::find(all, name, &BatchVector::name);
  REQUIRE(found != all.end());
  return *found;
}

std::vector<VarintVector> varintVectors() {
  std::vector<VarintVector> vectors;
  for (const Json& json : linesOf("varint.jsonl.gz")) {
    VarintVector vector{.type = json["type"], .bytes = fromHex(json["hex"])};
    vector.value = json.value("value", int64_t{0});
    vector.used = json.value("used", vector.bytes.size());
    vector.decodeOnly = json.value("decodeOnly", false);
    vector.hasError = json.contains("error");
    vectors.push_back(std::move(vector));
  }
  return vectors;
}

std::vector<std::pair<Buffer, uint32_t>> crcVectors() {
  std::vector<std::pair<Buffer, uint32_t>> vectors;
  for (const Json& json : linesOf("crc32c.jsonl.gz")) {
    vectors.emplace_back(fromHex(json["data"]), json["crc32c"].get<uint32_t>());
  }
  return vectors;
}

ExpectedRecord copyOf(const RecordView& record) {
  auto copy = [](const std::optional<Bytes>& bytes) -> std::optional<Buffer> {
    if (!bytes) return std::nullopt;
    return Buffer(bytes->begin(), bytes->end());
  };
  ExpectedRecord copied{.offset = record.offset.value(),
                        .timestamp = record.timestamp.value(),
                        .key = copy(record.key),
                        .value = copy(record.value)};
  for (HeaderView header : record.headers) copied.headers.emplace_back(header.key, copy(header.value));
  return copied;
}

std::vector<ExpectedRecord> recordsOf(BatchView batch, Workspace& workspace) {
  Result<RecordReader> reader = openRecords(batch, workspace);
  REQUIRE(reader.has_value());
  std::vector<ExpectedRecord> records;
  RecordView record;
  while (reader->next(record)) records.push_back(copyOf(record));
  REQUIRE_MESSAGE(reader->ok(), std::string(reader->problem()));
  return records;
}

Buffer randomBytes(Prng& random, size_t sizeMax) {
  size_t size = random.chance(1, 8)    ? 0
                : random.chance(1, 16) ? random.below(sizeMax + 1)
                                       : random.below(std::min<size_t>(sizeMax, 200) + 1);
  bool isText = random.chance(1, 2);
  Buffer bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(isText ? 'a' + random.below(4) : random.next());
  return bytes;
}

std::vector<ExpectedRecord> randomRecords(Prng& random, int64_t baseOffset, size_t countMax, size_t valueBytesMax) {
  std::vector<ExpectedRecord> records(1 + random.below(countMax));
  int64_t time = 1'700'000'000'000;
  for (size_t i = 0; i < records.size(); ++i) {
    time += random.chance(1, 20) ? static_cast<int64_t>(random.below(1'000'000'000)) : 0;
    records[i].offset = baseOffset + static_cast<int64_t>(i);
    records[i].timestamp = time + static_cast<int64_t>(random.below(1000)) - 500;
    if (!random.chance(1, 3)) records[i].key = randomBytes(random, 300);
    if (!random.chance(1, 5)) records[i].value = randomBytes(random, valueBytesMax);
    for (uint64_t left = random.chance(1, 4) ? random.below(5) : 0; left > 0; --left) {
      Buffer key = randomBytes(random, 90);
      records[i].headers.emplace_back(std::string(asText(key)), std::nullopt);
      if (random.chance(3, 4)) records[i].headers.back().second = randomBytes(random, 90);
    }
  }
  return records;
}

Buffer buildBatch(const std::vector<ExpectedRecord>& records, Codec codec, Workspace& workspace) {
  auto view = [](const std::optional<Buffer>& bytes) -> std::optional<Bytes> {
    if (!bytes) return std::nullopt;
    return Bytes(*bytes);
  };
  BatchBuilder builder({.baseOffset = Offset(records.front().offset), .codec = codec});
  for (const ExpectedRecord& record : records) {
    std::vector<HeaderView> headers;
    for (const auto& [key, value] : record.headers) headers.push_back({key, view(value)});
    builder.add({.timestamp = WallMs(record.timestamp),
                 .key = view(record.key),
                 .value = view(record.value),
                 .headers = headers});
  }
  return builder.build(workspace);
}

}  // namespace mq::record::test

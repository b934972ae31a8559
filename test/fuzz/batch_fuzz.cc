// A record batch from outside: walked, read, validated, brought into its stored form, and read again.
// The first byte chooses the topic and whether length and CRC are put right, without which hardly any change would get
// past them.
// What validates must read to its end, keep its records whatever codec the topic has, and be good after that.
#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "fuzz.h"
#include "record/builder.h"
#include "record/recompress.h"
#include "record/records.h"
#include "record/validate.h"

namespace mq::fuzz {
namespace {

using namespace record;

constexpr WallMs kNow{1'764'460'800'000};
constexpr size_t kPlainLimit = 256_KiB;

// Bits of the first byte.
constexpr uint8_t kSeal = 1;
constexpr uint8_t kAppendTime = 2;
constexpr uint8_t kKeyRequired = 4;
constexpr uint8_t kOwnBatch = 8;
constexpr int kCompressionShift = 4;
constexpr const char* kCompressions[] = {"producer", "auto", "uncompressed", "gzip", "snappy", "lz4", "zstd", "auto"};

// How many records there are, if the batch reads to its end.
std::optional<int32_t> readAll(BatchView batch, Workspace& workspace) {
  Result<RecordReader> reader = openRecords(batch, workspace, kPlainLimit);
  if (!reader) return std::nullopt;
  RecordView record;
  int32_t count = 0;
  uint64_t sum = 0;
  while (reader->next(record)) {
    ++count;
    for (uint8_t byte : record.key.value_or(Bytes())) sum += byte;
    for (uint8_t byte : record.value.value_or(Bytes())) sum += byte;
    int32_t headers = 0;
    for (HeaderView header : record.headers) {
      for (char byte : header.key) sum += static_cast<uint8_t>(byte);
      for (uint8_t byte : header.value.value_or(Bytes())) sum += byte;
      ++headers;
    }
    MQ_CHECK(headers == record.headers.size());
  }
  MQ_CHECK(count > 0 || sum == 0);  // uses the sum, and so every byte is really read
  if (!reader->ok()) return std::nullopt;
  MQ_CHECK(count == batch.recordCount(), count);
  return count;
}

void walk(Bytes bytes, Workspace& workspace) {
  for (NextBatch next = nextBatch(bytes); next.kind == NextBatch::Kind::whole; next = nextBatch(bytes)) {
    BatchView batch(next.batch);
    MQ_CHECK(batch.sizeBytes() == next.sizeBytes && next.batch.size() == next.sizeBytes);
    readAll(batch, workspace);
    static_cast<void>(readControlRecord(batch, workspace));
    Buffer plain;
    if (decompressed(batch, workspace, plain, kPlainLimit)) MQ_CHECK(BatchView(plain).crcOk());
    bytes = bytes.subspan(next.sizeBytes);
  }
}

}  // namespace

void fuzzOne(Bytes input) {
  if (input.empty()) return;
  uint8_t choice = input.front();
  Buffer bytes(input.begin() + 1, input.end());
  if ((choice & kSeal) != 0 && bytes.size() >= Layout::kHeaderBytes) setLengthAndCrc(bytes);

  Workspace workspace;
  walk(bytes, workspace);

  ValidationRules rules{.plainBytesMax = kPlainLimit, .now = kNow};
  if ((choice & kAppendTime) != 0) rules.timestampType = TimestampType::logAppendTime;
  if ((choice & kOwnBatch) != 0) rules.origin = Origin::coordinator;
  rules.keyRequired = (choice & kKeyRequired) != 0;
  Result<BatchFacts> facts = validateProduceBatch(bytes, rules, workspace);
  if (!facts) return;
  Buffer records(facts->plainRecords.begin(), facts->plainRecords.end());

  Buffer rewritten;
  StoreRules store{.compression = *Compression::named(kCompressions[(choice >> kCompressionShift) & 7]),
                   .timestampType = rules.timestampType};
  Result<MutableBytes> stored = storedForm(bytes, *facts, store, workspace, rewritten);
  if (!stored) return;
  BatchView batch(*stored);
  MQ_CHECK(batch.isWhole() && batch.sizeBytes() == stored->size());
  MQ_CHECK(batch.crcOk());
  MQ_CHECK(batch.timestampType() == rules.timestampType);
  MQ_CHECK(batch.maxTimestamp() == facts->maxTimestamp);
  MQ_CHECK(batch.recordCount() == facts->recordCount);
  MQ_CHECK(readAll(batch, workspace) == facts->recordCount);
  Result<Bytes> again = plainRecords(batch, workspace, kPlainLimit);
  MQ_CHECK(again && std::ranges::equal(*again, records));
}

std::vector<Buffer> fuzzSeeds() {
  std::vector<Buffer> seeds;
  auto add = [&](uint8_t choice, const Buffer& batch) {
    seeds.emplace_back(1, choice);
    seeds.back().insert(seeds.back().end(), batch.begin(), batch.end());
  };
  Workspace workspace;
  Prng random(1);
  for (Codec codec : {Codec::none, Codec::gzip, Codec::snappy, Codec::lz4, Codec::zstd}) {
    for (int records : {1, 3, 200}) {
      for (bool idempotent : {false, true}) {
        BatchOptions options{.codec = codec};
        if (idempotent) options.producerId = ProducerId(7), options.producerEpoch = 0, options.baseSequence = 5;
        BatchBuilder builder(options);
        HeaderView headers[] = {{"trace", asBytes("0af7651916cd43dd")}, {"empty", Bytes()}, {"null", std::nullopt}};
        for (int i = 0; i < records; ++i) {
          Buffer value(random.below(40), static_cast<uint8_t>('a' + i % 26));
          builder.add({.timestamp = kNow + static_cast<int64_t>(random.below(1000)),
                       .key = i % 3 == 2 ? std::nullopt : std::optional(asBytes("key")),
                       .value = i % 5 == 4 ? std::nullopt : std::optional(Bytes(value)),
                       .headers = std::span(headers).first(i % 4)});
        }
        Buffer batch = builder.build(workspace);
        for (int topic = 0; topic < 8; ++topic) add(static_cast<uint8_t>(kSeal | topic << kCompressionShift), batch);
        add(kSeal | kAppendTime | 1 << kCompressionShift, batch);
        add(kSeal | kKeyRequired, batch);
        batch.insert(batch.end(), batch.begin(), batch.end());
        add(0, batch);
      }
    }
  }
  add(kSeal | kOwnBatch, endTxnMarker(ControlType::commit, ProducerId(7), 1, 3, kNow));
  add(kSeal | kOwnBatch, endTxnMarker(ControlType::abort, ProducerId(7), 1, 3, kNow));
  return seeds;
}

}  // namespace mq::fuzz

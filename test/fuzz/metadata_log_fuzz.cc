// What a metadata directory may hold: the first byte chooses what the rest is. Whatever decodes must encode to the same
// meaning again, and an image made of any records must be one that a snapshot can carry.
#include "base/check.h"
#include "controller/raft_log_format.h"
#include "fuzz.h"
#include "metadata/image.h"
#include "metadata/print.h"
#include "metadata/record.h"

namespace mq::fuzz {
namespace {

using namespace controller;
using namespace controller::log_format;

enum Kind : uint8_t { state, segment, frames, snapshot, chunk, records, kinds };

constexpr int64_t kSegment = 3;

void checkFrames(Bytes input) {
  uint64_t position = kSegmentHeaderBytes;
  while (auto frame = decodeFrame(kSegment, position, input)) {
    std::vector<LogEntry> entries;
    for (auto& e : entriesOf(*frame))
      entries.push_back({e.index, e.term, e.type, Buffer(e.data.begin(), e.data.end())});
    MQ_CHECK(entries.size() == frame->count);
    Buffer again = encodeFrame(kSegment, position, frame->first, entries);
    MQ_CHECK(std::equal(again.begin(), again.end(), input.begin()));
    position += frame->bytes();
    input = input.subspan(frame->bytes());
  }
  if (auto next = findFrame(kSegment, position, input))
    MQ_CHECK(decodeFrame(kSegment, position + *next, input.subspan(*next)));
}

void checkRecords(Bytes input) {
  auto decoded = metadata::decodeRecords(input);
  if (!decoded) return;
  Buffer bytes = metadata::encodeRecords(*decoded);
  auto again = metadata::decodeRecords(bytes);
  MQ_CHECK(again && *again == *decoded);
  auto applied = metadata::apply(metadata::emptyImage(), *decoded, 1, 1);
  auto restored = metadata::apply(metadata::emptyImage(), metadata::recordsOf(*applied.image), 1, 1);
  MQ_CHECK(metadata::print(*restored.image) == metadata::print(*applied.image));
  MQ_CHECK(metadata::print(*applied.delta) ==
           metadata::print(metadata::difference(*metadata::emptyImage(), *applied.image)));
}

}  // namespace

void fuzzOne(Bytes input) {
  if (input.empty()) return;
  Bytes rest = input.subspan(1);
  switch (input[0] % kinds) {
    case state:
      if (auto decoded = decodeState(rest)) MQ_CHECK(*decodeState(encodeState(*decoded)) == *decoded);
      break;
    case segment:
      if (auto decoded = decodeSegmentHeader(rest))
        MQ_CHECK(*decodeSegmentHeader(encodeSegmentHeader(*decoded)) == *decoded);
      break;
    case frames: checkFrames(rest); break;
    case snapshot:
      if (auto decoded = decodeSnapshotHeader(rest))
        MQ_CHECK(decodeSnapshotHeader(encodeSnapshotHeader(*decoded))->id == decoded->id);
      break;
    case chunk: (void)decodeSnapshotChunk(1, rest); break;
    case records: checkRecords(rest); break;
    default: break;
  }
}

std::vector<Buffer> fuzzSeeds() {
  std::vector<metadata::Record> all;
  Uuid topic = Uuid::fromHalves(1, 2);
  metadata::PartitionsRecord::Partition partition;
  partition.replicas = partition.isr = {1, 2};
  partition.leader = 1;
  partition.eligibleLeaders = {2};
  partition.directories = {topic, topic};
  all.push_back(metadata::ClusterRecord{topic, {{1, topic, {}}}, {}});
  all.push_back(metadata::TopicRecord{topic, "a.b", {}});
  all.push_back(metadata::PartitionsRecord{topic, 0, {partition, partition}, {}});
  all.push_back(metadata::ConfigRecord{2, "a.b", "retention.ms", "1", {}});
  all.push_back(metadata::ConfigRecord{4, "", "retention.ms", std::nullopt, {}});
  all.push_back(metadata::BrokerRecord{1, topic, 1, {{"PLAINTEXT", "h", 9092, 0, {}}}, "r", true, {topic}, {}});
  all.push_back(metadata::ProducerIdsRecord{1000, {}});
  all.push_back(metadata::FeatureRecord{"f", 1, {}});
  Buffer data = metadata::encodeRecords(all);

  std::vector<Buffer> seeds;
  auto add = [&](Kind kind, const Buffer& bytes) {
    seeds.push_back({kind});
    seeds.back().insert(seeds.back().end(), bytes.begin(), bytes.end());
  };
  add(state, encodeState({NodeId(1), topic, 4, {5, NodeId(1)}, kSegment}));
  add(segment, encodeSegmentHeader({kSegment, 7, 2}));
  std::vector<LogEntry> entries = {{7, 2, EntryType::records, data}, {8, 2, EntryType::noop, {}}};
  Buffer first = encodeFrame(kSegment, kSegmentHeaderBytes, 7, entries);
  Buffer second = encodeFrame(kSegment, kSegmentHeaderBytes + first.size(), 9, {});
  Buffer both = first;
  both.insert(both.end(), second.begin(), second.end());
  add(frames, both);
  both[100] ^= 1;
  add(frames, both);
  add(snapshot, encodeSnapshotHeader({{7, 2}, 100}));
  add(chunk, encodeSnapshotChunk(1, data));
  add(records, data);
  all.push_back(metadata::RemoveTopicRecord{topic, {}});
  add(records, metadata::encodeRecords(all));
  return seeds;
}

}  // namespace mq::fuzz

#include "controller/raft_log_format.h"

#include <charconv>

#include <fmt/format.h>

#include "base/check.h"
#include "base/crc32c.h"

namespace mq::controller::log_format {
namespace {

constexpr uint32_t kStateMagic = 0x4d515354;     // MQST
constexpr uint32_t kSegmentMagic = 0x4d515347;   // MQSG
constexpr uint32_t kFrameMagic = 0x4d514652;     // MQFR
constexpr uint32_t kSnapshotMagic = 0x4d51534e;  // MQSN

// Header of a file: magic, CRC of what follows the CRC, version. The rest is the caller's.
void beginHeader(ByteWriter& out, uint32_t magic) {
  out.uint32(magic);
  out.uint32(0);
  out.int16(kVersion);
  out.int16(0);
}

Buffer endHeader(Buffer bytes, size_t size) {
  MQ_CHECK(bytes.size() == size, bytes.size(), size);
  storeBigEndian(bytes.data() + 4, crc32c(Bytes(bytes).subspan(8)));
  return bytes;
}

// A reader behind the version, or why not. A newer version is told from damage, so the checksum comes first.
Decoded<ByteReader> openHeader(Bytes bytes, uint32_t magic, size_t size) {
  if (bytes.size() < size)
    return std::unexpected(fmt::format("its header is cut short at {} of {} bytes", bytes.size(), size));
  ByteReader in(bytes.first(size));
  if (in.uint32() != magic) return std::unexpected("it does not begin like a file of this kind");
  if (in.uint32() != crc32c(bytes.first(size).subspan(8)))
    return std::unexpected("the checksum of its header is wrong");
  int16_t version = in.int16();
  in.skip(2);
  if (version != kVersion)
    return std::unexpected(
        fmt::format("it has format {}, and this mq knows format {} only: start a newer mq", version, kVersion));
  return in;
}

uint32_t frameCrc(int64_t segment, uint64_t position, Bytes fromLength) {
  uint8_t place[16];
  storeBigEndian(place, segment);
  storeBigEndian(place + 8, position);
  return crc32c(fromLength, crc32c(place));
}

template <class Int>
bool parseNumber(std::string_view text, Int* number) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() && text[0] != '-';
}

}  // namespace

Buffer encodeState(const State& state) {
  Buffer bytes;
  ByteWriter out(bytes);
  beginHeader(out, kStateMagic);
  out.int32(state.node.value());
  out.uuid(state.directory);
  out.int64(state.sequence);
  out.int64(state.hard.term);
  out.int32(state.hard.vote.value());
  out.int32(0);
  out.int64(state.activeSegment);
  return endHeader(std::move(bytes), kStateCopyBytes);
}

Decoded<State> decodeState(Bytes bytes) {
  auto in = openHeader(bytes, kStateMagic, kStateCopyBytes);
  if (!in) return std::unexpected(in.error());
  State state;
  state.node = NodeId(in->int32());
  state.directory = in->uuid();
  state.sequence = in->int64();
  state.hard.term = in->int64();
  state.hard.vote = NodeId(in->int32());
  in->skip(4);
  state.activeSegment = in->int64();
  return state;
}

Buffer encodeSegmentHeader(const SegmentHeader& header) {
  Buffer bytes;
  ByteWriter out(bytes);
  beginHeader(out, kSegmentMagic);
  out.int32(0);
  out.int64(header.number);
  out.int64(header.nextIndex);
  out.int64(header.previousTerm);
  return endHeader(std::move(bytes), kSegmentHeaderBytes);
}

Decoded<SegmentHeader> decodeSegmentHeader(Bytes bytes) {
  auto in = openHeader(bytes, kSegmentMagic, kSegmentHeaderBytes);
  if (!in) return std::unexpected(in.error());
  in->skip(4);
  SegmentHeader header;
  header.number = in->int64();
  header.nextIndex = in->int64();
  header.previousTerm = in->int64();
  return header;
}

size_t frameBytes(std::span<const LogEntry> entries) {
  size_t bytes = kFrameHeaderBytes;
  for (auto& entry : entries) bytes += kEntryHeaderBytes + entry.data.size();
  return bytes;
}

Buffer encodeFrame(int64_t segment, uint64_t position, int64_t first, std::span<const LogEntry> entries) {
  Buffer bytes;
  bytes.reserve(frameBytes(entries));
  ByteWriter out(bytes);
  out.uint32(kFrameMagic);
  out.uint32(0);
  out.uint32(0);
  out.uint32(static_cast<uint32_t>(entries.size()));
  out.int64(first);
  for (auto& entry : entries) {
    MQ_CHECK(entry.index == first++, entry.index, first);
    out.int64(entry.term);
    out.int8(static_cast<int8_t>(entry.type));
    out.uint32(static_cast<uint32_t>(entry.data.size()));
    out.bytes(entry.data);
  }
  MQ_CHECK(bytes.size() <= kFrameBytesMax, bytes.size());
  storeBigEndian(bytes.data() + 8, static_cast<uint32_t>(bytes.size() - kFrameHeaderBytes));
  storeBigEndian(bytes.data() + 4, frameCrc(segment, position, Bytes(bytes).subspan(8)));
  return bytes;
}

std::optional<Frame> decodeFrame(int64_t segment, uint64_t position, Bytes bytes) {
  ByteReader in(bytes);
  uint32_t magic = in.uint32();
  uint32_t crc = in.uint32();
  uint32_t length = in.uint32();
  Frame frame;
  frame.count = in.uint32();
  frame.first = in.int64();
  frame.body = in.bytes(length);
  if (!in.ok() || magic != kFrameMagic || length > kFrameBytesMax - kFrameHeaderBytes || frame.first < 1)
    return std::nullopt;
  if (crc != frameCrc(segment, position, bytes.subspan(8, kFrameHeaderBytes - 8 + length))) return std::nullopt;
  ByteReader body(frame.body);
  for (uint32_t i = 0; i < frame.count && body.ok(); ++i) {
    body.skip(9);
    body.skip(body.uint32());
  }
  if (!body.ok() || !body.atEnd()) return std::nullopt;
  return frame;
}

std::vector<EntryView> entriesOf(const Frame& frame) {
  std::vector<EntryView> entries;
  ByteReader in(frame.body);
  for (uint32_t i = 0; i < frame.count; ++i) {
    EntryView entry;
    entry.index = frame.first + i;
    entry.term = in.int64();
    entry.type = static_cast<EntryType>(in.int8());
    entry.data = in.bytes(in.uint32());
    MQ_CHECK(in.ok(), frame.first, i);
    entries.push_back(entry);
  }
  return entries;
}

std::optional<size_t> findFrame(int64_t segment, uint64_t position, Bytes bytes) {
  uint8_t magic[4];
  storeBigEndian(magic, kFrameMagic);
  std::string_view text = asText(bytes);
  for (size_t at = 1; (at = text.find(asText(magic), at)) != text.npos; ++at)
    if (decodeFrame(segment, position + at, bytes.subspan(at))) return at;
  return std::nullopt;
}

Buffer encodeSnapshotHeader(const SnapshotHeader& header) {
  Buffer bytes;
  ByteWriter out(bytes);
  beginHeader(out, kSnapshotMagic);
  out.int32(0);
  out.int64(header.id.index);
  out.int64(header.id.term);
  out.int64(static_cast<int64_t>(header.dataBytes));
  return endHeader(std::move(bytes), kSnapshotHeaderBytes);
}

Decoded<SnapshotHeader> decodeSnapshotHeader(Bytes bytes) {
  auto in = openHeader(bytes, kSnapshotMagic, kSnapshotHeaderBytes);
  if (!in) return std::unexpected(in.error());
  in->skip(4);
  SnapshotHeader header;
  header.id.index = in->int64();
  header.id.term = in->int64();
  header.dataBytes = static_cast<uint64_t>(in->int64());
  return header;
}

uint64_t snapshotFileBytes(uint64_t dataBytes) {
  uint64_t chunks = dataBytes / kSnapshotChunkBytes + (dataBytes % kSnapshotChunkBytes != 0);
  return kSnapshotHeaderBytes + dataBytes + 4 * chunks;
}

Buffer encodeSnapshotChunk(int64_t number, Bytes data) {
  MQ_CHECK(data.size() <= kSnapshotChunkBytes, data.size());
  uint8_t place[8];
  storeBigEndian(place, number);
  Buffer bytes;
  bytes.reserve(4 + data.size());
  ByteWriter out(bytes);
  out.uint32(crc32c(data, crc32c(place)));
  out.bytes(data);
  return bytes;
}

Decoded<Bytes> decodeSnapshotChunk(int64_t number, Bytes chunk) {
  uint8_t place[8];
  storeBigEndian(place, number);
  ByteReader in(chunk);
  uint32_t crc = in.uint32();
  Bytes data = in.rest();
  if (!in.ok() || crc != crc32c(data, crc32c(place)))
    return std::unexpected(fmt::format("the checksum of its chunk {} is wrong", number));
  return data;
}

std::string segmentName(int64_t number) { return fmt::format("{:010}.log", number); }
std::string snapshotName(SnapshotId id) { return fmt::format("{:020}-{}.snapshot", id.index, id.term); }

std::optional<int64_t> parseSegmentName(std::string_view name) {
  int64_t number = 0;
  if (!name.ends_with(".log") || !parseNumber(name.substr(0, name.size() - 4), &number)) return std::nullopt;
  if (segmentName(number) != name) return std::nullopt;
  return number;
}

std::optional<SnapshotId> parseSnapshotName(std::string_view name) {
  SnapshotId id;
  size_t dash = name.find('-');
  if (dash == name.npos || !name.ends_with(".snapshot") || !parseNumber(name.substr(0, dash), &id.index))
    return std::nullopt;
  name.remove_suffix(9);
  if (!parseNumber(name.substr(dash + 1), &id.term)) return std::nullopt;
  return id;
}

}  // namespace mq::controller::log_format

// The bytes of the metadata log on disk. Final: what is written today opens in every later build. Pure; raft_log.h uses
// it.
//
// All integers are big-endian. Checksums are CRC-32C. Zero means reserved: written as zero, not read.
//
//   state                         two equal copies, at 0 and 4096
//     0 "MQST"  4 crc of [8, 64)  8 version int16 = 1  10 zero int16  12 node int32  16 directory uuid
//     32 sequence int64 (of this change)  40 term int64  48 vote int32 (-1 none)  52 zero int32
//     56 active segment int64
//
//   0000000001.log                segments in the order of their numbers
//     0 "MQSG"  4 crc of [8, 40)  8 version int16 = 1  10 zero int16  12 zero int32  16 segment number int64
//     24 index of the next entry int64  32 term of the entry before it int64
//     40 frames, then zeros set aside for more
//   frame
//     0 "MQFR"  4 crc  8 length of the body uint32  12 number of entries uint32  16 index of the first one int64
//     24 body: per entry  term int64  type uint8  length uint32  data
//     crc covers segment number int64, position of the frame in the file int64, then the frame from 8 to its end: a
//     frame is whole only where it was written, so bytes of a frame inside somebody's config value are not one.
//
//   00000000000000000042-7.snapshot   state after entry 42, of term 7
//     0 "MQSN"  4 crc of [8, 40)  8 version int16 = 1  10 zero int16  12 zero int32  16 index int64  24 term int64
//     32 length of the data int64
//     40 chunks of 64 KiB (the last may be shorter): crc uint32 of (number of the chunk int64, its data), data
//
// A frame is what one sync made durable; it is written only after the sync of the frame before has returned. Its first
// index is at most one past the last entry so far; where it is lower, it replaces the entries from there on (Raft's
// conflicting suffix), which stay in the file, dead. A frame without entries says that the log was closed cleanly.
//
// Example: entries 7 (term 2, "hi") and 8 (term 2, nothing, type 0) in one frame, at 40 in segment 1:
//
//   4d514652 d2bda591 0000001c 00000002 0000000000000007                      magic crc length count first
//   0000000000000002 01 00000002 6869   0000000000000002 00 00000000          entry 7, entry 8
#pragma once
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/types.h"
#include "raft/types.h"

namespace mq::controller {

using raft::EntryType;
using raft::HardState;
using raft::SnapshotId;
using LogEntry = raft::Entry;

namespace log_format {

inline constexpr int16_t kVersion = 1;
inline constexpr size_t kStateCopyBytes = 64;
inline constexpr uint64_t kStateSecondCopyAt = 4096;
inline constexpr size_t kSegmentHeaderBytes = 40;
inline constexpr size_t kFrameHeaderBytes = 24;
inline constexpr size_t kEntryHeaderBytes = 13;
inline constexpr size_t kFrameBytesMax = 64 << 20;
inline constexpr size_t kEntryBytesMax = 16
                                         << 20;  // of data; so that one always fits into a frame and a peer's message
inline constexpr size_t kSnapshotHeaderBytes = 40;
inline constexpr size_t kSnapshotChunkBytes = 64 << 10;

// Why bytes were not taken: a text that goes behind the name of the file.
template <class T>
using Decoded = std::expected<T, std::string>;

struct State {
  NodeId node = kNoNode;
  Uuid directory;
  int64_t sequence = 0;
  HardState hard;
  int64_t activeSegment = 0;
  friend bool operator==(const State&, const State&) = default;
};
Buffer encodeState(const State& state);  // one copy
Decoded<State> decodeState(Bytes bytes);

struct SegmentHeader {
  int64_t number = 0;
  int64_t nextIndex = 1;
  int64_t previousTerm = 0;
  friend bool operator==(const SegmentHeader&, const SegmentHeader&) = default;
};
Buffer encodeSegmentHeader(const SegmentHeader& header);
Decoded<SegmentHeader> decodeSegmentHeader(Bytes bytes);

struct Frame {
  int64_t first = 0;
  uint32_t count = 0;
  Bytes body;
  size_t bytes() const { return kFrameHeaderBytes + body.size(); }
};
size_t frameBytes(std::span<const LogEntry> entries);
// Entries with consecutive indexes; none: the mark of a clean close, with `first` the next index.
Buffer encodeFrame(int64_t segment, uint64_t position, int64_t first, std::span<const LogEntry> entries);
// The frame at the front of `bytes`, which start at `position` of the segment's file; nullopt: no whole one.
std::optional<Frame> decodeFrame(int64_t segment, uint64_t position, Bytes bytes);
// Views into the frame. MQ_CHECKs that the frame came from decodeFrame.
struct EntryView {
  int64_t index;
  int64_t term;
  EntryType type;
  Bytes data;
};
std::vector<EntryView> entriesOf(const Frame& frame);
// Where behind the front of `bytes` a whole frame begins; nullopt: nowhere.
std::optional<size_t> findFrame(int64_t segment, uint64_t position, Bytes bytes);

struct SnapshotHeader {
  SnapshotId id;
  uint64_t dataBytes = 0;
};
Buffer encodeSnapshotHeader(const SnapshotHeader& header);
Decoded<SnapshotHeader> decodeSnapshotHeader(Bytes bytes);
uint64_t snapshotFileBytes(uint64_t dataBytes);
Buffer encodeSnapshotChunk(int64_t number, Bytes data);
Decoded<Bytes> decodeSnapshotChunk(int64_t number, Bytes chunk);  // the data in it

std::string segmentName(int64_t number);
std::string snapshotName(SnapshotId id);
std::optional<int64_t> parseSegmentName(std::string_view name);
std::optional<SnapshotId> parseSnapshotName(std::string_view name);

}  // namespace log_format
}  // namespace mq::controller

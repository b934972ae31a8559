// Where to begin and where to stop, as people write it:
//
//   RANGE := POINT | [POINT] ":" [POINT]
//   POINT := start | beginning | end | stored | N | -N | +N | @TIME | s@MS | e@MS
//   TIME  := epoch seconds (10 digits) | epoch ms (13) | RFC 3339 | DATE | -DUR | +DUR
//
// -N counts back from the end, +N on from the start. The longest TIME wins. An upper bound is exclusive and pinned when
// the command starts; without one the reader follows. A date or time without a zone is local. "stored", what a group
// has committed, belongs to members of one, and is where they begin when nothing else is said.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client.h"

namespace mq::cli {

struct OffsetPoint {
  enum class Kind { start, end, stored, absolute, fromEnd, fromStart, time } kind = Kind::start;
  int64_t value = 0;  // offset, distance, or milliseconds since 1970
};

struct OffsetRange {
  OffsetPoint from;
  std::optional<OffsetPoint> to;
};

// The message says which part is not understood. `nowMs` is the wall clock, for -DUR and +DUR.
enum class OffsetsOf { log, group };
Result<OffsetRange> parseOffsetRange(std::string_view text, int64_t nowMs, OffsetsOf whose = OffsetsOf::log);

enum class Read { committed, uncommitted };

struct PartitionBounds {
  int64_t from = 0;
  std::optional<int64_t> to;  // exclusive
};

// Bounds of each partition, resolved now. `untilEnd`: an upper bound that is not given is the present end (-e).
// "stored" is as good as the start here: only the group knows better.
std::map<int32_t, PartitionBounds> resolveBounds(Client& client, const std::string& topic,
                                                 const std::vector<int32_t>& partitions, const OffsetRange& range,
                                                 bool untilEnd, Read read);

// Offsets for one timestamp (or special one, such as -1 latest, -2 earliest, -3 largest timestamp) of each partition;
// -1 where there is none. Ends the command on an error.
std::map<int32_t, int64_t> listOffsets(Client& client, const std::string& topic, const std::vector<int32_t>& partitions,
                                       int64_t timestamp, Read read);

// Partition numbers of a topic that is there; ends the command with 5 and the create command otherwise.
std::vector<int32_t> partitionsOf(Client& client, const std::string& topic);

}  // namespace mq::cli

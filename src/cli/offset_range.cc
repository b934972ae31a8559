#include "cli/offset_range.h"

#include <algorithm>
#include <charconv>
#include <ctime>

#include "wire/list_offsets_request.h"
#include "wire/list_offsets_response.h"

namespace mq::cli {
namespace {

bool wholeNumber(std::string_view text, int64_t* value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// "90s", "1h30m", "2d", "250ms"; milliseconds.
bool duration(std::string_view text, int64_t* value) {
  struct Unit {
    std::string_view name;
    int64_t ms;
  };
  static constexpr Unit units[] = {{"ms", 1},        {"s", 1000},       {"m", 60'000},
                                   {"h", 3'600'000}, {"d", 86'400'000}, {"w", 604'800'000}};
  int64_t total = 0;
  if (text.empty()) return false;
  while (!text.empty()) {
    size_t digits = text.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string_view::npos || digits > 12) return false;
    int64_t number = 0;
    if (!wholeNumber(text.substr(0, digits), &number)) return false;
    text.remove_prefix(digits);
    size_t letters = std::min(text.find_first_of("0123456789"), text.size());
    const Unit* unit = std::find_if(std::begin(units), std::end(units),
                                    [&](const Unit& u) { return u.name == text.substr(0, letters); });
    if (unit == std::end(units) || __builtin_mul_overflow(number, unit->ms, &number) ||
        __builtin_add_overflow(total, number, &total))
      return false;
    text.remove_prefix(letters);
  }
  *value = total;
  return true;
}

// RFC 3339 with any precision below seconds; a date alone, or no zone: local time.
bool calendar(std::string_view text, int64_t* ms) {
  std::tm parts{};
  auto number = [&](size_t digits, int* into) {
    int64_t value = 0;
    if (text.size() < digits || !wholeNumber(text.substr(0, digits), &value) || text[0] == '-') return false;
    *into = static_cast<int>(value);
    text.remove_prefix(digits);
    return true;
  };
  auto literal = [&](std::string_view any) {
    if (text.empty() || any.find(text[0]) == std::string_view::npos) return false;
    text.remove_prefix(1);
    return true;
  };
  int year, month, day, hour = 0, minute = 0, second = 0;
  if (!number(4, &year) || !literal("-") || !number(2, &month) || !literal("-") || !number(2, &day)) return false;
  int64_t fraction = 0;
  bool zoned = false;
  int zoneMinutes = 0;
  if (!text.empty()) {
    if (!literal("Tt ") || !number(2, &hour) || !literal(":") || !number(2, &minute)) return false;
    if (literal(":")) {
      if (!number(2, &second)) return false;
      if (literal(".")) {
        int64_t scale = 100;
        if (text.empty() || text[0] < '0' || text[0] > '9') return false;
        while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
          fraction += (text[0] - '0') * scale;
          scale /= 10;
          text.remove_prefix(1);
        }
      }
    }
    if (literal("Zz")) {
      zoned = true;
    } else if (!text.empty()) {
      int sign = text[0] == '-' ? -1 : 1;
      int zoneHour = 0, zoneMinute = 0;
      if (!literal("+-") || !number(2, &zoneHour)) return false;
      literal(":");
      if (!number(2, &zoneMinute) || zoneHour > 23 || zoneMinute > 59) return false;
      zoned = true;
      zoneMinutes = sign * (zoneHour * 60 + zoneMinute);
    }
    if (!text.empty()) return false;
  }
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60) return false;
  parts.tm_year = year - 1900;
  parts.tm_mon = month - 1;
  parts.tm_mday = day;
  parts.tm_hour = hour;
  parts.tm_min = minute;
  parts.tm_sec = second;
  parts.tm_isdst = -1;
  std::tm asked = parts;
  int64_t seconds = zoned ? timegm(&parts) : mktime(&parts);
  if (parts.tm_mday != asked.tm_mday) return false;  // the 30th of February
  *ms = (seconds - zoneMinutes * 60) * 1000 + fraction;
  return true;
}

bool parseTime(std::string_view text, int64_t nowMs, int64_t* ms) {
  int64_t value = 0;
  if (text.size() == 13 && wholeNumber(text, &value)) return *ms = value, true;
  if (text.size() == 10 && text.find('-') == std::string_view::npos && wholeNumber(text, &value))
    return *ms = value * 1000, true;
  if (text.size() > 1 && (text[0] == '-' || text[0] == '+') && duration(text.substr(1), &value)) {
    if (text[0] == '-') return *ms = nowMs - value, true;
    return !__builtin_add_overflow(nowMs, value, ms);
  }
  return calendar(text, ms);
}

std::optional<OffsetPoint> parsePoint(std::string_view text, int64_t nowMs) {
  using Kind = OffsetPoint::Kind;
  int64_t value = 0;
  if (text == "start" || text == "beginning") return OffsetPoint{Kind::start, 0};
  if (text == "end") return OffsetPoint{Kind::end, 0};
  if (text == "stored") return OffsetPoint{Kind::stored, 0};
  if (text.starts_with('@')) {
    if (!parseTime(text.substr(1), nowMs, &value)) return std::nullopt;
    // Before 1970 there is nothing, and to a broker -1 and -2 mean the end and the start.
    return OffsetPoint{Kind::time, std::max<int64_t>(value, 0)};
  }
  if (text.starts_with("s@") || text.starts_with("e@")) {
    if (!wholeNumber(text.substr(2), &value) || value < 0) return std::nullopt;
    return OffsetPoint{Kind::time, value};
  }
  bool signedNumber = text.size() > 1 && (text[0] == '-' || text[0] == '+');
  if (!wholeNumber(text.substr(signedNumber ? 1 : 0), &value) || value < 0) return std::nullopt;
  if (!signedNumber) return OffsetPoint{Kind::absolute, value};
  return OffsetPoint{text[0] == '-' ? Kind::fromEnd : Kind::fromStart, value};
}

Result<OffsetRange> parseRange(std::string_view text, int64_t nowMs, OffsetPoint otherwise) {
  auto refuse = [&](std::string_view part) {
    return failure(
        Error::invalidRequest,
        "'{}' is no offset: start, end, N, -N (from the end), +N (from the start) or @TIME, or two of them as FROM:TO",
        part);
  };
  OffsetRange range{.from = otherwise};
  // kcat's pair: s@FROM e@TO, where e@ alone is an upper bound.
  if (text.starts_with("e@")) {
    auto to = parsePoint(text, nowMs);
    if (!to) return refuse(text);
    range.to = *to;
    return range;
  }
  if (auto whole = parsePoint(text, nowMs)) {  // also a time with colons in it
    range.from = *whole;
    return range;
  }
  // The longest time wins: split at the colon that leaves the longest valid left side.
  for (size_t at = text.rfind(':'); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : text.rfind(':', at - 1)) {
    std::string_view left = text.substr(0, at), right = text.substr(at + 1);
    auto from = left.empty() ? std::optional(otherwise) : parsePoint(left, nowMs);
    if (!from) continue;
    range.from = *from;
    if (!right.empty()) {
      // @A:B is short for @A:@B.
      auto to = parsePoint(right, nowMs);
      if (!to && left.starts_with('@')) to = parsePoint(std::string("@") + std::string(right), nowMs);
      if (!to) continue;
      range.to = *to;
    }
    return range;
  }
  return refuse(text);
}

}  // namespace

Result<OffsetRange> parseOffsetRange(std::string_view text, int64_t nowMs, OffsetsOf whose) {
  using Kind = OffsetPoint::Kind;
  bool isGroup = whose == OffsetsOf::group;
  auto range = parseRange(text, nowMs, OffsetPoint{isGroup ? Kind::stored : Kind::start, 0});
  if (!range) return range;
  if (range->to && range->to->kind == Kind::stored)
    return Failure(Error::invalidRequest, "'stored' is where a group begins, not where it stops");
  if (!isGroup && range->from.kind == Kind::stored)
    return Failure(Error::invalidRequest, "'stored' is for members of a consumer group");
  return range;
}

std::vector<int32_t> partitionsOf(Client& client, const std::string& topic) {
  std::vector<std::string> names = {topic};
  auto metadata = client.metadata(&names);
  Error error = metadata.topics.empty() ? Error::unknownTopicOrPartition : metadata.topics[0].errorCode;
  if (error == Error::unknownTopicOrPartition) {
    fail(exitNotFound, "topic '{}' does not exist on {} ({} {}); create it with: mq topic create {} -b {}", topic,
         client.where(), kafkaName(error), static_cast<int>(error), topic, client.where());
  }
  if (error != Error::none) fail(exitCodeOf(error), "topic '{}': {}", topic, describeError(error, std::nullopt));
  std::vector<int32_t> partitions;
  for (const auto& partition : metadata.topics[0].partitions) partitions.push_back(partition.partitionIndex);
  std::sort(partitions.begin(), partitions.end());
  return partitions;
}

std::map<int32_t, int64_t> listOffsets(Client& client, const std::string& topic, const std::vector<int32_t>& partitions,
                                       int64_t timestamp, Read read) {
  std::vector<std::string> names = {topic};
  auto metadata = client.metadata(&names);
  std::map<int32_t, std::vector<int32_t>> byLeader;
  for (const auto& found : metadata.topics.empty() ? std::vector<wire::MetadataResponse::MetadataResponsePartition>()
                                                   : metadata.topics[0].partitions) {
    if (std::find(partitions.begin(), partitions.end(), found.partitionIndex) == partitions.end()) continue;
    if (found.leaderId < 0) {
      fail(exitFailed, "{}-{} has no leader: {}", topic, found.partitionIndex,
           describeError(found.errorCode, std::nullopt));
    }
    byLeader[found.leaderId].push_back(found.partitionIndex);
  }
  std::map<int32_t, int64_t> offsets;
  for (const auto& [leader, indexes] : byLeader) {
    wire::ListOffsetsRequest request;
    request.replicaId = -1;
    request.isolationLevel = read == Read::committed ? 1 : 0;
    request.topics.emplace_back();
    request.topics[0].name = topic;
    for (int32_t index : indexes) {
      request.topics[0].partitions.emplace_back();
      request.topics[0].partitions.back().partitionIndex = index;
      request.topics[0].partitions.back().timestamp = timestamp;
    }
    request.timeoutMs = 10'000;
    auto response = client.call(request, leader);
    for (const auto& found : response.topics.empty()
                                 ? std::vector<wire::ListOffsetsResponse::ListOffsetsPartitionResponse>()
                                 : response.topics[0].partitions) {
      if (found.errorCode != Error::none) {
        fail(exitCodeOf(found.errorCode), "{}-{} on {}: {}", topic, found.partitionIndex, client.where(),
             describeError(found.errorCode, std::nullopt));
      }
      offsets[found.partitionIndex] = found.offset;
    }
  }
  for (int32_t index : partitions) {
    if (!offsets.contains(index)) fail(exitNotFound, "topic '{}' has no partition {}", topic, index);
  }
  return offsets;
}

std::map<int32_t, PartitionBounds> resolveBounds(Client& client, const std::string& topic,
                                                 const std::vector<int32_t>& partitions, const OffsetRange& range,
                                                 bool untilEnd, Read read) {
  using Kind = OffsetPoint::Kind;
  auto starts = listOffsets(client, topic, partitions, -2, Read::uncommitted);
  auto ends = listOffsets(client, topic, partitions, -1, read);
  auto resolve = [&](const OffsetPoint& point) {
    std::map<int32_t, int64_t> at;
    std::map<int32_t, int64_t> times;
    if (point.kind == Kind::time) times = listOffsets(client, topic, partitions, point.value, read);
    for (int32_t partition : partitions) {
      int64_t start = starts[partition], end = ends[partition];
      switch (point.kind) {
        case Kind::start:
        case Kind::stored: at[partition] = start; break;
        case Kind::end: at[partition] = end; break;
        case Kind::absolute: at[partition] = point.value; break;
        case Kind::fromEnd: at[partition] = std::max(start, end - point.value); break;
        case Kind::fromStart: at[partition] = start + point.value; break;
        case Kind::time: at[partition] = times[partition] < 0 ? end : times[partition]; break;
      }
    }
    return at;
  };
  auto from = resolve(range.from);
  std::map<int32_t, int64_t> to;
  if (range.to) to = resolve(*range.to);
  std::map<int32_t, PartitionBounds> bounds;
  for (int32_t partition : partitions) {
    PartitionBounds& row = bounds[partition];
    // What retention has taken cannot be read; begin with what there is.
    row.from = std::max(from[partition], starts[partition]);
    if (range.to) row.to = to[partition];
    if (untilEnd) row.to = std::min(row.to.value_or(ends[partition]), ends[partition]);
  }
  return bounds;
}

}  // namespace mq::cli

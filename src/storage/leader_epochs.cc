#include "storage/leader_epochs.h"

#include <algorithm>

#include "storage/text_lines.h"

namespace mq::storage {

bool LeaderEpochs::assign(LeaderEpoch epoch, Offset start) {
  if (!entries_.empty() && epoch <= entries_.back().epoch) return false;
  while (!entries_.empty() && entries_.back().start >= start) entries_.pop_back();
  entries_.push_back({epoch, start});
  return true;
}

std::optional<LeaderEpoch> LeaderEpochs::latest() const {
  if (entries_.empty()) return std::nullopt;
  return entries_.back().epoch;
}

std::optional<LeaderEpoch> LeaderEpochs::epochOf(Offset offset) const {
  auto behind = std::ranges::upper_bound(entries_, offset, {}, &EpochStart::start);
  if (behind == entries_.begin()) return std::nullopt;
  return (behind - 1)->epoch;
}

std::optional<EpochBoundary> LeaderEpochs::endOffsetFor(LeaderEpoch epoch, Offset logEnd) const {
  if (entries_.empty() || epoch > entries_.back().epoch) return std::nullopt;
  if (epoch == entries_.back().epoch) return EpochBoundary{epoch, logEnd};
  auto higher = std::ranges::upper_bound(entries_, epoch, {}, &EpochStart::epoch);
  LeaderEpoch known = higher == entries_.begin() ? epoch : (higher - 1)->epoch;
  return EpochBoundary{known, higher->start};
}

bool LeaderEpochs::truncateFromEnd(Offset end) {
  size_t before = entries_.size();
  while (!entries_.empty() && entries_.back().start >= end) entries_.pop_back();
  return entries_.size() != before;
}

bool LeaderEpochs::truncateFromStart(Offset start) {
  auto behind = std::ranges::upper_bound(entries_, start, {}, &EpochStart::start);
  if (behind == entries_.begin()) return false;
  auto covering = behind - 1;
  if (covering == entries_.begin() && covering->start == start) return false;
  covering->start = start;
  entries_.erase(entries_.begin(), covering);
  return true;
}

std::string LeaderEpochs::encode() const {
  std::string text = fmt::format("0\n{}\n", entries_.size());
  for (const EpochStart& entry : entries_) text += fmt::format("{} {}\n", entry.epoch, entry.start);
  return text;
}

Result<LeaderEpochs> LeaderEpochs::decode(std::string_view text) {
  LeaderEpochs epochs;
  auto parsed = forEachLine(text, [&](std::string_view line) -> std::string {
    std::optional<int64_t> epoch, start;
    size_t space = line.find(' ');
    if (space != std::string_view::npos) {
      epoch = parseNumber(line.substr(0, space), INT32_MAX);
      start = parseNumber(line.substr(space + 1), INT64_MAX);
    }
    if (!epoch || !start) return "not an epoch and an offset";
    EpochStart entry{LeaderEpoch(static_cast<int32_t>(*epoch)), Offset(*start)};
    if (!epochs.entries_.empty()) {
      const EpochStart& before = epochs.entries_.back();
      if (entry.epoch <= before.epoch || entry.start <= before.start) return "epochs and offsets do not grow";
    }
    epochs.entries_.push_back(entry);
    return {};
  });
  if (!parsed) return parsed.failure();
  return epochs;
}

}  // namespace mq::storage

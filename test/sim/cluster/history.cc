#include "history.h"

#include <fmt/format.h>
#include <kj/debug.h>

#include "base/check.h"
#include "base/random.h"

namespace mq::sim {
namespace {

constexpr uint64_t kValueBytesMax = 3000;

template <class... Args>
[[noreturn]] void violated(const char* check, fmt::format_string<Args...> format, Args&&... args) {
  std::string what = fmt::format("{}: {}", check, fmt::format(format, std::forward<Args>(args)...));
  kj::throwFatalException(KJ_EXCEPTION(FAILED, kj::str(what.c_str())));
}

std::string text(RecordId id) { return fmt::format("{}/{}", id.producer, id.number); }

}  // namespace

std::string valueOf(RecordId id) {
  std::string value = text(id) + " ";
  Prng random((static_cast<uint64_t>(id.producer) << 32) | id.number);
  // Mostly small ones; a run of equal letters here and there, so that codecs have something to do.
  uint64_t length = random.chance(1, 8) ? random.between(0, kValueBytesMax) : random.between(0, 120);
  while (value.size() < length) {
    char letter = static_cast<char>('a' + random.between(0, 25));
    value.append(random.between(1, 12), letter);
  }
  return value;
}

std::optional<RecordId> readValue(Bytes value) {
  std::string_view whole = asText(value);
  RecordId id;
  size_t slash = whole.find('/'), space = whole.find(' ');
  if (slash == std::string_view::npos || space == std::string_view::npos || slash > space) return std::nullopt;
  auto number = [&](std::string_view digits, uint32_t* into) {
    uint64_t sum = 0;
    if (digits.empty() || digits.size() > 10) return false;
    for (char digit : digits) {
      if (digit < '0' || digit > '9') return false;
      sum = sum * 10 + static_cast<uint64_t>(digit - '0');
    }
    *into = static_cast<uint32_t>(sum);
    return sum <= UINT32_MAX;
  };
  if (!number(whole.substr(0, slash), &id.producer)) return std::nullopt;
  if (!number(whole.substr(slash + 1, space - slash - 1), &id.number)) return std::nullopt;
  if (valueOf(id) != whole) return std::nullopt;
  return id;
}

void History::creating(const std::string& topic) { topics_.try_emplace(topic); }
void History::created(const std::string& topic) { topics_[topic].created = true; }
void History::deleting(const std::string& topic) { topics_[topic].deleting = true; }
void History::deleted(const std::string& topic) { topics_[topic].deleted = true; }

bool History::mayBeDeleted(const std::string& topic) const {
  auto at = topics_.find(topic);
  return at == topics_.end() || at->second.deleting;
}

std::vector<std::string> History::livingTopics() const {
  std::vector<std::string> names;
  for (const auto& [name, topic] : topics_) {
    if (topic.created && !topic.deleting) names.push_back(name);
  }
  return names;
}

void History::sending(RecordId id, const TopicPartition& to, bool idempotent) {
  Sent& sent = sent_[id];
  sent.to = to;
  sent.idempotent = idempotent;
  ++sent.attempts;
}

void History::acknowledged(RecordId id, int64_t offset) {
  Sent& sent = sent_.at(id);
  // A retry of a batch that is there already is told where it is; one without idempotence may be there twice.
  if (sent.ackedAt && sent.idempotent && *sent.ackedAt != offset)
    violated("unique", "{} was acknowledged at {} and at {} of {}", text(id), *sent.ackedAt, offset, sent.to);
  if (!sent.ackedAt) ++acked_;
  sent.ackedAt = offset;
}

void History::seen(const TopicPartition& partition, const StoredRecord& record) {
  auto [at, isNew] = seen_[partition].try_emplace(record.offset, record.id);
  if (!isNew && at->second != record.id) {
    violated("stable", "offset {} of {} was {} and is {}", record.offset, partition, text(at->second), text(record.id));
  }
}

void History::trimming(const TopicPartition& partition, int64_t offset) {
  Trim& trim = trims_[partition];
  trim.asked = std::max(trim.asked, offset);
}
void History::trimmed(const TopicPartition& partition, int64_t logStart) {
  Trim& trim = trims_[partition];
  trim.acknowledged = std::max(trim.acknowledged, logStart);
}

bool History::mayBeTrimmed(const TopicPartition& partition, int64_t offset) const {
  auto trim = trims_.find(partition);
  return trim != trims_.end() && trim->second.asked > offset;
}

uint64_t History::seenRecords() const {
  uint64_t sum = 0;
  for (const auto& [partition, records] : seen_) sum += records.size();
  return sum;
}

void History::check(const std::map<TopicPartition, FinalPartition>& cluster) const {
  std::set<std::string> there;
  for (const auto& [name, partition] : cluster) there.insert(name.topic);
  for (const auto& [name, topic] : topics_) {
    if (topic.created && !topic.deleting && !there.contains(name))
      violated("topics", "{} was created and is gone", name);
    if (topic.deleted && there.contains(name)) violated("topics", "{} was deleted and is there", name);
  }
  for (const std::string& name : there) {
    if (!topics_.contains(name)) violated("topics", "{} was never created", name);
  }
  for (const auto& [name, partition] : cluster) checkPartition(name, partition);

  for (const auto& [id, sent] : sent_) {
    if (!sent.ackedAt || mayBeDeleted(sent.to.topic)) continue;
    auto at = cluster.find(sent.to);
    if (at == cluster.end()) violated("acked-present", "{} of {}: the partition is gone", text(id), sent.to);
    const FinalPartition& partition = at->second;
    if (*sent.ackedAt < partition.logStart) continue;  // "start" says whether that is allowed
    auto place = static_cast<size_t>(*sent.ackedAt - partition.logStart);
    if (place >= partition.records.size() || partition.records[place].id != id) {
      violated("acked-present", "{} was acknowledged at {} of {}; there is {} (log start {}, high watermark {})",
               text(id), *sent.ackedAt, sent.to,
               place < partition.records.size() ? text(partition.records[place].id) : "nothing", partition.logStart,
               partition.highWatermark);
    }
  }
}

void History::checkPartition(const TopicPartition& name, const FinalPartition& partition) const {
  auto trim = trims_.find(name);
  int64_t asked = trim == trims_.end() ? 0 : trim->second.asked;
  int64_t acknowledged = trim == trims_.end() ? 0 : trim->second.acknowledged;
  if (partition.logStart > asked)
    violated("start", "{} begins at {}, though deletion was asked up to {} only", name, partition.logStart, asked);
  if (partition.logStart < acknowledged)
    violated("start", "{} begins at {}, though deletion up to {} was acknowledged", name, partition.logStart,
             acknowledged);

  int64_t next = partition.logStart;
  std::map<RecordId, int64_t> places;
  std::map<uint32_t, uint32_t> last;  // of each idempotent producer
  for (const StoredRecord& record : partition.records) {
    if (record.offset != next) violated("gapless", "{} has offset {} where {} must be", name, record.offset, next);
    ++next;
    auto sent = sent_.find(record.id);
    if (sent == sent_.end() || !(sent->second.to == name))
      violated("no-phantom", "{} at {} of {} was never sent there", text(record.id), record.offset, name);
    auto [first, isNew] = places.try_emplace(record.id, record.offset);
    bool retried = sent->second.attempts > 1;
    if (!isNew && (sent->second.idempotent || !retried)) {
      violated("unique", "{} is at {} and at {} of {}", text(record.id), first->second, record.offset, name);
    }
    if (sent->second.idempotent) {
      auto [before, isFirst] = last.try_emplace(record.id.producer, record.id.number);
      if (!isFirst && before->second >= record.id.number) {
        violated("order", "{} at {} of {} comes behind number {}", text(record.id), record.offset, name,
                 before->second);
      }
      before->second = record.id.number;
    }
  }
  if (next != partition.highWatermark) {
    violated("gapless", "{} can be read up to {}, its high watermark is {}", name, next, partition.highWatermark);
  }
  if (auto seen = seen_.find(name); seen != seen_.end() && !mayBeDeleted(name.topic)) {
    for (const auto& [offset, id] : seen->second) {
      if (offset < partition.logStart) continue;
      auto place = static_cast<size_t>(offset - partition.logStart);
      if (place >= partition.records.size()) {
        violated("stable", "a reader was shown {} at {} of {}, which ends at {}", text(id), offset, name, next);
      }
      if (partition.records[place].id != id) {
        violated("stable", "a reader was shown {} at {} of {}; now it is {}", text(id), offset, name,
                 text(partition.records[place].id));
      }
    }
  }
}

}  // namespace mq::sim

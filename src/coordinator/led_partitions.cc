#include "coordinator/led_partitions.h"

#include <algorithm>

namespace mq::coordinator {
namespace {

// The UTF-16 code units of UTF-8 text, which Java hashes. What is not UTF-8 counts as one replacement character a byte.
template <class Fn>
void forEachUnit(std::string_view text, Fn fn) {
  constexpr uint32_t kReplacement = 0xFFFD;
  for (size_t at = 0; at < text.size();) {
    auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
    size_t length = byte(0) < 0x80 ? 1 : byte(0) >> 5 == 6 ? 2 : byte(0) >> 4 == 14 ? 3 : byte(0) >> 3 == 30 ? 4 : 0;
    uint32_t point = length == 1 ? byte(0) : length == 2 ? byte(0) & 0x1F : length == 3 ? byte(0) & 0xF : byte(0) & 7;
    bool whole = length > 0 && at + length <= text.size();
    for (size_t i = 1; whole && i < length; ++i) {
      whole = byte(i) >> 6 == 2;
      point = point << 6 | (byte(i) & 0x3F);
    }
    if (!whole) {
      fn(kReplacement);
      ++at;
      continue;
    }
    at += length;
    if (point >= 0x10000) {
      fn(0xD800 + ((point - 0x10000) >> 10));
      fn(0xDC00 + ((point - 0x10000) & 0x3FF));
    } else {
      fn(point);
    }
  }
}

}  // namespace

int32_t partitionOf(std::string_view name, int32_t partitions) {
  uint32_t hash = 0;
  forEachUnit(name, [&](uint32_t unit) { hash = hash * 31 + unit; });
  // Kafka takes the absolute value, and of the one number that has none 0.
  constexpr uint32_t kLowest = 0x80000000;
  if (hash == kLowest) return 0;
  uint32_t magnitude = hash > kLowest ? ~hash + 1 : hash;
  return static_cast<int32_t>(magnitude % static_cast<uint32_t>(partitions));
}

LedPartitions::LedPartitions(Shard& shard, replica::Partitions& partitions, controller::MetadataFeed& feed,
                             Options options, Make make)
    : shard_(shard), partitions_(partitions), feed_(feed), options_(std::move(options)), make_(std::move(make)) {
  subscription_ = feed.subscribe([this](const metadata::ImageRef& image, const metadata::Delta&) { follow(*image); });
}

LedPartitions::~LedPartitions() { stop(); }

void LedPartitions::stop() {
  stopped_ = true;
  runtimes_.clear();
}

void LedPartitions::follow(const metadata::Image& image) {
  if (stopped_) return;
  metadata::TopicRef topic = image.topic(options_.topic);
  std::erase_if(runtimes_, [&](const auto& entry) {
    const Led& led = entry.second;
    if (topic == nullptr || topic->id != led.topic) return true;
    const metadata::Partition* now = topic->partition(entry.first);
    return now == nullptr || now->leader != options_.node || now->leaderEpoch != led.epoch;
  });
  for (int32_t index = 0; topic != nullptr && index < topic->partitionCount(); ++index) {
    TopicIdPartition id{topic->id, index};
    const metadata::Partition& partition = *topic->partition(index);
    if (replica::shardOf(id, shard_.count()) != shard_.index() || partition.leader != options_.node) continue;
    if (runtimes_.contains(index)) continue;
    LeaderEpoch epoch = partition.leaderEpoch;
    auto runtime = std::make_unique<Runtime>(shard_, partitions_, feed_, loads_,
                                             Runtime::Options{id, {options_.topic, index}, options_.commitWithin},
                                             [this, index, epoch] { return make_(index, epoch); });
    runtimes_.emplace(index, Led{topic->id, epoch, std::move(runtime)});
  }
}

std::vector<int32_t> LedPartitions::list() const {
  std::vector<int32_t> list;
  for (const auto& [index, led] : runtimes_) list.push_back(index);
  return list;
}

size_t LedPartitions::loading() const {
  return static_cast<size_t>(std::count_if(runtimes_.begin(), runtimes_.end(),
                                           [](const auto& led) { return !led.second.runtime->isActive(); }));
}

size_t LedPartitions::waitingAnswers() const {
  size_t sum = 0;
  for (const auto& [index, led] : runtimes_) sum += led.runtime->waitingAnswers();
  return sum;
}

}  // namespace mq::coordinator

#include "raft/log_view.h"

#include <algorithm>

#include "base/check.h"

namespace mq::raft {

LogView::LogView(Position start, size_t tailBytesMax)
    : tailBytesMax_(tailBytesMax),
      start_(start),
      last_(start),
      runs_{start},
      durable_(start.index),
      handedOut_(start.index) {}

std::optional<int64_t> LogView::termAt(int64_t index) const {
  if (index < start_.index || index > last_.index) return std::nullopt;
  auto after = std::upper_bound(runs_.begin(), runs_.end(), index,
                                [](int64_t wanted, const Position& run) { return wanted < run.index; });
  return (after - 1)->term;
}

Position LogView::lastWithin(int64_t index, int64_t term) const {
  int64_t end = std::min(index, last_.index);
  for (auto run = runs_.rbegin(); run != runs_.rend(); ++run) {
    if (run->index <= end && run->term <= term) return {end, run->term};
    end = std::min(end, run->index - 1);
  }
  return start_;
}

void LogView::append(Entry entry) {
  unsyncedBytes_ += costOf(entry);
  push(std::move(entry));
}

void LogView::restore(const Entry& entry) {
  MQ_CHECK(durable_ == last_.index, durable_, last_.index);
  push(entry);
  durable_ = handedOut_ = last_.index;
  evict();
}

void LogView::push(Entry entry) {
  MQ_CHECK(entry.index == last_.index + 1 && entry.term >= last_.term, entry.index, entry.term, last_.index,
           last_.term);
  if (entry.term != last_.term) runs_.push_back({entry.index, entry.term});
  last_ = {entry.index, entry.term};
  tailBytes_ += costOf(entry);
  tail_.push_back(std::move(entry));
}

void LogView::truncate(int64_t from) {
  MQ_CHECK(from > start_.index && from <= last_.index, from, start_.index, last_.index);
  while (!tail_.empty() && tail_.back().index >= from) {
    tailBytes_ -= costOf(tail_.back());
    if (tail_.back().index > durable_) unsyncedBytes_ -= costOf(tail_.back());
    tail_.pop_back();
  }
  while (runs_.size() > 1 && runs_.back().index >= from) runs_.pop_back();
  last_ = {from - 1, runs_.back().term};
  durable_ = std::min(durable_, last_.index);
  handedOut_ = std::min(handedOut_, last_.index);
}

void LogView::reset(Position start) {
  start_ = last_ = start;
  runs_ = {start};
  tail_.clear();
  tailBytes_ = unsyncedBytes_ = 0;
  durable_ = handedOut_ = -1;
}

void LogView::compact(Position start) {
  if (start.index <= start_.index) return;
  MQ_CHECK(has(start), start.index, start.term);
  auto after = std::upper_bound(runs_.begin(), runs_.end(), start.index,
                                [](int64_t wanted, const Position& run) { return wanted < run.index; });
  runs_.erase(runs_.begin(), after - 1);
  runs_.front() = start_ = start;
  while (!tail_.empty() && tail_.front().index <= start.index) {
    tailBytes_ -= costOf(tail_.front());
    tail_.pop_front();
  }
}

std::vector<Entry> LogView::hand(size_t bytesMax) {
  if (!hasUnhanded()) return {};
  std::vector<Entry> entries = slice(handedOut_ + 1, last_.index + 1, bytesMax);
  handedOut_ = entries.back().index;
  return entries;
}

void LogView::written() {
  if (!tail_.empty()) {
    for (int64_t index = std::max(durable_ + 1, tail_.front().index); index <= handedOut_; ++index)
      unsyncedBytes_ -= costOf(inTail(index));
  }
  durable_ = handedOut_;
  evict();
}

std::vector<Entry> LogView::slice(int64_t from, int64_t end, size_t bytesMax) const {
  MQ_CHECK(isInMemory(from) && end > from && end <= last_.index + 1, from, end, last_.index);
  std::vector<Entry> entries;
  size_t bytes = 0;
  for (int64_t index = from; index < end; ++index) {
    const Entry& entry = inTail(index);
    bytes += costOf(entry);
    if (!entries.empty() && bytes > bytesMax) break;
    entries.push_back(entry);
  }
  return entries;
}

void LogView::evict() {
  while (tailBytes_ > tailBytesMax_ && !tail_.empty() && tail_.front().index <= durable_) {
    tailBytes_ -= costOf(tail_.front());
    tail_.pop_front();
  }
}

}  // namespace mq::raft

#include "replica/fetcher.h"

#include <algorithm>

#include "replica/partitions.h"

namespace mq::replica {
namespace {

constexpr Duration kConnectWithin = 10s;
constexpr Duration kAnswerWithin = 30s;  // beyond the time that the leader may wait

}  // namespace

Fetcher::Fetcher(Shard& shard, LeaderSessions& sessions, NodeId leader, Options options, Find find)
    : shard_(shard),
      sessions_(sessions),
      leader_(leader),
      options_(options),
      find_(std::move(find)),
      tasks_(shard.log(), "fetcher-failed") {
  tasks_.add(serve());
}

Fetcher::~Fetcher() { tasks_.cancelAll(); }

// --- what is followed

Fetcher::Line* Fetcher::lineOf(const TopicIdPartition& id) {
  if (lines_.empty()) return nullptr;
  return lines_[shardOf(id, static_cast<uint32_t>(lines_.size()))].get();
}

void Fetcher::follow(const TopicIdPartition& id) {
  followed_[id] = ++lastFollow_;
  Line* line = lineOf(id);
  if (line == nullptr) return;
  line->places.insert(id);
  line->dropped.erase(id);
  name(*line, id);
}

void Fetcher::drop(const TopicIdPartition& id) {
  followed_.erase(id);
  Line* line = lineOf(id);
  if (line == nullptr || line->places.erase(id) == 0) return;
  line->toName.erase(id);
  line->durable.erase(id);
  line->dropped.insert(id);
}

void Fetcher::durable(const TopicIdPartition& id) {
  Line* line = lineOf(id);
  if (line == nullptr || !line->places.contains(id)) return;
  line->durable.insert(id);
  reportLater(*line);
}

void Fetcher::name(Line& line, const TopicIdPartition& id) {
  line.toName.insert(id);
  wake(line);
  if (line.isAsking) reportLater(line);
}

void Fetcher::nameLater(const TopicIdPartition& id) {
  tasks_.add(shard_.after(options_.backoff).then([this, id, number = followed_[id]] {
    auto found = followed_.find(id);
    if (found == followed_.end() || found->second != number) return;
    if (Line* line = lineOf(id)) name(*line, id);
  }));
}

void Fetcher::wake(Line& line) {
  if (line.waiting) line.waiting->fulfill();
  line.waiting = nullptr;
}

// --- reports: those of one sync round go together

void Fetcher::reportLater(Line& line) {
  if (std::exchange(line.reports, true)) return;
  tasks_.add(kj::evalLater([this, shard = line.shard] { sendReports(shard); }));
}

void Fetcher::sendReports(uint32_t shard) {
  if (shard >= lines_.size()) return;  // torn down meanwhile
  Line& line = *lines_[shard];
  line.reports = false;
  std::vector<DurableReport> reports;
  for (const TopicIdPartition& id : std::exchange(line.durable, {})) {
    if (line.toName.contains(id)) continue;  // its place will say so
    Partition* partition = find_(id);
    auto place = partition == nullptr ? std::nullopt : partition->followPlace();
    if (place) reports.push_back({id, place->leaderEpoch, place->durable, place->logStart});
  }
  if (line.session.get() == nullptr) return;
  if (line.isAsking && !line.toName.empty()) reports.push_back({.id = *line.toName.begin()});
  if (!reports.empty()) line.session->report(std::move(reports));
}

// --- the lines

Co<void> Fetcher::serve() {
  for (;;) {
    try {
      uint32_t shards = co_await shard_.within(kConnectWithin, sessions_.shardsOf(leader_));
      for (uint32_t i = 0; i < std::max(shards, 1u); ++i) {
        lines_.push_back(std::make_unique<Line>());
        lines_.back()->shard = i;
      }
      for (const auto& [id, number] : followed_) lineOf(id)->places.insert(id);
      kj::Promise<void> any = kj::NEVER_DONE;
      for (auto& line : lines_) any = any.exclusiveJoin(serveLine(*line));
      co_await any;
    } catch (...) {
      shard_.log().debug("leader-lost", "node {}: {}", leader_, describe(caughtException()));
    }
    lines_.clear();
    co_await shard_.after(options_.backoff);
  }
}

Co<void> Fetcher::serveLine(Line& line) {
  for (;;) {
    if (line.places.empty()) {
      line.session = nullptr;
      line.dropped.clear();
      auto paf = kj::newPromiseAndFulfiller<void>();
      line.waiting = kj::mv(paf.fulfiller);
      co_await paf.promise;
      continue;
    }
    if (line.session.get() == nullptr) {
      line.session = co_await shard_.within(kConnectWithin, sessions_.open(leader_, line.shard));
      line.toName = line.places;
    }
    auto asked = line.session->follow(requestOf(line));
    line.isAsking = true;
    FollowResponse response = co_await shard_.within(options_.waitMax + kAnswerWithin, kj::mv(asked));
    line.isAsking = false;
    co_await take(line, std::move(response));
  }
}

FollowRequest Fetcher::requestOf(Line& line) {
  FollowRequest request{.places = {}, .dropped = {}, .bytesMax = options_.bytesMax, .atMost = options_.waitMax};
  for (const TopicIdPartition& id : std::exchange(line.toName, {})) {
    Partition* partition = find_(id);
    if (partition == nullptr) continue;
    if (auto place = partition->followPlace()) request.places.push_back(*place);
  }
  for (const TopicIdPartition& id : std::exchange(line.dropped, {})) request.dropped.push_back(id);
  return request;
}

Co<void> Fetcher::take(Line& line, FollowResponse response) {
  std::vector<kj::Promise<void>> appends;
  for (Followed& news : response.partitions) {
    const TopicIdPartition id = news.id;
    // Named anew meanwhile: this is the answer to an earlier place.
    if (!line.places.contains(id) || line.toName.contains(id)) continue;
    Partition* partition = find_(id);
    if (partition == nullptr) continue;
    const uint64_t number = followed_[id];
    appends.push_back(
        partition->replicate(std::move(news), response.buffer).then([this, &line, id, number](Partition::Next next) {
          auto found = followed_.find(id);
          if (found == followed_.end() || found->second != number) return;
          if (next == Partition::Next::ask) line.toName.insert(id);
          if (next == Partition::Next::later) nameLater(id);
        }));
  }
  auto all = kj::heapArrayBuilder<kj::Promise<void>>(appends.size());
  for (auto& append : appends) all.add(kj::mv(append));
  co_await kj::joinPromises(all.finish());
}

}  // namespace mq::replica

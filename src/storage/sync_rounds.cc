#include "storage/sync_rounds.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "runtime/tasks.h"

namespace mq::storage {

struct SyncRounds::State {
  State(Shard& s, uint32_t p) : shard(s), parallel(p), tasks(s.log(), "sync-round-failed") {}

  Shard& shard;
  uint32_t parallel;
  std::vector<Syncable*> waiting;  // in the order of their requests
  std::vector<Syncable*> inRound;  // null: forgotten, or told already
  size_t jobs = 0;                 // of the round, still running
  Instant began{};
  bool startPending = false;
  Figures figures;
  Tasks tasks;  // last: its tasks use what is above
};

namespace {

// One job's part of a round: each log's files, then its directories, whole.
struct Share {
  struct Member {
    size_t index;  // in inRound
    Unsynced what;
    std::optional<kj::Exception> failure;
  };
  std::vector<Member> members;

  void sync(FileSystem& files) {
    for (Member& member : members) {
      try {
        for (const FileRef& file : member.what.files) file->sync();
        for (const std::string& directory : member.what.directories) files.syncDirectory(directory);
      } catch (...) {
        member.failure.emplace(caughtException());
      }
      member.what = {};  // unpins here, so that a close that takes time does not take the loop's
    }
  }
};

}  // namespace

SyncRounds::SyncRounds(Shard& shard, uint32_t parallel) : state_(std::make_shared<State>(shard, parallel)) {
  MQ_CHECK(parallel > 0);
}

SyncRounds::~SyncRounds() {
  state_->waiting.clear();
  for (Syncable*& who : state_->inRound) who = nullptr;
  state_->tasks.cancelAll();
}

void SyncRounds::request(Syncable& who) {
  State& state = *state_;
  if (std::exchange(who.waiting_, true)) return;
  state.waiting.push_back(&who);
  startSoon();
}

void SyncRounds::forget(Syncable& who) {
  if (std::exchange(who.waiting_, false)) std::erase(state_->waiting, &who);
  std::replace(state_->inRound.begin(), state_->inRound.end(), &who, static_cast<Syncable*>(nullptr));
}

bool SyncRounds::busy() const { return state_->jobs > 0 || !state_->waiting.empty(); }
const SyncRounds::Figures& SyncRounds::figures() const { return state_->figures; }

// At the end of the turn, so that all logs that were written in it are in the same round.
void SyncRounds::startSoon() {
  State& state = *state_;
  if (state.jobs > 0 || state.startPending) return;
  state.startPending = true;
  state.tasks.add(kj::evalLast([this] {
    state_->startPending = false;
    start();
  }));
}

void SyncRounds::start() {
  State& state = *state_;
  if (state.jobs > 0 || state.waiting.empty()) return;
  state.inRound = std::exchange(state.waiting, {});
  size_t shares = std::min<size_t>(state.parallel, state.inRound.size());
  std::vector<std::shared_ptr<Share>> round(shares);
  for (auto& share : round) share = std::make_shared<Share>();
  for (size_t i = 0; i < state.inRound.size(); ++i) {
    state.inRound[i]->waiting_ = false;
    Unsynced what = state.inRound[i]->takeUnsynced();
    state.figures.files += what.files.size();
    round[i % shares]->members.push_back({i, std::move(what), std::nullopt});
  }
  ++state.figures.rounds;
  state.jobs = shares;
  state.began = state.shard.now();
  FileSystem& files = state.shard.files();
  for (auto& share : round) {
    state.shard.offload(
        Pool::sync, [share, &files] { share->sync(files); },
        [this, alive = std::weak_ptr<State>(state_), share] {
          auto held = alive.lock();
          if (held == nullptr) return;
          State& now = *held;
          for (Share::Member& member : share->members) {
            Syncable* who = std::exchange(now.inRound[member.index], nullptr);
            if (who == nullptr) continue;
            if (member.failure) {
              who->syncFailed(*member.failure);
            } else {
              who->synced();
            }
          }
          if (--now.jobs == 0) {
            now.figures.time.observe(now.shard.now() - now.began);
            now.inRound.clear();
            start();
          }
        });
  }
}

}  // namespace mq::storage

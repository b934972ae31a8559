#include "checks.h"

namespace mq::raft::sim {

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0x7F4A7C15u;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  return x ^ (x >> 29);
}

uint64_t hashOf(const Entry& entry) {
  uint64_t hash = static_cast<uint64_t>(entry.type) + 1;
  for (uint8_t byte : entry.data) hash = (hash ^ byte) * 0x100000001B3u;
  return mix(hash, entry.data.size());
}

// Log Matching follows for whole logs when each position has one content and one predecessor.
void Checks::learn(const Entry& entry, int64_t previousTerm) {
  uint64_t key = mix(static_cast<uint64_t>(entry.index), static_cast<uint64_t>(entry.term));
  Known now{hashOf(entry), previousTerm};
  auto [at, isNew] = known_.try_emplace(key, now);
  if (!isNew && at->second.bytes != now.bytes)
    broken("entry {} of term {} has been used for two contents", entry.index, entry.term);
  if (!isNew && at->second.previousTerm != now.previousTerm)
    broken("Log Matching: entry {} of term {} follows terms {} and {}", entry.index, entry.term,
           at->second.previousTerm, now.previousTerm);
}

void Checks::sent(const Message& message, const Options& options) {
  if (!isSane(message, options)) broken("a message that makes no sense: {}", show(message));
  auto* append = std::get_if<Append>(&message.body);
  if (!append) return;
  int64_t previous = append->previous.term;
  for (const Entry& entry : append->entries) {
    learn(entry, previous);
    previous = entry.term;
  }
}

void Checks::written(const Core& core, const Write& write) {
  if (write.append.empty()) return;
  int64_t previous = core.log().termAt(write.append.front().index - 1).value_or(-1);
  for (const Entry& entry : write.append) {
    if (previous >= 0) learn(entry, previous);
    previous = entry.term;
  }
}

void Checks::complete(const Core& leader, NodeId id, int64_t from) {
  for (int64_t index = std::max(from, leader.log().start().index); index <= committedIndex(); ++index) {
    const Committed& committed = committed_[static_cast<size_t>(index - 1)];
    if (committed.inTerm < leader.term() && leader.log().termAt(index) != committed.term)
      return broken("Leader Completeness: node {} leads in term {} without entry {} of term {}, committed in term {}",
                    id, leader.term(), index, committed.term, committed.inTerm);
  }
}

void Checks::lookAtLeader(const Core& core, NodeId id, Seen& seen) {
  if (seen.leaderTerm != core.term()) {
    auto [at, isNew] = leaders_.try_emplace(core.term(), id);
    if (!isNew && at->second != id)
      broken("Election Safety: nodes {} and {} have both led in term {}", at->second, id, core.term());
    complete(core, id, 1);
  } else if (core.log().lastIndex() < seen.last.index || core.log().termAt(seen.last.index) != seen.last.term) {
    if (seen.last.index >= core.log().start().index)
      broken("Leader Append-Only: node {}, leader of term {}, has lost entry {} of term {}", id, core.term(),
             seen.last.index, seen.last.term);
  }
  seen.leaderTerm = core.term();
  seen.last = core.log().last();
}

void Checks::look(const Core& core, NodeId id, const Options& options) {
  Seen& seen = seen_[id];
  if (core.state() == State::leader)
    lookAtLeader(core, id, seen);
  else
    seen.leaderTerm = 0;
  for (int64_t index = std::max<int64_t>(seen.commit, core.log().start().index) + 1; index <= core.commitIndex();
       ++index) {
    int64_t term = core.log().termAt(index).value_or(-1);
    if (index == committedIndex() + 1)
      committed_.push_back({term, core.term()});
    else if (index > committedIndex())
      return broken("node {} has committed entry {}, and nobody the one before", id, index);
    else if (committed_[static_cast<size_t>(index - 1)].term != term)
      return broken("State Machine Safety: entry {} is committed with term {}, and by node {} with term {}", index,
                    committed_[static_cast<size_t>(index - 1)].term, id, term);
  }
  seen.commit = std::max(seen.commit, core.commitIndex());
  if (core.log().tailBytes() > options.tailBytesMax + core.log().unsyncedBytes())
    broken("node {} keeps {} bytes of its log in memory", id, core.log().tailBytes());
  if (core.log().unsyncedBytes() > options.unsyncedBytesMax + options.batchBytesMax + options.entryBytesMax)
    broken("node {} has {} bytes that are not durable", id, core.log().unsyncedBytes());
}

void Checks::applied(NodeId id, const Entry& entry, uint64_t chain) {
  if (entry.index > committedIndex())
    return broken("node {} has applied entry {}, which is not committed", id, entry.index);
  if (chains_.size() < static_cast<size_t>(entry.index)) chains_.resize(static_cast<size_t>(entry.index));
  uint64_t& known = chains_[static_cast<size_t>(entry.index - 1)];
  if (known == 0) known = chain;
  if (known != chain)
    broken("State Machine Safety: node {} has applied another entry {}, of term {}", id, entry.index, entry.term);
}

void Checks::installed(NodeId id, int64_t index, uint64_t chain) {
  if (index > static_cast<int64_t>(chains_.size()) || chains_[static_cast<size_t>(index - 1)] != chain)
    broken("State Machine Safety: node {} has a snapshot of another state after entry {}", id, index);
}

void Checks::readAnswered(NodeId id, int64_t floor, int64_t index) {
  if (index < floor)
    broken("a read at node {} saw {} entries, when {} were known before it was asked for", id, index, floor);
  readUpTo_ = std::max(readUpTo_, index);
}

}  // namespace mq::raft::sim

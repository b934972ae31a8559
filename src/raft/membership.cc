#include "raft/membership.h"

#include "base/check.h"

namespace mq::raft {
namespace {

constexpr int16_t kVersion = 0;

}  // namespace

const Member* Membership::find(NodeId id) const {
  auto at = std::lower_bound(members.begin(), members.end(), id,
                             [](const Member& member, NodeId wanted) { return member.replica.id < wanted; });
  return at != members.end() && at->replica.id == id ? &*at : nullptr;
}

bool Membership::has(const Replica& replica) const {
  const Member* member = find(replica.id);
  return member != nullptr && member->replica == replica;
}

bool Membership::isVoter(const Replica& replica) const {
  const Member* member = find(replica.id);
  return member != nullptr && member->replica == replica && member->isVoter;
}

size_t Membership::voterCount() const {
  return static_cast<size_t>(
      std::count_if(members.begin(), members.end(), [](auto& member) { return member.isVoter; }));
}

Buffer encodeMembership(const Membership& membership) {
  Buffer data;
  ByteWriter writer(data);
  writer.int16(kVersion);
  writer.int32(static_cast<int32_t>(membership.members.size()));
  for (const Member& member : membership.members) {
    writer.int32(member.replica.id.value());
    writer.uuid(member.replica.directory);
    writer.int8(member.isVoter ? 1 : 0);
  }
  return data;
}

std::optional<Membership> decodeMembership(Bytes data) {
  ByteReader reader(data);
  int16_t version = reader.int16();
  int32_t count = reader.int32();
  if (!reader.ok() || version != kVersion || count < 1 || static_cast<size_t>(count) > kMembersMax) return std::nullopt;
  Membership membership;
  for (int32_t i = 0; i < count; ++i) {
    Member member;
    member.replica.id = NodeId(reader.int32());
    member.replica.directory = reader.uuid();
    int8_t voter = reader.int8();
    if (!reader.ok() || member.replica.id < NodeId(0) || (voter != 0 && voter != 1)) return std::nullopt;
    if (!membership.members.empty() && member.replica.id <= membership.members.back().replica.id) return std::nullopt;
    member.isVoter = voter == 1;
    membership.members.push_back(member);
  }
  if (!reader.atEnd() || membership.voterCount() == 0) return std::nullopt;
  return membership;
}

Entry bootstrapEntry(const Membership& membership) {
  return {.index = 1, .term = 1, .type = EntryType::membership, .data = encodeMembership(membership)};
}

size_t votersChanged(const Membership& from, const Membership& to) {
  auto missing = [](const Membership& of, const Membership& in) {
    return std::count_if(of.members.begin(), of.members.end(),
                         [&](const Member& member) { return member.isVoter && !in.isVoter(member.replica); });
  };
  return static_cast<size_t>(missing(from, to) + missing(to, from));
}

void MembershipHistory::add(int64_t index, Membership membership) {
  MQ_CHECK(index > latestIndex(), index, latestIndex());
  states_.push_back({index, std::move(membership)});
}

void MembershipHistory::truncate(int64_t from) {
  while (states_.size() > 1 && states_.back().index >= from) states_.pop_back();
}

void MembershipHistory::compact(int64_t through) {
  auto keep = std::upper_bound(states_.begin(), states_.end(), through,
                               [](int64_t index, const State& state) { return index < state.index; });
  if (keep - states_.begin() > 1) states_.erase(states_.begin(), keep - 1);
}

void MembershipHistory::reset(int64_t index, Membership membership) {
  states_.clear();
  states_.push_back({index, std::move(membership)});
}

const Membership& MembershipHistory::at(int64_t index) const {
  auto after = std::upper_bound(states_.begin(), states_.end(), index,
                                [](int64_t wanted, const State& state) { return wanted < state.index; });
  return (after == states_.begin() ? after : after - 1)->membership;
}

const MembershipHistory::State& MembershipHistory::committed(int64_t commit) const {
  bool isLastOne = states_.size() == 1 || latestIndex() <= commit;
  return isLastOne ? states_.back() : *(states_.end() - 2);
}

}  // namespace mq::raft

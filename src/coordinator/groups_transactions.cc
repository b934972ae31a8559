// Groups: offsets that are committed inside transactions.
#include "coordinator/offset_records.h"
#include "coordinator/records.h"

namespace mq::coordinator {

void Groups::commitPending(wire::TxnOffsetCommitRequest asked, const Now& now,
                           Answer<wire::TxnOffsetCommitResponse> answer, Effects& effects) {
  const std::string id = asked.groupId;
  const int32_t generation = asked.generationIdOrMemberEpoch;
  Group* group = find(id);
  if (group == nullptr && generation >= 0) return effects.answer(std::move(answer), Error::illegalGeneration);
  if (group == nullptr) group = &findOrMake(id);
  Error error = Error::none;
  if (!group->consumer) {
    error = group->classic->admitCommit(asked.memberId, asked.groupInstanceId, generation, now,
                                        ClassicGroup::CommitKind::transactional);
  } else if (generation >= 0 || !asked.memberId.empty() || asked.groupInstanceId) {
    error = group->consumer->admitCommit(asked.memberId, generation);
    if (error == Error::staleMemberEpoch) error = Error::illegalGeneration;  // clients know no other here
  }
  if (error != Error::none) {
    effects.answer(std::move(answer), error);
    return settle(id, effects);
  }
  auto response = recordOffsets<wire::TxnOffsetCommitRequest, wire::TxnOffsetCommitResponse>(
      asked, kNoTimestamp.value(), now, effects);
  effects.transaction = ProducerEpoch{ProducerId(asked.producerId), asked.producerEpoch};
  effects.answer(std::move(answer), std::move(response));
  settle(id, effects);
}

void Groups::endTransaction(const TransactionMarker& marker, Answer<Left> answer, Effects& effects) {
  effects.marker = marker;
  effects.answer(std::move(answer), Result<Left>());
}

void Groups::applyPending(ProducerId producer, Bytes key, std::optional<Bytes> value, Revision revision) {
  auto read = readGroupKey(key);
  auto* of = read ? std::get_if<OffsetKey>(&*read) : nullptr;
  auto offset = value ? readOffset(*value) : Result<wire::OffsetCommitValue>(Error::invalidRecord);
  if (of == nullptr || !offset) {
    ++counters_.unknown;
    return;
  }
  pending_.add(producer, {of->group, of->topic, of->partition}, {offset->topicId, committedOffset(*offset)});
  findOrMake(of->group).written = revision;
}

void Groups::applyEnd(ProducerId producer, bool committed, Revision revision) {
  for (auto& [place, pending] : pending_.take(producer)) {
    if (committed && !pending.isOvertaken) {
      pending_.overtake(place, pending.order);
      setOffset(place, pending.topicId, pending.offset, revision);
      continue;
    }
    auto found = groups_.find(place.group);
    if (found == groups_.end()) continue;
    found->second.written = revision;
    if (isNothing(place.group, found->second)) drop(found);
  }
}

}  // namespace mq::coordinator

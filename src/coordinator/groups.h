// Groups: all groups of one partition of __consumer_offsets: who is in them and what they have committed. A pure state
// machine; the runtime gives it time and the log.
//
// An answer is the protocol's response, or one error for the whole request, which the handler puts into the response's
// form. Requests about several groups are asked one group at a time.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "coordinator/classic_group.h"
#include "coordinator/committed_offsets.h"
#include "coordinator/consumer_group.h"
#include "coordinator/pending_offsets.h"
#include "coordinator/state_machine.h"
#include "wire/describe_groups_response.h"
#include "wire/list_groups_request.h"
#include "wire/list_groups_response.h"
#include "wire/offset_commit_request.h"
#include "wire/offset_commit_response.h"
#include "wire/offset_delete_request.h"
#include "wire/offset_delete_response.h"
#include "wire/offset_fetch_request.h"
#include "wire/offset_fetch_response.h"
#include "wire/txn_offset_commit_request.h"
#include "wire/txn_offset_commit_response.h"

namespace mq::coordinator {

class Groups final : public StateMachine {
 public:
  // Counts what happened, for the metrics; lives longer than the machine.
  struct Counters {
    uint64_t rebalances = 0;
    uint64_t commits = 0;  // offsets
    uint64_t expired = 0;  // offsets
    uint64_t unknown = 0;  // records of the log that were skipped
  };

  Groups(const GroupSettings& settings, Counters& counters) : settings_(settings), counters_(counters) {}

  void join(const Caller& caller, wire::JoinGroupRequest asked, const Now& now, Answer<wire::JoinGroupResponse> answer,
            Effects& effects);
  void sync(wire::SyncGroupRequest asked, const Now& now, Answer<wire::SyncGroupResponse> answer, Effects& effects);
  void heartbeat(const std::string& group, const std::string& member, const std::optional<std::string>& instance,
                 int32_t generation, const Now& now, Answer<Left> answer, Effects& effects);
  using MemberIdentities = std::vector<wire::LeaveGroupRequest::MemberIdentity>;
  void leave(const std::string& group, const MemberIdentities& members, const Now& now,
             Answer<wire::LeaveGroupResponse> answer, Effects& effects);

  // The consumer protocol (KIP-848): everything a member does is a heartbeat.
  void consumerHeartbeat(const Caller& caller, wire::ConsumerGroupHeartbeatRequest asked, const Now& now,
                         Answer<wire::ConsumerGroupHeartbeatResponse> answer, Effects& effects);
  // With its history, here and in describe(): the rebalances that are remembered, and since when there is none but
  // them.
  void describeConsumer(const std::string& group, bool history, const Now& now,
                        Answer<wire::ConsumerGroupDescribeResponse::DescribedGroup> answer, Effects& effects);

  // The topics of a commit carry names and, where known, ids; the handler has seen to both. Partitions it has refused
  // already are not in it.
  void commit(wire::OffsetCommitRequest asked, int16_t version, const Now& now,
              Answer<wire::OffsetCommitResponse> answer, Effects& effects);
  using FetchGroup = wire::OffsetFetchRequest::OffsetFetchRequestGroup;
  using FetchedGroup = wire::OffsetFetchResponse::OffsetFetchResponseGroup;
  // With `stable`, UNSTABLE_OFFSET_COMMIT for what an open transaction may yet change (KIP-447).
  void fetch(const FetchGroup& asked, bool stable, const Now& now, Answer<FetchedGroup> answer, Effects& effects);
  void deleteOffsets(const wire::OffsetDeleteRequest& asked, const Now& now, Answer<wire::OffsetDeleteResponse> answer,
                     Effects& effects);

  // A commit inside a producer's transaction: pending until a marker ends that. Topics as for commit().
  void commitPending(wire::TxnOffsetCommitRequest asked, const Now& now, Answer<wire::TxnOffsetCommitResponse> answer,
                     Effects& effects);
  // The producer's transaction is over, as far as it has offsets here. The log is known to take the marker.
  void endTransaction(const TransactionMarker& marker, Answer<Left> answer, Effects& effects);

  void list(const wire::ListGroupsRequest& filter, Answer<std::vector<wire::ListGroupsResponse::ListedGroup>> answer,
            Effects& effects);
  void describe(const std::string& group, bool history, Answer<wire::DescribeGroupsResponse::DescribedGroup> answer,
                Effects& effects);
  void deleteGroup(const std::string& group, Answer<Left> answer, Effects& effects);

  // Topics were deleted: what was committed for them goes soon.
  void sweepSoon(const Now& now) { nextSweep_ = now.instant; }

  const std::deque<Rebalance>* history(const std::string& group);  // null: no such group
  size_t groupCount() const { return groups_.size(); }
  size_t offsetCount() const { return offsets_; }
  size_t pendingCount() const { return pending_.size(); }

  void apply(Bytes key, std::optional<Bytes> value, Revision revision) override;
  void applyPending(ProducerId producer, Bytes key, std::optional<Bytes> value, Revision revision) override;
  void applyEnd(ProducerId producer, bool committed, Revision revision) override;
  void loaded(const Now& now) override;
  std::optional<Instant> deadline() const override;
  void expire(const Now& now, Effects& effects) override;

 private:
  struct Group {
    Group(const std::string& id, const GroupSettings& settings) : classic(std::in_place, id, settings) {}
    std::optional<ClassicGroup> classic;      // always there; unused while the group is in the consumer protocol
    std::unique_ptr<ConsumerGroup> consumer;  // null: it is not
    CommittedOffsets offsets;
    bool isEmpty() const { return consumer ? consumer->isEmpty() : classic->isEmpty(); }
    bool isUnused() const { return classic->isUnused() && !consumer && offsets.empty(); }
    Revision written = 0;         // of its latest record
    std::optional<Instant> wake;  // its entry in wakes_
  };

  Group* find(const std::string& id);
  Group& findOrMake(const std::string& id);
  void applyOffset(const struct OffsetKey& key, std::optional<Bytes> value, Revision revision);
  void applyGroup(const std::string& id, std::optional<Bytes> value, Revision revision);
  void applyConsumer(const struct ConsumerKey& key, std::optional<Bytes> value, Revision revision);
  // The records of what OffsetCommit or TxnOffsetCommit, whose topics have the same shape, commits; what is refused is
  // told in the response. In offset_records.h.
  template <class Asked, class Response>
  Response recordOffsets(Asked& asked, int64_t expireTimestamp, const Now& now, Effects& effects);
  // Takes a record into the batch and applies it at once.
  ConsumerGroup::Write writer(Effects& effects);
  // A group changes its protocol when somebody comes with the other one: to the classic one only without members
  // (false: it has some), to the consumer protocol also with them; a failure is for who came.
  bool becomeClassic(const std::string& id, Effects& effects);
  Result<void> becomeConsumer(const std::string& id, const Now& now, Effects& effects);
  // The last member of the consumer protocol may just have gone.
  void becomeClassicWithMembers(const std::string& id, const Now& now, Effects& effects);
  // After a step on the group: when it wants to be woken, or that it is no more.
  void settle(const std::string& id, Effects& effects);
  void drop(std::map<std::string, Group>::iterator at);
  bool isNothing(const std::string& id, const Group& group) const;
  void setOffset(const PendingOffsets::Place& place, const TopicId& topic, const CommittedOffset& offset,
                 Revision revision);
  void sweep(const std::string& id, Group& group, const Now& now, Effects& effects);

  const GroupSettings& settings_;
  Counters& counters_;
  size_t offsets_ = 0;
  PendingOffsets pending_;
  std::map<std::string, Group> groups_;
  std::set<std::pair<Instant, std::string>> wakes_;
  bool isLoaded_ = false;
  WallMs loadedAt_ = kNoTimestamp;
  std::optional<Instant> nextSweep_;  // of offsets that have expired or whose topic is gone
  std::string sweepAfter_;            // the last group that this sweep has seen
};

}  // namespace mq::coordinator

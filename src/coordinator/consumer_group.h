// ConsumerGroup: one group in the consumer protocol (KIP-848): the coordinator assigns, and each member comes to its
// target by heartbeats, in its own time.
//
//   group epoch     grows with each change of members, subscriptions or topics
//   target          what each member should have, computed for a group epoch
//   member epoch    the target that a member has come to; it commits offsets with it
//
//   stable ──── target moved ────▶ unrevoked ─── member gave back what it must ───▶ (unreleased or stable, new epoch)
//   unreleased: has all of its new target but what others have not given back yet
//
// A partition is given to a member only when nobody else has it: so no two own one at a time.
//
// All of it is in records: decisions are written one after the other and applied at once, since each builds on those
// before it. This life's alone are sessions, the time a member has to give partitions back, and matched expressions.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "coordinator/assignors.h"
#include "coordinator/classic_group.h"
#include "coordinator/state_machine.h"
#include "coordinator/topic_pattern.h"
#include "wire/consumer_group_current_member_assignment_value.h"
#include "wire/consumer_group_describe_response.h"
#include "wire/consumer_group_heartbeat_request.h"
#include "wire/consumer_group_heartbeat_response.h"
#include "wire/consumer_group_member_metadata_value.h"
#include "wire/consumer_group_metadata_value.h"
#include "wire/consumer_group_target_assignment_member_value.h"
#include "wire/consumer_group_target_assignment_metadata_value.h"

namespace mq::coordinator {

class ConsumerGroup {
 public:
  // Takes a record into the step's batch and applies it.
  using Write = std::function<void(LogRecord record)>;
  enum class State : uint8_t { empty, assigning, reconciling, stable };

  ConsumerGroup(std::string id, const GroupSettings& settings) : id_(std::move(id)), settings_(settings) {}
  void restart(const Now& now);

  State state() const;
  static std::string_view nameOf(State state);
  bool isEmpty() const { return members_.empty(); }
  size_t memberCount() const { return members_.size(); }
  int32_t epoch() const { return epoch_; }
  WallMs emptySince() const { return emptySince_; }  // none: has members, or has been empty since before the start
  bool subscribes(std::string_view topic, const metadata::Image& image) const;
  const std::deque<Rebalance>& history() const { return history_; }

  // What a request alone shows to be wrong; its message is for the client.
  static Result<void> check(const wire::ConsumerGroupHeartbeatRequest& asked, int16_t version);
  Result<wire::ConsumerGroupHeartbeatResponse> heartbeat(const Caller& caller,
                                                         const wire::ConsumerGroupHeartbeatRequest& asked,
                                                         const Now& now, const Write& write, Effects& effects);
  // Of members in the classic protocol (consumer_classic.cc).
  Result<wire::JoinGroupResponse> joinClassic(const Caller& caller, const wire::JoinGroupRequest& asked, const Now& now,
                                              const Write& write, Effects& effects);
  Result<wire::SyncGroupResponse> syncClassic(const wire::SyncGroupRequest& asked, const Now& now);
  Error heartbeatClassic(const std::string& member, const std::optional<std::string>& instance, int32_t generation,
                         const Now& now, const Write& write, Effects& effects);
  // The group has no members and takes those of a classic one (isOfConsumers()), with what they have.
  void adopt(ClassicGroup::Migrated from, const Now& now, const Write& write);
  // Its members are all classic, and it is to become a classic group with them.
  bool isForClassic() const;
  // The way back: its members, all classic, and the records that make this group be no more.
  ClassicGroup::Migrated release(const Now& now, std::vector<LogRecord>& records);

  // LeaveGroup: an administrator, or a classic member itself, by its id or, if static, by its instance alone.
  Error removeMember(const wire::LeaveGroupRequest::MemberIdentity& asked, const Now& now, const Write& write,
                     Effects& effects);
  // Whether a commit, or a read of offsets, may be taken from that member at that epoch; -1 and no member: a tool.
  Error admitCommit(const std::string& member, int32_t epoch) const;
  Error admitFetch(const std::optional<std::string>& member, int32_t epoch) const;
  wire::ConsumerGroupDescribeResponse::DescribedGroup describe(const metadata::Image& image) const;
  // The records that make the group be no more; it is empty.
  void forget(std::vector<LogRecord>& records) const;

  std::optional<Instant> deadline() const;
  void expire(const Now& now, const Write& write, Effects& effects);

  // Records, one per kind; none: the key is deleted.
  void applyGroup(const wire::ConsumerGroupMetadataValue& value);
  void applyMember(const std::string& id, const wire::ConsumerGroupMemberMetadataValue* value);
  void applyTargetEpoch(const wire::ConsumerGroupTargetAssignmentMetadataValue& value);
  void applyTarget(const std::string& id, const wire::ConsumerGroupTargetAssignmentMemberValue* value);
  void applyCurrent(const std::string& id, const wire::ConsumerGroupCurrentMemberAssignmentValue* value);

 private:
  enum class MemberState : int8_t { stable = 0, unrevoked = 1, unreleased = 2 };
  struct Member {
    wire::ConsumerGroupMemberMetadataValue wants;
    int32_t epoch = 0;
    int32_t previousEpoch = 0;
    MemberState state = MemberState::stable;
    Assignment assigned;
    Assignment pendingRevocation;
    Instant sessionEnd;
    std::optional<Instant> revocationEnd;
    std::optional<Instant> classicEnd;  // classic: has been told to join, or to sync, by then
  };
  using Members = std::map<std::string, Member>;

  Result<wire::ConsumerGroupHeartbeatResponse> leave(const wire::ConsumerGroupHeartbeatRequest& asked, const Now& now,
                                                     const Write& write, Effects& effects);
  // Who heartbeats; its member exists afterwards, unless it is new.
  Result<void> identify(const wire::ConsumerGroupHeartbeatRequest& asked, const Write& write, Effects& effects);
  void replace(const std::string& oldId, const std::string& newId, const Write& write, Effects& effects);
  static bool isClassic(const Member& member);
  static wire::ConsumerGroupMemberMetadataValue noWishes();
  bool supportsClassic(const wire::JoinGroupRequest& asked) const;
  Result<Member*> classicMember(const std::string& id, const std::optional<std::string>& instance);
  bool mustRejoin(const std::string& id, const Member& member) const;
  Duration session(const Member& member, const metadata::Image& image);
  Duration heartbeatInterval(const Now& now);
  // A new epoch and target if there is a reason, or if the topics have changed.
  void refresh(std::string reason, const Now& now, const Write& write, Effects& effects);
  Result<bool> updateMember(const Caller& caller, const wire::ConsumerGroupHeartbeatRequest& asked, const Write& write);
  void lost(std::string reason, const Now& now, const Write& write, Effects& effects);
  void begin(std::string reason, const Now& now, Effects& effects);  // of a rebalance, for the history
  void bump(std::string reason, int64_t hash, const Now& now, const Write& write, Effects& effects);
  void assign(const Now& now, const Write& write);
  void reconcile(const std::string& id, const std::optional<Assignment>& owned, const Now& now, const Write& write);
  void remove(const std::string& id, const Write& write);
  void settleHistory(const Now& now, Effects& effects);

  // The group's own settings, which AlterConfigs changes.
  const config::ConsumerGroupSettings& times(const metadata::Image& image);
  std::set<std::string> namesOf(const Member& member, const metadata::Image& image) const;
  int64_t hashOf(const metadata::Image& image) const;
  std::string preferredAssignor() const;
  bool isFree(const TopicId& topic, int32_t partition, const std::string& forWhom) const;
  void own(const std::string& id, const Assignment& assignment, bool owns);

  const std::string id_;
  const GroupSettings& settings_;
  int32_t epoch_ = 0;
  int64_t hash_ = 0;
  int32_t targetEpoch_ = 0;
  std::optional<Instant> bumped_;  // last, in this life
  Members members_;
  std::map<std::string, std::string> instances_;  // instance id → member id
  std::map<std::string, Assignment> target_;
  std::map<std::pair<TopicId, int32_t>, std::string> owners_;

  mutable std::map<std::string, TopicPattern> patterns_;  // compiled, of the members' expressions
  int64_t hashedAt_ = -1;                                 // the image that hash_ was last held against
  config::ConsumerGroupSettings times_;
  int64_t timesAt_ = -1;  // the image that they are of
  WallMs emptySince_ = kNoTimestamp;
  std::deque<Rebalance> history_;
};

}  // namespace mq::coordinator

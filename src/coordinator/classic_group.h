// ClassicGroup: one consumer group in the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup), in which a
// member, the leader, computes the assignment. https://kafka.apache.org/protocol, KIP-62, -134, -345, -394, -800, -814.
//
//           join                    all joined, or time is up          the leader's assignment
//   empty ───────▶ preparingRebalance ─────────────────▶ completingRebalance ─────────────────▶ stable
//     ▲                │    ▲                                     │                                │
//     └── nobody left ─┘    └── a member joins anew, leaves, or its session ends ──────────────────┘
//
// The record of a group says who its members are, and their assignment, as of the last change to stable or empty; it is
// how a group comes back after a restart. In between the group runs ahead of its record: who has joined so far, who
// waits for an answer and when sessions end is this life's alone.
//
// Time-outs, all of which deadline() covers: a session (but while a member waits for an answer), the initial delay and
// the rebalance time-out for joining, the rebalance time-out again for syncing, and a session time-out for one that was
// given a member id and has not come back with it. So no member can hold up the others for longer.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/group_settings.h"
#include "coordinator/state_machine.h"
#include "wire/describe_groups_response.h"
#include "wire/group_metadata_value.h"
#include "wire/join_group_request.h"
#include "wire/join_group_response.h"
#include "wire/leave_group_request.h"
#include "wire/leave_group_response.h"
#include "wire/sync_group_request.h"
#include "wire/sync_group_response.h"

namespace mq::coordinator {

// Who asks, and in which version of the request.
struct Caller {
  std::string clientId;
  std::string host;  // as Kafka prints it: "/127.0.0.1"
  int16_t version = 0;
};

struct GroupSettings {
  Duration sessionMin = 6s;
  Duration sessionMax = 1800s;
  Duration initialDelay = 3s;
  int32_t sizeMax = INT32_MAX;
  Duration offsetsRetention = std::chrono::hours(168);
  Duration offsetsCheckEvery = 600s;
  int32_t metadataBytesMax = 4096;  // of one offset
  // The consumer protocol.
  config::GroupLimits consumer;
  int32_t consumerSizeMax = INT32_MAX;
  // Whether a group may change its protocol while it has members of the classic one: to the consumer protocol, and
  // back.
  bool upgrades = true;
  bool downgrades = true;
};

inline constexpr size_t kHistoryMax = 32;  // rebalances that a group remembers

// One rebalance as it is told to people.
struct Rebalance {
  WallMs began;
  WallMs ended = kNoTimestamp;  // not yet
  int32_t generation = 0;       // that it led to
  size_t members = 0;
  std::string reason;  // the first one; later ones fall into the same rebalance
};

struct ClassicMember {
  std::string id;
  std::optional<std::string> instance;
  std::string clientId;
  std::string clientHost;
  Duration rebalanceTimeout{};
  Duration sessionTimeout{};
  std::vector<wire::JoinGroupRequest::JoinGroupRequestProtocol> protocols;  // by preference; after a restart only the
                                                                            // one in use
  wire::Blob assignment;
};

class ClassicGroup {
 public:
  // A group that changes its protocol while it has members (online migration, KIP-848).
  struct Migrated {
    int32_t generation = 0;
    std::vector<ClassicMember> members;
    std::deque<Rebalance> history;
  };

  enum class State : uint8_t { empty, preparingRebalance, completingRebalance, stable };

  ClassicGroup(std::string id, const GroupSettings& settings) : id_(std::move(id)), settings_(settings) {}
  // As the record says. Sessions begin with restart().
  ClassicGroup(std::string id, const GroupSettings& settings, const wire::GroupMetadataValue& record);
  void restart(const Now& now);
  // Out of the consumer protocol: all its members are asked to join. At least one.
  ClassicGroup(std::string id, const GroupSettings& settings, Migrated from, const Now& now, Effects& effects);
  // Into it: whoever waits is told to join again, and the group is not to be used any more. Members that have never
  // been answered are left out: they come anew.
  Migrated release(Effects& effects);
  // Whether it can be read as one of consumers, as far as its members tell.
  bool isOfConsumers() const;

  const std::string& id() const { return id_; }
  State state() const { return state_; }
  static std::string_view nameOf(State state);  // as Kafka prints it
  bool isEmpty() const { return state_ == State::empty; }
  bool isUnused() const { return isEmpty() && generation_ == 0 && pending_.empty(); }  // nothing is known of it
  bool isRecorded() const { return recorded_; }                                        // the log holds a record of it
  int32_t generation() const { return generation_; }
  const std::string& protocolType() const { return protocolType_; }  // empty: offsets only
  WallMs stateSince() const { return stateSince_; }
  size_t memberCount() const { return members_.size(); }
  bool subscribes(std::string_view topic) const;  // as far as members say what they read
  const std::deque<Rebalance>& history() const { return history_; }

  void join(const Caller& caller, wire::JoinGroupRequest&& asked, const Now& now,
            Answer<wire::JoinGroupResponse> answer, Effects& effects);
  void sync(wire::SyncGroupRequest&& asked, const Now& now, Answer<wire::SyncGroupResponse> answer, Effects& effects);
  Error heartbeat(const std::string& member, const std::optional<std::string>& instance, int32_t generation,
                  const Now& now);
  wire::LeaveGroupResponse::MemberResponse leave(const wire::LeaveGroupRequest::MemberIdentity& asked, const Now& now,
                                                 Effects& effects);
  // Whether a commit may be taken; one that may is a sign of life. One in a transaction may come from who is no member
  // (clients before KIP-447 do not say), and in the middle of a rebalance.
  enum class CommitKind : uint8_t { plain, transactional };
  Error admitCommit(const std::string& member, const std::optional<std::string>& instance, int32_t generation,
                    const Now& now, CommitKind kind = CommitKind::plain);
  wire::DescribeGroupsResponse::DescribedGroup describe() const;

  std::optional<Instant> deadline() const;
  void expire(const Now& now, Effects& effects);

 private:
  using JoinAnswer = Answer<wire::JoinGroupResponse>;
  using SyncAnswer = Answer<wire::SyncGroupResponse>;
  using Protocols = std::vector<wire::JoinGroupRequest::JoinGroupRequestProtocol>;

  struct Member : ClassicMember {
    Instant sessionEnd;
    bool isNew = true;  // has never been answered a join
    JoinAnswer join;    // waits for everybody
    SyncAnswer sync;    // waits for the leader
    bool isWaiting() const { return join || sync; }
  };
  using Members = std::map<std::string, Member>;

  // Joining.
  struct Joining {
    const Caller& caller;
    wire::JoinGroupRequest& asked;
    const Now& now;
    Effects& effects;
  };
  void joinNew(Joining joining, JoinAnswer answer);
  void joinAgain(Joining joining, JoinAnswer answer);
  void replaceStatic(Joining joining, const std::string& oldId, JoinAnswer answer);
  bool admits(const std::string& member) const;
  bool supports(const std::string& type, const Protocols& protocols) const;
  std::string newMemberId(const Joining& joining) const;
  Member& add(Joining& joining, const std::string& id);
  void update(Member& member, Joining& joining);
  void await(Member& member, JoinAnswer answer, Effects& effects);
  void answerNow(const Member& member, JoinAnswer answer, Effects& effects) const;
  wire::JoinGroupResponse joined(const Member& member) const;
  std::string joinReason(const Joining& joining, std::string_view what, const std::string& member) const;

  // Rebalancing.
  void prepare(std::string reason, const Now& now, Effects& effects);
  void completeIfAllJoined(const Now& now, Effects& effects);
  void joinTimeIsUp(const Now& now, Effects& effects);
  void completeJoin(const Now& now, Effects& effects);
  void becomeStable(wire::SyncGroupRequest& asked, const Now& now, Effects& effects);
  void remove(const std::string& member, Error why, Effects& effects);
  void removed(std::string reason, const Now& now, Effects& effects);
  void enter(State state, const Now& now);
  std::optional<std::string> select() const;
  Duration rebalanceTimeoutMax() const;
  bool allJoined() const;
  void record(Effects& effects);

  Error known(const std::string& member, const std::optional<std::string>& instance) const;
  void take(ClassicMember&& member);
  void countProtocols(const Member& member, int by);
  const Bytes subscriptionOf(const Member& member) const;
  void keepAlive(Member& member, const Now& now) { member.sessionEnd = now.instant + member.sessionTimeout; }

  const std::string id_;
  const GroupSettings& settings_;
  State state_ = State::empty;
  bool recorded_ = false;
  WallMs stateSince_ = kNoTimestamp;
  int32_t generation_ = 0;
  std::string protocolType_;
  std::optional<std::string> protocol_;
  std::string leader_;  // member id; empty: none
  Members members_;
  std::map<std::string, std::string> instances_;  // instance id → member id
  std::map<std::string, Instant> pending_;        // given a member id, to come back with it by then
  std::map<std::string, int> protocolCounts_;     // members that support it
  std::set<std::string> unsynced_;                // of this generation, have not asked for their assignment

  Instant joinEnd_;       // preparingRebalance: whoever has not joined by then is out
  bool initial_ = false;  // the first members gather: all of joinEnd_ is waited for, and it moves while more come
  bool joinedMeanwhile_ = false;
  Duration delayLeft_{};
  Instant syncEnd_;  // completingRebalance and stable with unsynced_
  std::deque<Rebalance> history_;
};

}  // namespace mq::coordinator

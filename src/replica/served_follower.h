// ServedFollower: one session of a follower on one shard of its leader. Keeps the places that it named, and looks only
// at those that may have news, as Reader does for consumers.
//
// A place is due when it is named, when bytes come behind it, when the partition changes; and, without waking anybody,
// when the high watermark or the log start has moved. Once bytes, an error or a divergence were sent for it, it waits
// to be named again.
//
// The session counts only while the metadata knows its node in that incarnation: it waits until it does, and is over
// when it does so no more.
#pragma once
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "metadata/image.h"
#include "replica/followers.h"
#include "replica/partition.h"
#include "replica/replication.h"
#include "runtime/shard.h"

namespace mq::replica {

class ServedFollower final : public FollowerSession {
 public:
  // What it needs of Partitions.
  class Home {
   public:
    virtual ~Home() = default;
    virtual Partition* partitionOf(const TopicIdPartition& id) = 0;  // null: not here, or not yet
    virtual const metadata::Image& image() const = 0;
    virtual void hear(const TopicIdPartition& id, ServedFollower& session) = 0;
    virtual void hearNoMore(const TopicIdPartition& id, ServedFollower& session) = 0;
    virtual void recognised(ServedFollower& session) = 0;  // earlier sessions of its node are over
    virtual void forget(ServedFollower& session) = 0;      // it is being destroyed
  };

  ServedFollower(Shard& shard, Home& home, FollowerId who);
  ~ServedFollower() noexcept override;

  kj::Promise<FollowResponse> follow(FollowRequest request) override;
  void report(const std::vector<DurableReport>& reports) override;

  const FollowerId& who() const { return who_; }
  // --- Partitions
  void moved(const TopicIdPartition& id, bool isUrgent);
  void brokersChanged();
  // Nothing was asked for so long: then nobody knows whether it lives.
  bool isSilent(Instant now, Duration limit) const { return !isAsked_ && now - lastAsked_ > limit; }
  void end(const char* why);

 private:
  using Due = std::list<TopicIdPartition>;
  struct Kept {
    FollowPlace place;
    bool isNew = true;       // not looked at with success
    bool isAwaited = false;  // the follower was told to move
    bool isDue = false;
    Due::iterator due;
    Offset toldHighWatermark{-1};
    Offset toldStart{-1};
  };
  Co<FollowResponse> serve(FollowRequest request);
  void take(const FollowRequest& request);
  bool isRecognised() const;
  void makeDue(const TopicIdPartition& id, Kept& kept);
  void notDue(Kept& kept);
  // What there is to say; isNews_ if some of it is worth an answer before the time is over.
  FollowResponse look(uint32_t bytesMax);
  void noteTold(const FollowResponse& response);
  kj::Promise<void> wait(Duration atMost);
  void wake();

  Shard& shard_;
  Home* home_;  // null: the session is over
  const FollowerId who_;
  std::string ended_;
  bool wasRecognised_ = false;
  std::map<TopicIdPartition, Kept> places_;
  Due due_;                // in the order of service
  bool isUrgent_ = false;  // since the last look
  bool isNews_ = false;
  bool isAsked_ = false;  // a follow() is being served
  Instant lastAsked_;
  kj::Own<kj::PromiseFulfiller<void>> waiting_;
};

}  // namespace mq::replica

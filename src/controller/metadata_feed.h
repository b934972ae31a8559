// MetadataFeed: the cluster's metadata as one shard sees it. One per shard; the controller (in a cluster: the link to
// it) publishes each new image to all of them, in order. Lives on its shard from before the controller until after it.
//
// A subscriber is called once per published image, in the order of subscription; image() is the new one by then. It
// must not throw and not wait: what takes longer it starts and leaves to its own task set.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include <kj/async.h>

#include "metadata/image.h"

namespace mq::controller {

class MetadataFeed {
 public:
  using Subscriber = std::function<void(const metadata::ImageRef& image, const metadata::Delta& delta)>;

  MetadataFeed();
  ~MetadataFeed() noexcept(false);
  KJ_DISALLOW_COPY(MetadataFeed);

  const metadata::ImageRef& image() const { return image_; }  // never null; empty until the first one is published

  // Called at once with the present image as seen from an empty one, then with each new one. The subscription ends with
  // the returned object, which must not outlive the feed.
  [[nodiscard]] kj::Own<void> subscribe(Subscriber subscriber);

  // Resolves when the image holds log entry `offset` (an answer of the controller says at which offset it shows).
  kj::Promise<void> reached(int64_t offset);

  // The publisher's side.
  void publish(metadata::ImageRef image, const metadata::Delta& delta);

 private:
  metadata::ImageRef image_;
  uint64_t nextSubscription_ = 0;
  std::map<uint64_t, Subscriber> subscribers_;  // in order of subscription
  std::multimap<int64_t, kj::Own<kj::PromiseFulfiller<void>>> waiting_;
};

}  // namespace mq::controller

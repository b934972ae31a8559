#include "controller/metadata_feed.h"

#include "base/check.h"

namespace mq::controller {
namespace {

struct Subscription {
  Subscription(std::map<uint64_t, MetadataFeed::Subscriber>& from, uint64_t number) : from_(from), number_(number) {}
  ~Subscription() { from_.erase(number_); }
  std::map<uint64_t, MetadataFeed::Subscriber>& from_;
  uint64_t number_;
};

}  // namespace

MetadataFeed::MetadataFeed() : image_(metadata::emptyImage()) {}
MetadataFeed::~MetadataFeed() noexcept(false) {}

kj::Own<void> MetadataFeed::subscribe(Subscriber subscriber) {
  subscriber(image_, metadata::difference(*metadata::emptyImage(), *image_));
  uint64_t number = nextSubscription_++;
  subscribers_.emplace(number, std::move(subscriber));
  return kj::heap<Subscription>(subscribers_, number);
}

kj::Promise<void> MetadataFeed::reached(int64_t offset) {
  if (image_->offset() >= offset) return kj::READY_NOW;
  auto paf = kj::newPromiseAndFulfiller<void>();
  waiting_.emplace(offset, kj::mv(paf.fulfiller));
  return kj::mv(paf.promise);
}

void MetadataFeed::publish(metadata::ImageRef image, const metadata::Delta& delta) {
  MQ_CHECK(image->offset() >= image_->offset(), image->offset(), image_->offset());
  image_ = std::move(image);
  // By number, since a subscriber may end its own subscription or begin another, which sees this image at once.
  uint64_t end = nextSubscription_;
  for (auto at = subscribers_.begin(); at != subscribers_.end() && at->first < end;) {
    uint64_t number = at->first;
    Subscriber subscriber = at->second;
    subscriber(image_, delta);
    at = subscribers_.upper_bound(number);
  }
  auto reached = waiting_.upper_bound(image_->offset());
  for (auto at = waiting_.begin(); at != reached; ++at) at->second->fulfill();
  waiting_.erase(waiting_.begin(), reached);
}

}  // namespace mq::controller

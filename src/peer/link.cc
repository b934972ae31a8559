#include "peer/link.h"

#include <kj/debug.h>

#include <algorithm>
#include <utility>

#include "peer/connection.h"
#include "peer/controller_messages.h"
#include "peer/coordinator_messages.h"
#include "peer/handshake.h"
#include "peer/peer.capnp.h"
#include "peer/raft_messages.h"
#include "runtime/tasks.h"

namespace mq::peer {
namespace {

constexpr size_t kEnvelopeBytes = 4096;  // what RPC adds to a message, with room

kj::Exception disconnected(const std::string& why) {
  return kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__, kj::str(why.c_str()));
}

}  // namespace

class Link::Impl {
 public:
  Impl(Shard& shard, const Identity& self, Target target, LinkOptions options)
      : shard_(shard), self_(self), target_(std::move(target)), options_(options), tasks_(shard.log(), "link-failed") {
    tasks_.add(run());
  }

  const Target& target() const { return target_; }
  bool isUp() const { return up_ != nullptr; }
  const std::optional<Identity>& reached() const { return reached_; }
  const std::string& problem() const { return problem_; }
  const Figures& figures() const { return figures_; }
  bool wasRefused() const { return isRefused_; }
  void onChange(std::function<void()> call) { onChange_ = std::move(call); }

  void post(const raft::Message& message) {
    size_t cost = costOf(message);
    if (!isUp() || (posted_ > 0 && posted_ + cost > options_.postedBytesMax)) {
      ++figures_.dropped;
      return;
    }
    auto request = up_->services.raftRequest(capnp::MessageSize{cost / sizeof(capnp::word) + 1, 0});
    write(request.initMessage(), message);
    posted_ += cost;
    tasks_.add(request.send().ignoreResult().then(
        [this, cost] {
          posted_ -= cost;
          *heard_ = shard_.now();
        },
        [this, cost](kj::Exception&& reason) {
          posted_ -= cost;
          ++figures_.dropped;
          shard_.log().debug("message-not-taken", "{}: {}", name(), describe(reason));
        }));
  }

  // The link may be destroyed while one of these waits: then the call is rejected, and nothing of `this` is touched.

  Co<Duration> ping(Duration limit) {
    if (!isUp()) throw disconnected(whyAway());
    Instant begin = shard_.now();
    co_await shard_.within(limit, up_->services.pingRequest().send().ignoreResult());
    co_return shard_.now() - begin;
  }

  Co<controller::NodeStatus> status(Duration limit) {
    if (!isUp()) throw disconnected(whyAway());
    auto answer = co_await answerOf(limit, up_->services.statusRequest().send());
    co_return read(answer.getStatus());
  }

  Co<controller::NodeStatus> join(const controller::JoinRequest& request, Duration limit) {
    if (!isUp()) throw disconnected(whyAway());
    auto call = up_->services.joinRequest();
    write(call.initRequest(), request);
    auto answer = co_await answerOf(limit, call.send());
    co_return read(answer.getStatus());
  }

  Co<Result<controller::Answered>> ask(const controller::Request& request, Duration limit) {
    if (!isUp()) co_return failure(Error::notController, "{}", whyAway());
    std::string there = name();
    auto call = up_->services.askRequest();
    size_t bytes = SIZE_MAX;
    if (kj::runCatchingExceptions([&] {
          auto message = call.initRequest();
          write(message, request);
          bytes = message.totalSize().wordCount * sizeof(capnp::word);
        }) != nullptr ||
        bytes > options_.messageBytesMax - kEnvelopeBytes) {
      co_return failure(Error::invalidRequest, "the request is larger than the {} bytes of a message between nodes",
                        options_.messageBytesMax);
    }
    std::optional<kj::Exception> failed;
    try {
      auto answer = co_await answerOf(limit, call.send());
      co_return read(answer.getAnswer());
    } catch (...) {
      failed.emplace(caughtException());
    }
    if (failed->getType() == kj::Exception::Type::UNIMPLEMENTED)
      co_return failure(Error::notController, "{} does not know such requests", there);
    co_return failure(Error::requestTimedOut, "{} has not answered: {}", there, describe(*failed));
  }

  Co<Result<void>> writeMarker(const coordinator::MarkerRequest& request, Duration limit) {
    constexpr Error kLost = Error::networkException;
    if (!isUp()) co_return failure(kLost, "{}", whyAway());
    auto call = up_->services.writeMarkerRequest();
    write(call.initRequest(), request);
    co_return co_await statusOf(kLost, limit, call.send());
  }

  Co<Result<void>> mayEnter(const coordinator::EntryRequest& request, Duration limit) {
    constexpr Error kLost = Error::coordinatorNotAvailable;
    if (!isUp()) co_return failure(kLost, "{}", whyAway());
    auto call = up_->services.mayEnterRequest();
    write(call.initRequest(), request);
    co_return co_await statusOf(kLost, limit, call.send());
  }

 private:
  struct Up {
    Up(Shard& shard, kj::Own<Stream> stream, size_t messageBytesMax)
        : connection(shard, kj::mv(stream), messageBytesMax),
          services(connection.interface().castAs<schema::Services>()) {}
    Connection connection;
    schema::Services::Client services;
  };

  template <class Results>
  kj::Promise<capnp::Response<Results>> answerOf(Duration limit, capnp::RemotePromise<Results> call) {
    kj::Promise<capnp::Response<Results>> answer = kj::mv(call);
    return shard_.within(limit, answer.then([heard = heard_, &shard = shard_](capnp::Response<Results>&& response) {
      *heard = shard.now();
      return kj::mv(response);
    }));
  }

  template <class Results>
  Co<Result<void>> statusOf(Error lost, Duration limit, capnp::RemotePromise<Results> call) {
    std::string there = name();
    std::optional<kj::Exception> failed;
    try {
      auto answer = co_await answerOf(limit, kj::mv(call));
      co_return readStatus(answer.getStatus());
    } catch (...) {
      failed.emplace(caughtException());
    }
    co_return failure(lost, "{} has not answered: {}", there, describe(*failed));
  }

  std::string whyAway() const { return problem_.empty() ? name() + " is not reached yet" : problem_; }
  std::string name() const {
    std::string node = target_.node == kNoNode ? "the node" : fmt::format("node {}", target_.node);
    return fmt::format("{} at {}", node, target_.address.toString());
  }

  Co<void> run() {
    Duration pause = options_.retryMin;
    while (true) {
      Instant begin = shard_.now();
      std::string problem;
      try {
        co_await shard_.within(options_.connectTimeout, connect());
        co_await up_->connection.onEnd().exclusiveJoin(watch());
        problem = "closed the connection";
      } catch (...) {
        problem = describe(caughtException());
      }
      bool wasUp = isUp();
      up_ = nullptr;
      ++figures_.failed;
      bool isNews = wasUp || isRefused_ != (wasReached_ && isTurnedAway_);
      isRefused_ = wasReached_ && isTurnedAway_;
      tell(fmt::format("{}: {}", name(), problem), wasUp);
      if (isNews && onChange_) onChange_();
      // One that lasted begins with short pauses again. Half of the pause by chance: nodes that lost the same one at
      // the same moment do not come back at the same.
      if (wasUp && shard_.now() - begin > options_.retryMax) pause = options_.retryMin;
      co_await shard_.after(pause / 2 + Duration(shard_.random().below(static_cast<uint64_t>(pause.count() / 2 + 1))));
      pause = std::min(pause * 2, options_.retryMax);
    }
  }

  Co<void> connect() {
    isTurnedAway_ = false;
    kj::Own<Stream> stream =
        co_await shard_.network().connect(target_.address).catch_([this](kj::Exception&& reason) -> kj::Own<Stream> {
          isTurnedAway_ = mq::isRefused(reason);
          kj::throwFatalException(kj::mv(reason));
        });
    Greeting hello{.identity = self_, .wanted = target_.node, .channel = target_.channel, .shards = shard_.count()};
    Identity reached = (co_await greet(*stream, std::move(hello))).identity;
    if (auto wrong = mismatch(self_, target_.node, reached)) KJ_FAIL_REQUIRE(wrong->c_str());
    up_ = std::make_unique<Up>(shard_, kj::mv(stream), options_.messageBytesMax);
    ++figures_.connected;
    problem_.clear();
    reached_ = std::move(reached);
    wasReached_ = true;
    isRefused_ = false;
    if (isTold()) shard_.log().info("peer-connected", "{}, mq {}", name(), reached_->version);
    if (onChange_) onChange_();
  }

  // A ping may wait behind megabytes that a slow network is taking: any answer is a sign of life.
  Co<void> watch() {
    *heard_ = shard_.now();
    bool isAnswered = true;
    kj::Promise<void> ping = nullptr;
    while (true) {
      if (std::exchange(isAnswered, false)) {
        ping = up_->services.pingRequest()
                   .send()
                   .ignoreResult()
                   .then([&] {
                     isAnswered = true;
                     *heard_ = shard_.now();
                   })
                   .eagerlyEvaluate(nullptr);
      }
      co_await shard_.after(options_.pingInterval);
      Duration silence = shard_.now() - *heard_;
      if (silence > options_.pingTimeout) throw disconnected(fmt::format("no answer for {} ms", silence / 1ms));
    }
  }

  // Of the links to a node one speaks to people for all.
  bool isTold() const { return target_.channel == Channel::control; }

  // Each reason once, however often it is tried.
  void tell(std::string problem, bool wasUp) {
    if (problem == problem_) return;
    problem_ = std::move(problem);
    if (isTold()) shard_.log().warning(wasUp ? "peer-lost" : "peer-unreachable", "{}", problem_);
  }

  Shard& shard_;
  const Identity& self_;
  Target target_;
  LinkOptions options_;
  std::unique_ptr<Up> up_;
  std::optional<Identity> reached_;
  std::string problem_;
  Figures figures_;
  size_t posted_ = 0;          // bytes, not answered
  bool wasReached_ = false;    // was up at least once
  bool isTurnedAway_ = false;  // the last attempt: nobody listens there
  bool isRefused_ = false;
  std::function<void()> onChange_;
  std::shared_ptr<Instant> heard_ = std::make_shared<Instant>();  // of the present connection
  Tasks tasks_;                                                   // last: uses what is above
};

Link::Link(Shard& shard, const Identity& self, Target target, LinkOptions options)
    : impl_(std::make_unique<Impl>(shard, self, std::move(target), options)) {}
Link::~Link() noexcept(false) {}

const Link::Target& Link::target() const { return impl_->target(); }
bool Link::isUp() const { return impl_->isUp(); }
const std::optional<Identity>& Link::reached() const { return impl_->reached(); }
const std::string& Link::problem() const { return impl_->problem(); }
const Link::Figures& Link::figures() const { return impl_->figures(); }
void Link::post(const raft::Message& message) { impl_->post(message); }
bool Link::wasRefused() const { return impl_->wasRefused(); }
void Link::onChange(std::function<void()> call) { impl_->onChange(std::move(call)); }
kj::Promise<Duration> Link::ping(Duration limit) { return impl_->ping(limit); }
kj::Promise<controller::NodeStatus> Link::status(Duration limit) { return impl_->status(limit); }
kj::Promise<controller::NodeStatus> Link::join(const controller::JoinRequest& request, Duration limit) {
  return impl_->join(request, limit);
}
kj::Promise<Result<controller::Answered>> Link::ask(const controller::Request& request, Duration limit) {
  return impl_->ask(request, limit);
}
kj::Promise<Result<void>> Link::writeMarker(const coordinator::MarkerRequest& request, Duration limit) {
  return impl_->writeMarker(request, limit);
}
kj::Promise<Result<void>> Link::mayEnter(const coordinator::EntryRequest& request, Duration limit) {
  return impl_->mayEnter(request, limit);
}

}  // namespace mq::peer

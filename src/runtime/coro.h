// Co<T>: what a coroutine returns. It is a kj::Promise<T>; KJ 0.9.2 has no coroutines of its own, on a newer KJ this is
// an alias and nothing else.
//
//   Co<size_t> copy(Stream& from, Stream& to) {
//     uint8_t block[4096];
//     size_t count = co_await from.tryRead(block, 1, sizeof block);
//     co_await to.write(block, count);
//     co_return count;
//   }
//
// A coroutine runs at once, inside the call, up to its first co_await; from then on each co_await goes through the
// event queue, even when the promise is ready. It can await any kj::Promise; the awaited promise is consumed. An
// exception, its own or an awaited one's, rejects its promise.
//
// Dropping the promise cancels: the frame is destroyed where it waits, innermost first, locals before parameters. So
//   - what must happen all the same belongs into a task of the owner (Tasks, Shard::spawn), not into the caller's
//   frame;
//   - take parameters by value, or by reference to what outlives the promise; a view of a temporary dies with the call;
//   - a lambda that is a coroutine keeps its captures in the lambda: the lambda must outlive its promise;
//   - a coroutine must not drop its own promise, not even through others: KJ ends the process.
//
// Uses of KJ's internals, all in kj/async-inl.h: PromiseNode, Event, ExceptionOr and their helpers.
#pragma once
#include <kj/async.h>
#include <kj/exception.h>

#include <coroutine>
#include <utility>

namespace mq {

// The exception being handled, as KJ's: a std::exception keeps its what(). Only inside a catch block.
kj::Exception caughtException();

#if defined(KJ_HAS_COROUTINE)

template <class T>
using Co = kj::Promise<T>;

#else

// A type of its own only for [[nodiscard]]: a promise forgotten is an operation cancelled.
template <class T>
class [[nodiscard]] Co : public kj::Promise<T> {
 public:
  using kj::Promise<T>::Promise;
  Co(kj::Promise<T>&& promise) noexcept : kj::Promise<T>(kj::mv(promise)) {}  // NOLINT: they are one
  // KJ asks for this name where a continuation returns a Co<T>, to flatten a promise of a promise.
  static kj::Promise<T> reducePromise(kj::Promise<Co<T> >&& promise) {
    return promise.then([](Co<T>&& inner) -> kj::Promise<T> { return kj::mv(inner); });
  }
};

namespace coro_detail {

// The state of one coroutine, placed in its frame. It is three things to KJ: the node behind the promise it returned,
// the event that the promise it awaits arms, and the disposer that frees the frame.
class CoroutineBase : public kj::_::PromiseNode, public kj::_::Event, private kj::Disposer {
 public:
  CoroutineBase(std::coroutine_handle<> frame, kj::_::ExceptionOrValue& result) : frame_(frame), result_(result) {}

  std::suspend_never initial_suspend() noexcept { return {}; }
  std::suspend_always final_suspend() noexcept { return {}; }  // the frame holds the result until the consumer took it
  void unhandled_exception() noexcept {
    result_.addException(caughtException());
    finish();
  }

  void onReady(kj::_::Event* event) noexcept override { consumer_.init(event); }
  void tracePromise(kj::_::TraceBuilder& builder, bool stopAtNextEvent) override {
    if (stopAtNextEvent) return;
    if (awaited_ != nullptr) awaited_->tracePromise(builder, false);
    builder.add(resumeAddress());
  }
  void traceEvent(kj::_::TraceBuilder& builder) override {
    if (awaited_ != nullptr) awaited_->tracePromise(builder, true);
    builder.add(resumeAddress());
    consumer_.traceEvent(builder);
  }

 protected:
  ~CoroutineBase() noexcept(false) {}
  const kj::Disposer& disposer() const { return *this; }
  bool finished() const { return finished_; }
  // Arms the consumer, once: a local whose destructor throws after co_return comes here a second time.
  void finish() {
    if (finished_) return;
    finished_ = true;
    consumer_.arm();
  }

 private:
  friend class AwaiterBase;
  kj::Maybe<kj::Own<kj::_::Event> > fire() override {
    awaited_ = nullptr;
    frame_.resume();
    return nullptr;
  }
  void disposeImpl(void*) const override { frame_.destroy(); }
  // Where the frame continues: the first word of a frame, which addr2line turns into the coroutine's name.
  void* resumeAddress() const { return *static_cast<void**>(frame_.address()); }

  std::coroutine_handle<> frame_;
  kj::_::ExceptionOrValue& result_;
  OnReadyEvent consumer_;
  kj::_::PromiseNode* awaited_ = nullptr;
  bool finished_ = false;
};

class AwaiterBase {
 public:
  explicit AwaiterBase(kj::Own<kj::_::PromiseNode>&& node) : node_(kj::mv(node)) {}
  AwaiterBase(const AwaiterBase&) = delete;
  AwaiterBase& operator=(const AwaiterBase&) = delete;
  ~AwaiterBase() noexcept(false) {
    forget();
    // A destructor in the awaited chain may throw; it must not while this frame unwinds already.
    unwind_.catchExceptionsIfUnwinding([this] { node_ = nullptr; });
  }
  bool await_ready() const noexcept { return false; }

 protected:
  void waitFor(CoroutineBase& coroutine) {
    coroutine_ = &coroutine;
    node_->setSelfPointer(&node_);
    coroutine.awaited_ = node_.get();
    node_->onReady(&coroutine);
  }
  void take(kj::_::ExceptionOrValue& result) {
    forget();
    node_->get(result);
  }

 private:
  void forget() {
    if (coroutine_ != nullptr) coroutine_->awaited_ = nullptr;
  }
  kj::Own<kj::_::PromiseNode> node_;
  CoroutineBase* coroutine_ = nullptr;
  kj::UnwindDetector unwind_;
};

template <class T>
class Awaiter final : public AwaiterBase {
 public:
  explicit Awaiter(kj::Promise<T>&& promise) : AwaiterBase(kj::_::PromiseNode::from(kj::mv(promise))) {}
  template <class P>
  void await_suspend(std::coroutine_handle<P> frame) {
    waitFor(frame.promise());
  }
  T await_resume() {
    kj::_::ExceptionOr<kj::_::FixVoid<T> > result;
    take(result);
    return kj::_::convertToReturn(kj::mv(result));
  }
};

template <class T>
class Coroutine;

template <class T>
struct Returns {
  void return_value(T value) { static_cast<Coroutine<T>*>(this)->fulfill(kj::mv(value)); }
};
template <>
struct Returns<void> {
  inline void return_void();
};

template <class T>
class Coroutine final : public CoroutineBase, public Returns<T> {
 public:
  using Value = kj::_::FixVoid<T>;

  Coroutine() : CoroutineBase(std::coroutine_handle<Coroutine>::from_promise(*this), result_) {}
  ~Coroutine() noexcept(false) {}

  Co<T> get_return_object() {
    kj::Own<kj::_::PromiseNode> node(static_cast<kj::_::PromiseNode*>(this), disposer());
    return Co<T>(kj::_::PromiseNode::to<kj::Promise<T> >(kj::mv(node)));
  }
  void get(kj::_::ExceptionOrValue& output) noexcept override { output.as<Value>() = kj::mv(result_); }

  template <class U>
  Awaiter<U> await_transform(kj::Promise<U>&& promise) {
    return Awaiter<U>(kj::mv(promise));
  }
  template <class U>
  Awaiter<U> await_transform(kj::Promise<U>& promise) {
    return Awaiter<U>(kj::mv(promise));
  }

  void fulfill(Value&& value) {
    if (finished()) return;
    result_ = kj::_::ExceptionOr<Value>(kj::mv(value));
    finish();
  }

 private:
  kj::_::ExceptionOr<Value> result_;
};

inline void Returns<void>::return_void() { static_cast<Coroutine<void>*>(this)->fulfill(kj::_::Void()); }

}  // namespace coro_detail

#endif

}  // namespace mq

#if !defined(KJ_HAS_COROUTINE)
template <class T, class... Args>
struct std::coroutine_traits<mq::Co<T>, Args...> {
  using promise_type = mq::coro_detail::Coroutine<T>;
};
#endif

#include "kafka/connection.h"

#include <array>

#include <kj/debug.h>

#include "base/check.h"
#include "kafka/server.h"
#include "wire/produce_request.h"

namespace mq::kafka {

namespace {

constexpr size_t kTurnBytesMax = 1 << 20;      // read from one client before others get a look
constexpr size_t kGatherBytesMax = 256 << 10;  // written at a time
constexpr size_t kGatherAnswersMax = 64;
constexpr size_t kUnansweredMax = 8;               // requests other than Produce, of which Kafka serves one at a time
constexpr size_t kUnsentBytesMax = 256 << 10;      // of encoded answers; with more the client is not served further
constexpr size_t kCopiedSliceBytesMax = 16 << 10;  // less is cheaper to read and write with the head than to sendfile
constexpr uint64_t kSlowestBytesPerSecond = 64 << 10;  // a frame may take longer than its time-out at this pace

// The answer with its slices read into it.
Buffer withSlicesRead(const Response& response) {
  size_t total = response.bytes.size();
  for (const FileSlice& slice : response.slices) total += slice.length;
  Buffer whole(total);
  size_t from = 0, to = 0;
  for (size_t i = 0; i < response.slices.size(); ++i) {
    size_t count = response.splices[i].at - from;
    std::memcpy(whole.data() + to, response.bytes.data() + from, count);
    from += count;
    to += count;
    const FileSlice& slice = response.slices[i];
    size_t read = slice.file->read(slice.position, {whole.data() + to, slice.length});
    KJ_REQUIRE(read == slice.length, "a log file is shorter than its index says", slice.file->path().c_str(),
               slice.position, slice.length, read);
    to += slice.length;
  }
  std::memcpy(whole.data() + to, response.bytes.data() + from, response.bytes.size() - from);
  return whole;
}

}  // namespace

Connection::Connection(Server& server, kj::Own<Stream> stream, const ListenerOptions& listener)
    : server_(server),
      stream_(kj::mv(stream)),
      session_{.listener = listener,
               .peer = {plainHost(stream_->peer().host), stream_->peer().port},
               .local = {plainHost(stream_->local().host), stream_->local().port},
               .leaving =
                   [this] {
                     auto paf = kj::newPromiseAndFulfiller<void>();
                     leave_ = kj::mv(paf.fulfiller);
                     return paf.promise.fork();
                   }()},
      reader_(server.pool(),
              {.frameBytesMax = static_cast<size_t>(server.settings().requestBytesMax), .served = isServed}),
      aborted_(nullptr),
      lastActive_(server.shard().now()) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  abort_ = kj::mv(paf.fulfiller);
  aborted_ = kj::mv(paf.promise);
}

void Connection::Pending::count(size_t bytes) {
  BufferPool& pool = request.server.pool();
  pool.count(bytes);
  pool.uncount(std::exchange(counted, bytes));
}

bool Connection::Pending::isProduce() const { return request.api.key == wire::ProduceRequest::kApiKey; }

std::string Connection::describePeer() const {
  std::string text = session_.peer.toString();
  if (!session_.softwareName.empty())
    text += fmt::format(" ({} {})", session_.softwareName, session_.softwareVersion);
  else if (!session_.clientId.empty())
    text += fmt::format(" (client id \"{}\")", session_.clientId);
  return text;
}

kj::Promise<void> Connection::run() {
  transmitting_ = transmit().eagerlyEvaluate([this](kj::Exception&& e) { abort_->reject(kj::mv(e)); });
  return receive().exclusiveJoin(kj::mv(aborted_)).catch_([this](kj::Exception&& e) {
    // A peer that went away is daily life.
    auto level = e.getType() == kj::Exception::Type::DISCONNECTED ? LogLevel::debug : LogLevel::error;
    Logger& log = server_.shard().log();
    if (log.enabled(level)) {
      log.write(level, "connection-failed", fmt::format("{}: {}", describePeer(), describe(e)));
    }
  });
}

void Connection::leave() {
  session_.isLeaving = true;
  leave_->fulfill();
  if (pending_.empty() && !writingSince_) abort_->fulfill();
}

void Connection::abort(std::string reason) {
  server_.shard().log().info("connection-closed", "{}: {}", describePeer(), reason);
  abort_->fulfill();
}

Connection::Overdue Connection::overdue(Instant now) const {
  const auto& settings = server_.settings();
  if (frameSince_) {
    auto limit = std::chrono::milliseconds(settings.requestReadTimeoutMs) +
                 std::chrono::seconds(reader_.partialBytes() / kSlowestBytesPerSecond);
    if (now - *frameSince_ > limit) return Overdue::stalled;
  }
  auto idle = std::chrono::milliseconds(settings.connectionsIdleMaxMs);
  if (writingSince_ && now - *writingSince_ > idle) return Overdue::notReading;
  if (pending_.empty() && now - lastActive_ > idle) return Overdue::idle;
  return Overdue::no;
}

void Connection::reject(const std::string& mistake) {
  server_.shard().log().warning("bad-request", "{} {}; closing the connection (listener {}, {})", describePeer(),
                                mistake, session_.listener.name, session_.listener.listen.toString());
}

Co<void> Connection::receive() {
  size_t readThisTurn = 0;
  for (;;) {
    Frame frame;
    auto next = reader_.next(&frame);
    if (next == FrameReader::Next::frame) {
      frameSince_.reset();
      if (session_.isLeaving) break;
      if (!start(std::move(frame))) co_return;
      // What a Produce answers is small, and appends of one turn share a write. Of all else the answer is made, counted
      // and on its way, if it can be had at once, before the next request is looked at.
      if (!pending_.back()->isProduce()) co_await kj::evalLast([] {});
      while (isBehind()) {
        auto paf = kj::newPromiseAndFulfiller<void>();
        wakeReceive_ = kj::mv(paf.fulfiller);
        co_await kj::mv(paf.promise);
      }
      continue;
    }
    if (next == FrameReader::Next::mistake) {
      server_.metrics().connectionsGarbage.add();
      reject(reader_.mistake());
      co_return;
    }
    MutableBytes space;
    if (next == FrameReader::Next::more) space = reader_.space();
    if (space.empty()) {
      frameSince_.reset();
      server_.metrics().requestMemoryPauses.add();
      co_await reader_.room();
      continue;
    }
    bool open = true;
    size_t count = 0;
    if (readThisTurn < kTurnBytesMax) {
      count = stream_->readNow(space, &open);
    } else {
      co_await kj::evalLast([] {});
      readThisTurn = 0;
      continue;
    }
    if (count == 0) {
      if (!open) break;
      if (reader_.partial() && !frameSince_) frameSince_ = server_.shard().now();
      count = co_await stream_->tryRead(space.data(), 1, space.size());
      readThisTurn = 0;
      if (count == 0) break;
      lastActive_ = server_.shard().now();
    }
    readThisTurn += count;
    server_.metrics().receivedBytes.add(count);
    reader_.received(count);
  }
  // The peer sends no more. What it asked before is answered.
  session_.isLeaving = true;
  leave_->fulfill();
  if (!pending_.empty() || writingSince_) {
    auto paf = kj::newPromiseAndFulfiller<void>();
    wakeEmpty_ = kj::mv(paf.fulfiller);
    co_await kj::mv(paf.promise);
  }
}

// Whether the client has to take answers before it is served further.
bool Connection::isBehind() const {
  return pending_.size() >= kInFlightMax || unanswered_ >= kUnansweredMax || unsentBytes_ >= kUnsentBytesMax ||
         (unsentBytes_ > 0 && server_.pool().spent());
}

void Connection::wakeReceiveIfDue() {
  if (!wakeReceive_ || isBehind()) return;
  wakeReceive_->fulfill();
  wakeReceive_ = nullptr;
}

bool Connection::start(Frame frame) {
  ByteReader reader(frame.bytes);
  int16_t key = reader.int16();
  int16_t version = reader.int16();
  int32_t correlationId = reader.int32();
  const Api* api = findApi(key);
  MQ_CHECK(api != nullptr, key);  // the FrameReader asked isServed()

  if (api->versions.contains(version)) {  // else it is an ApiVersions from the future, and its header too may be
    int16_t length = reader.int16();
    std::string_view clientId = length < 0 ? std::string_view() : reader.text(static_cast<size_t>(length));
    if (api->request.flexible.contains(version)) {
      for (uint32_t tags = reader.unsignedVarint(); tags > 0 && reader.ok(); --tags) {
        reader.unsignedVarint();
        reader.skip(reader.unsignedVarint());
      }
    }
    if (!reader.ok()) {
      reject(fmt::format("sent a {} version {} with a broken header", api->name, version));
      return false;
    }
    if (session_.clientId != clientId) session_.clientId = clientId;
  }
  pending_.push_back(std::make_unique<Pending>(Request{.server = server_,
                                                       .session = session_,
                                                       .api = *api,
                                                       .frame = std::move(frame),
                                                       .version = version,
                                                       .correlationId = correlationId,
                                                       .body = reader,
                                                       .received = server_.shard().now()}));
  Pending& pending = *pending_.back();
  if (!pending.isProduce()) ++unanswered_;
  pending.work = api->serve(pending.request)
                     .then([this, &pending](Response&& response) { finished(pending, std::move(response)); })
                     .eagerlyEvaluate([this](kj::Exception&& e) { abort_->reject(kj::mv(e)); });
  pending.count(pending.request.decodedBytes);
  return true;
}

void Connection::finished(Pending& pending, Response&& response) {
  pending.response = std::move(response);
  pending.done = true;
  pending.count(pending.response.bytes.capacity());
  unsentBytes_ += pending.response.bytes.size();
  if (!pending.isProduce()) --unanswered_;
  wakeReceiveIfDue();
  if (pending_.front().get() == &pending && wakeTransmit_) {
    wakeTransmit_->fulfill();
    wakeTransmit_ = nullptr;
  }
}

Co<void> Connection::transmit() {
  std::vector<std::unique_ptr<Pending>> answers;
  for (;;) {
    if (pending_.empty() || !pending_.front()->done) {
      if (pending_.empty() && wakeEmpty_) wakeEmpty_->fulfill();
      if (pending_.empty() && session_.isLeaving) abort_->fulfill();
      auto paf = kj::newPromiseAndFulfiller<void>();
      wakeTransmit_ = kj::mv(paf.fulfiller);
      co_await kj::mv(paf.promise);
      co_await kj::evalLast([] {});  // what else becomes ready in this turn goes out with it
    }
    size_t bytes = 0;
    while (!pending_.empty() && pending_.front()->done && bytes < kGatherBytesMax &&
           answers.size() < kGatherAnswersMax) {
      answers.push_back(std::move(pending_.front()));
      pending_.pop_front();
      const Response& response = answers.back()->response;
      bytes += response.bytes.size();
      if (!response.slices.empty() || !response.closeBecause.empty()) break;
    }
    writingSince_ = server_.shard().now();
    co_await send(answers);
    writingSince_.reset();
    if (!answers.back()->response.closeBecause.empty()) {
      reject(answers.back()->response.closeBecause);
      abort_->fulfill();
      co_return;
    }
    lastActive_ = server_.shard().now();
    for (const auto& answer : answers) {
      metrics::ApiMetrics& metrics = server_.metrics(answer->request.api);
      metrics.requests.add();
      metrics.latency.observe(lastActive_ - answer->request.received);
      uint64_t sent = answer->response.bytes.size();
      for (const FileSlice& slice : answer->response.slices) sent += slice.length;
      server_.metrics().sentBytes.add(sent);
      unsentBytes_ -= answer->response.bytes.size();
    }
    answers.clear();
    wakeReceiveIfDue();
  }
}

Co<void> Connection::send(std::vector<std::unique_ptr<Pending>>& answers) {
  Response& last = answers.back()->response;
  uint64_t sliceBytes = 0;
  for (const FileSlice& slice : last.slices) sliceBytes += slice.length;
  Buffer copied;
  bool bySendfile = sliceBytes > kCopiedSliceBytesMax;
  if (sliceBytes > 0 && !bySendfile) copied = withSlicesRead(last);

  std::array<kj::ArrayPtr<const kj::byte>, kGatherAnswersMax> pieces;
  size_t count = 0;
  for (const auto& answer : answers) {
    const Response& response = answer->response;
    if (!response.closeBecause.empty() || response.bytes.empty()) continue;
    if (!response.slices.empty()) {
      if (bySendfile) continue;
      pieces[count++] = kj::arrayPtr(copied.data(), copied.size());
    } else {
      pieces[count++] = kj::arrayPtr(response.bytes.data(), response.bytes.size());
    }
  }
  if (bySendfile) stream_->cork(true);
  if (count > 0) co_await stream_->write(kj::arrayPtr(pieces.data(), count));
  if (bySendfile) {
    co_await sendWithSlices(last);
    stream_->cork(false);
  }
}

Co<void> Connection::sendWithSlices(Response& response) {
  size_t from = 0;
  for (size_t i = 0; i < response.slices.size(); ++i) {
    size_t to = response.splices[i].at;
    if (to > from) co_await stream_->write(response.bytes.data() + from, to - from);
    from = to;
    FileSlice& slice = response.slices[i];
    co_await stream_->sendFile(*slice.file, slice.position, slice.length);
    slice.file.reset();
  }
  if (from < response.bytes.size()) co_await stream_->write(response.bytes.data() + from, response.bytes.size() - from);
}

}  // namespace mq::kafka

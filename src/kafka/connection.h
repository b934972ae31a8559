// Connection: one client, from accept to close.
//
//   receive    socket -> FrameReader -> request, started at once, in the order of arrival
//   pending    requests being served, oldest first; many at a time
//   transmit   answers, in the order of the requests: what is ready in one turn goes out in one write
//
// What a client can make us hold is bounded: frames by the shard's BufferPool, requests by kInFlightMax, answers that
// it does not take by 256 KiB or, once the BufferPool is spent, by any at all; then the socket is not read. Half a
// frame, a reader that takes nothing and silence all have a deadline (overdue()), checked by the Server's sweep.
//
// Ends: the peer closes (what is pending is still answered, long polls at once), the peer is no Kafka client (one line
// in the log), a deadline, an I/O error, or leave(). An exception from a handler is a broken world: it is logged and
// ends this connection alone.
#pragma once
#include <deque>
#include <memory>

#include "kafka/apis.h"
#include "kafka/frame_reader.h"
#include "kafka/session.h"

namespace mq::kafka {

class Server;

class Connection {
 public:
  static constexpr size_t kInFlightMax = 256;

  Connection(Server& server, kj::Own<Stream> stream, const ListenerOptions& listener);
  ~Connection() noexcept(false) {}
  KJ_DISALLOW_COPY(Connection);

  // Resolves when the connection has ended, whatever the reason. Then destroy it, and the socket closes.
  kj::Promise<void> run();

  // Takes no more requests, lets long polls answer, ends when everything pending has been sent.
  void leave();
  // Ends it now.
  void abort(std::string reason);

  enum class Overdue : uint8_t { no, stalled, notReading, idle };
  Overdue overdue(Instant now) const;
  const Session& session() const { return session_; }

 private:
  struct Pending {
    explicit Pending(Request&& r) : request(std::move(r)) {}
    ~Pending() { count(0); }
    void count(size_t bytes);  // against the shard's budget
    bool isProduce() const;
    Request request;
    kj::Promise<void> work = nullptr;
    Response response;
    size_t counted = 0;
    bool done = false;
  };

  Co<void> receive();
  Co<void> transmit();
  // False: the connection must end.
  bool start(Frame frame);
  void finished(Pending& pending, Response&& response);
  bool isBehind() const;
  void wakeReceiveIfDue();
  void reject(const std::string& mistake);
  Co<void> send(std::vector<std::unique_ptr<Pending>>& answers);
  Co<void> sendWithSlices(Response& response);
  std::string describePeer() const;

  Server& server_;
  kj::Own<Stream> stream_;
  kj::Own<kj::PromiseFulfiller<void>> leave_;  // before session_, whose promise it makes
  Session session_;
  FrameReader reader_;

  kj::Own<kj::PromiseFulfiller<void>> abort_;
  kj::Promise<void> aborted_;
  kj::Own<kj::PromiseFulfiller<void>> wakeReceive_;   // waits for a free place in pending_
  kj::Own<kj::PromiseFulfiller<void>> wakeTransmit_;  // waits for the oldest answer
  kj::Own<kj::PromiseFulfiller<void>> wakeEmpty_;     // waits for the last answer

  Instant lastActive_;
  std::optional<Instant> frameSince_;    // half a frame is here, and the peer owes the rest since then
  std::optional<Instant> writingSince_;  // the peer owes us room in its window since then

  std::deque<std::unique_ptr<Pending>> pending_;  // in the order of arrival; answers leave at the front
  size_t unanswered_ = 0;                         // of them, without those of Produce
  size_t unsentBytes_ = 0;                        // encoded, and not yet taken by the socket
  kj::Promise<void> transmitting_ = nullptr;
};

}  // namespace mq::kafka

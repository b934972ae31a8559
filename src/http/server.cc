#include "http/server.h"

#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <kj/compat/http.h>
#include <strings.h>

#include "metrics/openmetrics.h"
#include "runtime/tasks.h"

namespace mq::http {
namespace {

std::string jsonText(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < ' ') {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string readinessJson(const std::vector<Check>& checks, bool ready) {
  std::string out = fmt::format("{{\"ready\":{},\"checks\":[", ready);
  for (const Check& check : checks) {
    if (&check != &checks.front()) out += ',';
    fmt::format_to(std::back_inserter(out), "{{\"name\":{},\"ready\":{}", jsonText(check.name), check.ready);
    if (!check.ready) fmt::format_to(std::back_inserter(out), ",\"reason\":{}", jsonText(check.reason));
    out += '}';
  }
  return out + "]}\n";
}

// Path and parameters of "/path?a&b=c". Nothing here needs percent decoding.
struct Target {
  std::string_view path;
  std::vector<std::string_view> parameters;
  explicit Target(std::string_view url) {
    url = url.substr(0, url.find('#'));
    size_t question = url.find('?');
    path = url.substr(0, question);
    while (question != std::string_view::npos) {
      url.remove_prefix(question + 1);
      question = url.find('&');
      if (std::string_view parameter = url.substr(0, question); !parameter.empty()) parameters.push_back(parameter);
    }
  }
};

constexpr std::string_view kPlain = "text/plain; charset=utf-8";
constexpr std::string_view kJson = "application/json";

constexpr size_t kPartitionsPerTurn = 500;

struct Answer {
  unsigned status = 200;
  const char* reason = "OK";
  std::string_view type = kPlain;
  std::string body;
};

kj::Duration kjDuration(Duration duration) { return duration.count() * kj::NANOSECONDS; }

}  // namespace

class Server::Impl {
 public:
  Impl(Shard& shard, Options options, Providers providers)
      : shard_(shard),
        options_(std::move(options)),
        providers_(std::move(providers)),
        listener_(shard.network().listen(options_.listen)),
        tasks_(shard.log(), "http") {
    kj::HttpHeaderTable::Builder builder;
    allow_ = builder.add("Allow");
    headers_ = builder.build();
    tasks_.add(acceptAll());
  }

  const Address& local() const { return listener_->local(); }

 private:
  // One connection. KJ's server holds no more than one here, so that draining the server ends this connection.
  class Connection final : public kj::HttpService, public kj::HttpServerErrorHandler {
   public:
    explicit Connection(Impl& owner)
        : owner_(owner),
          retireAt_(owner.shard_.now() + owner.options_.connectionTimeout / 2),
          server_(owner.shard_.timer(), *owner.headers_, *this, settings()) {}

    kj::Promise<void> run(kj::Own<Stream> stream) { return server_.listenHttp(kj::mv(stream)); }

    kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url, const kj::HttpHeaders& headers,
                              kj::AsyncInputStream&, Response& response) override {
      // KJ does not look at the header: a client that reads to the end would wait for the idle timeout.
      bool leaving = owner_.shard_.now() >= retireAt_;
      KJ_IF_MAYBE (connection, headers.get(kj::HttpHeaderId::CONNECTION)) {
        leaving = leaving || strcasecmp(connection->cStr(), "close") == 0;
      }
      if (leaving) drained_ = server_.drain();
      return owner_.answer(method, std::string(url.cStr(), url.size()), response);
    }

    kj::Promise<void> handleClientProtocolError(kj::HttpHeaders::ProtocolError error, Response& response) override {
      return owner_.send(response, {error.statusCode, "Bad Request", kPlain,
                                    std::string(error.description.cStr(), error.description.size()) + "\n"});
    }
    kj::Promise<void> handleApplicationError(kj::Exception exception, kj::Maybe<Response&> response) override {
      if (exception.getType() != kj::Exception::Type::DISCONNECTED) {
        owner_.shard_.log().warning("http-failed", "a request failed: {}", describe(exception));
      }
      KJ_IF_MAYBE (unanswered, response) {
        return owner_.send(*unanswered, {500, "Internal Server Error", kPlain, "failed; the log says why\n"});
      }
      return kj::READY_NOW;
    }

   private:
    kj::HttpServerSettings settings() {
      kj::HttpServerSettings settings;
      settings.headerTimeout = kjDuration(owner_.options_.headTimeout);
      settings.pipelineTimeout = kjDuration(owner_.options_.idleTimeout);
      settings.errorHandler = *this;
      return settings;
    }

    Impl& owner_;
    Instant retireAt_;
    kj::HttpServer server_;
    kj::Promise<void> drained_ = nullptr;
  };

  Co<void> acceptAll() {
    while (true) {
      kj::Own<Stream> stream = co_await listener_->accept();
      if (open_ >= options_.connectionsMax) {
        shard_.log().warning("http-connections", "closed a connection of {}: {} are open", stream->peer().toString(),
                             open_);
        continue;
      }
      tasks_.add(serve(kj::mv(stream)));
    }
  }

  Co<void> serve(kj::Own<Stream> stream) {
    ++open_;
    KJ_DEFER(--open_);
    std::string peer = stream->peer().toString();
    try {
      Connection connection(*this);
      co_await shard_.within(options_.connectionTimeout, connection.run(kj::mv(stream)));
    } catch (const kj::Exception& exception) {
      // A peer that left, sent noise or fell asleep is its own trouble.
      shard_.log().debug("http-closed", "connection of {}: {}", peer, describe(exception));
    }
  }

  Co<void> answer(kj::HttpMethod method, std::string url, kj::HttpService::Response& response) {
    Target target(url);
    bool known = target.path == "/livez" || target.path == "/readyz" || target.path == "/metrics";
    Answer answer;
    if (!known) {
      answer = {404, "Not Found", kPlain, "nothing here; try /livez, /readyz?verbose, /metrics\n"};
    } else if (method != kj::HttpMethod::GET && method != kj::HttpMethod::HEAD) {
      answer = {405, "Method Not Allowed", kPlain, "only GET and HEAD\n"};
    } else if (target.path == "/livez") {
      answer.body = "ok\n";
    } else if (target.path == "/readyz") {
      answer = readiness(target);
    } else {
      answer = co_await metricsPage(target);
    }
    co_await send(response, std::move(answer));
  }

  Answer readiness(const Target& target) {
    bool verbose = false;
    for (std::string_view parameter : target.parameters) {
      if (parameter == "verbose" || parameter == "verbose=1" || parameter == "verbose=true") verbose = true;
    }
    std::vector<Check> checks = providers_.readiness();
    bool ready = true;
    for (const Check& check : checks) ready = ready && check.ready;
    Answer answer;
    if (!ready) answer.status = 503, answer.reason = "Service Unavailable";
    answer.type = verbose ? kJson : kPlain;
    answer.body = verbose ? readinessJson(checks, ready) : ready ? "ready\n" : "not ready; ?verbose says why\n";
    return answer;
  }

  Co<Answer> metricsPage(Target target) {
    metrics::Detail detail = metrics::Detail::topic;
    for (std::string_view parameter : target.parameters) {
      if (parameter == "detail=partition") {
        detail = metrics::Detail::partition;
      } else if (parameter.starts_with("detail=") && parameter != "detail=topic") {
        co_return Answer{400, "Bad Request", kPlain, "detail is topic or partition\n"};
      }
    }
    metrics::Snapshot all;
    std::vector<metrics::Registry*> registries = providers_.registries();
    for (uint32_t shard = 0; shard < registries.size(); ++shard) {
      metrics::Registry* registry = registries[shard];
      metrics::Cursor cursor;
      while (!cursor.done) {
        auto [part, reached] = co_await shard_.call(shard, [registry, detail, cursor]() mutable {
          metrics::Snapshot snapshot = registry->snapshot(detail, cursor, kPartitionsPerTurn);
          return std::make_pair(std::move(snapshot), cursor);
        });
        all.merge(part);
        cursor = reached;
      }
    }
    metrics::TextOptions options{.seriesMax = options_.seriesMax, .version = options_.version};
    Answer answer;
    answer.type = metrics::kOpenMetricsType;
    answer.body = co_await shard_.run(Pool::compute, [all = std::move(all), options = std::move(options)] {
      return metrics::openMetricsText(all, options);
    });
    co_return answer;
  }

  Co<void> send(kj::HttpService::Response& response, Answer answer) {
    kj::HttpHeaders headers(*headers_);
    headers.set(kj::HttpHeaderId::CONTENT_TYPE, kj::heapString(answer.type.data(), answer.type.size()));
    if (answer.status == 405) headers.set(allow_, "GET, HEAD");
    kj::Own<kj::AsyncOutputStream> body = response.send(answer.status, answer.reason, headers, answer.body.size());
    co_await body->write(answer.body.data(), answer.body.size());
  }

  Shard& shard_;
  Options options_;
  Providers providers_;
  kj::Own<Listener> listener_;
  kj::Own<kj::HttpHeaderTable> headers_;
  kj::HttpHeaderId allow_;
  size_t open_ = 0;
  Tasks tasks_;
};

Server::Server(Shard& shard, Options options, Providers providers)
    : impl_(std::make_unique<Impl>(shard, std::move(options), std::move(providers))) {}
Server::~Server() noexcept(false) = default;

const Address& Server::local() const { return impl_->local(); }

}  // namespace mq::http

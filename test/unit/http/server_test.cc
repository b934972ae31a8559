// The server over real sockets, with two shards.
#include "http/server.h"

#include <doctest/doctest.h>
#include <kj/debug.h>

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/uv/node.h"

using namespace mq;
using http::Check;
using namespace std::string_literals;

namespace {

class Silent final : public Logger {
 public:
  bool enabled(LogLevel) const override { return false; }
  void write(LogLevel, std::string_view, std::string_view) override {}
};

struct Site {
  std::vector<Check> checks;
  metrics::Registry first, second;
  http::Options options;
};

// Runs the body against a server on shard 0 of a node with two shards.
void serving(Site& site, std::function<Co<void>(Shard&, const Address&)> body) {
  Silent log;
  UvNode node({.shards = 2, .seed = 1}, log);
  node.run([&](Shard& shard) -> Co<void> {
    site.options.listen = {"127.0.0.1", 0};
    http::Providers providers{[&] { return site.checks; },
                              [&] { return std::vector<metrics::Registry*>{&site.first, &site.second}; }};
    http::Server server(shard, site.options, std::move(providers));
    co_await body(shard, server.local());
  });
}

// Everything the server sends until it closes. The connection's other side stays open.
Co<std::string> readAll(Stream& stream) {
  std::string text;
  char block[4096];
  while (true) {
    size_t count = co_await stream.tryRead(block, 1, sizeof block);
    if (count == 0) co_return text;
    text.append(block, count);
  }
}

Co<std::string> exchange(Shard& shard, Address address, std::string request) {
  kj::Own<Stream> stream = co_await shard.network().connect(address);
  co_await stream->write(request.data(), request.size());
  co_return co_await readAll(*stream);
}

Co<std::string> get(Shard& shard, Address address, std::string target, std::string method = "GET") {
  return exchange(shard, address, method + " " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

int status(const std::string& answer) { return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0; }
std::string body(const std::string& answer) {
  size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("http: alive is alive, ready only when every check is") {
  Site site;
  site.checks = {{"storage", true, ""}, {"recovery", false, "17 of 20 logs \"checked\"\n"}};
  serving(site, [&](Shard& shard, const Address& address) -> Co<void> {
    CHECK(status(co_await get(shard, address, "/livez")) == 200);
    std::string waiting = co_await get(shard, address, "/readyz");
    CHECK(status(waiting) == 503);
    CHECK(body(waiting) == "not ready; ?verbose says why\n");

    std::string verbose = co_await get(shard, address, "/readyz?verbose");
    CHECK(status(verbose) == 503);
    CHECK(contains(verbose, "Content-Type: application/json"));
    nlohmann::json told = nlohmann::json::parse(body(verbose));
    CHECK(told["ready"] == false);
    CHECK(told["checks"][0]["name"] == "storage");
    CHECK(told["checks"][0]["ready"] == true);
    CHECK(told["checks"][1]["reason"] == "17 of 20 logs \"checked\"\n");

    site.checks[1].ready = true;
    CHECK(status(co_await get(shard, address, "/readyz?x=y&verbose")) == 200);
    CHECK(body(co_await get(shard, address, "/readyz")) == "ready\n");
  });
}

TEST_CASE("http: metrics are summed over the shards") {
  Site site;
  site.options.version = "1.2.3";
  site.first.shard.connectionsAccepted.add(1);
  site.second.shard.connectionsAccepted.add(41);
  metrics::PartitionMetrics partition;
  partition.appendedRecords.add(5);
  auto keep = site.second.add(partition, {"t", 3});
  serving(site, [&](Shard& shard, const Address& address) -> Co<void> {
    std::string page = co_await get(shard, address, "/metrics");
    CHECK(status(page) == 200);
    CHECK(contains(page, "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8"));
    CHECK(contains(page, "\nmq_connections_accepted_total 42\n"));
    CHECK(contains(page, "\nmq_build_info{version=\"1.2.3\"} 1\n"));
    CHECK(contains(page, "\nmq_log_append_records_total{topic=\"t\"} 5\n"));
    CHECK(page.ends_with("# EOF\n"));
    std::string detailed = co_await get(shard, address, "/metrics?detail=partition");
    CHECK(contains(detailed, "\nmq_log_append_records_total{topic=\"t\",partition=\"3\"} 5\n"));
    CHECK(status(co_await get(shard, address, "/metrics?detail=everything")) == 400);
  });
}

TEST_CASE("http: a page of many partitions is gathered in parts, each partition once") {
  Site site;
  std::vector<metrics::PartitionMetrics> partitions(1750);
  std::vector<metrics::Registration> keep;
  for (size_t i = 0; i < partitions.size(); ++i) {
    partitions[i].appendedRecords.add(1);
    keep.push_back(site.second.add(partitions[i], {"t", static_cast<int32_t>(i)}));
  }
  serving(site, [&](Shard& shard, const Address& address) -> Co<void> {
    CHECK(contains(co_await get(shard, address, "/metrics"), "\nmq_log_append_records_total{topic=\"t\"} 1750\n"));
    std::string page = co_await get(shard, address, "/metrics?detail=partition");
    CHECK(contains(page, "\nmq_log_append_records_total{topic=\"t\",partition=\"1749\"} 1\n"));
    CHECK_FALSE(contains(page, "\"} 2\n"));
  });
}

TEST_CASE("http: what is not there or not allowed is said in a line") {
  Site site;
  serving(site, [&](Shard& shard, const Address& address) -> Co<void> {
    std::string missing = co_await get(shard, address, "/");
    CHECK(status(missing) == 404);
    CHECK(contains(body(missing), "/readyz?verbose"));
    CHECK(status(co_await get(shard, address, "/livez/")) == 404);
    CHECK(status(co_await get(shard, address, "//livez")) == 404);
    std::string post = co_await exchange(
        shard, address, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
    CHECK(status(post) == 405);
    CHECK(contains(post, "Allow: GET, HEAD"));
    CHECK(status(co_await get(shard, address, "/livez", "DELETE")) == 405);
  });
}

TEST_CASE("http: HEAD has the headers of GET and no body") {
  Site site;
  serving(site, [&](Shard& shard, const Address& address) -> Co<void> {
    std::string head = co_await get(shard, address, "/livez", "HEAD");
    CHECK(status(head) == 200);
    CHECK(contains(head, "Content-Length: 3"));
    CHECK(body(head) == "");
  });
}

TEST_CASE("http: several requests follow each other on one connection") {
  Site site;
  serving(site, [&](Shard& shard, const Address& address) -> Co<void> {
    std::string one = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    std::string answers =
        co_await exchange(shard, address, one + one + one.substr(0, one.size() - 2) + "Connection: close\r\n\r\n");
    size_t count = 0;
    for (size_t at = answers.find("200 OK"); at != std::string::npos; at = answers.find("200 OK", at + 1)) ++count;
    CHECK(count == 3);
  });
}

TEST_CASE("http: odd requests get an error or a closed door, and the server lives on") {
  Site site;
  site.options.headTimeout = 200ms;
  site.options.idleTimeout = 200ms;
  serving(site, [&](Shard& shard, const Address& address) -> Co<void> {
    std::string endless = "GET /livez HTTP/1.1\r\nX: " + std::string(300000, 'x') + "\r\n\r\n";
    std::string kafka = "\x00\x00\x00\x10\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04test"s;
    std::string tls = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s;
    for (const std::string& request :
         {std::string("\r\n\r\n\r\n"), std::string("GET\r\n\r\n"), std::string("BREW /livez HTTP/1.1\r\n\r\n"),
          std::string("GET /livez HTTP/1.1\r\nno colon\r\n\r\n"), std::string("GET /li\x01vez HTTP/1.1\r\n\r\n"), kafka,
          tls, endless, std::string(1, '\0')}) {
      std::string answer;
      try {
        answer = co_await exchange(shard, address, request);
      } catch (const kj::Exception&) {
        // Closed while we were still writing.
      }
      CAPTURE(request.substr(0, 40));
      CHECK_FALSE(contains(answer, "200 OK"));
    }
    CHECK(status(co_await get(shard, address, "/livez")) == 200);
  });
}

TEST_CASE("http: half a request is waited for only so long") {
  Site site;
  site.options.headTimeout = 50ms;
  serving(site, [&](Shard& shard, const Address& address) -> Co<void> {
    kj::Own<Stream> stream = co_await shard.network().connect(address);
    std::string half = "GET /livez HTTP/1.1\r\nHo";
    co_await stream->write(half.data(), half.size());
    std::string answer = co_await shard.within(10s, readAll(*stream));
    CHECK_FALSE(contains(answer, "200 OK"));
    CHECK(status(co_await get(shard, address, "/livez")) == 200);
  });
}

TEST_CASE("http: a reader that fell asleep is cut off, others are served meanwhile") {
  Site site;
  site.options.connectionTimeout = 1s;
  site.options.connectionsMax = 2;
  std::vector<metrics::PartitionMetrics> partitions(6000);  // a page that fits no socket buffer
  std::vector<metrics::Registration> keep;
  for (size_t i = 0; i < partitions.size(); ++i) {
    keep.push_back(site.first.add(partitions[i], {std::string(200, 't'), static_cast<int32_t>(i)}));
  }
  serving(site, [&](Shard& shard, const Address& address) -> Co<void> {
    std::string request = "GET /metrics?detail=partition HTTP/1.1\r\nHost: x\r\n\r\n";
    for (int round = 0; round < 2; ++round) {
      kj::Own<Stream> sleeper = co_await shard.network().connect(address);
      co_await sleeper->write(request.data(), request.size());
      CHECK(status(co_await get(shard, address, "/livez")) == 200);
      co_await shard.after(1200ms);
      // What is left in the buffers, then the end: not the whole page.
      std::string rest;
      try {
        rest = co_await shard.within(20s, readAll(*sleeper));
      } catch (const kj::Exception& exception) {
        CHECK(exception.getType() == kj::Exception::Type::DISCONNECTED);
      }
      CHECK_FALSE(rest.ends_with("# EOF\n"));
    }
  });
}

TEST_CASE("http: connections beyond the limit are closed at once, and served again when others left") {
  Site site;
  site.options.connectionsMax = 2;
  serving(site, [&](Shard& shard, const Address& address) -> Co<void> {
    kj::Own<Stream> first = co_await shard.network().connect(address);
    kj::Own<Stream> second = co_await shard.network().connect(address);
    std::string refused;
    try {
      refused = co_await get(shard, address, "/livez");
    } catch (const kj::Exception&) {
    }
    CHECK(refused == "");
    first = nullptr;
    second = nullptr;
    for (int i = 0; i < 100; ++i) {
      co_await shard.after(10ms);
      try {
        refused = co_await get(shard, address, "/livez");
      } catch (const kj::Exception&) {
      }
      if (status(refused) == 200) break;
    }
    CHECK(status(refused) == 200);
  });
}

TEST_CASE("http: an address in use is named") {
  Site site;
  serving(site, [&](Shard& shard, const Address& address) -> Co<void> {
    http::Options again{.listen = address};
    try {
      http::Server server(shard, again, {});
      FAIL("listened twice");
    } catch (const kj::Exception& exception) {
      CHECK(contains(exception.getDescription().cStr(), address.toString()));
    }
    co_return;
  });
}

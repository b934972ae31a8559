#include "metrics/openmetrics.h"

#include <set>
#include <sstream>

#include <doctest/doctest.h>

using namespace mq;
using namespace mq::metrics;

namespace {

std::string page(const Registry& registry, Detail detail = Detail::topic, TextOptions options = {}) {
  return openMetricsText(registry.snapshot(detail), options);
}
bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("metrics: shards are summed, and a line has the catalogue's name") {
  Registry one, two;
  one.shard.connectionsAccepted.add(2);
  two.shard.connectionsAccepted.add(40);
  one.shard.connectionsOpen.set(7);
  two.shard.connectionsOpen.add(-2);
  Snapshot all = one.snapshot(Detail::topic);
  all.merge(two.snapshot(Detail::topic));
  std::string text = openMetricsText(all, {});
  CHECK(has(text, "# TYPE mq_connections_accepted counter"));
  CHECK(has(text, "# HELP mq_connections_accepted Client connections accepted."));
  CHECK(has(text, "mq_connections_accepted_total 42"));
  CHECK(has(text, "mq_connections_open 5"));
  CHECK(has(text, "# UNIT mq_network_received_bytes bytes"));
  CHECK(text.ends_with("\n# EOF\n"));
}

TEST_CASE("metrics: partitions are one series per topic, and one each on demand") {
  Registry registry;
  PartitionMetrics a0, a1, b0;
  a0.appendedRecords.add(1);
  a1.appendedRecords.add(10);
  b0.appendedRecords.add(100);
  auto keepA0 = registry.add(a0, {"a.b", 0});
  auto keepA1 = registry.add(a1, {"a.b", 1});
  auto keepB0 = registry.add(b0, {"a_b", 0});

  std::string perTopic = page(registry);
  CHECK(has(perTopic, "mq_log_append_records_total{topic=\"a.b\"} 11"));
  CHECK(has(perTopic, "mq_log_append_records_total{topic=\"a_b\"} 100"));
  CHECK(perTopic.find("partition=") == std::string::npos);

  std::string perPartition = page(registry, Detail::partition);
  CHECK(has(perPartition, "mq_log_append_records_total{topic=\"a.b\",partition=\"1\"} 10"));
  CHECK(has(perPartition, "mq_log_append_records_total{topic=\"a_b\",partition=\"0\"} 100"));
}

TEST_CASE("metrics: a scrape in parts is the scrape at once, also when registrations come and go meanwhile") {
  Registry registry;
  std::vector<PartitionMetrics> sets(10);
  std::vector<Registration> keep;
  ApiMetrics api;
  api.requests.add(3);
  auto keepApi = registry.add(api, {"Fetch"});
  for (int i = 0; i < 10; ++i) {
    sets[i].appendedRecords.add(1);
    keep.push_back(registry.add(sets[i], {"t", i}));
  }
  registry.shard.connectionsAccepted.add(7);
  for (size_t step : {size_t{1}, size_t{3}, size_t{10}, size_t{100}}) {
    Snapshot all;
    Cursor cursor;
    while (!cursor.done) all.merge(registry.snapshot(Detail::partition, cursor, step));
    CHECK(openMetricsText(all, {}) == page(registry, Detail::partition));
  }
  Snapshot all;
  Cursor cursor;
  all.merge(registry.snapshot(Detail::topic, cursor, 4));
  keep.erase(keep.begin() + 4);  // the next one due
  keep.erase(keep.begin());      // one that was counted
  while (!cursor.done) all.merge(registry.snapshot(Detail::topic, cursor, 4));
  CHECK(has(openMetricsText(all, {}), "mq_log_append_records_total{topic=\"t\"} 9"));
  CHECK(has(openMetricsText(all, {}), "mq_connections_accepted_total 7"));
  CHECK(has(openMetricsText(all, {}), "mq_requests_total{api=\"Fetch\"} 3"));
}

TEST_CASE("metrics: a set's series end with its registration") {
  Registry registry;
  PartitionMetrics kept, gone;
  auto keep = registry.add(kept, {"kept", 0});
  {
    auto end = registry.add(gone, {"gone", 0});
    auto moved = std::move(end);
    CHECK(page(registry).find("gone") != std::string::npos);
  }
  CHECK(page(registry).find("gone") == std::string::npos);
  CHECK(page(registry).find("kept") != std::string::npos);
  keep = Registration();
  CHECK(page(registry).find("kept") == std::string::npos);
}

TEST_CASE("metrics: gauges can be asked for at the time of the scrape") {
  Registry registry;
  DirectoryMetrics directory;
  int asked = 0;
  auto keep = registry.add(directory, {"/data"}, [&] { directory.free.set(++asked * 100); });
  CHECK(has(page(registry), "mq_log_directory_free_bytes{directory=\"/data\"} 100"));
  CHECK(has(page(registry), "mq_log_directory_free_bytes{directory=\"/data\"} 200"));
}

TEST_CASE("metrics: histograms are cumulative, in seconds, with a last bound of +Inf") {
  Registry registry;
  ApiMetrics produce;
  auto keep = registry.add(produce, {"Produce"});
  produce.latency.observe(1ms);
  produce.latency.observe(1500us);
  produce.latency.observe(2h);
  std::string text = page(registry);
  CHECK(has(text, "# TYPE mq_request_seconds histogram"));
  CHECK(has(text, "mq_request_seconds_bucket{api=\"Produce\",le=\"0.000001024\"} 0"));
  CHECK(has(text, "mq_request_seconds_bucket{api=\"Produce\",le=\"0.001048576\"} 1"));
  CHECK(has(text, "mq_request_seconds_bucket{api=\"Produce\",le=\"68.719476736\"} 2"));
  CHECK(has(text, "mq_request_seconds_bucket{api=\"Produce\",le=\"+Inf\"} 3"));
  CHECK(has(text, "mq_request_seconds_count{api=\"Produce\"} 3"));
  CHECK(has(text, "mq_request_seconds_sum{api=\"Produce\"} 7200.0025"));
}

TEST_CASE("metrics: times are printed as seconds to the nanosecond") {
  Registry registry;
  ProcessMetrics process;
  auto keep = registry.add(process);
  process.cpu.add(1'500'000'001);
  process.startTime.set(1'700'000'000'000'000'000);
  CHECK(has(page(registry), "process_cpu_seconds_total 1.500000001"));
  CHECK(has(page(registry), "process_start_time_seconds 1700000000.0"));
}

TEST_CASE("metrics: beyond the cap whole sets are left out and counted") {
  Registry registry;
  std::vector<PartitionMetrics> sets(10);
  std::vector<Registration> keep;
  for (int i = 0; i < 10; ++i) keep.push_back(registry.add(sets[i], {"t", i}));
  std::string text = page(registry, Detail::partition, {.seriesMax = 4});  // one is the shard's
  CHECK(has(text, "mq_metrics_dropped_series 7"));
  CHECK(text.find("partition=\"2\"") != std::string::npos);
  CHECK(text.find("partition=\"3\"") == std::string::npos);
  CHECK(has(page(registry), "mq_metrics_dropped_series 0"));
}

TEST_CASE("metrics: label values are escaped, and what is not UTF-8 is replaced") {
  CHECK(escapeLabel("plain-1.2_3") == "plain-1.2_3");
  CHECK(escapeLabel("a\"b\\c\nd") == "a\\\"b\\\\c\\nd");
  CHECK(escapeLabel("\u0416\U0001F680") == "\u0416\U0001F680");
  CHECK(escapeLabel("x\xff\xc3") == "x\uFFFD\uFFFD");
  CHECK(escapeLabel("\xed\xa0\x80") == "\uFFFD\uFFFD\uFFFD");  // a surrogate
  CHECK(escapeLabel("\xc0\xaf") == "\uFFFD\uFFFD");            // overlong
}

TEST_CASE("metrics: the page is well formed: families stand together, names end in their unit, each is named once") {
  Registry registry;
  ApiMetrics api;
  PartitionMetrics partition;
  DirectoryMetrics directory;
  ProcessMetrics process;
  auto a = registry.add(api, {"Fetch"});
  auto b = registry.add(partition, {"t", 0});
  auto c = registry.add(directory, {"/data"});
  auto d = registry.add(process);
  std::istringstream lines(page(registry, Detail::topic, {.version = "1.0"}));
  std::string line, family, unit;
  std::set<std::string> families;
  bool ended = false;
  while (std::getline(lines, line)) {
    CHECK_FALSE(ended);
    if (line == "# EOF") {
      ended = true;
    } else if (line.starts_with("# TYPE ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
      CHECK(families.insert(family).second);
    } else if (line.starts_with("# UNIT ")) {
      unit = line.substr(line.rfind(' ') + 1);
      CHECK(family.ends_with("_" + unit));
    } else if (line.starts_with("# HELP ")) {
      CHECK(line.starts_with("# HELP " + family + " "));
    } else {
      CHECK(line.starts_with(family));
    }
  }
  CHECK(ended);
}

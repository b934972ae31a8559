// The OpenMetrics 1.0 text of a Snapshot: # TYPE, # UNIT, # HELP, samples, # EOF. Families come in the order of the
// catalogue and stand together; histograms are cumulative with two bounds per power of two.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "metrics/registry.h"

namespace mq::metrics {

inline constexpr std::string_view kOpenMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8";

struct TextOptions {
  size_t seriesMax = 50000;  // labelled sets beyond it are left out, counted in mq_metrics_dropped_series
  std::string version;       // label of mq_build_info; empty: no such family
};

std::string openMetricsText(const Snapshot& snapshot, const TextOptions& options);

// For a label's value: \, " and newline escaped; bytes that are not UTF-8 become U+FFFD.
std::string escapeLabel(std::string_view value);

}  // namespace mq::metrics

// The APIs this node serves, one row each. ApiVersions, the labels of metrics, the connection's first look at a frame
// and the fuzz targets all read the row.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "kafka/request.h"

namespace mq::kafka {

struct Api {
  int16_t key;
  std::string_view name;
  wire::VersionRange versions;  // served
  int16_t listedFrom;           // what ApiVersions says instead of versions.first
  const wire::Message& request;
  Serve serve;
};

std::span<const Api> apis();  // by key

const Api* findApi(int16_t key);  // null: not served
size_t indexOf(const Api& api);   // its place in apis()
bool isServed(int16_t key, int16_t version);

}  // namespace mq::kafka

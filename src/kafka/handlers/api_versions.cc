// ApiVersions: what is served, out of the table of apis.cc. The one request that is answered whatever its version: a
// client from the future learns from a version 0 answer how to ask again.
#include <algorithm>

#include "kafka/handlers/features.h"
#include "kafka/handlers/handlers.h"
#include "kafka/server.h"
#include "wire/api_versions_request.h"
#include "wire/api_versions_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kRangeFromZeroFrom = 4;

// [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?
bool isSoftwareName(std::string_view text) {
  auto alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  if (text.empty() || !alphanumeric(text.front()) || !alphanumeric(text.back())) return false;
  return std::ranges::all_of(text, [&](char c) { return alphanumeric(c) || c == '-' || c == '.'; });
}

Error check(Server& server, int16_t version, const wire::ApiVersionsRequest& asked) {
  if (version >= 3 && (!isSoftwareName(asked.clientSoftwareName) || !isSoftwareName(asked.clientSoftwareVersion))) {
    return Error::invalidRequest;
  }
  if (version < 5) return Error::none;
  // A client that knows where it wants to be says both or neither (KIP-1242).
  if (asked.clusterId.has_value() != (asked.nodeId != -1)) return Error::invalidRequest;
  bool elsewhere = asked.clusterId &&
                   (*asked.clusterId != server.image().clusterId().toString() || asked.nodeId != server.node().value());
  return elsewhere ? Error::rebootstrapRequired : Error::none;
}

}  // namespace

kj::Promise<Response> apiVersions(Request& request) {
  wire::ApiVersionsResponse response;
  if (!request.api.versions.contains(request.version)) {
    response.errorCode = Error::unsupportedVersion;
    response.apiKeys.push_back(
        {.apiKey = request.api.key, .minVersion = request.api.versions.first, .maxVersion = request.api.versions.last});
    return respondAs(request, wire::ApiVersionsResponse::kDescriptor, &response, 0);
  }
  auto asked = decodeBody<wire::ApiVersionsRequest>(request);
  if (!asked) return Response::close("sent a malformed ApiVersions: " + asked.failure().message);

  response.errorCode = check(request.server, request.version, *asked);
  if (response.errorCode != Error::none) return respond(request, response);
  if (request.version >= 3) {
    request.session.softwareName = std::move(asked->clientSoftwareName);
    request.session.softwareVersion = std::move(asked->clientSoftwareVersion);
  }
  for (const Api& api : apis()) {
    response.apiKeys.push_back({.apiKey = api.key, .minVersion = api.listedFrom, .maxVersion = api.versions.last});
  }
  const metadata::Image& image = request.server.image();
  response.finalizedFeaturesEpoch = image.offset();
  response.finalizedFeatures.push_back(
      {.name = std::string(kMetadataVersion), .maxVersionLevel = kMetadataLevel, .minVersionLevel = kMetadataLevel});
  response.supportedFeatures.push_back(
      {.name = std::string(kMetadataVersion), .minVersion = kMetadataLevelMin, .maxVersion = kMetadataLevel});
  for (const auto& [name, level] : image.features()) {
    response.finalizedFeatures.push_back({.name = name, .maxVersionLevel = level, .minVersionLevel = level});
  }
  // Earlier clients take a range that begins with 0 for a mistake.
  for (const metadata::Feature& feature : metadata::kFeatures) {
    if (request.version >= kRangeFromZeroFrom)
      response.supportedFeatures.push_back(
          {.name = std::string(feature.name), .minVersion = 0, .maxVersion = feature.levelMax});
  }
  return respond(request, response);
}

}  // namespace mq::kafka

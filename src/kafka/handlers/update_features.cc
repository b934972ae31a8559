// UpdateFeatures (KIP-584): finalized levels of what a cluster can be told to do otherwise, all that are asked for or
// none. metadata.version is ours alone to move: it can only be set to what it is.
#include "kafka/handlers/features.h"
#include "kafka/handlers/handlers.h"
#include "kafka/server.h"
#include "wire/update_features_request.h"
#include "wire/update_features_response.h"

namespace mq::kafka {

Co<wire::UpdateFeaturesResponse> updateFeatures(Request& request, wire::UpdateFeaturesRequest asked) {
  using Kind = controller::UpdateFeaturesRequest::Kind;
  controller::UpdateFeaturesRequest wish{.features = {}, .validateOnly = asked.validateOnly};
  wire::UpdateFeaturesResponse response;
  response.errorMessage.reset();
  auto fail = [&](const Failure& failure) {
    response.errorCode = failure.error;
    response.errorMessage = failure.message;
  };
  std::vector<std::string> names;
  for (auto& update : asked.featureUpdates) {
    Kind kind = static_cast<Kind>(update.upgradeType);
    if (request.version == 0) kind = update.allowDowngrade ? Kind::safeDowngrade : Kind::upgrade;
    names.push_back(update.feature);
    if (update.feature == kMetadataVersion) {
      if (update.maxVersionLevel == kMetadataLevel) continue;
      fail(failure(Error::invalidUpdateVersion,
                   "Invalid update version {} for feature {}: the controller supports version {} alone.",
                   update.maxVersionLevel, update.feature, kMetadataLevel));
      break;
    }
    wish.features.push_back({std::move(update.feature), update.maxVersionLevel, kind});
  }
  if (response.errorCode == Error::none && !wish.features.empty()) {
    auto updated = co_await request.server.controller().updateFeatures(std::move(wish));
    if (!updated) fail(updated.failure());
  }
  if (request.version <= 1) {
    for (auto& name : names)
      response.results.push_back(
          {.feature = std::move(name), .errorCode = response.errorCode, .errorMessage = response.errorMessage});
  }
  co_return response;
}

}  // namespace mq::kafka

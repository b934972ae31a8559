// DescribeConfigs: effective values with where they come from, out of the tables of config/.
#include <algorithm>

#include "config/group_settings.h"
#include "controller/planner.h"
#include "kafka/handlers/config_resource.h"
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "wire/describe_configs_request.h"
#include "wire/describe_configs_response.h"

namespace mq::kafka {

namespace {

using Asked = wire::DescribeConfigsRequest::DescribeConfigsResource;
using Entry = wire::DescribeConfigsResponse::DescribeConfigsResourceResult;

// Kafka's numbers for how a dynamic default of all brokers looks when it alone is listed.
std::vector<config::Entry> clusterDefaults(Server& server) {
  std::vector<config::Entry> entries;
  auto overrides = server.image().configs({metadata::ResourceType::broker, ""});
  for (auto& entry : server.options().config.withDynamic(*overrides, {}).describe()) {
    if (!overrides->contains(entry.name)) continue;
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<std::vector<config::Entry>> entriesOf(Server& server, const Asked& asked) {
  auto type = resourceType(asked.resourceType);
  if (type == metadata::ResourceType::topic) {
    if (auto legal = controller::checkTopicName(asked.resourceName); !legal) return legal.failure();
    if (server.image().topic(asked.resourceName) == nullptr) {
      return failure(Error::unknownTopicOrPartition, "topic \"{}\" does not exist", asked.resourceName);
    }
    return config::describeTopic(server.config(), *server.image().topicConfigs(asked.resourceName));
  }
  if (type == metadata::ResourceType::broker) {
    if (auto named = checkBrokerName(server, asked.resourceName); !named) return named.failure();
    return asked.resourceName.empty() ? clusterDefaults(server) : server.config().describe();
  }
  if (type == metadata::ResourceType::group) {
    if (asked.resourceName.empty()) return failure(Error::invalidRequest, "Default group resources are not allowed.");
    return config::describeGroup(server.config(),
                                 *server.image().configs({metadata::ResourceType::group, asked.resourceName}));
  }
  return failure(Error::invalidRequest, "resources of type {} have no configuration here", asked.resourceType);
}

// The protocol has no place for the file and line that a value comes from; this is where a person looks.
std::string documentation(const config::Entry& entry) {
  std::string text(entry.doc);
  for (const config::Synonym& synonym : entry.synonyms) {
    if (!synonym.where.empty()) text += fmt::format("\n{} is set by {}", synonym.name, synonym.where);
  }
  return text;
}

Entry describe(config::Entry&& from, const wire::DescribeConfigsRequest& asked) {
  Entry entry;
  entry.name = std::move(from.name);
  if (from.secret) {
    entry.value.reset();
  } else {
    entry.value = std::move(from.value);
  }
  entry.readOnly = from.readOnly;
  entry.configSource = static_cast<int8_t>(from.source);
  entry.isSensitive = from.secret;
  entry.configType = static_cast<int8_t>(from.type);
  entry.documentation.reset();
  if (asked.includeDocumentation) entry.documentation = documentation(from);
  if (asked.includeSynonyms) {
    for (auto& synonym : from.synonyms) {
      auto& into = entry.synonyms.emplace_back();
      into.name = std::move(synonym.name);
      if (from.secret) {
        into.value.reset();
      } else {
        into.value = std::move(synonym.value);
      }
      into.source = static_cast<int8_t>(synonym.source);
    }
  }
  return entry;
}

}  // namespace

wire::DescribeConfigsResponse describeConfigs(Request& request, wire::DescribeConfigsRequest asked) {
  wire::DescribeConfigsResponse response;
  for (const Asked& resource : asked.resources) {
    auto& into = response.results.emplace_back();
    into.resourceType = resource.resourceType;
    into.resourceName = resource.resourceName;
    auto entries = entriesOf(request.server, resource);
    if (!entries) {
      into.errorCode = entries.failure().error;
      into.errorMessage = entries.failure().message;
      continue;
    }
    into.errorMessage.reset();
    bool all = !resource.configurationKeys || resource.configurationKeys->empty();
    for (auto& entry : *entries) {
      if (all || std::ranges::find(*resource.configurationKeys, entry.name) != resource.configurationKeys->end()) {
        into.configs.push_back(describe(std::move(entry), asked));
      }
    }
  }
  return response;
}

}  // namespace mq::kafka

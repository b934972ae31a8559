#include "controller/controller.h"

namespace mq::controller {
namespace {

// The response of a kind, or what `refused` makes of the failure.
template <class Expected, class Refused>
kj::Promise<Expected> expecting(kj::Promise<Result<Answered>> answer, Refused refused) {
  return answer.then([refused = std::move(refused)](Result<Answered>&& answered) -> Expected {
    if (!answered) return refused(answered.failure());
    return std::get<Expected>(std::move(answered->response));
  });
}

template <class Expected>
kj::Promise<Result<Expected>> resulting(kj::Promise<Result<Answered>> answer) {
  return answer.then([](Result<Answered>&& answered) -> Result<Expected> {
    if (!answered) return answered.failure();
    if constexpr (std::is_void_v<Expected>)
      return {};
    else
      return std::get<Expected>(std::move(answered->response));
  });
}

}  // namespace

kj::Promise<Result<Answered>> ControllerClient::ask(Request request, Duration limit) {
  return shard_.call(0, [&there = controller_, request = std::move(request), limit]() mutable {
    return there.ask(std::move(request), limit);
  });
}

kj::Promise<CreateTopicsResponse> ControllerClient::createTopics(CreateTopicsRequest request) {
  std::vector<std::string> names;
  for (const NewTopic& topic : request.topics) names.push_back(topic.name);
  return expecting<CreateTopicsResponse>(ask(std::move(request)), [names = std::move(names)](const Failure& failure) {
    CreateTopicsResponse response;
    for (const std::string& name : names) response.topics.push_back({name, failure});
    return response;
  });
}

kj::Promise<DeleteTopicsResponse> ControllerClient::deleteTopics(DeleteTopicsRequest request) {
  std::vector<TopicSelector> topics = request.topics;
  return expecting<DeleteTopicsResponse>(ask(std::move(request)), [topics = std::move(topics)](const Failure& failure) {
    DeleteTopicsResponse response;
    for (const TopicSelector& topic : topics) {
      std::optional<std::string> name;
      if (topic.id.isZero()) name = topic.name;
      response.topics.push_back({std::move(name), topic.id, failure});
    }
    return response;
  });
}

kj::Promise<CreatePartitionsResponse> ControllerClient::createPartitions(CreatePartitionsRequest request) {
  std::vector<std::string> names;
  for (const NewPartitions& topic : request.topics) names.push_back(topic.topic);
  return expecting<CreatePartitionsResponse>(ask(std::move(request)),
                                             [names = std::move(names)](const Failure& failure) {
                                               CreatePartitionsResponse response;
                                               for (const std::string& name : names)
                                                 response.topics.push_back({name, failure});
                                               return response;
                                             });
}

kj::Promise<AlterConfigsResponse> ControllerClient::alterConfigs(AlterConfigsRequest request) {
  std::vector<metadata::ConfigResource> resources;
  for (const auto& resource : request.resources) resources.push_back(resource.resource);
  return expecting<AlterConfigsResponse>(ask(std::move(request)),
                                         [resources = std::move(resources)](const Failure& failure) {
                                           AlterConfigsResponse response;
                                           for (const auto& resource : resources)
                                             response.resources.push_back({resource, failure});
                                           return response;
                                         });
}

kj::Promise<EnsureTopicsResponse> ControllerClient::ensureTopics(EnsureTopicsRequest request) {
  std::vector<std::string> names = request.names;
  return expecting<EnsureTopicsResponse>(ask(std::move(request)), [names = std::move(names)](const Failure& failure) {
    EnsureTopicsResponse response;
    for (const std::string& name : names) response.topics.push_back({name, failure});
    return response;
  });
}

kj::Promise<ElectLeadersResponse> ControllerClient::electLeaders(ElectLeadersRequest request) {
  std::vector<TopicPartition> partitions = request.partitions;
  return expecting<ElectLeadersResponse>(ask(std::move(request)),
                                         [partitions = std::move(partitions)](const Failure& failure) {
                                           ElectLeadersResponse response;
                                           for (const TopicPartition& partition : partitions)
                                             response.partitions.push_back({partition, failure});
                                           return response;
                                         });
}

kj::Promise<AlterReassignmentsResponse> ControllerClient::alterReassignments(AlterReassignmentsRequest request) {
  std::vector<TopicPartition> partitions;
  for (const auto& partition : request.partitions) partitions.push_back(partition.partition);
  return expecting<AlterReassignmentsResponse>(ask(std::move(request)),
                                               [partitions = std::move(partitions)](const Failure& failure) {
                                                 AlterReassignmentsResponse response;
                                                 for (const TopicPartition& partition : partitions)
                                                   response.partitions.push_back({partition, failure});
                                                 return response;
                                               });
}

kj::Promise<Result<void>> ControllerClient::updateFeatures(UpdateFeaturesRequest request) {
  return resulting<void>(ask(std::move(request)));
}
kj::Promise<Result<ProducerIdBlock>> ControllerClient::allocateProducerIds() {
  return resulting<ProducerIdBlock>(ask(AllocateProducerIdsRequest()));
}
kj::Promise<Result<RegisteredBroker>> ControllerClient::registerBroker(BrokerRegistration registration) {
  return resulting<RegisteredBroker>(ask(std::move(registration)));
}
kj::Promise<Result<AlterPartitionsResponse>> ControllerClient::alterPartitions(AlterPartitionsRequest request) {
  return resulting<AlterPartitionsResponse>(ask(std::move(request)));
}

}  // namespace mq::controller

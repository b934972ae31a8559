// Record: one change of the metadata, as decided by the controller and kept in its log. The kinds are generated from
// schema/*.json; a list of them is the data of one log entry, applied as a whole, and of a snapshot.
//
//   data     layout uint8 = 0, then records
//   record   type uvarint, version uvarint, length uvarint, the fields in that version as wire/codec.h writes them
//
// Example: RemoveTopicRecord of topic AAAAAAAAAAAAAAAAAAAAAQ is 00 | 04 00 11 | 00..00 01 | 00 (no tagged fields).
//
// A record this build does not know was written by a newer one: decoding refuses with its number, and the node must not
// go on, since skipping it would make another image than the other nodes have. Tagged fields it does not know are
// skipped.
#pragma once
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "metadata/broker_record.h"
#include "metadata/cluster_record.h"
#include "metadata/config_record.h"
#include "metadata/feature_record.h"
#include "metadata/partitions_record.h"
#include "metadata/producer_ids_record.h"
#include "metadata/remove_broker_record.h"
#include "metadata/remove_topic_record.h"
#include "metadata/topic_record.h"

namespace mq::metadata {

using AnyRecord = std::variant<ClusterRecord, TopicRecord, PartitionsRecord, RemoveTopicRecord, ConfigRecord,
                               BrokerRecord, ProducerIdsRecord, FeatureRecord, RemoveBrokerRecord>;

struct Record : AnyRecord {
  using AnyRecord::AnyRecord;
  friend bool operator==(const Record&, const Record&) = default;
};

struct Broker;  // image.h
struct Partition;
// Their whole state.
Record recordOf(const Broker& broker);
PartitionsRecord::Partition recordOf(const Partition& partition);

Buffer encodeRecords(std::span<const Record> records);
Result<std::vector<Record>> decodeRecords(Bytes data);  // owns all it holds; unsupportedVersion, invalidRequest

}  // namespace mq::metadata

// Names of the files of one partition directory: Kafka's. A base offset is written with 20 digits.
//
//   00000000000000004096.log .index .timeindex .txnindex    one segment: its batches, and what is derived from them
//   00000000000000004096.snapshot                           producer state of everything below that offset
//   leader-epoch-checkpoint  partition.metadata
//   00000000000000004096.cut                                ours: a damaged tail, kept when the log was cut at that
//   offset
//   *.deleted                                               renamed, about to be removed
//   *.cleaned  *.swap                                       written by compaction; whole and about to take its place
//   compacted                                               ours: an offset below which compaction leaves gaps
//
// Pure: any thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace mq::storage {

inline constexpr std::string_view kLogSuffix = ".log";
inline constexpr std::string_view kOffsetIndexSuffix = ".index";
inline constexpr std::string_view kTimeIndexSuffix = ".timeindex";
inline constexpr std::string_view kTransactionIndexSuffix = ".txnindex";
inline constexpr std::string_view kSnapshotSuffix = ".snapshot";
inline constexpr std::string_view kCutSuffix = ".cut";
inline constexpr std::string_view kDeletedSuffix = ".deleted";
inline constexpr std::string_view kCleanedSuffix = ".cleaned";
inline constexpr std::string_view kSwapSuffix = ".swap";
inline constexpr std::string_view kLeaderEpochFile = "leader-epoch-checkpoint";
inline constexpr std::string_view kPartitionMetadataFile = "partition.metadata";
inline constexpr std::string_view kCompactedFile = "compacted";

std::string fileName(Offset base, std::string_view suffix);                              // "00000000000000004096.log"
std::string filePath(std::string_view directory, Offset base, std::string_view suffix);  // directory + "/" + fileName

struct OffsetName {
  Offset base;
  std::string_view suffix;  // all that follows the 20 digits: ".log", ".log.deleted", "-1.cut"
};
// nullopt: the name does not begin with 20 digits that fit an offset.
std::optional<OffsetName> parseFileName(std::string_view name);

}  // namespace mq::storage

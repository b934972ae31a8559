#include <algorithm>
#include <set>

#include "config/names.h"

namespace mq::config {

std::optional<std::string> normalised(const Setting& row, std::string_view value) {
  if (row.field->type == Type::list) {
    std::vector<std::string> items;
    if (splitList(value, items)) return std::nullopt;
    return joinList(items);
  }
  return row.field->normalise(row, value);
}

Result<Overrides> alter(const Overrides& now, std::span<const Alteration> alterations,
                        const std::function<const Setting*(std::string_view)>& find,
                        const std::function<Failure(std::string_view)>& unknown,
                        const std::function<std::string(const Setting&)>& effective) {
  Overrides altered = now;
  std::set<std::string_view> seen;
  for (const Alteration& alteration : alterations) {
    if (!seen.insert(alteration.name).second) {
      return failure(Error::invalidRequest, "{} is altered twice in one request", quoted(alteration.name));
    }
    if (alteration.op == AlterOp::remove) {
      // What an older or newer version left behind can always be removed.
      if (altered.erase(alteration.name) == 0 && find(alteration.name) == nullptr) return unknown(alteration.name);
      continue;
    }
    const Setting* row = find(alteration.name);
    if (row == nullptr) return unknown(alteration.name);
    if (!alteration.value) {
      return failure(Error::invalidRequest, "Null value not supported for configuration {}", row->name);
    }
    if (alteration.op == AlterOp::set) {
      altered.insert_or_assign(alteration.name, *alteration.value);
      continue;
    }
    if (alteration.op != AlterOp::append && alteration.op != AlterOp::subtract) {
      return failure(Error::invalidRequest, "Unknown operation {} for configuration {}",
                     static_cast<int>(alteration.op), row->name);
    }
    if (row->field->type != Type::list) {
      return failure(Error::invalidConfig, "Can't {} to configuration {}: it is not a list",
                     alteration.op == AlterOp::append ? "append" : "subtract", row->name);
    }
    std::vector<std::string> items, operands;
    auto held = altered.find(alteration.name);
    if (splitList(held != altered.end() ? held->second : effective(*row), items)) items.clear();
    if (Complaint wrong = splitList(*alteration.value, operands)) {
      return failure(Error::invalidConfig, "Invalid value {} for configuration {}: {} (allowed: {})",
                     quoted(*alteration.value), row->name, *wrong, row->field->allowed(*row));
    }
    for (const std::string& operand : operands) {
      auto at = std::find(items.begin(), items.end(), operand);
      if (alteration.op == AlterOp::append) {
        if (at == items.end()) items.push_back(operand);
      } else if (at != items.end()) {
        items.erase(at);
      }
    }
    altered.insert_or_assign(alteration.name, joinList(items));
  }
  return altered;
}

Entry describeRow(const Setting& row, const void* effective, const Overrides& overrides, Source source,
                  const BrokerConfig& broker) {
  Entry entry{.name = std::string(row.name),
              .value = row.field->print(effective),
              .type = row.field->type,
              .secret = row.secret,
              .doc = row.doc};
  if (auto override = overrides.find(row.name); override != overrides.end()) {
    if (auto value = normalised(row, override->second)) {
      entry.value = *value;
      entry.synonyms.push_back({entry.name, *value, source, {}});
    }
  }
  if (!row.broker.empty()) {
    for (Synonym& synonym : broker.synonyms(*find(brokerTable(), row.broker)))
      entry.synonyms.push_back(std::move(synonym));
  }
  if (!entry.synonyms.empty()) {
    entry.source = entry.synonyms.front().source;
    entry.where = entry.synonyms.front().where;
  }
  return entry;
}

}  // namespace mq::config

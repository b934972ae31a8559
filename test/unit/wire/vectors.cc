#include "vectors.h"

#include <fstream>
#include <map>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "wire/messages.h"

namespace mq::wire {
namespace {

using Json = nlohmann::json;  // keeps keys sorted

const Message* find(const std::string& name) {
  static const auto byName = [] {
    std::map<std::string, const Message*> all;
    for (const Message* message : allMessages()) all[message->name] = message;
    return all;
  }();
  auto found = byName.find(name);
  if (found == byName.end()) throw std::runtime_error("no message " + name);
  return found->second;
}

// The vectors have uuids in canonical form; we print them as Kafka's tools do.
void convertUuids(Json& json) {
  if (json.is_structured()) {
    for (auto& value : json) convertUuids(value);
  } else if (json.is_string()) {
    auto& text = json.get_ref<std::string&>();
    if (text.size() != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-') return;
    std::string hex;
    for (char c : text) {
      if (c != '-') hex += c;
    }
    if (hex.size() != 32 || hex.find_first_not_of("0123456789abcdef") != std::string::npos) return;
    Buffer bytes = fromHex(hex);
    text = ByteReader(bytes).uuid().toString();
  }
}

void dropOurs(const Structure& structure, Json& json) {
  constexpr int32_t kOurTagsFrom = 10000;
  for (const Field& field : structure.fields) {
    auto found = json.find(field.name);
    if (found == json.end()) continue;
    if (field.tag >= kOurTagsFrom) {
      json.erase(found);
    } else if (field.structure && found->is_object()) {
      dropOurs(*field.structure, *found);
    } else if (field.structure && found->is_array()) {
      for (Json& element : *found) dropOurs(*field.structure, element);
    }
  }
}

std::vector<Vector> load(const char* file) {
  std::ifstream in(std::string(MQ_GOLDEN_WIRE) + "/" + file);
  std::vector<Vector> vectors;
  for (std::string line; std::getline(in, line);) {
    Json json = Json::parse(line);
    std::string name = json["api"];
    std::string kind = json["kind"];
    if (kind == "request") name += "Request";
    if (kind == "response") name += "Response";
    Vector vector;
    vector.message = find(name);
    vector.version = json["version"];
    vector.title = fmt::format("{} v{} {}", name, vector.version, json.value("case", json.value("how", std::string())));
    if (json.contains("fields")) {
      convertUuids(json["fields"]);
      vector.fields = json["fields"].dump();
    }
    Buffer whole = fromHex(json["hex"].get<std::string>());
    auto prefix = static_cast<std::ptrdiff_t>(json.value("prefix", size_t(0)));
    vector.prefix.assign(whole.begin(), whole.begin() + prefix);
    vector.body.assign(whole.begin() + prefix, whole.end());
    vector.accepted = json.value("accepted", true);
    vector.reencoded = json.contains("reencoded") ? fromHex(json["reencoded"].get<std::string>()) : whole;
    vectors.push_back(std::move(vector));
  }
  if (vectors.empty()) throw std::runtime_error(std::string("no vectors in ") + file);
  return vectors;
}

}  // namespace

const std::vector<Vector>& goldenMessages() {
  static const auto vectors = load("messages.jsonl");
  return vectors;
}

const std::vector<Vector>& mutatedMessages() {
  static const auto vectors = load("mutated.jsonl");
  return vectors;
}

std::string kafkasFields(const Message& message, std::string_view json) {
  Json fields = Json::parse(json);
  dropOurs(message.body, fields);
  return fields.dump();
}

Buffer fromHex(std::string_view hex) {
  auto digit = [](char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10); };
  Buffer bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  return bytes;
}

std::string toHex(Bytes bytes) {
  std::string hex;
  for (uint8_t byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace mq::wire

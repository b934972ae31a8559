// The commands of scenarios of coordinators: VERB words and KEY=VALUE options.
#pragma once
#include <charconv>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/types.h"

namespace mq::scenario {

using Words = std::vector<std::string>;

inline int64_t numberOf(std::string_view text) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  MQ_CHECK(error == std::errc() && end == text.data() + text.size(), text);
  return number;
}

inline Duration durationOf(std::string_view text) { return std::chrono::milliseconds(numberOf(text)); }

// KEY=VALUE words of a command; what has no '=' is positional.
struct Command {
  std::string verb;
  Words plain;
  std::vector<std::pair<std::string, std::string>> options;

  explicit Command(const std::string& line) {
    std::istringstream in(line);
    in >> verb;
    for (std::string word; in >> word;) {
      size_t at = word.find('=');
      if (at == word.npos)
        plain.push_back(word);
      else
        options.emplace_back(word.substr(0, at), word.substr(at + 1));
    }
  }
  std::optional<std::string> take(std::string_view name) {
    for (auto at = options.begin(); at != options.end(); ++at) {
      if (at->first != name) continue;
      std::string value = at->second;
      options.erase(at);
      return value;
    }
    return std::nullopt;
  }
  std::string word(size_t index) const {
    MQ_CHECK(index < plain.size(), verb);
    return plain[index];
  }
};

struct TopicWord {
  std::string topic;
  int32_t partition;
};
inline TopicWord topicOf(std::string_view word) {
  size_t dash = word.rfind('-');
  MQ_CHECK(dash != word.npos, word);
  return {std::string(word.substr(0, dash)), static_cast<int32_t>(numberOf(word.substr(dash + 1)))};
}

}  // namespace mq::scenario

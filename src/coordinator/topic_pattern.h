// TopicPattern: a regular expression over names of topics, or of transactional ids, in RE2's syntax as KIP-848 says; a
// name has to match as a whole. Linear in the name's length whatever the expression, and bounded in memory.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mq::coordinator {

class TopicPattern {
 public:
  // INVALID_REGULAR_EXPRESSION with what is wrong with it.
  static Result<TopicPattern> compile(const std::string& expression);
  ~TopicPattern();
  TopicPattern(TopicPattern&&) noexcept;
  TopicPattern& operator=(TopicPattern&&) noexcept;
  TopicPattern();

  bool matches(std::string_view topic) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace mq::coordinator

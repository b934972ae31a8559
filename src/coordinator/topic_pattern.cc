// The only file that includes RE2.
#include "coordinator/topic_pattern.h"

#include <re2/re2.h>

namespace mq::coordinator {
namespace {
constexpr size_t kExpressionMax = 4096;
constexpr int64_t kMemoryMax = 1 << 20;
}  // namespace

struct TopicPattern::Compiled {
  re2::RE2 expression;
};

TopicPattern::TopicPattern() = default;
TopicPattern::~TopicPattern() = default;
TopicPattern::TopicPattern(TopicPattern&&) noexcept = default;
TopicPattern& TopicPattern::operator=(TopicPattern&&) noexcept = default;

Result<TopicPattern> TopicPattern::compile(const std::string& expression) {
  if (expression.size() > kExpressionMax)
    return failure(Error::invalidRegularExpression, "the expression has {} bytes, over {}", expression.size(),
                   kExpressionMax);
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_max_mem(kMemoryMax);
  Result<TopicPattern> pattern;
  pattern->compiled_.reset(new Compiled{re2::RE2(expression, options)});
  if (!pattern->compiled_->expression.ok()) {
    return failure(Error::invalidRegularExpression, "the expression '{}' is not valid: {}", expression,
                   pattern->compiled_->expression.error());
  }
  return pattern;
}

bool TopicPattern::matches(std::string_view topic) const {
  return re2::RE2::FullMatch(re2::StringPiece(topic.data(), topic.size()), compiled_->expression);
}

}  // namespace mq::coordinator

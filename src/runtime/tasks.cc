#include "runtime/tasks.h"

namespace mq {

std::string describe(const kj::Exception& exception) {
  kj::StringPtr text = exception.getDescription();
  return std::string(text.begin(), text.size());
}

void Tasks::taskFailed(kj::Exception&& exception) {
  if (exception.getType() == kj::Exception::Type::DISCONNECTED) {
    log_.debug(event_, "{}", describe(exception));
  } else {
    log_.error(event_, "{} ({}:{})", describe(exception), exception.getFile(), exception.getLine());
  }
}

}  // namespace mq

#include "runtime/socket.h"

#include <cerrno>
#include <cstring>
#include <string_view>

namespace mq {

bool isRefused(const kj::Exception& failedConnect) {
  std::string_view text(failedConnect.getDescription().cStr());
  return failedConnect.getType() == kj::Exception::Type::DISCONNECTED && text.starts_with("cannot connect to ") &&
         text.ends_with(strerror(ECONNREFUSED));
}

}  // namespace mq

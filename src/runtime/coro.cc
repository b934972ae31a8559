#include "runtime/coro.h"

#include <kj/debug.h>

#include <exception>

namespace mq {

kj::Exception caughtException() {
  try {
    throw;
  } catch (kj::Exception& exception) {
    return kj::mv(exception);
  } catch (const std::exception& exception) {
    return KJ_EXCEPTION(FAILED, "std::exception", exception.what());
  } catch (...) {
    return KJ_EXCEPTION(FAILED, "exception of an unknown type");
  }
}

}  // namespace mq

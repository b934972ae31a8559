// The real FileSystem: POSIX calls, no state of its own, usable from any thread.
#pragma once
#include <memory>

#include "runtime/file.h"

namespace mq {

std::unique_ptr<FileSystem> realFileSystem();

}  // namespace mq

// Precompiled for the folders above runtime/: parsing these headers takes longer than most of our own files.
// Only a matter of build time; no file may rely on it for its includes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <kj/async.h>

#include "base/error.h"
#include "base/types.h"
#include "runtime/shard.h"

// Precompiled for the larger unit tests: only a matter of build time.
#pragma once
#include <doctest/doctest.h>

#include "runtime/precompiled.h"

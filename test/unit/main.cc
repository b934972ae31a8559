#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "base/check.h"

int main(int argc, char** argv) {
  mq::setSlowChecks(true);
  doctest::Context context(argc, argv);
  context.setOption("no-intro", true);
  return context.run();
}

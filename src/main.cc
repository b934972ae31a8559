#include <csignal>

#include "cli/command.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe or socket is an error of that write, not of the process
  return mq::cli::runCommandLine(argc, argv);
}

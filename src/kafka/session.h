// Session: what is known about the client at the other end of one connection.
#pragma once
#include <optional>
#include <string>

#include <kj/async.h>

#include "base/types.h"
#include "runtime/socket.h"

namespace mq::kafka {

// One address clients connect to. Listeners and advertised addresses pair by name.
struct ListenerOptions {
  std::string name = "PLAINTEXT";
  Address listen;
};

struct Session {
  const ListenerOptions& listener;
  Address peer;
  Address local;  // the address that the client reached
  // Who asks. Handlers decide by this value alone; nobody can be anybody else yet.
  std::string principal = "User:ANONYMOUS";
  std::string clientId;      // of the last request
  std::string softwareName;  // by ApiVersions; empty: an older client, or one that does not say
  std::string softwareVersion;
  // The connection is about to end: long polls answer with what there is.
  kj::ForkedPromise<void> leaving;
  bool isLeaving = false;

  // Whether batches may be sent as lz4 that the client's producer did not choose itself (compression.type=auto).
  bool decodesLz4() const;
};

// Numeric addresses as people know them: an IPv4 address that came through an IPv6 socket loses its prefix.
std::string plainHost(const std::string& host);

}  // namespace mq::kafka

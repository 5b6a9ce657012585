// A connection to a server of this process, that is closed at once: what waits for one looks up.
#pragma once

#include <string>

namespace baton {

// `listen`: host:port as the server was told, of which the host is used, "0.0.0.0" and "[::]" as
// the loopback. Whether it connected does not matter and is not told.
void Knock(const std::string& listen, int port);

}  // namespace baton

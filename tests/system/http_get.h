// One HTTP request on loopback, for reading /metrics in a test.
#pragma once

#include <string>

namespace baton {

// Head and body of the answer; empty if there was none.
std::string HttpGet(int port, const std::string& path);

}  // namespace baton

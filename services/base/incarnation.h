// The identity of one process start.
#pragma once

#include <string>

namespace baton {

// 128 random bits from the kernel as 32 hex digits: different for every process start.
std::string MakeIncarnation();

}  // namespace baton

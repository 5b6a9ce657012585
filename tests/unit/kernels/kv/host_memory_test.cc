#include "kernels/kv/host_memory.h"

#include <gtest/gtest.h>

#include <limits>

namespace baton {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
constexpr char kMeminfo[] =
    "MemTotal:       24684084 kB\nMemFree:         1000000 kB\nMemAvailable:    2000000 kB\n"
    "Buffers:            1234 kB\n";

TEST(HostMemory, TheLesserOfMachineAndContainerCounts) {
  EXPECT_EQ(AvailableBytes(kMeminfo, "max\n"), uint64_t{2000000} << 10);
  EXPECT_EQ(AvailableBytes(kMeminfo, "1073741824\n"), uint64_t{1} << 30);
  EXPECT_EQ(AvailableBytes(kMeminfo, "99999999999999\n"), uint64_t{2000000} << 10);
}

TEST(HostMemory, WhatIsNotSaidLimitsNothing) {
  EXPECT_EQ(AvailableBytes("", ""), kUnlimited);
  EXPECT_EQ(AvailableBytes("MemAvailable: none\nMemTotal: 5 kB\n", "max"), kUnlimited);
  EXPECT_EQ(AvailableBytes("", "4096"), 4096u);
}

TEST(HostMemory, ThisMachineHasSome) {
  EXPECT_GT(AvailableHostBytes(), uint64_t{1} << 20);
  EXPECT_LT(AvailableHostBytes(), kUnlimited);
}

}  // namespace
}  // namespace baton

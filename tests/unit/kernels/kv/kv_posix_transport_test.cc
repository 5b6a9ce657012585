#include "kernels/kv/kv_posix_transport.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/kv/unique_fd.h"

namespace baton {
namespace {

using testing::HasSubstr;

constexpr uint64_t kSize = 3 * 4096 + 512;

class KvPosixTransportTest : public testing::Test {
 protected:
  void ExpectRefused(int fd, const std::string& text) const {
    const auto refused = transport_.Import({.size_bytes = kSize}, fd);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(text));
  }

  KvPosixTransport transport_;
};

TEST_F(KvPosixTransportTest, MemoryIsZeroedAndSealed) {
  const auto memory = transport_.Allocate(kSize);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ((*memory)->size_bytes(), kSize);
  const char* base = static_cast<const char*>((*memory)->base());
  EXPECT_EQ(std::count(base, base + kSize, 0), static_cast<int64_t>(kSize));
  const int fd = transport_.Export(**memory)->fd;
  EXPECT_NE(ftruncate(fd, 10), 0);
  EXPECT_NE(ftruncate(fd, 2 * kSize), 0);
}

TEST_F(KvPosixTransportTest, RefusesNoBytesAndTooManyBytes) {
  EXPECT_EQ(transport_.Allocate(0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(transport_.Allocate(uint64_t{1} << 60).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(KvPosixTransportTest, RefusesMoreThanThereIs) {
  const auto machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const absl::Status status = transport_.Allocate(machine + 4096).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("available"));
}

TEST_F(KvPosixTransportTest, ImportedMemoryIsTheSameMemory) {
  auto memory = *transport_.Allocate(kSize);
  const int fd = transport_.Export(*memory)->fd;
  const auto imported = *transport_.Import({.size_bytes = kSize}, fd);
  const std::vector<char> bytes = {'b', 'a', 't', 'o', 'n'};
  ASSERT_EQ(transport_.CopyIn(static_cast<char*>(imported->base()) + 5000, bytes),
            absl::OkStatus());
  std::vector<char> found(5);
  ASSERT_EQ(transport_.CopyOut(static_cast<char*>(memory->base()) + 5000, absl::MakeSpan(found)),
            absl::OkStatus());
  EXPECT_EQ(found, bytes);
  memory.reset();  // The owner's death does not pull the ground away under a writer.
  std::memset(imported->base(), 1, kSize);
}

TEST_F(KvPosixTransportTest, RefusesMemoryOfAnotherSize) {
  const auto memory = *transport_.Allocate(kSize + 4096);
  ExpectRefused(transport_.Export(*memory)->fd, "wanted 12800 bytes, found 16896");
}

TEST_F(KvPosixTransportTest, RefusesMemoryThatCanShrink) {
  const UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), kSize), 0);
  ExpectRefused(unsealed.get(), "wanted seals");
}

TEST_F(KvPosixTransportTest, RefusesWhatIsNoMemory) {
  ExpectRefused(-1, "found none");
  const UniqueFd file(open("/dev/null", O_RDWR | O_CLOEXEC));
  ExpectRefused(file.get(), "found 0");
}

TEST_F(KvPosixTransportTest, SelfTestTouchesItsRangeAlone) {
  const auto memory = *transport_.Allocate(kSize);
  const auto result =
      transport_.SelfTest(*memory, {.offset_bytes = 4096, .size_bytes = 4096, .seed = 3});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->write_bytes_per_second, 0);
  EXPECT_GT(result->read_bytes_per_second, 0);
  const char* base = static_cast<const char*>(memory->base());
  EXPECT_EQ(std::count(base, base + 4096, 0), 4096);
  EXPECT_LT(std::count(base + 4096, base + 8192, 0), 400);
  EXPECT_EQ(std::count(base + 8192, base + kSize, 0), static_cast<int64_t>(kSize - 8192));
}

}  // namespace
}  // namespace baton

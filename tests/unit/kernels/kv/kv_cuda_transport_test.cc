// What one process can see of cuda_ipc; two processes are in kv_transport_test. Skipped, with the
// reason, where there is no device.
#include "kernels/kv/kv_cuda_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

namespace baton {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class KvCudaTransportTest : public testing::Test {
 protected:
  void SetUp() override {
    auto transport = MakeKvCudaTransport(0);
    if (!transport.ok()) GTEST_SKIP() << transport.status();
    transport_ = std::move(*transport);
  }
  void ExpectRefused(const KvArenaDescriptor& descriptor, const std::string& text) const {
    const auto refused = transport_->Import(descriptor, -1);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(text));
  }
  // A descriptor that another process might have sent.
  KvArenaDescriptor Descriptor() const {
    return {.ipc_handle = std::string(64, '\0'),
            .size_bytes = 4096,
            .device_uuid = transport_->device_uuid(),
            .owner_pid = static_cast<uint32_t>(getpid() + 1)};
  }

  std::unique_ptr<KvTransport> transport_;
};

TEST(KvCudaTransportWithoutDeviceTest, RefusesADeviceThatDoesNotExist) {
  EXPECT_EQ(MakeKvCudaTransport(1000).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(KvCudaTransportTest, NamesTheDeviceAsNvidiaSmiDoes) {
  EXPECT_THAT(transport_->device_uuid(),
              MatchesRegex("GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
}

TEST_F(KvCudaTransportTest, AllocatesZeroedMemoryAndTestsIt) {
  const auto memory = transport_->Allocate(1 << 20);
  ASSERT_TRUE(memory.ok()) << memory.status();
  std::vector<char> bytes(1 << 20, 'x');
  ASSERT_EQ(transport_->CopyOut((*memory)->base(), absl::MakeSpan(bytes)), absl::OkStatus());
  EXPECT_EQ(bytes, std::vector<char>(1 << 20, 0));
  const auto result =
      transport_->SelfTest(**memory, {.offset_bytes = 4096, .size_bytes = 65536, .seed = 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->write_bytes_per_second, 0);
  EXPECT_EQ(transport_->Export(**memory)->ipc_handle.size(), 64u);
}

TEST_F(KvCudaTransportTest, SaysHowMuchMemoryWasWanted) {
  const auto refused = transport_->Allocate(uint64_t{1} << 50);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("1125899906842624"));
  EXPECT_TRUE(transport_->Allocate(4096).ok());  // The failed call left no error behind.
}

TEST_F(KvCudaTransportTest, RefusesWhatCannotBeOpened) {
  KvArenaDescriptor same_process = Descriptor();
  same_process.owner_pid = getpid();
  ExpectRefused(same_process, "wanted an owner with another process id");
  KvArenaDescriptor other_gpu = Descriptor();
  other_gpu.device_uuid = "GPU-none";
  ExpectRefused(other_gpu, "wanted the owner's GPU GPU-none");
  KvArenaDescriptor short_handle = Descriptor();
  short_handle.ipc_handle.resize(1);
  ExpectRefused(short_handle, "wanted 64 bytes, found 1");
  ExpectRefused(Descriptor(), "cudaIpcOpenMemHandle");
  EXPECT_TRUE(transport_->Allocate(4096).ok());
}

}  // namespace
}  // namespace baton

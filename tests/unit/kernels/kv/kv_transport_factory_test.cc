#include "kernels/kv/kv_transport_factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(KvTransportFactoryTest, MakesPosixShm) {
  EXPECT_THAT(KvTransportKinds(), Contains("posix_shm"));
  const auto transport = MakeKvTransport({.kind = "posix_shm"});
  ASSERT_TRUE(transport.ok()) << transport.status();
  EXPECT_EQ((*transport)->kind(), kPosixShmTransport);
  EXPECT_EQ((*transport)->CheckAvailable(), absl::OkStatus());
  EXPECT_EQ((*transport)->device_uuid(), "");
}

TEST(KvTransportFactoryTest, RefusesUnknownKinds) {
  const auto refused = MakeKvTransport({.kind = "tcp"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("found tcp"));
}

TEST(KvTransportFactoryTest, CudaIpcIsMadeOrRefusedWithAReason) {
  const auto transport = MakeKvTransport({.kind = "cuda_ipc"});
  if (transport.ok()) {
    EXPECT_THAT((*transport)->device_uuid(), testing::StartsWith("GPU-"));
    return;
  }
  EXPECT_EQ(transport.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(transport.status().message(), "");
}

TEST(KvTransportFactoryTest, NamesTheKindForABackend) {
  EXPECT_EQ(*KvTransportForBackend("cpu"), "posix_shm");
  EXPECT_EQ(*KvTransportForBackend("cuda"), "cuda_ipc");
  EXPECT_EQ(KvTransportForBackend("tpu").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton

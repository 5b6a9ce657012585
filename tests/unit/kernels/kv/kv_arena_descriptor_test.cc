#include "kernels/kv/kv_arena_descriptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/kernels/kv/kv_test_layout.h"

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

KvArenaDescriptor Good() {
  KvArenaDescriptor descriptor = DescribeArena(
      TestLayout(4, 6),
      {.transport = "posix_shm", .device_uuid = "host-1", .model_fingerprint = 0xfeed});
  descriptor.incarnation = "d0";
  descriptor.socket = "s";
  return descriptor;
}

TEST(KvArenaDescriptorTest, DescribesAndRestoresTheLayout) {
  const KvLayout wanted = TestLayout(4, 6);
  const KvLayout found = LayoutOf(Good());
  EXPECT_EQ(found.layer_group, wanted.layer_group);
  EXPECT_EQ(found.layer_in_group, wanted.layer_in_group);
  EXPECT_EQ(found.total_bytes(), wanted.total_bytes());
  EXPECT_EQ(Good().size_bytes, wanted.total_bytes());
  for (int layer = 0; layer < 4; ++layer)
    EXPECT_EQ(found.TileOffset(layer, 3, 1, 1), wanted.TileOffset(layer, 3, 1, 1));
}

TEST(KvArenaDescriptorTest, AcceptsEqualDescriptors) {
  EXPECT_THAT(CompareDescriptors(Good(), Good()), IsEmpty());
  EXPECT_EQ(CheckCompatible(Good(), Good()), absl::OkStatus());
}

TEST(KvArenaDescriptorTest, NamesEveryFieldThatDiffersWithBothValues) {
  const auto differences = [](auto change) {
    KvArenaDescriptor found = Good();
    change(found);
    return CompareDescriptors(Good(), found);
  };
  using D = KvArenaDescriptor;
  EXPECT_THAT(differences([](D& d) { d.model_fingerprint = 0xbeef; }),
              ElementsAre("model_fingerprint: wanted feed, found beef"));
  EXPECT_THAT(differences([](D& d) { d.device_uuid = "host-2"; }),
              ElementsAre("device_uuid: wanted host-1, found host-2"));
  EXPECT_THAT(differences([](D& d) { d.page_tokens = 32; }),
              ElementsAre("page_tokens: wanted 64, found 32"));
  EXPECT_THAT(differences([](D& d) { d.kv_heads = 8; }),
              ElementsAre("kv_heads: wanted 2, found 8"));
  EXPECT_THAT(differences([](D& d) { d.head_dim = 8; }),
              ElementsAre("head_dim: wanted 16, found 8"));
  EXPECT_THAT(differences([](D& d) { d.element_bytes = 4; }),
              ElementsAre("element_bytes: wanted 2, found 4"));
  EXPECT_THAT(differences([](D& d) { d.swizzled = true; }),
              ElementsAre("swizzled: wanted 0, found 1"));
  EXPECT_THAT(differences([](D& d) { d.window_keys = 99; }),
              ElementsAre("window_keys: wanted 100, found 99"));
  EXPECT_THAT(differences([](D& d) { d.layer_group[0] = kFullGroup; }),
              ElementsAre("layer_group: wanted 1110, found 0110"));
  EXPECT_THAT(differences([](D& d) { d.groups[1].page_count = 7; }),
              ElementsAre("group 1 page_count: wanted 6, found 7"));
  EXPECT_THAT(differences([](D& d) { d.groups[0].page_bytes = 1; }),
              ElementsAre("group 0 page_bytes: wanted 8192, found 1"));
  EXPECT_THAT(differences([](D& d) { d.groups[0].layer_count = 2; }),
              ElementsAre("group 0 layer_count: wanted 1, found 2"));
  EXPECT_THAT(differences([](D& d) { d.groups[1].offset_bytes = 0; }),
              ElementsAre("group 1 offset_bytes: wanted 32768, found 0"));
  EXPECT_THAT(differences([](D& d) { d.groups.pop_back(); }),
              ElementsAre("group count: wanted 2, found 1"));
  EXPECT_THAT(differences([](D& d) {
                d.scratch_pages = {0, 1};
              }),
              ElementsAre("scratch_pages: wanted 0,0, found 0,1"));
  EXPECT_THAT(differences([](D& d) { d.size_bytes = 5; }),
              ElementsAre(HasSubstr("size_bytes: wanted 180224, found 5")));
  EXPECT_THAT(differences([](D& d) { d.transport = "cuda_ipc"; }),
              ElementsAre("transport: wanted posix_shm, found cuda_ipc"));
}

TEST(KvArenaDescriptorTest, LeavesDevicesOfCudaToTheTransport) {
  KvArenaDescriptor wanted = Good();
  wanted.transport = "cuda_ipc";
  KvArenaDescriptor found = wanted;
  found.device_uuid = "GPU-2";
  EXPECT_THAT(CompareDescriptors(wanted, found), IsEmpty());
}

TEST(KvArenaDescriptorTest, RefusesWithAllDifferencesInOneMessage) {
  KvArenaDescriptor found = Good();
  found.kv_heads = 8;
  found.swizzled = true;
  found.incarnation.clear();
  found.socket.clear();
  const absl::Status status = CheckCompatible(Good(), found);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      status.message(),
      "KV arena cannot be attached: kv_heads: wanted 2, found 8; swizzled: wanted 0, found 1; "
      "incarnation: wanted the owner's, found none; socket: wanted a name, found none");
}

}  // namespace
}  // namespace baton

#include "services/decode/kv_convert.h"

#include <gtest/gtest.h>

#include "tests/fakes/scripted_backend.h"

namespace baton {
namespace {

TEST(KvToProtoTest, ADescriptorCarriesItsGeometry) {
  KvArenaDescriptor descriptor =
      DescribeArena(ScriptedLayout(9, 5),
                    {.transport = "posix_shm", .device_uuid = "host", .model_fingerprint = 42});
  descriptor.incarnation = "abc";
  descriptor.socket = "name";
  descriptor.ipc_handle = std::string("\0\1", 2);
  const v1::KvArenaDescriptor message = ToProto(descriptor);
  EXPECT_EQ(message.incarnation(), "abc");
  EXPECT_EQ(message.transport(), "posix_shm");
  EXPECT_EQ(message.socket(), "name");
  EXPECT_EQ(message.ipc_handle().size(), 2u);
  EXPECT_EQ(message.model_fingerprint(), 42u);
  EXPECT_EQ(message.groups_size(), 2);
  EXPECT_EQ(message.groups(0).page_count(), 9u);
  EXPECT_EQ(message.groups(1).page_count(), 5u);
  EXPECT_EQ(message.layer_group(), std::string("\0\1\0", 3));
  EXPECT_EQ(message.size_bytes(), ScriptedLayout(9, 5).total_bytes());
}

TEST(KvToProtoTest, ALeaseCarriesPagesWithGenerations) {
  const v1::KvLease message = ToProto(KvLease{.lease_id = 7,
                                              .arena_incarnation = "abc",
                                              .pages = {.full = {{1, 2}, {3, 4}}},
                                              .write_begin = 5,
                                              .write_end = 100});
  EXPECT_EQ(message.lease_id(), 7u);
  EXPECT_EQ(message.arena_incarnation(), "abc");
  EXPECT_EQ(message.full().page_ids(1), 2u);
  EXPECT_EQ(message.full().generations(1), 4u);
  EXPECT_EQ(message.window().page_ids_size(), 0);
  EXPECT_EQ(message.write_begin(), 5u);
  EXPECT_EQ(message.write_end(), 100u);
}

}  // namespace
}  // namespace baton

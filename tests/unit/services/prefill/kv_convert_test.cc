#include "services/prefill/kv_convert.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(KvFromProtoTest, TakesEveryFieldOfALease) {
  v1::KvLease message;
  message.set_lease_id(7);
  message.set_arena_incarnation("a");
  message.mutable_full()->add_page_ids(1);
  message.mutable_full()->add_generations(2);
  message.mutable_window()->add_page_ids(3);
  message.mutable_window()->add_generations(4);
  message.set_write_begin(5);
  message.set_write_end(6);
  const KvLease wanted{.lease_id = 7,
                       .arena_incarnation = "a",
                       .pages = {.full = {{1}, {2}}, .window = {{3}, {4}}},
                       .write_begin = 5,
                       .write_end = 6};
  EXPECT_EQ(FromProto(message), wanted);
}

TEST(KvFromProtoTest, AnArenaHasTwoGroups) {
  v1::KvArenaDescriptor message;
  EXPECT_TRUE(absl::IsInvalidArgument(FromProto(message).status()));
  message.add_groups()->set_page_count(5);
  message.add_groups()->set_page_bytes(6);
  message.set_layer_group(std::string("\0\1", 2));
  const auto descriptor = FromProto(message);
  ASSERT_TRUE(descriptor.ok());
  EXPECT_EQ(descriptor->groups[0].page_count, 5u);
  EXPECT_EQ(descriptor->groups[1].page_bytes, 6u);
  EXPECT_EQ(descriptor->layer_group, (std::vector<uint8_t>{0, 1}));
}

}  // namespace
}  // namespace baton

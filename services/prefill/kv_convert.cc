#include "services/prefill/kv_convert.h"

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

KvPages FromProto(const v1::KvPages& message) {
  return {.page_ids = {message.page_ids().begin(), message.page_ids().end()},
          .generations = {message.generations().begin(), message.generations().end()}};
}

}  // namespace

absl::StatusOr<KvArenaDescriptor> FromProto(const v1::KvArenaDescriptor& message) {
  if (message.groups_size() != kKvGroupCount) {
    return absl::InvalidArgumentError(absl::StrCat("arena.groups: wanted ", int{kKvGroupCount},
                                                   ", found ", message.groups_size()));
  }
  KvArenaDescriptor descriptor{
      .incarnation = message.incarnation(),
      .transport = message.transport(),
      .socket = message.socket(),
      .ipc_handle = message.ipc_handle(),
      .size_bytes = message.size_bytes(),
      .device_uuid = message.device_uuid(),
      .owner_pid = message.owner_pid(),
      .model_fingerprint = message.model_fingerprint(),
      .page_tokens = message.page_tokens(),
      .kv_heads = message.kv_heads(),
      .head_dim = message.head_dim(),
      .element_bytes = message.element_bytes(),
      .swizzled = message.swizzled(),
      .window_keys = message.window_keys(),
      .layer_group = {message.layer_group().begin(), message.layer_group().end()},
      .scratch_pages = {message.scratch_pages().begin(), message.scratch_pages().end()}};
  for (const v1::KvGroup& group : message.groups()) {
    descriptor.groups.push_back({.layer_count = group.layer_count(),
                                 .page_count = group.page_count(),
                                 .page_bytes = group.page_bytes(),
                                 .offset_bytes = group.offset_bytes()});
  }
  return descriptor;
}

KvLease FromProto(const v1::KvLease& message) {
  return {.lease_id = message.lease_id(),
          .arena_incarnation = message.arena_incarnation(),
          .pages = {.full = FromProto(message.full()), .window = FromProto(message.window())},
          .write_begin = message.write_begin(),
          .write_end = message.write_end()};
}

}  // namespace baton

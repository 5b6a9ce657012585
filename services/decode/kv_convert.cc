#include "services/decode/kv_convert.h"

namespace baton {
namespace {

void CopyPages(const KvPages& pages, v1::KvPages* message) {
  message->mutable_page_ids()->Assign(pages.page_ids.begin(), pages.page_ids.end());
  message->mutable_generations()->Assign(pages.generations.begin(), pages.generations.end());
}

}  // namespace

v1::KvArenaDescriptor ToProto(const KvArenaDescriptor& descriptor) {
  v1::KvArenaDescriptor message;
  message.set_incarnation(descriptor.incarnation);
  message.set_transport(descriptor.transport);
  message.set_socket(descriptor.socket);
  message.set_ipc_handle(descriptor.ipc_handle);
  message.set_size_bytes(descriptor.size_bytes);
  message.set_device_uuid(descriptor.device_uuid);
  message.set_owner_pid(descriptor.owner_pid);
  message.set_model_fingerprint(descriptor.model_fingerprint);
  message.set_page_tokens(descriptor.page_tokens);
  message.set_kv_heads(descriptor.kv_heads);
  message.set_head_dim(descriptor.head_dim);
  message.set_element_bytes(descriptor.element_bytes);
  message.set_swizzled(descriptor.swizzled);
  message.set_window_keys(descriptor.window_keys);
  message.set_layer_group(
      std::string(descriptor.layer_group.begin(), descriptor.layer_group.end()));
  for (const KvGroupLayout& group : descriptor.groups) {
    v1::KvGroup* added = message.add_groups();
    added->set_layer_count(group.layer_count);
    added->set_page_count(group.page_count);
    added->set_page_bytes(group.page_bytes);
    added->set_offset_bytes(group.offset_bytes);
  }
  message.mutable_scratch_pages()->Assign(descriptor.scratch_pages.begin(),
                                          descriptor.scratch_pages.end());
  return message;
}

v1::KvLease ToProto(const KvLease& lease) {
  v1::KvLease message;
  message.set_lease_id(lease.lease_id);
  message.set_arena_incarnation(lease.arena_incarnation);
  CopyPages(lease.pages.full, message.mutable_full());
  CopyPages(lease.pages.window, message.mutable_window());
  message.set_write_begin(lease.write_begin);
  message.set_write_end(lease.write_end);
  return message;
}

}  // namespace baton

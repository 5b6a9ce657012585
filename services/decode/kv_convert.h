// KV descriptors and leases to messages, as the decode side sends them. No validation: the values
// are our own.
#pragma once

#include "baton/v1/kv.pb.h"
#include "kernels/kv/kv_arena_descriptor.h"
#include "kernels/kv/kv_lease.h"

namespace baton {

v1::KvArenaDescriptor ToProto(const KvArenaDescriptor& descriptor);
v1::KvLease ToProto(const KvLease& lease);

}  // namespace baton

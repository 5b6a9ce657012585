// KV descriptors and leases from messages, as the prefill side receives them. Content is checked
// later (CheckCompatible, ValidateLease); only what a plain value cannot hold is refused here.
#pragma once

#include "absl/status/statusor.h"
#include "baton/v1/kv.pb.h"
#include "kernels/kv/kv_arena_descriptor.h"
#include "kernels/kv/kv_lease.h"

namespace baton {

// InvalidArgument: wrong number of groups.
absl::StatusOr<KvArenaDescriptor> FromProto(const v1::KvArenaDescriptor& message);
KvLease FromProto(const v1::KvLease& message);

}  // namespace baton

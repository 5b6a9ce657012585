#include "kernels/kv/kv_arena_descriptor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "kernels/kv/kv_transport_factory.h"

namespace baton {
namespace {

// Collects "field: wanted x, found y".
class Differences {
 public:
  template <typename T>
  void Compare(const std::string& field, const T& wanted, const T& found) {
    if (wanted != found)
      lines_.push_back(absl::StrCat(field, ": wanted ", wanted, ", found ", found));
  }
  std::vector<std::string> Take() { return std::move(lines_); }

 private:
  std::vector<std::string> lines_;
};

void CompareGroups(const KvArenaDescriptor& wanted, const KvArenaDescriptor& found,
                   Differences& differences) {
  differences.Compare("group count", wanted.groups.size(), found.groups.size());
  for (size_t i = 0; i < std::min(wanted.groups.size(), found.groups.size()); ++i) {
    const KvGroupLayout& a = wanted.groups[i];
    const KvGroupLayout& b = found.groups[i];
    const std::string name = absl::StrCat("group ", i);
    differences.Compare(name + " layer_count", a.layer_count, b.layer_count);
    differences.Compare(name + " page_count", a.page_count, b.page_count);
    differences.Compare(name + " page_bytes", a.page_bytes, b.page_bytes);
    differences.Compare(name + " offset_bytes", a.offset_bytes, b.offset_bytes);
  }
  differences.Compare("scratch_pages", absl::StrJoin(wanted.scratch_pages, ","),
                      absl::StrJoin(found.scratch_pages, ","));
}

std::string LayerGroups(const KvArenaDescriptor& descriptor) {
  std::string text;
  for (uint8_t group : descriptor.layer_group) absl::StrAppend(&text, int{group});
  return text;
}

}  // namespace

KvArenaDescriptor DescribeArena(const KvLayout& layout, const KvArenaIdentity& identity) {
  return {.transport = identity.transport,
          .size_bytes = layout.total_bytes(),
          .device_uuid = identity.device_uuid,
          .model_fingerprint = identity.model_fingerprint,
          .page_tokens = kPageTokens,
          .kv_heads = layout.kv_heads,
          .head_dim = layout.head_dim,
          .element_bytes = layout.element_bytes,
          .swizzled = layout.swizzled,
          .window_keys = layout.window_keys,
          .layer_group = layout.layer_group,
          .groups = {layout.groups.begin(), layout.groups.end()},
          .scratch_pages = std::vector<PageId>(kKvGroupCount, kScratchPage)};
}

KvLayout LayoutOf(const KvArenaDescriptor& descriptor) {
  BATON_CHECK(descriptor.groups.size() == kKvGroupCount);
  KvLayout layout{.kv_heads = descriptor.kv_heads,
                  .head_dim = descriptor.head_dim,
                  .element_bytes = descriptor.element_bytes,
                  .swizzled = descriptor.swizzled,
                  .window_keys = descriptor.window_keys,
                  .layer_group = descriptor.layer_group};
  std::copy(descriptor.groups.begin(), descriptor.groups.end(), layout.groups.begin());
  std::array<uint16_t, kKvGroupCount> next = {};
  for (uint8_t group : descriptor.layer_group) {
    BATON_CHECK(group < kKvGroupCount);
    layout.layer_in_group.push_back(next[group]++);
  }
  return layout;
}

std::vector<std::string> CompareDescriptors(const KvArenaDescriptor& wanted,
                                            const KvArenaDescriptor& found) {
  Differences differences;
  differences.Compare("transport", wanted.transport, found.transport);
  if (wanted.transport == kPosixShmTransport)
    differences.Compare("device_uuid", wanted.device_uuid, found.device_uuid);
  differences.Compare("model_fingerprint", absl::StrCat(absl::Hex(wanted.model_fingerprint)),
                      absl::StrCat(absl::Hex(found.model_fingerprint)));
  differences.Compare("page_tokens", wanted.page_tokens, found.page_tokens);
  differences.Compare("kv_heads", wanted.kv_heads, found.kv_heads);
  differences.Compare("head_dim", wanted.head_dim, found.head_dim);
  differences.Compare("element_bytes", wanted.element_bytes, found.element_bytes);
  differences.Compare("swizzled", int{wanted.swizzled}, int{found.swizzled});
  differences.Compare("window_keys", wanted.window_keys, found.window_keys);
  differences.Compare("layer_group", LayerGroups(wanted), LayerGroups(found));
  CompareGroups(wanted, found, differences);
  differences.Compare("size_bytes", wanted.size_bytes, found.size_bytes);
  return differences.Take();
}

absl::Status CheckCompatible(const KvArenaDescriptor& wanted, const KvArenaDescriptor& found) {
  std::vector<std::string> differences = CompareDescriptors(wanted, found);
  if (found.incarnation.empty())
    differences.push_back("incarnation: wanted the owner's, found none");
  if (found.socket.empty()) differences.push_back("socket: wanted a name, found none");
  // Every attach is tested on the scratch page; what is wanted may have taken its count from what
  // was found.
  for (size_t i = 0; i < found.groups.size(); ++i) {
    const KvGroupLayout& group = found.groups[i];
    if (group.layer_count > 0 && group.page_count <= kScratchPage)
      differences.push_back(absl::StrCat("group ", i, " page_count: wanted more than ",
                                         kScratchPage, " for its layers, found ",
                                         group.page_count));
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("KV arena cannot be attached: ", absl::StrJoin(differences, "; ")));
}

}  // namespace baton

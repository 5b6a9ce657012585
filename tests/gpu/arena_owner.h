// A decode worker's side of the hand-over inside a test: an arena on the GPU with its exporter and
// bookkeeping, and on the host what every page must hold. One thread; peers' ends arrive by a
// queue.
#pragma once

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/kv/kv_arena.h"
#include "kernels/kv/kv_cuda_transport.h"
#include "kernels/kv/kv_exporter.h"
#include "kernels/kv/model_kv_layout.h"
#include "kernels/models/checkpoint.h"
#include "services/base/incarnation.h"
#include "services/decode/grpc_prefill_client.h"

namespace baton {

struct ArenaOwnerOptions {
  uint32_t full_pages = 0;
  uint32_t window_pages = 0;
  uint64_t fingerprint_change = 0;  // Added to the model's: a wrong one.
};

class ArenaOwner {
 public:
  using Clock = std::chrono::steady_clock;
  // As services/decode's main sets it for a GPU.
  static constexpr std::chrono::milliseconds kGoneMargin{2000};

  // `transport` outlives it.
  ArenaOwner(const Checkpoint& checkpoint, const KvTransport& transport,
             const ArenaOwnerOptions& options)
      : transport_(transport),
        layout_(MakeModelKvLayout(checkpoint.config(), {.element_bytes = 2, .swizzled = true},
                                  options.full_pages, options.window_pages)),
        incarnation_(MakeIncarnation()),
        memory_(*transport.Allocate(layout_.total_bytes())),
        arena_(*KvArena::Create(
            {.layout = layout_, .incarnation = incarnation_, .gone_margin = kGoneMargin})),
        expected_(layout_.total_bytes(), 0) {
    exporter_ =
        *KvExporter::Start({.descriptor = DescribeArena(
                                layout_, {.transport = std::string(transport.kind()),
                                          .device_uuid = transport.device_uuid(),
                                          .model_fingerprint = checkpoint.weights().Fingerprint() +
                                                               options.fingerprint_change}),
                            .incarnation = incarnation_,
                            .transport = &transport,
                            .memory = memory_.get(),
                            .on_peer = [this](const KvPeerEvent& event) {
                              if (event.kind != KvPeerEvent::Kind::kGone) return;
                              std::lock_guard lock(mutex_);
                              gone_.insert(event.incarnation);
                            }});
  }

  absl::StatusOr<AttachAnswer> Attach(const std::string& address) {
    auto answer = std::make_shared<std::promise<absl::StatusOr<AttachAnswer>>>();
    client_.Attach(address, exporter_->descriptor(),
                   [answer](absl::StatusOr<AttachAnswer> a) { answer->set_value(std::move(a)); });
    absl::StatusOr<AttachAnswer> attached = answer->get_future().get();
    if (attached.ok()) arena_->AttachWriter(attached->incarnation);
    return attached;
  }

  // The future's value is the call's outcome.
  std::future<absl::StatusOr<PrefillAnswer>> Prefill(const std::string& address,
                                                     const PrefillCall& call) {
    auto answer = std::make_shared<std::promise<absl::StatusOr<PrefillAnswer>>>();
    client_.Prefill(address, call,
                    [answer](absl::StatusOr<PrefillAnswer> a) { answer->set_value(std::move(a)); });
    return answer->get_future();
  }

  // True once the connection of that process has ended; then its pages rest.
  bool TakeGone(const std::string& incarnation) {
    {
      std::lock_guard lock(mutex_);
      if (gone_.erase(incarnation) == 0) return false;
    }
    arena_->WriterGone(incarnation, Clock::now());
    return true;
  }

  // Writes bytes that depend on `seed` to the pages, and remembers them.
  absl::Status Fill(const KvSequencePages& pages, uint32_t seed) {
    return ForEachPage(pages, [&](uint64_t offset, uint64_t bytes) {
      for (uint64_t i = 0; i < bytes; ++i) {
        expected_[offset + i] = static_cast<char>((i * 2654435761u + seed + offset) >> 11);
      }
      return transport_.CopyIn(Device(offset), absl::MakeSpan(&expected_[offset], bytes));
    });
  }

  // Changes one byte of the first page without remembering it: what must be noticed.
  absl::Status Spoil(const KvSequencePages& pages) {
    const KvGroupLayout& group = layout_.groups[kFullGroup];
    const uint64_t offset = group.offset_bytes + pages.full.page_ids[0] * group.page_bytes + 100;
    const char other = static_cast<char>(expected_[offset] + 1);
    return transport_.CopyIn(Device(offset), {&other, 1});
  }

  // Pages whose bytes on the device are not those remembered.
  absl::StatusOr<int> CountChanged(const KvSequencePages& pages) {
    int changed = 0;
    std::vector<char> found;
    const absl::Status status = ForEachPage(pages, [&](uint64_t offset, uint64_t bytes) {
      found.resize(bytes);
      const absl::Status read = transport_.CopyOut(Device(offset), absl::MakeSpan(found));
      changed += std::memcmp(found.data(), &expected_[offset], bytes) != 0 ? 1 : 0;
      return read;
    });
    if (!status.ok()) return status;
    return changed;
  }

  KvArena& arena() { return *arena_; }
  const KvLayout& layout() const { return layout_; }
  const std::string& incarnation() const { return incarnation_; }

 private:
  char* Device(uint64_t offset) const { return static_cast<char*>(memory_->base()) + offset; }

  template <typename Visit>
  absl::Status ForEachPage(const KvSequencePages& pages, const Visit& visit) {
    for (const KvGroup group : {kFullGroup, kWindowGroup}) {
      const KvGroupLayout& layout = layout_.groups[group];
      for (const PageId page : (group == kFullGroup ? pages.full : pages.window).page_ids) {
        const absl::Status status =
            visit(layout.offset_bytes + page * layout.page_bytes, layout.page_bytes);
        if (!status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  const KvTransport& transport_;
  const KvLayout layout_;
  const std::string incarnation_;
  const std::unique_ptr<KvMemory> memory_;
  const std::unique_ptr<KvArena> arena_;
  std::vector<char> expected_;  // [total_bytes]
  std::mutex mutex_;            // Guards gone_.
  std::set<std::string> gone_;
  std::unique_ptr<KvExporter> exporter_;
  GrpcPrefillClient client_;
};

}  // namespace baton

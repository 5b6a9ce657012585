// An imported arena without memory, and leases on it, for prefill tests over ScriptedBackend.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "kernels/kv/kv_arena.h"
#include "kernels/kv/kv_importer.h"
#include "tests/fakes/scripted_backend.h"

namespace baton {

class ScriptedArena final : public KvImportedArena {
 public:
  explicit ScriptedArena(const std::string& incarnation)
      : layout_(ScriptedLayout(65, 65)),
        descriptor_(DescribeArena(
            layout_,
            {.transport = "posix_shm", .device_uuid = "scripted", .model_fingerprint = 42})),
        arena_(*KvArena::Create({.layout = layout_, .incarnation = incarnation})) {
    descriptor_.incarnation = incarnation;
    arena_->AttachWriter("P");
  }

  const KvArenaDescriptor& descriptor() const override { return descriptor_; }
  const KvLayout& layout() const override { return layout_; }
  void* base() const override { return nullptr; }
  const KvSelfTestResult& self_test() const override { return self_test_; }
  bool owner_gone() const override { return owner_gone_; }
  bool on_peer_device() const override { return on_peer_device_; }
  void set_owner_gone() { owner_gone_ = true; }
  void set_on_peer_device() { on_peer_device_ = true; }  // Before the arena is used.

  KvLease Lease(uint32_t token_count) {
    return *arena_->StartLease(
        {.pages = *arena_->Reserve(FullPagesFor(token_count), WindowPagesFor(token_count, 64, 128)),
         .writer_incarnation = "P",
         .write_begin = 0,
         .write_end = token_count});
  }

 private:
  const KvLayout layout_;
  KvArenaDescriptor descriptor_;
  const KvSelfTestResult self_test_;
  std::atomic<bool> owner_gone_{false};
  bool on_peer_device_ = false;
  std::unique_ptr<KvArena> arena_;
};

}  // namespace baton

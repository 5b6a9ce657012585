// The seam between the services and a device. A Backend owns one loaded model on one device (a GPU,
// or the CPU's threads) and makes runners for it. services/ sees these interfaces and nothing below
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/generation.h"
#include "kernels/kv/kv_layout.h"
#include "kernels/models/chunk_cost.h"
#include "kernels/models/model_config.h"

namespace baton {

// A sequence that joins the decode batch: its prompt's K/V is in `pages`, `token` was sampled last
// and is not yet in the KV cache.
struct RowJoin {
  int slot = 0;  // Row of the batch, 0 <= slot < max_rows; free until now.
  uint64_t row_id =
      0;  // Echoed in results, so that a late result is never taken for the slot's next owner.
  TokenId token = 0;       // Input of the row's first step.
  int position = 0;        // Position of `token` = number of tokens already in the cache.
  int max_new_tokens = 1;  // Tokens to sample in decode; the row finishes with kLength after them.
  KvPageTable pages;       // Enough for position + max_new_tokens tokens.
  SamplingParams sampling;
  std::vector<TokenId> stop_ids;  // At most kMaxStopIds; sampling one finishes the row with kStop.
};
inline constexpr int kMaxStopIds = 16;

// What changes before a step. Rows not named go on by themselves: the runner keeps token, position
// and state.
struct StepInput {
  std::vector<RowJoin> joins;
  std::vector<int> leaves;  // Slots to drop (cancelled); slots of rows that finished by themselves
                            // are free already.
};

struct RowResult {
  int slot = 0;
  uint64_t row_id = 0;
  SampledToken sampled;  // Not valid(): the row goes on with any token; who reads this drops it.
  FinishReason finish = FinishReason::kNone;  // kStop or kLength: the row has left the batch.
};

struct StepOutput {
  uint64_t step = 0;            // 1, 2, … in submission order.
  std::vector<RowResult> rows;  // One per row that ran, by slot.
  double device_seconds = 0;    // Time of the step on the device.
  double distinct_experts =
      0;  // Mean over MoE layers of experts that were active; 0 if not counted.
};

// Where the time of the units that multiply went, in cycles of all of them together, in all steps
// so far.
struct DecodeCycles {
  uint64_t total = 0;
  uint64_t memory = 0;         // They waited for weights.
  uint64_t routing = 0;        // For the list of the layer's experts.
  uint64_t join_and_norm = 0;  // For the layer's input, until it was there and normalised.
  uint64_t other = 0;          // For other units' activations.
};

// Runs decode steps. One owner thread. Submit enqueues and never waits for the device; up to
// max_in_flight() steps may be submitted before their Await.
class DecodeRunner {
 public:
  virtual ~DecodeRunner() = default;
  virtual int max_rows() const = 0;
  virtual int max_in_flight() const = 0;
  // InvalidArgument: no batch can take the row, as it brings too few pages, an unknown page or a
  // number out of range. Depends on the join alone, so that it can be asked before a Submit, which
  // refuses all that it is given together.
  virtual absl::Status CheckJoin(const RowJoin& join) const = 0;
  // InvalidArgument, and nothing has changed: CheckJoin refuses a join, or its slot is used. A
  // failed step (Internal) leaves no row in the batch; the runner is usable again after Reset()
  // unless that fails too.
  virtual absl::Status Submit(const StepInput& input) = 0;
  virtual absl::StatusOr<StepOutput> Await() = 0;  // The oldest submitted step.
  virtual absl::Status Reset() = 0;  // Drops all rows and in-flight steps after an error.
  // As of the last second in which steps ran; all zero where they are not counted.
  virtual DecodeCycles cycles() const { return {}; }
};

// A stretch of one prompt: computes positions [begin, begin + tokens.size()) and writes their K/V
// into `pages`. Everything before `begin` is in the pages already.
struct PrefillChunk {
  // Of the prompt: the same for all its chunks, and of no other one that is being computed.
  uint64_t sequence_id = 0;
  absl::Span<const TokenId> tokens;  // 1 .. max_chunk_tokens().
  int begin = 0;
  const KvPageTable* pages = nullptr;
  void* kv_base =
      nullptr;  // Base of the arena that `pages` index: own memory or an imported mapping.
  const KvLayout* layout = nullptr;  // Of that arena.
  // The arena lies on another GPU: the chunk is computed in local pages, which are then copied.
  bool on_peer_device = false;
  bool sample = false;  // Last chunk: sample the first token.
  SamplingParams sampling;
  std::vector<float>* logits =
      nullptr;  // If set with `sample`: the last position's logits [vocab], for checks.
};

// What moved between GPUs since the runner was made. All zero while arenas are written in place.
struct KvTransferStats {
  uint64_t pushed_bytes = 0;     // Copied to arenas on other GPUs.
  uint64_t pulled_bytes = 0;     // Cached prefixes copied from them.
  uint64_t push_copies = 0;      // Commands that moved them; a copy holds layers of pages in a row.
  uint64_t scattered_bytes = 0;  // Of them by a kernel, as their pages lay too far apart.
  double push_seconds = 0;       // In which bytes of pushes moved, most of it under compute.
  double exposed_seconds = 0;    // By which pushes outlasted the compute of their chunk.
};

// Runs prompt chunks. One owner thread; RunChunk returns when the chunk's K/V writes are complete
// and visible to the arena's owner, also when it returns an error.
class PrefillRunner {
 public:
  virtual ~PrefillRunner() = default;
  virtual int max_chunk_tokens() const = 0;
  // The first token, valid() or not, if chunk.sample, else nullopt.
  virtual absl::StatusOr<std::optional<SampledToken>> RunChunk(const PrefillChunk& chunk) = 0;
  // Chunks of different prompts and of one arena, max_chunk_tokens() together, as one: one result
  // each. At most max_packed_prompts().
  virtual int max_packed_prompts() const { return 1; }
  virtual absl::StatusOr<std::vector<std::optional<SampledToken>>> RunChunks(
      absl::Span<const PrefillChunk> chunks) {
    std::vector<std::optional<SampledToken>> results;
    for (const PrefillChunk& chunk : chunks) {
      absl::StatusOr<std::optional<SampledToken>> result = RunChunk(chunk);
      if (!result.ok()) return result.status();
      results.push_back(*result);
    }
    return results;
  }
  // Seconds that a chunk of these stretches, of one prompt each, is expected to take; 0: not known.
  virtual double EstimateChunkSeconds(absl::Span<const PromptStretch> stretches) const {
    (void)stretches;
    return 0;
  }
  // No more chunks of the prompt follow: frees what is kept for it. Unknown ids are ignored.
  virtual void EndSequence(uint64_t sequence_id) { (void)sequence_id; }
  virtual KvTransferStats kv_transfer() const { return {}; }
};

// Memory for a KV arena that another process can map. Owner: the decode process.
class KvMemory {
 public:
  virtual ~KvMemory() = default;
  virtual void* base() const = 0;
  virtual uint64_t size_bytes() const = 0;
};

struct DecodeRunnerOptions {
  int max_rows = 32;
  KvLayout layout;          // From Backend::MakeKvLayout.
  void* kv_base = nullptr;  // The arena.
  int max_context_tokens =
      0;  // Longest sequence (page-table capacity); 0 = the model's max_positions.
};

struct PrefillRunnerOptions {
  int max_chunk_tokens = 512;
  // For arenas on another GPU: layers gather until they have so many bytes to push; 0 = the
  // backend's choice.
  uint64_t push_copy_bytes = 0;
  // For arenas on another GPU: the longest prompt that local pages must hold; 0 = the model's.
  int max_staged_tokens = 0;
  bool always_push = false;  // For tests: treats arenas on this GPU like those on another.
  // Results do not depend on how prompts are cut into chunks and packed, bit for bit. Always so on
  // the CPU.
  bool pinned = true;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const ModelConfig& config() const = 0;
  virtual std::string name() const = 0;         // "cpu" or "cuda".
  virtual std::string device_uuid() const = 0;  // Host identity for the CPU, GPU UUID for CUDA.
  virtual uint64_t weights_fingerprint() const = 0;
  // Longest prefill chunk that serves well where nobody says otherwise.
  virtual int default_chunk_tokens() const { return 512; }
  // The layout of an arena with the given page counts in this backend's tile format.
  virtual KvLayout MakeKvLayout(uint32_t full_pages, uint32_t window_pages) const = 0;
  // Device memory that an arena may take while `margin_bytes` stay free for others, once the
  // decode weights lie there; loads them if need be. ResourceExhausted if nothing is left;
  // Unimplemented for a backend whose arenas lie in host memory.
  virtual absl::StatusOr<uint64_t> AvailableKvBytes(uint64_t margin_bytes) {
    (void)margin_bytes;
    return absl::UnimplementedError("the backend's arenas lie in host memory: give their size");
  }
  virtual absl::StatusOr<std::unique_ptr<DecodeRunner>> MakeDecodeRunner(
      const DecodeRunnerOptions& options) = 0;
  virtual absl::StatusOr<std::unique_ptr<PrefillRunner>> MakePrefillRunner(
      const PrefillRunnerOptions& options) = 0;
};

}  // namespace baton

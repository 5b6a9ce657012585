#include "kernels/cuda/prefill/cuda_prefill_runner.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "kernels/kv/model_kv_layout.h"

namespace baton::prefill {
namespace {

PrefillSegment ToSegment(const PrefillChunk& chunk) {
  PrefillSegment segment;
  segment.tokens = chunk.tokens;
  segment.begin = chunk.begin;
  segment.pages = chunk.pages;
  segment.sample = chunk.sample;
  segment.sampling = chunk.sampling;
  segment.logits = chunk.logits;
  return segment;
}

absl::Status CheckSameArena(absl::Span<const PrefillChunk> chunks) {
  if (chunks.empty()) return absl::InvalidArgumentError("chunks: wanted at least 1, found 0");
  for (const PrefillChunk& chunk : chunks) {
    if (chunk.pages == nullptr || chunk.layout == nullptr) {
      return absl::InvalidArgumentError("a chunk without pages or without the arena's layout");
    }
    if (chunk.kv_base != chunks[0].kv_base) {
      return absl::InvalidArgumentError("chunks: wanted one arena, found two");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<SampledToken>> CudaPrefillRunner::RunChunk(const PrefillChunk& chunk) {
  BATON_ASSIGN_OR_RETURN(const std::vector<std::optional<SampledToken>> results,
                         RunChunks({&chunk, 1}));
  return results[0];
}

absl::StatusOr<std::vector<std::optional<SampledToken>>> CudaPrefillRunner::RunChunks(
    absl::Span<const PrefillChunk> chunks) {
  BATON_RETURN_IF_ERROR(CheckSameArena(chunks));
  std::vector<PrefillSegment> segments;
  for (const PrefillChunk& chunk : chunks) segments.push_back(ToSegment(chunk));
  const KvTarget arena{chunks[0].kv_base, chunks[0].layout};
  if (!chunks[0].on_peer_device && !options_.always_push) {
    return engine_->RunSegments(segments, arena);
  }
  BATON_RETURN_IF_ERROR(MakeStaging());
  BATON_RETURN_IF_ERROR(Stage(chunks, segments));
  return engine_->RunSegments(segments, {staging_->memory.data(), &staging_->layout}, &arena);
}

absl::Status CudaPrefillRunner::MakeStaging() {
  if (staging_ != nullptr) return absl::OkStatus();
  const ModelConfig& config = engine_->config();
  const StagingLimits limits =
      StagingLimitsFor({.max_tokens = options_.max_staged_tokens > 0 ? options_.max_staged_tokens
                                                                     : config.max_positions,
                        .window_keys = uint32_t(config.window_keys),
                        .max_chunk_tokens = max_chunk_tokens(),
                        .max_segments = max_packed_prompts()});
  const KvLayout layout = MakeModelKvLayout(config, {.element_bytes = 2, .swizzled = true},
                                            limits.full_pages, limits.window_pages);
  absl::StatusOr<DeviceMemory> memory = DeviceMemory::Allocate(layout.total_bytes());
  if (!memory.ok()) {
    return absl::Status(memory.status().code(),
                        absl::StrCat("local pages for arenas on other GPUs (fewer staged tokens "
                                     "need less): ",
                                     std::string(memory.status().message())));
  }
  spdlog::info("msg=\"local pages for arenas on other GPUs\" mib={} full_pages={} window_pages={}",
               layout.total_bytes() >> 20, layout.groups[kFullGroup].page_count,
               layout.groups[kWindowGroup].page_count);
  staging_ = std::make_unique<Staging>(
      Staging{layout, *std::move(memory), StagingPages(layout, max_chunk_tokens())});
  return absl::OkStatus();
}

absl::Status CudaPrefillRunner::Stage(absl::Span<const PrefillChunk> chunks,
                                      std::vector<PrefillSegment>& segments) {
  for (size_t i = 0; i < chunks.size(); ++i) {
    const PrefillChunk& chunk = chunks[i];
    PrefillSegment& segment = segments[i];
    const bool begins = !staging_->pages.Holds(chunk.sequence_id);
    const int end = chunk.begin + static_cast<int>(chunk.tokens.size());
    segment.push_pages = chunk.pages;
    BATON_ASSIGN_OR_RETURN(segment.pages,
                           staging_->pages.Extend(chunk.sequence_id, end, chunk.sample));
    if (!begins || chunk.begin == 0) continue;
    BATON_RETURN_IF_ERROR(engine_->PullPrefix(
        {chunk.kv_base, chunk.layout}, {staging_->memory.data(), &staging_->layout}, segment));
  }
  return absl::OkStatus();
}

void CudaPrefillRunner::EndSequence(uint64_t sequence_id) {
  if (staging_ != nullptr) staging_->pages.End(sequence_id);
}

}  // namespace baton::prefill

#include "kernels/cuda/prefill/kv_push.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"

namespace baton::prefill {
namespace {

std::byte* SliceOf(const KvTarget& target, int layer, PageId page) {
  return static_cast<std::byte*>(target.base) + target.layout->TileOffset(layer, page, 0, 0);
}

absl::Status CheckSameShape(const KvLayout& a, const KvLayout& b) {
  if (a.kv_heads == b.kv_heads && a.head_dim == b.head_dim && a.element_bytes == b.element_bytes &&
      a.swizzled == b.swizzled && a.layer_group == b.layer_group) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the local workspace has ", a.layer_group.size(), " layers, ", a.kv_heads,
                   " heads of ", a.head_dim, "; the arena ", b.layer_group.size(), " layers, ",
                   b.kv_heads, " heads of ", b.head_dim, "; wanted the same"));
}

// Every page of the runs lies in the destination.
absl::Status CheckRuns(const std::vector<PageRun>& runs, const KvGroupLayout& group) {
  for (const PageRun& run : runs) {
    if (uint64_t{run.to} + run.count > group.page_count) {
      return absl::InvalidArgumentError(absl::StrCat("pages [", run.to, ", ", run.to + run.count,
                                                     ") of an arena with ", group.page_count));
    }
  }
  return absl::OkStatus();
}

const std::vector<PageId>& GroupPages(const KvPageTable& table, int group) {
  return group == kWindowGroup ? table.window : table.full;
}

}  // namespace

std::vector<PageRun> PlanPageRuns(const std::vector<PageId>& from, const std::vector<PageId>& to,
                                  int first, int last) {
  std::vector<PageRun> runs;
  if (from.empty() || to.empty()) return runs;
  for (int logical = first; logical <= last; ++logical) {
    const PageId source = from[logical % from.size()];
    const PageId target = to[logical % to.size()];
    if (!runs.empty() && runs.back().from + runs.back().count == source &&
        runs.back().to + runs.back().count == target) {
      ++runs.back().count;
    } else {
      runs.push_back(PageRun{source, target, 1});
    }
  }
  return runs;
}

absl::StatusOr<std::unique_ptr<KvPusher>> KvPusher::Create(int layer_count) {
  std::unique_ptr<KvPusher> pusher(new KvPusher());
  BATON_PREFILL_CUDA(cudaStreamCreateWithFlags(&pusher->stream_, cudaStreamNonBlocking));
  pusher->written_.resize(layer_count, nullptr);
  for (cudaEvent_t& event : pusher->written_) {
    BATON_PREFILL_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
  return pusher;
}

KvPusher::~KvPusher() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
  for (cudaEvent_t event : written_) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::Status KvPusher::Begin(const KvTarget& local, const KvTarget& remote,
                             const std::vector<PushSegment>& segments) {
  BATON_RETURN_IF_ERROR(CheckSameShape(*local.layout, *remote.layout));
  local_ = local;
  remote_ = remote;
  pushed_bytes_ = 0;
  for (int group = 0; group < kKvGroupCount; ++group) {
    runs_[group].clear();
    for (const PushSegment& segment : segments) {
      const std::vector<PageId>& to = GroupPages(*segment.remote, group);
      const int last = (segment.end - 1) / kPageTokens;
      if (group == kFullGroup && remote.layout->groups[group].layer_count > 0 &&
          static_cast<int>(to.size()) <= last) {
        return absl::InvalidArgumentError(absl::StrCat("pushing ", segment.end, " tokens to ",
                                                       to.size(), " pages, wanted ", last + 1));
      }
      // Of a chunk longer than the destination's ring only the newest pages can stay there.
      const int ring = static_cast<int>(to.size());
      const int first =
          std::max(segment.begin / kPageTokens, group == kWindowGroup ? last - ring + 1 : 0);
      const std::vector<PageRun> runs =
          PlanPageRuns(GroupPages(*segment.local, group), to, first, last);
      BATON_RETURN_IF_ERROR(CheckRuns(runs, remote.layout->groups[group]));
      runs_[group].insert(runs_[group].end(), runs.begin(), runs.end());
    }
  }
  return absl::OkStatus();
}

absl::Status KvPusher::CopyRuns(const KvTarget& from, const KvTarget& to, int layer,
                                const std::vector<PageRun>& runs) {
  const int group = from.layout->layer_group[layer];
  const uint64_t bytes = from.layout->layer_bytes();
  for (const PageRun& run : runs) {
    BATON_PREFILL_CUDA(
        cudaMemcpy2DAsync(SliceOf(to, layer, run.to), to.layout->groups[group].page_bytes,
                          SliceOf(from, layer, run.from), from.layout->groups[group].page_bytes,
                          bytes, run.count, cudaMemcpyDefault, stream_));
    pushed_bytes_ += bytes * run.count;
  }
  return absl::OkStatus();
}

absl::Status KvPusher::PushLayer(int layer, cudaStream_t compute) {
  BATON_PREFILL_CUDA(cudaEventRecord(written_[layer], compute));
  BATON_PREFILL_CUDA(cudaStreamWaitEvent(stream_, written_[layer], 0));
  return CopyRuns(local_, remote_, layer, runs_[local_.layout->layer_group[layer]]);
}

absl::Status KvPusher::Wait() {
  BATON_PREFILL_CUDA(cudaStreamSynchronize(stream_));
  return absl::OkStatus();
}

absl::Status KvPusher::PullPrefix(const KvTarget& remote, const KvTarget& local,
                                  const PushSegment& segment) {
  if (segment.begin == 0) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(CheckSameShape(*local.layout, *remote.layout));
  const int last = (segment.begin - 1) / kPageTokens;
  const int window_keys = static_cast<int>(local.layout->window_keys);
  const int first_visible = std::max(0, segment.begin - window_keys + 1) / kPageTokens;
  for (int layer = 0; layer < static_cast<int>(local.layout->layer_group.size()); ++layer) {
    const int group = local.layout->layer_group[layer];
    const std::vector<PageRun> runs =
        PlanPageRuns(GroupPages(*segment.remote, group), GroupPages(*segment.local, group),
                     group == kWindowGroup ? first_visible : 0, last);
    BATON_RETURN_IF_ERROR(CopyRuns(remote, local, layer, runs));
  }
  return Wait();
}

}  // namespace baton::prefill

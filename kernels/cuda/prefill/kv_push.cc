#include "kernels/cuda/prefill/kv_push.h"

#include <algorithm>
#include <array>
#include <limits>

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
      a.swizzled == b.swizzled && a.layer_group == b.layer_group &&
      a.window_keys == b.window_keys) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the local workspace has ", a.layer_group.size(), " layers, ", a.kv_heads,
                   " heads of ", a.head_dim, ", a window of ", a.window_keys, " keys; the arena ",
                   b.layer_group.size(), " layers, ", b.kv_heads, " heads of ", b.head_dim,
                   ", a window of ", b.window_keys, " keys; wanted the same"));
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

const std::vector<PageId>& PagesOf(const KvPageTable& table, int group) {
  return group == kWindowGroup ? table.window : table.full;
}

// The remote pages can hold logical pages [first, last] at once.
absl::Status CheckRemotePages(const std::vector<PageId>& pages, int group, int first, int last) {
  const int wanted = group == kWindowGroup ? last - first + 1 : last + 1;
  if (static_cast<int>(pages.size()) >= wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("pushing logical pages [", first, ", ", last, "] of the ",
                   group == kWindowGroup ? "window" : "full", " group: wanted at least ", wanted,
                   " pages in the arena, found ", pages.size()));
}

absl::StatusOr<double> SecondsBetween(cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0;
  BATON_PREFILL_CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
  return milliseconds * 1e-3;
}

}  // namespace

absl::StatusOr<std::unique_ptr<KvPusher>> KvPusher::Create(const KvPusherOptions& options) {
  const int layer_count = options.layer_count;
  std::unique_ptr<KvPusher> pusher(new KvPusher(options));
  int least = 0, greatest = 0;
  BATON_PREFILL_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  // First among what waits for a multiprocessor: a late push would be exposed.
  BATON_PREFILL_CUDA(
      cudaStreamCreateWithPriority(&pusher->stream_, cudaStreamNonBlocking, greatest));
  pusher->events_.resize(layer_count);
  for (LayerEvents& events : pusher->events_) {
    BATON_PREFILL_CUDA(cudaEventCreateWithFlags(&events.written, cudaEventDisableTiming));
    BATON_PREFILL_CUDA(cudaEventCreate(&events.begin));
    BATON_PREFILL_CUDA(cudaEventCreate(&events.end));
  }
  const uint64_t span_bytes = layer_count * sizeof(CopySpan);
  BATON_ASSIGN_OR_RETURN(pusher->spans_, DeviceMemory::Allocate(span_bytes));
  BATON_ASSIGN_OR_RETURN(pusher->host_spans_, PinnedMemory::Allocate(2 * span_bytes));
  std::fill_n(pusher->host_spans_.As<CopySpan>(), 2 * layer_count, CopySpan{});
  BATON_PREFILL_CUDA(cudaEventCreate(&pusher->computed_));
  BATON_PREFILL_CUDA(cudaEventCreate(&pusher->pushed_));
  return pusher;
}

KvPusher::~KvPusher() {
  Drain();
  std::vector<cudaEvent_t> all = {computed_, pushed_};
  for (const LayerEvents& events : events_) {
    all.insert(all.end(), {events.written, events.begin, events.end});
  }
  for (cudaEvent_t event : all) {
    if (event != nullptr) cudaEventDestroy(event);
  }
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void KvPusher::Drain() {
  if (stream_ != nullptr) cudaStreamSynchronize(stream_);
}

absl::Status KvPusher::Begin(const KvTarget& local, const KvTarget& remote,
                             const std::vector<PushSegment>& segments) {
  BATON_RETURN_IF_ERROR(CheckSameShape(*local.layout, *remote.layout));
  local_ = local;
  remote_ = remote;
  pushed_layers_.clear();
  for (int group = 0; group < kKvGroupCount; ++group) {
    groups_[group] = {};
    if (remote.layout->groups[group].layer_count == 0) continue;
    std::vector<PageRun>& all = groups_[group].runs;
    for (const PushSegment& segment : segments) {
      const std::vector<PageId>& to = PagesOf(*segment.remote, group);
      const int last = (segment.end - 1) / kPageTokens;
      int first = segment.begin / kPageTokens;
      if (group == kWindowGroup) {
        first = std::max(first, FirstVisiblePage(segment.end, remote.layout->window_keys));
      }
      BATON_RETURN_IF_ERROR(CheckRemotePages(to, group, first, last));
      const std::vector<PageRun> runs =
          PlanPageRuns(PagesOf(*segment.local, group), to, first, last);
      BATON_RETURN_IF_ERROR(CheckRuns(runs, remote.layout->groups[group]));
      all.insert(all.end(), runs.begin(), runs.end());
    }
  }
  BATON_RETURN_IF_ERROR(Upload(*local.layout, options_.copy_bytes));
  PlanLayers();
  return absl::OkStatus();
}

absl::Status KvPusher::Upload(const KvLayout& layout, uint64_t gathered_bytes) {
  std::vector<PagePair> pairs;
  uint64_t offsets[kKvGroupCount] = {};
  for (int group = 0; group < kKvGroupCount; ++group) {
    GroupPages& pages = groups_[group];
    offsets[group] = pairs.size();
    for (const PageRun& run : pages.runs) {
      for (uint32_t i = 0; i < run.count; ++i) pairs.push_back({run.from + i, run.to + i});
    }
    pages.pair_count = static_cast<int>(pairs.size() - offsets[group]);
    pages.by_kernel =
        options_.method == KvCopyMethod::kKernel ||
        (options_.method == KvCopyMethod::kAuto &&
         !EngineIsFaster({.run_count = pages.runs.size(),
                          .layer_count = static_cast<int>(layout.groups[group].layer_count),
                          .layer_bytes = pages.pair_count * layout.layer_bytes()},
                         gathered_bytes));
  }
  const uint64_t bytes = pairs.size() * sizeof(PagePair);
  BATON_RETURN_IF_ERROR(pairs_.Grow(bytes));
  std::copy(pairs.begin(), pairs.end(), pairs_.host().As<PagePair>());
  for (int group = 0; group < kKvGroupCount; ++group) {
    groups_[group].pairs = pairs_.device().As<PagePair>() + offsets[group];
  }
  BATON_PREFILL_CUDA(cudaMemcpyAsync(spans_.data(), host_spans_.data(), spans_.size_bytes(),
                                     cudaMemcpyHostToDevice, stream_));
  if (bytes == 0) return absl::OkStatus();
  BATON_PREFILL_CUDA(cudaMemcpyAsync(pairs_.device().data(), pairs_.host().data(), bytes,
                                     cudaMemcpyHostToDevice, stream_));
  return absl::OkStatus();
}

// Returns the bytes it enqueued.
absl::StatusOr<uint64_t> KvPusher::CopyLayers(const KvTarget& from, const KvTarget& to,
                                              LayerRun layers) {
  const int group = from.layout->layer_group[layers.first];
  const GroupPages& pages = groups_[group];
  const uint64_t bytes = layers.count * from.layout->layer_bytes();
  const uint64_t from_pitch = from.layout->groups[group].page_bytes;
  const uint64_t to_pitch = to.layout->groups[group].page_bytes;
  if (pages.by_kernel) {
    SliceCopyCall call;
    call.from = SliceOf(from, layers.first, 0);
    call.to = SliceOf(to, layers.first, 0);
    call.from_page_bytes = from_pitch;
    call.to_page_bytes = to_pitch;
    call.slice_bytes = bytes;
    call.pages = pages.pairs;
    call.count = pages.pair_count;
    call.span = spans_.As<CopySpan>() + layers.first;
    BATON_RETURN_IF_ERROR(LaunchSliceCopy(call, stream_));
    return bytes * pages.pair_count;
  }
  for (const PageRun& run : pages.runs) {
    BATON_PREFILL_CUDA(cudaMemcpy2DAsync(SliceOf(to, layers.first, run.to), to_pitch,
                                         SliceOf(from, layers.first, run.from), from_pitch, bytes,
                                         run.count, cudaMemcpyDefault, stream_));
  }
  return bytes * pages.pair_count;
}

void KvPusher::PlanLayers() {
  std::array<uint64_t, kKvGroupCount> layer_bytes = {};
  for (int group = 0; group < kKvGroupCount; ++group) {
    layer_bytes[group] = groups_[group].pair_count * local_.layout->layer_bytes();
  }
  due_ = PlanLayerRuns(local_.layout->layer_group, layer_bytes, options_.copy_bytes);
}

absl::Status KvPusher::PushLayer(int layer, cudaStream_t compute) {
  for (const LayerRun& run : due_[layer]) BATON_RETURN_IF_ERROR(PushRun(run, compute));
  return absl::OkStatus();
}

absl::Status KvPusher::PushRun(LayerRun layers, cudaStream_t compute) {
  const LayerEvents& events = events_[layers.first];
  const GroupPages& pages = groups_[local_.layout->layer_group[layers.first]];
  const bool by_kernel = pages.by_kernel;
  BATON_PREFILL_CUDA(cudaEventRecord(events.written, compute));
  BATON_PREFILL_CUDA(cudaStreamWaitEvent(stream_, events.written, 0));
  if (!by_kernel) BATON_PREFILL_CUDA(cudaEventRecord(events.begin, stream_));
  BATON_ASSIGN_OR_RETURN(const uint64_t bytes, CopyLayers(local_, remote_, layers));
  if (!by_kernel) BATON_PREFILL_CUDA(cudaEventRecord(events.end, stream_));
  pushed_layers_.push_back(layers.first);
  stats_.pushed_bytes += bytes;
  stats_.push_copies += by_kernel ? 1 : pages.runs.size();
  stats_.scattered_bytes += by_kernel ? bytes : 0;
  return absl::OkStatus();
}

// Layer by layer while the chunk runs, so that nothing is left to count at its end.
absl::Status KvPusher::CountEngineSeconds() {
  for (const int layer : pushed_layers_) {
    if (groups_[local_.layout->layer_group[layer]].by_kernel) continue;
    BATON_PREFILL_CUDA(cudaEventSynchronize(events_[layer].end));
    BATON_ASSIGN_OR_RETURN(const double seconds,
                           SecondsBetween(events_[layer].begin, events_[layer].end));
    stats_.push_seconds += seconds;
  }
  return absl::OkStatus();
}

absl::Status KvPusher::Finish(cudaStream_t compute) {
  BATON_PREFILL_CUDA(cudaEventRecord(computed_, compute));
  BATON_PREFILL_CUDA(cudaEventRecord(pushed_, stream_));
  CopySpan* const spans = host_spans_.As<CopySpan>() + events_.size();
  BATON_PREFILL_CUDA(
      cudaMemcpyAsync(spans, spans_.data(), spans_.size_bytes(), cudaMemcpyDeviceToHost, stream_));
  BATON_RETURN_IF_ERROR(CountEngineSeconds());
  BATON_PREFILL_CUDA(cudaStreamSynchronize(compute));
  BATON_PREFILL_CUDA(cudaStreamSynchronize(stream_));
  for (const int layer : pushed_layers_) {
    if (spans[layer].end_ns == 0) continue;
    stats_.push_seconds += 1e-9 * static_cast<double>(spans[layer].end_ns - spans[layer].begin_ns);
  }
  BATON_ASSIGN_OR_RETURN(const double exposed, SecondsBetween(computed_, pushed_));
  stats_.exposed_seconds += std::max(0.0, exposed);
  return absl::OkStatus();
}

absl::Status KvPusher::PullPrefix(const KvTarget& remote, const KvTarget& local,
                                  const PushSegment& segment) {
  if (segment.begin == 0) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(CheckSameShape(*local.layout, *remote.layout));
  const int last = (segment.begin - 1) / kPageTokens;
  for (int group = 0; group < kKvGroupCount; ++group) {
    groups_[group] = {};
    if (remote.layout->groups[group].layer_count == 0) continue;
    const int first =
        group == kWindowGroup ? FirstVisiblePage(segment.begin, local.layout->window_keys) : 0;
    BATON_RETURN_IF_ERROR(CheckRemotePages(PagesOf(*segment.remote, group), group, first, last));
    groups_[group].runs =
        PlanPageRuns(PagesOf(*segment.remote, group), PagesOf(*segment.local, group), first, last);
    BATON_RETURN_IF_ERROR(CheckRuns(groups_[group].runs, local.layout->groups[group]));
  }
  // All layers travel together.
  BATON_RETURN_IF_ERROR(Upload(*local.layout, std::numeric_limits<uint64_t>::max()));
  const std::vector<uint8_t>& layer_group = local.layout->layer_group;
  for (uint8_t group = 0; group < kKvGroupCount; ++group) {
    const auto first = std::find(layer_group.begin(), layer_group.end(), group);
    if (first == layer_group.end()) continue;
    const LayerRun all{.first = static_cast<int>(first - layer_group.begin()),
                       .count = static_cast<int>(local.layout->groups[group].layer_count)};
    BATON_ASSIGN_OR_RETURN(const uint64_t bytes, CopyLayers(remote, local, all));
    stats_.pulled_bytes += bytes;
  }
  BATON_PREFILL_CUDA(cudaStreamSynchronize(stream_));
  return absl::OkStatus();
}

}  // namespace baton::prefill

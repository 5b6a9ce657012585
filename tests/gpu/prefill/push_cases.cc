// Prompts that are pushed to another arena give the bits of prompts that are written in place:
// logits, tokens and every visible K/V byte; other pages stay as they were. On one GPU, and between
// two where there are two.
//
// Also tests: kernels/cuda/prefill/cuda_prefill_runner.cc, kernels/cuda/prefill/kv_push.cc
// Also tests: kernels/cuda/prefill/kv_slice_copy.cu
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/prefill/cuda_prefill_runner.h"
#include "kernels/cuda/prefill/kv_push.h"
#include "tests/gpu/prefill/engine_rig.h"
#include "tests/gpu/prefill/gpu_case.h"

namespace baton::prefill {
namespace {

constexpr int kTokens = 421;
constexpr uint32_t kPages = 60;

struct PushCase {
  KvCopyMethod method = KvCopyMethod::kAuto;
  bool peer = false;  // The arena lies on device 1.
  uint64_t copy_bytes = kDefaultCopyBytes;
};

// An arena, and the runner that writes to it.
struct Side {
  Rig rig;
  std::unique_ptr<CudaPrefillRunner> runner;

  PrefillChunk Chunk(const std::vector<TokenId>& prompt, int begin, int end,
                     const KvPageTable& pages) const {
    return {.tokens = absl::MakeConstSpan(prompt).subspan(begin, end - begin),
            .begin = begin,
            .pages = &pages,
            .kv_base = rig.arena->get(),
            .layout = &rig.layout,
            .sample = end == int(prompt.size())};
  }
};

Side MakeSide(std::shared_ptr<const PrefillWeights> weights, const PushCase& c, bool push) {
  PrefillEngineOptions options;
  options.max_chunk_tokens = 512;
  options.max_segments = 4;
  options.copy_method = c.method;
  options.copy_bytes = c.copy_bytes;
  Side side;
  side.rig = MakeRig(SmallConfig(128, false), std::move(weights), options, kPages);
  if (push && c.peer) {
    MUST(cudaSetDevice(1));
    side.rig.arena = std::make_unique<DeviceArray<std::byte>>(side.rig.layout.total_bytes());
    MUST(cudaDeviceSynchronize());
    MUST(cudaSetDevice(0));
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(1, 0);
    if (enabled != cudaErrorPeerAccessAlreadyEnabled) MUST(enabled);
    cudaGetLastError();
  }
  side.runner = std::make_unique<CudaPrefillRunner>(
      std::move(side.rig.engine),
      CudaPrefillRunnerOptions{.max_staged_tokens = 600, .always_push = push});
  return side;
}

struct Outcome {
  std::vector<float> logits;
  TokenId token = 0;
};

// Positions [begins[i], begins[i + 1]) a chunk, the last to the prompt's end.
Outcome RunChunked(Side& side, const std::vector<TokenId>& prompt, const KvPageTable& pages,
                   const std::vector<int>& begins, uint64_t sequence_id) {
  Outcome outcome;
  for (size_t i = 0; i < begins.size(); ++i) {
    const int end = i + 1 < begins.size() ? begins[i + 1] : int(prompt.size());
    PrefillChunk chunk = side.Chunk(prompt, begins[i], end, pages);
    chunk.sequence_id = sequence_id;
    chunk.logits = &outcome.logits;
    auto sampled = side.runner->RunChunk(chunk);
    MUST(sampled.status());
    if (sampled->has_value()) outcome.token = (*sampled)->token;
  }
  side.runner->EndSequence(sequence_id);
  return outcome;
}

// Bytes that pushing positions [begin, end) must move.
uint64_t BytesOfPush(const Rig& rig, int begin, int end) {
  uint64_t pages = 0;
  for (const LayerConfig& layer : rig.config.layers) {
    int first = begin / kPageTokens;
    if (layer.sliding) first = std::max(first, (end - rig.config.window_keys + 1) / kPageTokens);
    pages += (end - 1) / kPageTokens - first + 1;
  }
  return pages * rig.layout.layer_bytes();
}

// Pages of the arena that are not in the tables are still poison.
std::string CheckUntouched(const Rig& rig, const std::vector<KvPageTable>& tables) {
  const std::vector<std::byte> arena = rig.arena->Download();
  for (int group = 0; group < kKvGroupCount; ++group) {
    std::set<PageId> used;
    for (const KvPageTable& table : tables) {
      const std::vector<PageId>& pages = group == kWindowGroup ? table.window : table.full;
      used.insert(pages.begin(), pages.end());
    }
    const KvGroupLayout& layout = rig.layout.groups[group];
    for (PageId page = 0; page < layout.page_count; ++page) {
      if (used.contains(page)) continue;
      const auto begin = arena.begin() + layout.offset_bytes + page * layout.page_bytes;
      if (std::any_of(begin, begin + layout.page_bytes,
                      [](std::byte b) { return b != std::byte{0xff}; })) {
        return absl::StrCat("page ", page, " of group ", group, " was written");
      }
    }
  }
  return "";
}

std::string Compare(const Outcome& wanted, const Outcome& found, const char* what) {
  if (wanted.logits.empty() || found.logits != wanted.logits || found.token != wanted.token) {
    return absl::StrCat(what, ": other bits in the logits, or another token");
  }
  return "";
}

// The same bytes wherever a later token looks.
std::string CompareCaches(const Side& a, const KvPageTable& a_pages, const Side& b,
                          const KvPageTable& b_pages, int tokens) {
  const int first = std::max(0, tokens - a.rig.config.window_keys + 1);
  return Cached(a.rig, a_pages, first, tokens) == Cached(b.rig, b_pages, first, tokens)
             ? ""
             : "other bits in the cache";
}

std::string CheckChunks(const PushCase& c, const std::vector<int>& begins) {
  const ModelConfig config = SmallConfig(128, false);
  auto weights = PrefillWeights::Synthetic(config, 7);
  MUST(weights.status());
  const std::shared_ptr<const PrefillWeights> shared = std::move(*weights);
  Side direct = MakeSide(shared, c, false), pushed = MakeSide(shared, c, true);
  const std::vector<TokenId> prompt = RandomPrompt(kTokens, config.vocab, 1);
  const KvPageTable direct_pages = direct.rig.Pages(kTokens, 512);
  // A ring no larger than decode's own.
  const KvPageTable pushed_pages{
      pushed.rig.full->Take(FullPagesFor(kTokens)),
      pushed.rig.window->Take(WindowPagesFor(kTokens, config.window_keys, 1))};
  uint64_t bytes = 0;
  for (size_t i = 0; i < begins.size(); ++i) {
    bytes += BytesOfPush(pushed.rig, begins[i], i + 1 < begins.size() ? begins[i + 1] : kTokens);
  }
  const Outcome wanted = RunChunked(direct, prompt, direct_pages, begins, 1);
  const Outcome found = RunChunked(pushed, prompt, pushed_pages, begins, 1);
  std::string wrong = Compare(wanted, found, "pushed");
  if (wrong.empty()) wrong = CompareCaches(direct, direct_pages, pushed, pushed_pages, kTokens);
  if (wrong.empty()) wrong = CheckUntouched(pushed.rig, {pushed_pages});
  const KvTransferStats stats = pushed.runner->kv_transfer();
  if (wrong.empty() && (stats.pushed_bytes != bytes || stats.pulled_bytes != 0)) {
    wrong = absl::StrCat("pushed ", stats.pushed_bytes, " bytes, wanted ", bytes);
  }
  if (wrong.empty() && direct.runner->kv_transfer().pushed_bytes != 0) {
    wrong = "bytes were copied in place";
  }
  return wrong;
}

// A prefix that an earlier prompt left in the arena is pulled once and not written again.
std::string CheckPrefix(const PushCase& c, int prefix) {
  const ModelConfig config = SmallConfig(128, false);
  auto weights = PrefillWeights::Synthetic(config, 7);
  MUST(weights.status());
  const std::shared_ptr<const PrefillWeights> shared = std::move(*weights);
  Side direct = MakeSide(shared, c, false), pushed = MakeSide(shared, c, true);
  const std::vector<TokenId> prompt = RandomPrompt(kTokens, config.vocab, 1);
  const std::vector<TokenId> head(prompt.begin(), prompt.begin() + prefix);
  const KvPageTable direct_pages = direct.rig.Pages(kTokens, 512);
  const KvPageTable pushed_pages = pushed.rig.Pages(kTokens, 512);
  RunChunked(direct, head, direct_pages, {0}, 1);
  RunChunked(pushed, head, pushed_pages, {0}, 1);
  const Outcome wanted = RunChunked(direct, prompt, direct_pages, {prefix, prefix + 100}, 2);
  const Outcome found = RunChunked(pushed, prompt, pushed_pages, {prefix, prefix + 100}, 2);
  std::string wrong = Compare(wanted, found, "after a prefix");
  if (wrong.empty()) wrong = CompareCaches(direct, direct_pages, pushed, pushed_pages, kTokens);
  uint64_t pages = 0;
  for (const LayerConfig& layer : config.layers) {
    const int first = layer.sliding ? std::max(0, prefix - config.window_keys + 1) : 0;
    pages += (prefix - 1) / kPageTokens - first / kPageTokens + 1;
  }
  const uint64_t pulled = pushed.runner->kv_transfer().pulled_bytes;
  if (wrong.empty() && pulled != pages * pushed.rig.layout.layer_bytes()) {
    wrong =
        absl::StrCat("pulled ", pulled, " bytes, wanted ", pages * pushed.rig.layout.layer_bytes());
  }
  return wrong;
}

std::string CheckPacked(const PushCase& c) {
  const ModelConfig config = SmallConfig(128, false);
  auto weights = PrefillWeights::Synthetic(config, 7);
  MUST(weights.status());
  const std::shared_ptr<const PrefillWeights> shared = std::move(*weights);
  const std::vector<TokenId> prompts[2] = {RandomPrompt(200, config.vocab, 1),
                                           RandomPrompt(131, config.vocab, 2)};
  Side sides[2] = {MakeSide(shared, c, false), MakeSide(shared, c, true)};
  std::vector<float> logits[2][2];
  std::vector<KvPageTable> tables[2];
  for (int s = 0; s < 2; ++s) {
    std::vector<PrefillChunk> chunks;
    for (const auto& prompt : prompts) tables[s].push_back(sides[s].rig.Pages(prompt.size(), 512));
    for (int i = 0; i < 2; ++i) {
      chunks.push_back(sides[s].Chunk(prompts[i], 0, prompts[i].size(), tables[s][i]));
      chunks.back().sequence_id = i + 1;
      chunks.back().logits = &logits[s][i];
    }
    MUST(sides[s].runner->RunChunks(chunks).status());
  }
  for (int i = 0; i < 2; ++i) {
    if (logits[0][i].empty() || logits[0][i] != logits[1][i]) return "other bits in the logits";
    const std::string wrong = CompareCaches(sides[0], tables[0][i], sides[1], tables[1][i],
                                            static_cast<int>(prompts[i].size()));
    if (!wrong.empty()) return wrong;
  }
  return CheckUntouched(sides[1].rig, tables[1]);
}

// Page tables that the arena cannot hold are refused before anything is written.
std::string CheckRefused() {
  const ModelConfig config = SmallConfig(128, false);
  auto weights = PrefillWeights::Synthetic(config, 7);
  MUST(weights.status());
  Side side = MakeSide(std::move(*weights), {}, true);
  const std::vector<TokenId> prompt = RandomPrompt(kTokens, config.vocab, 1);
  KvPageTable few = side.rig.Pages(kTokens, 512), beyond = few;
  few.window.resize(1);
  beyond.full.back() = kPages;
  for (const KvPageTable* pages : {&few, &beyond}) {
    PrefillChunk chunk = side.Chunk(prompt, 0, kTokens, *pages);
    chunk.sequence_id = 1;
    if (side.runner->RunChunk(chunk).status().code() != absl::StatusCode::kInvalidArgument) {
      return "wanted InvalidArgument";
    }
    side.runner->EndSequence(1);
  }
  return CheckUntouched(side.rig, {});
}

bool PeerAccess() {
  int count = 0, can = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) return false;
  return cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess && can != 0;
}

}  // namespace

std::vector<GpuCase> PushCases() {
  std::vector<GpuCase> cases;
  std::vector<bool> places = {false};
  if (PeerAccess()) {
    places.push_back(true);
  } else {
    std::printf("skipped: pushes between two GPUs: no second GPU with peer access\n");
  }
  for (const bool peer : places) {
    for (const KvCopyMethod method : {KvCopyMethod::kEngine, KvCopyMethod::kKernel}) {
      const PushCase c{method, peer};
      const std::string suffix =
          absl::StrCat(method == KvCopyMethod::kEngine ? " by copy engine" : " by kernel",
                       peer ? ", two GPUs" : "");
      cases.push_back({"push whole" + suffix, [=] { return CheckChunks(c, {0}); }});
      // So little gathers to the end else.
      const PushCase each{method, peer, 1};
      cases.push_back(
          {"push whole, each layer alone" + suffix, [=] { return CheckChunks(each, {0}); }});
      cases.push_back({"push chunks, each layer alone" + suffix, [=] {
                         return CheckChunks(each, {0, 64, 101, 300, 420});
                       }});
      cases.push_back({"push chunks" + suffix, [=] {
                         return CheckChunks(c, {0, 64, 101, 300, 420});
                       }});
      for (const int prefix : {37, 256, 300}) {
        cases.push_back({absl::StrCat("push after a prefix of ", prefix, suffix),
                         [=] { return CheckPrefix(c, prefix); }});
      }
      cases.push_back({"push packed" + suffix, [=] { return CheckPacked(c); }});
    }
  }
  cases.push_back({"push refuses pages that do not fit", CheckRefused});
  return cases;
}

}  // namespace baton::prefill

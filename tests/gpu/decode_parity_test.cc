// The decode megakernel against the CPU backend over shapes: hidden sizes, head groups, expert
// counts, top-k, windows, norms, routers, shared experts, dense layers, odd vocabularies. Every
// layer's keys and values, which are linear in its normalised input, and the last logits; with the
// rows in two, three and four tiles of rows.
// Under compute-sanitizer set BATON_SLOW_DEVICE=1: five steps, past a page's end, of one, two,
// three, five and seven rows, the last four in one to four tiles of rows, after keys and values of
// the CPU's; and spins that may take minutes.
// Also tests: kernels/cuda/decode/decode_step_rows8.cu, kernels/cuda/decode/decode_step_rows16.cu
// Also tests: kernels/cuda/decode/decode_step_rows24.cu, kernels/cuda/decode/decode_step_rows32.cu
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/bfloat16.h"
#include "common/check.h"
#include "kernels/check/oracle_check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_check.h"
#include "tests/fixtures/synthetic_checkpoint.h"
#include "tests/fixtures/temporary_directory.h"
#include "tests/gpu/decode_rig.h"

namespace baton::cuda {
namespace {

constexpr double kRatio = 1.25;  // Of the median distances to float32: ours over the CPU's bf16.
// Two bf16 runs that chose the same experts differ by accumulation order alone; where a router
// logit is a near tie they may choose others, and a token's later layers go another way.
constexpr double kOtherWay = 0.1;
constexpr double kMostOtherWays = 0.12;

// Slots of the rows, the longest first, which is the first to join. A step is of as many tiles of
// rows as reach the highest slot; routing's choices are published once there are five rows.
struct Placement {
  int max_rows;
  std::vector<int> slots;
};
const Placement kPlacements[] = {
    {16, {0, 1, 9, 2, 3, 4, 5, 6, 7, 8}},
    {24, {0, 9, 17, 18, 10, 1, 19, 2, 11, 23}},
    {32, {0, 9, 17, 25, 31, 1, 2, 10, 18, 26}},
};
// One row a step more at first, then two.
const Placement kSlowPlacement = {32, {0, 1, 9, 17, 18, 25, 26}};
constexpr int kSlowSteps = 5;
const std::vector<int> kSlowLengths = {1, 1, 2, 2, 3, 4, 66};

struct Case {
  std::string name;
  ModelConfig config;
  bool no_choice = false;  // Every expert is chosen, so that no token may go another way.
  int workers = 0;         // 0: as many as the device has multiprocessors.
  std::vector<int> lengths = {1, 2, 17, 63, 64, 65, 100, 128, 129, 140};  // Of the rows, ascending.
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

// Layer kinds by letter: d dense with RoPE, f full without, s sliding.
ModelConfig Config(const std::string& kinds, int hidden, int query_heads, int kv_heads) {
  ModelConfig config = SyntheticConfig();
  config.head_dim = 128;
  config.hidden = hidden;
  config.query_heads = query_heads;
  config.kv_heads = kv_heads;
  config.layer_count = static_cast<int>(kinds.size());
  config.layers.clear();
  config.expert_width = 144;
  config.expert_count = 16;
  config.experts_per_token = 4;
  config.vocab = 1000;
  config.window_keys = 64;
  for (char kind : kinds) {
    const bool dense = kind == 'd';
    config.layers.push_back({.sliding = kind == 's',
                             .rope = kind != 'f',
                             .dense = dense,
                             .ffn_width = dense ? 272 : config.expert_width});
  }
  return config;
}

Case Make(std::string name, ModelConfig config, void (*change)(ModelConfig&) = nullptr) {
  if (change != nullptr) change(config);
  for (LayerConfig& layer : config.layers) {
    if (!layer.dense) layer.ffn_width = config.expert_width;
  }
  const bool all = config.experts_per_token == config.expert_count;
  const bool dense = std::all_of(config.layers.begin(), config.layers.end(),
                                 [](const LayerConfig& layer) { return layer.dense; });
  return {std::move(name), std::move(config), all || dense};
}

// Few workers have many pages of a row each: more than one pair of warps attends to by itself.
Case Long(Case one) {
  one.config.max_positions = 2048;
  one.workers = 4;
  one.lengths = {600, 1025, 1090, 1300};
  return one;
}

std::vector<Case> Cases() {
  const auto shared = [](SharedExperts how) {
    return how == SharedExperts::kSum
               ? +[](ModelConfig& c) { c.shared = SharedExperts::kSum, c.shared_width = 144; }
               : +[](ModelConfig& c) { c.shared = SharedExperts::kAverage, c.shared_width = 288; };
  };
  return {
      Make("one dense layer", Config("d", 256, 8, 2)),
      Make("dense only, hidden 16", Config("dd", 16, 4, 4)),
      Make("every expert chosen", Config("dsf", 256, 8, 2),
           [](ModelConfig& c) { c.expert_count = c.experts_per_token = 6; }),
      Make("one expert, one head", Config("ds", 128, 1, 1),
           [](ModelConfig& c) { c.expert_count = c.experts_per_token = 1; }),
      Make("top 1 of 40", Config("dsf", 256, 8, 1),
           [](ModelConfig& c) { c.expert_count = 40, c.experts_per_token = 1; }),
      Make("top 8 of 128, wide", Config("dssf", 1024, 32, 4),
           [](ModelConfig& c) { c.expert_count = 128, c.experts_per_token = 8; }),
      Make("top 16 of 256", Config("ds", 256, 8, 2),
           [](ModelConfig& c) { c.expert_count = 256, c.experts_per_token = 16; }),
      Make("odd hidden 528, group of 3", Config("dsf", 528, 6, 2)),
      Make("window of 1", Config("dss", 256, 8, 2), [](ModelConfig& c) { c.window_keys = 1; }),
      Make("window of 100", Config("dsf", 256, 8, 2), [](ModelConfig& c) { c.window_keys = 100; }),
      Make("softmax router", Config("dsf", 256, 8, 2),
           [](ModelConfig& c) { c.router = RouterKind::kSoftmax; }),
      Make("normalised top-k", Config("dsf", 256, 8, 2),
           [](ModelConfig& c) { c.norm_topk = true; }),
      Make("LayerNorm", Config("dsf", 256, 8, 2),
           [](ModelConfig& c) { c.norm = NormKind::kLayerNorm, c.norm_epsilon = 1e-5f; }),
      Make("shared expert, summed", Config("dsf", 256, 8, 2), shared(SharedExperts::kSum)),
      Make("shared experts, averaged", Config("dsf", 256, 8, 2), shared(SharedExperts::kAverage)),
      Make("fewer expert rows than workers", Config("dsf", 256, 8, 2),
           [](ModelConfig& c) { c.expert_width = 64; }),
      Long(Make("long rows on few workers", Config("dsf", 256, 8, 2))),
      Make("sparse first, own head, odd vocabulary", Config("sfs", 256, 8, 2),
           [](ModelConfig& c) { c.tied_head = false, c.vocab = 4099, c.logit_scale = 0.25f; }),
  };
}

bool SlowDevice() { return std::getenv("BATON_SLOW_DEVICE") != nullptr; }

// What a run left of one row: keys and values by (layer, position), and the last logits.
struct RowValues {
  std::map<std::pair<int, int>, std::vector<float>> kv;
  std::vector<float> logits;
};
using Rows = std::vector<RowValues>;

// Calls visit(byte offset in the arena) for each element of the vectors of all heads, K then V, of
// one position of a layer.
template <typename Visit>
void VisitKv(const KvLayout& layout, int layer, const std::vector<PageId>& pages, int position,
             Visit&& visit) {
  const PageId page = pages[position / kPageTokens % pages.size()];
  const int token = position % kPageTokens;
  for (int part = 0; part < 2; ++part) {
    for (uint32_t head = 0; head < layout.kv_heads; ++head) {
      const uint64_t at = layout.TileOffset(layer, page, part, head) +
                          uint64_t(token) * layout.head_dim * layout.element_bytes;
      for (uint32_t d = 0; d < layout.head_dim; ++d) {
        const uint32_t unit = layout.swizzled ? (d / 8) ^ (token & 7) : d / 8;
        visit(at + (unit * 8 + d % 8) * layout.element_bytes);
      }
    }
  }
}
std::vector<float> ReadKv(const KvLayout& layout, const std::vector<std::byte>& arena, int layer,
                          const std::vector<PageId>& pages, int position) {
  std::vector<float> values;
  VisitKv(layout, layer, pages, position, [&](uint64_t at) {
    if (layout.element_bytes == 4) {
      std::memcpy(&values.emplace_back(), &arena[at], 4);
    } else {
      Bf16 bits;
      std::memcpy(&bits, &arena[at], 2);
      values.push_back(Bf16ToFloat(bits));
    }
  });
  return values;
}

class Model {
 public:
  explicit Model(const Case& one)
      : workers_(one.workers),
        no_choice_(one.no_choice),
        steps_(SlowDevice() ? kSlowSteps : one.lengths.back()) {
    const ModelConfig& config = one.config;
    WriteSyntheticCheckpoint(directory_.path(), config, {.seed = 7});
    auto opened = Checkpoint::Open(directory_.path());
    if (!opened.ok()) std::fprintf(stderr, "%s\n", opened.status().ToString().c_str());
    BATON_CHECK(opened.ok());
    checkpoint_ = std::move(*opened);
    std::mt19937 random(5);
    for (int length : SlowDevice() ? kSlowLengths : one.lengths) {
      std::vector<TokenId> prompt(length);
      for (TokenId& token : prompt) token = static_cast<TokenId>(random() % config.vocab);
      prompts_.push_back(std::move(prompt));
    }
  }

  const ModelConfig& config() const { return checkpoint_->config(); }
  bool no_choice() const { return no_choice_; }
  int rows() const { return static_cast<int>(prompts_.size()); }
  int pages() const { return static_cast<int>(FullPagesFor(prompts_.back().size() + 1)); }
  int Slot(const Placement& placement, int row) const { return placement.slots[rows() - 1 - row]; }
  // Positions of a row whose keys a later token of the layer may still need.
  int FirstPosition(int row, int layer) const {
    const int length = static_cast<int>(prompts_[row].size());
    return config().layers[layer].sliding ? std::max(0, length - config().window_keys) : 0;
  }

  // Keys and values of every position.
  Rows OnCpu(CpuMode mode) const;
  // Of those of the GPU's own steps that were not overwritten. What comes before is `before`'s.
  absl::StatusOr<Rows> OnGpu(const Placement& placement, const Rows& before) const;

 private:
  KvPageTable Pages(int row, int ring) const {
    KvPageTable table;
    for (int i = 0; i < pages(); ++i) table.full.push_back(row * pages() + (i + 1) % pages());
    for (int i = 0; i < ring; ++i) table.window.push_back(row * ring + (i + 1) % ring);
    if (!HasSliding()) table.window.clear();
    return table;
  }
  bool HasSliding() const {
    return std::any_of(config().layers.begin(), config().layers.end(),
                       [](const LayerConfig& layer) { return layer.sliding; });
  }
  const std::vector<PageId>& PagesOf(const KvPageTable& table, int layer) const {
    return config().layers[layer].sliding ? table.window : table.full;
  }
  // Of each row and layer, from position first(row, layer) on.
  template <typename First>
  void Read(const KvLayout& layout, const std::vector<std::byte>& arena, int ring, First&& first,
            Rows& rows) const {
    for (int row = 0; row < this->rows(); ++row) {
      const KvPageTable table = Pages(row, ring);
      for (int layer = 0; layer < config().layer_count; ++layer) {
        for (int at = first(row, layer); at < int(prompts_[row].size()); ++at)
          rows[row].kv[{layer, at}] = ReadKv(layout, arena, layer, PagesOf(table, layer), at);
      }
    }
  }
  std::vector<std::byte> ArenaBefore(const KvLayout& layout, int ring, const Rows& before) const;
  // Positions of a row before its first step on the GPU.
  int Before(int row) const { return std::max(0, int(prompts_[row].size()) - steps_); }

  TemporaryDirectory directory_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::vector<std::vector<TokenId>> prompts_;
  const int workers_;
  const bool no_choice_;
  const int steps_;  // On the GPU.
};

Rows Model::OnCpu(CpuMode mode) const {
  auto backend = CpuBackend::Make(*checkpoint_, {.mode = mode});
  BATON_CHECK(backend.ok());
  auto prefill = (*backend)->MakePrefillRunner({.max_chunk_tokens = 2048});
  BATON_CHECK(prefill.ok());
  const KvLayout layout = (*backend)->MakeKvLayout(rows() * pages(), rows() * pages());
  std::vector<std::byte> arena(layout.total_bytes());
  Rows result(rows());
  for (int row = 0; row < rows(); ++row) {
    const KvPageTable table = Pages(row, pages());
    const auto token = (*prefill)->RunChunk({.tokens = prompts_[row],
                                             .pages = &table,
                                             .kv_base = arena.data(),
                                             .layout = &layout,
                                             .sample = true,
                                             .logits = &result[row].logits});
    if (!token.ok()) std::fprintf(stderr, "%s\n", token.status().ToString().c_str());
    BATON_CHECK(token.ok());
  }
  Read(
      layout, arena, pages(), [](int, int) { return 0; }, result);
  return result;
}

// NaN where nobody wrote.
std::vector<std::byte> Model::ArenaBefore(const KvLayout& layout, int ring,
                                          const Rows& before) const {
  std::vector<std::byte> arena(layout.total_bytes(), std::byte{0xff});
  for (int row = 0; row < rows(); ++row) {
    const KvPageTable table = Pages(row, ring);
    for (int layer = 0; layer < config().layer_count; ++layer) {
      for (int position = 0; position < Before(row); ++position) {
        const float* value = before[row].kv.at({layer, position}).data();
        VisitKv(layout, layer, PagesOf(table, layer), position, [&](uint64_t at) {
          const Bf16 bits = FloatToBf16(*value++);
          std::memcpy(&arena[at], &bits, 2);
        });
      }
    }
  }
  return arena;
}

// Token by token. A row joins when as many of its tokens are left as there are steps: all end
// together.
absl::StatusOr<Rows> Model::OnGpu(const Placement& placement, const Rows& before) const {
  const int workers = workers_ == 0 ? MultiprocessorCount() : workers_;
  BATON_ASSIGN_OR_RETURN(const auto weights,
                         PackedWeights::Load(config(), checkpoint_->weights(), workers, nullptr));
  const TaskGraph graph = TaskGraph::Build(config(), workers);
  const int ring = static_cast<int>(WindowPagesFor(pages() * kPageTokens, config().window_keys, 1));
  const KvLayout layout = MakeModelKvLayout(config(), {.element_bytes = 2, .swizzled = true},
                                            rows() * pages(), rows() * ring);
  void* device = nullptr;
  BATON_CHECK(cudaMalloc(&device, layout.total_bytes()) == cudaSuccess);
  const std::unique_ptr<void, decltype(&cudaFree)> owner(device, &cudaFree);
  std::vector<std::byte> arena = ArenaBefore(layout, ring, before);
  cudaMemcpy(device, arena.data(), arena.size(), cudaMemcpyHostToDevice);
  DecodeTuning tuning;
  tuning.keep_logits = true;
  if (SlowDevice()) tuning.timeout_ns = 300'000'000'000;
  BATON_ASSIGN_OR_RETURN(const auto runner,
                         CudaDecodeRunner::Create(config(), *weights, graph,
                                                  {.max_rows = placement.max_rows,
                                                   .layout = layout,
                                                   .kv_base = device,
                                                   .max_context_tokens = pages() * kPageTokens},
                                                  tuning));
  Rows result(rows());
  uint64_t next_id = 1;
  for (size_t left = steps_; left > 0; --left) {
    StepInput input;
    for (int row = 0; row < rows(); ++row) {
      if (prompts_[row].size() < left) continue;
      const size_t position = prompts_[row].size() - left;
      input.joins.push_back({.slot = Slot(placement, row),
                             .row_id = next_id++,
                             .token = prompts_[row][position],
                             .position = static_cast<int>(position),
                             .max_new_tokens = 1,
                             .pages = Pages(row, ring)});
    }
    BATON_RETURN_IF_ERROR(runner->Submit(input));
    BATON_RETURN_IF_ERROR(runner->Await().status());
    // Here the tools report, racecheck for one; what they have not yet they keep in memory.
    if (SlowDevice()) BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(runner->stream()));
  }
  for (int row = 0; row < rows(); ++row) {
    BATON_ASSIGN_OR_RETURN(result[row].logits, runner->ReadLogits(Slot(placement, row)));
  }
  cudaMemcpy(arena.data(), device, arena.size(), cudaMemcpyDeviceToHost);
  const auto first = [&](int row, int layer) {
    return std::max(FirstPosition(row, layer), Before(row));
  };
  Read(layout, arena, ring, first, result);
  return result;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Distances of one buffer's vectors to float32: ours, the CPU's bf16; and how many of ours went
// another way than the CPU's.
struct Distances {
  std::vector<double> ours, cpu;
  int other_ways = 0;

  void Add(const std::vector<float>& gpu, const std::vector<float>& bf16,
           const std::vector<float>& exact) {
    ours.push_back(RelativeL2(gpu, exact));
    cpu.push_back(RelativeL2(bf16, exact));
    if (!(RelativeL2(gpu, bf16) <= kOtherWay)) ++other_ways;
  }
};

class DecodeParityTest : public testing::TestWithParam<Case> {};

// Buffers are the layers' keys and values, and last the logits.
void ExpectParity(const Model& model, const Rows& gpu, const Rows& bf16, const Rows& exact) {
  std::map<int, Distances> buffers;
  const int logits = model.config().layer_count;
  for (int row = 0; row < model.rows(); ++row) {
    for (const auto& [key, values] : gpu[row].kv) {
      buffers[key.first].Add(values, bf16[row].kv.at(key), exact[row].kv.at(key));
    }
    buffers[logits].Add(gpu[row].logits, bf16[row].logits, exact[row].logits);
  }
  for (const auto& [buffer, d] : buffers) {
    const double ours = Median(d.ours), cpu = Median(d.cpu);
    std::printf(" %s %.4f/%.4f (%d of %zu another way)",
                buffer == logits ? "logits" : ("layer " + std::to_string(buffer)).c_str(), ours,
                cpu, d.other_ways, d.ours.size());
    EXPECT_LE(ours, kRatio * cpu + 1e-4) << "buffer " << buffer;
    const double most = model.no_choice() ? 0 : std::max(2.0, kMostOtherWays * d.ours.size());
    EXPECT_LE(d.other_ways, most) << "buffer " << buffer;
  }
  std::printf("\n");
}

TEST_P(DecodeParityTest, MatchesTheCpuBufferByBuffer) {
  if (!HasDevice()) GTEST_SKIP() << "no CUDA device";
  const Model model(GetParam());
  const Rows exact = model.OnCpu(CpuMode::kFloat32), bf16 = model.OnCpu(CpuMode::kBfloat16);
  const auto placements =
      SlowDevice() ? absl::MakeConstSpan(&kSlowPlacement, 1) : absl::MakeConstSpan(kPlacements);
  for (const Placement& placement : placements) {
    SCOPED_TRACE(testing::Message() << "at most " << placement.max_rows << " rows");
    const auto gpu = model.OnGpu(placement, bf16);
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    std::printf("%s, at most %d rows:", GetParam().name.c_str(), placement.max_rows);
    ExpectParity(model, *gpu, bf16, exact);
  }
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  std::string name;
  for (char c : info.param.name) {
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Shapes, DecodeParityTest, testing::ValuesIn(Cases()), CaseName);

}  // namespace
}  // namespace baton::cuda

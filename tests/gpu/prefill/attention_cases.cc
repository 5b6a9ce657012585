// Both attention kernels against softmax in double precision, over paged caches with poison around
// the live tokens.
//
// Also tests: kernels/cuda/prefill/attention.cc
// Also tests: kernels/cuda/prefill/attention_mma.cu
// Also tests: kernels/cuda/prefill/attention_wgmma.cu
// Also tests: kernels/cuda/prefill/tensor_map.cc
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/prefill/attention.h"
#include "kernels/cuda/prefill/chunk_upload.h"
#include "kernels/cuda/prefill/tensor_map.h"
#include "tests/gpu/prefill/gpu_case.h"
#include "tests/gpu/prefill/paged_arena.h"

namespace baton::prefill {
namespace {

struct Stretch {
  int begin, tokens;
};

struct AttentionShape {
  AttentionKernel kernel;
  int head_dim, query_heads, kv_heads, window;  // window 0 = full attention
  std::vector<Stretch> stretches;
};

struct Cache {
  KvLayout layout;
  std::vector<KvPageTable> tables;
  std::vector<std::byte> arena;
  // keys[s][(position * kv_heads + head) * head_dim + i]
  std::vector<std::vector<Bf16>> keys, values;
};

// Live tokens hold random values, unused slots of the last page zeros, everything else NaN.
Cache FillCache(const AttentionShape& s) {
  Cache cache;
  uint32_t full = 0, window = 0;
  for (const Stretch& part : s.stretches) {
    full += FullPagesFor(part.begin + part.tokens);
    window += WindowPagesFor(part.begin + part.tokens, s.window, part.tokens);
  }
  cache.layout =
      MakeTestLayout({{false, true}, s.kv_heads, s.head_dim, full + 2, window + 2, s.window});
  cache.arena.assign(cache.layout.total_bytes(), std::byte{0xff});
  PageSource full_pages(full + 2, 5), window_pages(window + 2, 6);
  const int layer = s.window > 0 ? 1 : 0;
  for (const Stretch& part : s.stretches) {
    const int end = part.begin + part.tokens;
    KvPageTable table{full_pages.Take(FullPagesFor(end)),
                      window_pages.Take(WindowPagesFor(end, s.window, part.tokens))};
    const size_t count = size_t(end) * s.kv_heads * s.head_dim;
    cache.keys.push_back(RandomBf16(count, 1, 100 + end));
    cache.values.push_back(RandomBf16(count, 1, 200 + end));
    const int padded = (end + kPageTokens - 1) / kPageTokens * kPageTokens;
    const int first = s.window > 0 ? std::max(0, part.begin - s.window + 1) / kPageTokens * 64 : 0;
    for (int position = first; position < padded; ++position) {
      for (int tile = 0; tile < 2 * s.kv_heads; ++tile) {
        const std::vector<Bf16>& from = tile < s.kv_heads ? cache.keys.back() : cache.values.back();
        for (int unit = 0; unit < s.head_dim / 8; ++unit) {
          std::byte* to =
              &cache.arena[UnitOffset(cache.layout, table, {layer, tile, position, unit})];
          if (position >= end) {
            std::memset(to, 0, 16);
          } else {
            std::memcpy(
                to,
                &from[(size_t(position) * s.kv_heads + tile % s.kv_heads) * s.head_dim + unit * 8],
                16);
          }
        }
      }
    }
    cache.tables.push_back(std::move(table));
  }
  return cache;
}

struct Query {
  const Bf16* values;
  int position, kv_head, window;
};

std::vector<double> ReferenceRow(const AttentionShape& s, const std::vector<Bf16>& keys,
                                 const std::vector<Bf16>& values, const Query& query) {
  const int first = query.window > 0 ? std::max(0, query.position - query.window + 1) : 0;
  std::vector<double> scores, out(s.head_dim, 0.0);
  double max = -1e300, sum = 0;
  for (int key = first; key <= query.position; ++key) {
    const Bf16* k = &keys[(size_t(key) * s.kv_heads + query.kv_head) * s.head_dim];
    double dot = 0;
    for (int i = 0; i < s.head_dim; ++i) {
      dot += double(Bf16ToFloat(query.values[i])) * Bf16ToFloat(k[i]);
    }
    scores.push_back(dot / std::sqrt(double(s.head_dim)));
    max = std::max(max, scores.back());
  }
  for (int key = first; key <= query.position; ++key) {
    const double weight = std::exp(scores[key - first] - max);
    const Bf16* v = &values[(size_t(key) * s.kv_heads + query.kv_head) * s.head_dim];
    sum += weight;
    for (int i = 0; i < s.head_dim; ++i) out[i] += weight * Bf16ToFloat(v[i]);
  }
  for (double& value : out) value /= sum;
  return out;
}

std::vector<Bf16> RunAttention(const AttentionShape& s, const Cache& cache,
                               const std::vector<Bf16>& queries, int pitch, int rows) {
  std::vector<TokenId> tokens(100000, 1);
  std::vector<PrefillSegment> segments(s.stretches.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    segments[i].tokens = absl::MakeConstSpan(tokens).subspan(0, s.stretches[i].tokens);
    segments[i].begin = s.stretches[i].begin;
    segments[i].pages = &cache.tables[i];
  }
  const ChunkLimits limits{1 << 20, 64, 1 << 20, 10,
                           AttentionTileTokens(s.kernel, s.query_heads, s.kv_heads)};
  const auto plan = PlanChunk(segments, cache.layout, limits);
  MUST(plan.status());
  ChunkUpload upload;
  const auto device = upload.Start(*plan, segments, nullptr);
  MUST(device.status());
  DeviceArray<Bf16> d_queries(queries);
  DeviceArray<std::byte> arena(cache.arena);
  DeviceArray<Bf16> out(size_t(rows + 1) * s.query_heads * s.head_dim);
  AttentionCall call;
  call.kernel = s.kernel;
  call.queries = d_queries.get<__nv_bfloat16>();
  call.query_pitch = pitch;
  call.tokens = rows;
  call.out = out.get<__nv_bfloat16>();
  call.query_heads = s.query_heads;
  call.kv_heads = s.kv_heads;
  call.head_dim = s.head_dim;
  call.window_keys = s.window;
  call.window_group = s.window > 0;
  call.kv = ViewOf(arena.get(), cache.layout, s.window > 0 ? 1 : 0);
  call.tiles = device->tiles;
  call.tile_count = static_cast<int>(plan->tiles.size());
  call.segments = device->segments;
  call.pages = device->pages;
  CUtensorMap query_map = {}, kv_map = {};
  if (s.kernel == AttentionKernel::kWgmma) {
    HeadMapShape shape;
    shape.tokens = rows;
    shape.heads = s.query_heads;
    shape.head_dim = s.head_dim;
    shape.pitch_elements = pitch;
    shape.box_heads = s.query_heads / s.kv_heads;
    shape.box_tokens = limits.tile_tokens;
    auto made_query = MakeHeadMap(call.queries, shape);
    auto made_kv = MakeKvMap(call.kv, s.head_dim);
    MUST(made_query.status());
    MUST(made_kv.status());
    query_map = *made_query;
    kv_map = *made_kv;
  }
  call.query_map = &query_map;
  call.kv_map = &kv_map;
  MUST(LaunchAttention(call, nullptr));
  return out.Download();
}

std::string CheckAttention(const AttentionShape& s) {
  const Cache cache = FillCache(s);
  int rows = 0;
  for (const Stretch& part : s.stretches) rows += part.tokens;
  const int width = s.query_heads * s.head_dim;
  const int pitch = width + 2 * s.kv_heads * s.head_dim + 16;
  const std::vector<Bf16> queries = RandomBf16(size_t(rows) * pitch, 3, 42);
  const std::vector<Bf16> found = RunAttention(s, cache, queries, pitch, rows);
  Comparison comparison(6e-3f, 1.5e-2f);
  int row = 0;
  for (size_t segment = 0; segment < s.stretches.size(); ++segment) {
    const Stretch& part = s.stretches[segment];
    const int step = std::max(1, part.tokens / 23);
    for (int token = 0; token < part.tokens; ++token) {
      const bool checked = token % step == 0 || token + 2 >= part.tokens;
      for (int head = 0; head < s.query_heads && checked; ++head) {
        const Query query{&queries[size_t(row + token) * pitch + head * s.head_dim],
                          part.begin + token, head / (s.query_heads / s.kv_heads), s.window};
        const std::vector<double> wanted =
            ReferenceRow(s, cache.keys[segment], cache.values[segment], query);
        for (int i = 0; i < s.head_dim; ++i) {
          const size_t at = size_t(row + token) * width + head * s.head_dim + i;
          comparison.Add(Bf16ToFloat(found[at]), static_cast<float>(wanted[i]), row + token,
                         head * s.head_dim + i);
        }
      }
    }
    row += part.tokens;
  }
  for (size_t i = size_t(rows) * width; i < found.size(); ++i) {
    if (found[i] != 0xffff) return "wrote beyond the last row";
  }
  for (size_t i = 0; i < size_t(rows) * width; ++i) {
    if (std::isnan(Bf16ToFloat(found[i]))) return "a row was not written or is NaN";
  }
  return comparison.message();
}

}  // namespace

std::vector<GpuCase> AttentionCases() {
  std::vector<GpuCase> cases;
  const auto add = [&](const AttentionShape& s) {
    std::string name =
        absl::StrCat(s.kernel == AttentionKernel::kWgmma ? "attention wgmma" : "attention mma",
                     " d", s.head_dim, " heads ", s.query_heads, "/", s.kv_heads, " window ",
                     s.window, " from ", s.stretches[0].begin, "+", s.stretches[0].tokens);
    if (s.stretches.size() > 1) absl::StrAppend(&name, " packed ", s.stretches.size());
    cases.push_back({name, [=] { return CheckAttention(s); }});
  };
  const std::vector<std::vector<Stretch>> kStretches = {
      {{0, 1}},   {{0, 63}},  {{0, 64}},    {{0, 65}},
      {{0, 300}}, {{190, 1}}, {{200, 130}}, {{513, 64}, {0, 17}, {64, 1}, {30, 200}}};
  for (const AttentionKernel kernel : {AttentionKernel::kMma, AttentionKernel::kWgmma}) {
    for (const auto& stretches : kStretches) {
      add({kernel, 128, 8, 2, 0, stretches});
      add({kernel, 128, 8, 1, 128, stretches});
    }
    add({kernel, 128, 32, 4, 0, {{0, 700}}});
    add({kernel, 128, 32, 4, 512, {{1000, 700}}});
    add({kernel, 128, 6, 2, 100, {{70, 200}, {0, 65}}});
    add({kernel, 128, 4, 4, 0, {{100, 150}}});
    add({kernel, 64, 8, 2, 0, {{64, 130}}});
    add({kernel, 64, 8, 2, 97, {{300, 200}}});
  }
  add({AttentionKernel::kMma, 32, 6, 2, 0, {{0, 90}, {33, 70}}});
  add({AttentionKernel::kMma, 32, 6, 2, 16, {{100, 90}}});
  return cases;
}

}  // namespace baton::prefill

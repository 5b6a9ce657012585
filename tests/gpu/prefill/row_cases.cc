// The memory-bound kernels and sampling against plain loops.
//
// Also tests: kernels/cuda/prefill/row_kernels.cu
// Also tests: kernels/cuda/prefill/sampling.cu
// Also tests: kernels/cuda/prefill/chunk_upload.cc
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/prefill/chunk_upload.h"
#include "kernels/cuda/prefill/row_kernels.h"
#include "kernels/cuda/prefill/sampling.h"
#include "tests/gpu/prefill/gpu_case.h"
#include "tests/gpu/prefill/paged_arena.h"

namespace baton::prefill {
namespace {

constexpr float kEpsilon = 1e-5f;

std::vector<float> ReferenceNorm(const std::vector<float>& x, const Bf16* weight, bool rms) {
  double mean = 0, squares = 0;
  if (!rms) {
    for (const float v : x) mean += v;
    mean /= double(x.size());
  }
  for (const float v : x) squares += (v - mean) * (v - mean);
  const double scale = 1.0 / std::sqrt(squares / double(x.size()) + kEpsilon);
  std::vector<float> out;
  for (size_t i = 0; i < x.size(); ++i) {
    const float y = static_cast<float>((x[i] - mean) * scale);
    out.push_back(RoundToBf16(Bf16ToFloat(weight[i]) * (rms ? RoundToBf16(y) : y)));
  }
  return out;
}

std::string CheckEmbed(int rows, int hidden, bool rms) {
  const int vocab = 50;
  const std::vector<Bf16> table = RandomBf16(size_t(vocab) * hidden, 1, 1);
  const std::vector<Bf16> weight = RandomBf16(hidden, 1, 2);
  std::vector<int32_t> ids(rows);
  for (int i = 0; i < rows; ++i) ids[i] = (i * 7) % vocab;
  DeviceArray<Bf16> d_table(table), d_weight(weight), x(size_t(rows + 1) * hidden),
      normed(size_t(rows + 1) * hidden);
  DeviceArray<int32_t> d_ids(ids);
  EmbedCall call;
  call.token_ids = d_ids.get();
  call.embedding = d_table.get<__nv_bfloat16>();
  call.x = x.get<__nv_bfloat16>();
  call.normed = normed.get<__nv_bfloat16>();
  call.rows = rows;
  call.hidden = hidden;
  call.norm = {d_weight.get<__nv_bfloat16>(), rms, kEpsilon};
  MUST(LaunchEmbed(call, nullptr));
  const std::vector<Bf16> found_x = x.Download(), found = normed.Download();
  Comparison comparison(1e-3f, 9e-3f);
  for (int row = 0; row < rows; ++row) {
    std::vector<float> values(hidden);
    for (int i = 0; i < hidden; ++i) {
      values[i] = Bf16ToFloat(table[size_t(ids[row]) * hidden + i]);
      if (found_x[size_t(row) * hidden + i] != table[size_t(ids[row]) * hidden + i]) return "x";
    }
    const std::vector<float> wanted = ReferenceNorm(values, weight.data(), rms);
    for (int i = 0; i < hidden; ++i) {
      comparison.Add(Bf16ToFloat(found[size_t(row) * hidden + i]), wanted[i], row, i);
    }
  }
  if (found_x[size_t(rows) * hidden] != 0xffff) return "wrote beyond the last row";
  return comparison.message();
}

std::string CheckCombine(int rows, int hidden, int slots, bool shared) {
  const std::vector<Bf16> x = RandomBf16(size_t(rows) * hidden, 1, 3);
  const std::vector<Bf16> attention = RandomBf16(size_t(rows) * hidden, 1, 4);
  const std::vector<Bf16> ffn = RandomBf16(size_t(rows) * std::max(1, slots) * hidden, 1, 5);
  const std::vector<Bf16> extra = RandomBf16(size_t(rows) * hidden, 1, 6);
  const std::vector<Bf16> weight = RandomBf16(hidden, 1, 7);
  std::vector<int32_t> slot_rows(size_t(rows) * slots);
  std::vector<float> slot_weights(size_t(rows) * slots);
  for (size_t i = 0; i < slot_rows.size(); ++i) {
    slot_rows[i] = static_cast<int>(slot_rows.size() - 1 - i);
    slot_weights[i] = RoundToBf16(0.1f + 0.01f * (i % 13));
  }
  DeviceArray<Bf16> d_x(x), d_attention(attention), d_ffn(ffn), d_extra(extra), d_weight(weight),
      normed(size_t(rows) * hidden);
  DeviceArray<int32_t> d_rows(slot_rows);
  DeviceArray<float> d_weights(slot_weights);
  CombineCall call;
  call.x = d_x.get<__nv_bfloat16>();
  call.normed = normed.get<__nv_bfloat16>();
  call.attention = d_attention.get<__nv_bfloat16>();
  if (slots == 0) {
    call.dense = d_ffn.get<__nv_bfloat16>();
  } else {
    call.expert_rows = d_ffn.get<__nv_bfloat16>();
    call.slot_rows = d_rows.get();
    call.slot_weights = d_weights.get();
    call.slots = slots;
    call.shared = shared ? d_extra.get<__nv_bfloat16>() : nullptr;
    call.shared_scale = 0.5f;
  }
  call.rows = rows;
  call.hidden = hidden;
  call.norm = {d_weight.get<__nv_bfloat16>(), true, kEpsilon};
  MUST(LaunchCombine(call, nullptr));
  const std::vector<Bf16> found_x = d_x.Download(), found = normed.Download();
  Comparison sums(2e-3f, 9e-3f), norms(1e-3f, 9e-3f);
  for (int row = 0; row < rows; ++row) {
    std::vector<float> new_x(hidden);
    for (int i = 0; i < hidden; ++i) {
      const size_t at = size_t(row) * hidden + i;
      float f = 0;
      for (int s = 0; s < slots; ++s) {
        const size_t slot = size_t(row) * slots + s;
        f += slot_weights[slot] * Bf16ToFloat(ffn[size_t(slot_rows[slot]) * hidden + i]);
      }
      f = slots == 0 ? Bf16ToFloat(ffn[at]) : RoundToBf16(f);
      if (shared) f = RoundToBf16(0.5f * RoundToBf16(f + Bf16ToFloat(extra[at])));
      const float a = RoundToBf16(Bf16ToFloat(x[at]) + Bf16ToFloat(attention[at]));
      new_x[i] = Bf16ToFloat(found_x[at]);
      sums.Add(new_x[i], RoundToBf16(a + f), row, i);
    }
    const std::vector<float> wanted = ReferenceNorm(new_x, weight.data(), true);
    for (int i = 0; i < hidden; ++i) {
      norms.Add(Bf16ToFloat(found[size_t(row) * hidden + i]), wanted[i], row, i);
    }
  }
  return sums.message().empty() ? norms.message() : "sum: " + sums.message();
}

// Two segments: one from the start, one that continues at a position in mid-page, on a small ring.
struct ScatterCase {
  static constexpr int kHeads = 6, kKvHeads = 2, kPad = 16;
  static constexpr int kBegins[2] = {0, 250}, kCounts[2] = {130, 70};

  ScatterCase(int head_dim_in, bool window_in, bool rope_in)
      : head_dim(head_dim_in),
        window(window_in),
        rope(rope_in),
        layer(window ? 2 : 0),
        pitch((kHeads + 2 * kKvHeads) * head_dim + kPad),
        layout(MakeTestLayout({{false, true, true}, kKvHeads, head_dim, 12, 12, 100})),
        qkv(RandomBf16(size_t(kCounts[0] + kCounts[1]) * pitch, 1, 9)) {
    PageSource full(12, 1), ring(12, 2);
    tables[0] = {full.Take(3), ring.Take(3)};
    tables[1] = {full.Take(6), ring.Take(4)};
    for (int i = 0; i < head_dim / 2; ++i) {
      frequencies.push_back(1.0f / std::pow(10000.0f, 2.0f * i / head_dim));
    }
  }

  // Element i of `head` (queries, keys, values) of chunk row `row` after RoPE.
  float Wanted(int row, int position, int head, int i) const {
    const size_t at = size_t(row) * pitch + head * head_dim + i;
    const float value = Bf16ToFloat(qkv[at]);
    if (!rope || head >= kHeads + kKvHeads) return value;
    const float angle = float(position) * frequencies[i / 2];
    const float c = RoundToBf16(std::cos(angle)), sn = RoundToBf16(std::sin(angle));
    const float other = Bf16ToFloat(qkv[at ^ 1]);
    return RoundToBf16(i % 2 == 0 ? value * c - other * sn : value * c + other * sn);
  }

  int head_dim;
  bool window, rope;
  int layer, pitch;
  KvLayout layout;
  std::vector<Bf16> qkv;
  KvPageTable tables[2];
  std::vector<float> frequencies;
};

struct ScatterResult {
  std::vector<Bf16> qkv;
  std::vector<std::byte> arena;
};

ScatterResult RunScatter(const ScatterCase& c) {
  std::vector<TokenId> tokens(200, 1);
  std::vector<PrefillSegment> segments(2);
  for (int i = 0; i < 2; ++i) {
    segments[i].tokens = absl::MakeConstSpan(tokens).subspan(0, c.kCounts[i]);
    segments[i].begin = c.kBegins[i];
    segments[i].pages = &c.tables[i];
  }
  const auto plan = PlanChunk(segments, c.layout, {1000, 4, 100000, 10, 16});
  MUST(plan.status());
  DeviceArray<Bf16> qkv(c.qkv);
  DeviceArray<float> frequencies(c.frequencies);
  DeviceArray<float2> rotary(size_t(plan->tokens) * c.head_dim / 2);
  DeviceArray<std::byte> arena(c.layout.total_bytes());
  ChunkUpload upload;
  const auto device = upload.Start(*plan, segments, nullptr);
  MUST(device.status());
  RotaryCall turn{device->positions, frequencies.get(), rotary.get(), plan->tokens, c.head_dim};
  MUST(LaunchRotary(turn, nullptr));
  ScatterCall call;
  call.qkv = qkv.get<__nv_bfloat16>();
  call.pitch = c.pitch;
  call.rows = plan->tokens;
  call.query_heads = c.kHeads;
  call.kv_heads = c.kKvHeads;
  call.head_dim = c.head_dim;
  call.rope = c.rope;
  call.rotary = rotary.get();
  call.window_group = c.window;
  call.kv = ViewOf(arena.get(), c.layout, c.layer);
  call.positions = device->positions;
  call.token_segment = device->token_segment;
  call.segments = device->segments;
  call.segment_count = 2;
  call.pages = device->pages;
  MUST(LaunchScatter(call, nullptr));
  return {qkv.Download(), arena.Download()};
}

// Compares one token's queries, keys and values; marks the units it owns in the arena.
void CompareToken(const ScatterCase& c, const ScatterResult& found, int row,
                  std::vector<uint8_t>& written, Comparison& comparison) {
  const int segment = row < c.kCounts[0] ? 0 : 1;
  const int first_row = segment == 0 ? 0 : c.kCounts[0];
  const int position = c.kBegins[segment] + row - first_row;
  for (int head = 0; head < c.kHeads + 2 * c.kKvHeads; ++head) {
    for (int i = 0; i < c.head_dim; ++i) {
      Bf16 bits = found.qkv[size_t(row) * c.pitch + head * c.head_dim + i];
      if (head >= c.kHeads) {
        const uint64_t offset =
            UnitOffset(c.layout, c.tables[segment], {c.layer, head - c.kHeads, position, i / 8});
        std::memcpy(&bits, &found.arena[offset + i % 8 * 2], 2);
        written[offset / 16] = 1;
      }
      comparison.Add(Bf16ToFloat(bits), c.Wanted(row, position, head, i), row,
                     head * c.head_dim + i);
    }
  }
}

// Marks the slots after the segment's end; false if one is not zero.
bool UnusedSlotsAreZero(const ScatterCase& c, const ScatterResult& found, int segment,
                        std::vector<uint8_t>& written) {
  for (int position = c.kBegins[segment] + c.kCounts[segment]; position % kPageTokens != 0;
       ++position) {
    for (int tile = 0; tile < 2 * c.kKvHeads; ++tile) {
      for (int unit = 0; unit < c.head_dim / 8; ++unit) {
        const uint64_t offset =
            UnitOffset(c.layout, c.tables[segment], {c.layer, tile, position, unit});
        written[offset / 16] = 1;
        for (int b = 0; b < 16; ++b) {
          if (found.arena[offset + b] != std::byte{0}) return false;
        }
      }
    }
  }
  return true;
}

std::string CheckScatter(int head_dim, bool window, bool rope) {
  const ScatterCase c(head_dim, window, rope);
  const ScatterResult found = RunScatter(c);
  std::vector<uint8_t> written(found.arena.size() / 16, 0);
  Comparison comparison(6e-3f, 9e-3f);  // A cosine may round the other way.
  for (int segment = 0, row = 0; segment < 2; ++segment) {
    for (int token = 0; token < c.kCounts[segment]; ++token, ++row) {
      CompareToken(c, found, row, written, comparison);
    }
    if (!UnusedSlotsAreZero(c, found, segment, written)) return "an unused slot is not zero";
  }
  for (size_t unit = 0; unit < written.size(); ++unit) {
    for (int b = 0; b < 16 && !written[unit]; ++b) {
      if (found.arena[unit * 16 + b] != std::byte{0xff}) {
        return "wrote outside the segments' pages";
      }
    }
  }
  return comparison.message();
}

// Philox4x32-10 as in common/philox.h, written out again for this test.
float ReferenceNoise(uint64_t seed, int position, uint32_t token) {
  uint32_t c[4] = {token / 4, uint32_t(position), 0, 0};
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t next[4] = {uint32_t(p1 >> 32) ^ c[1] ^ k0, uint32_t(p1),
                              uint32_t(p0 >> 32) ^ c[3] ^ k1, uint32_t(p0)};
    std::copy(next, next + 4, c);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const float uniform = (float(c[token % 4] >> 9) + 0.5f) * 0x1p-23f;
  return -std::log(-std::log(uniform));
}

std::string CheckSampling(int vocab) {
  const int rows = 5;
  const float scale = 0.25f;
  std::vector<float> logits(size_t(rows) * vocab);
  std::mt19937 engine(3);
  std::normal_distribution<float> normal(0, 8);
  for (float& logit : logits) logit = normal(engine);
  // Row 0: a tie of the largest; the lower id must win.
  logits[vocab - 1] = logits[vocab / 3] = 1000.0f;
  std::vector<SampleRow> params(rows);
  for (int row = 0; row < rows; ++row) {
    params[row] = {row < 2 ? 0.0f : 0.5f * row, 100 + row, 0x123456789abcdefull + row};
  }
  DeviceArray<float> d_logits(logits);
  DeviceArray<SampleRow> d_params(params);
  DeviceArray<SamplePartial> partials(rows * kSamplePartials);
  DeviceArray<SampledToken> sampled(rows);
  SampleCall call;
  call.logits = d_logits.get();
  call.rows = rows;
  call.vocab = vocab;
  call.logit_scale = scale;
  call.row_params = d_params.get();
  call.partials = partials.get();
  call.sampled = sampled.get();
  MUST(LaunchSample(call, nullptr));
  const std::vector<SampledToken> found = sampled.Download();
  for (int row = 0; row < rows; ++row) {
    double sum = 0, max = -1e30, best = -1e30;
    int token = -1;
    for (int t = 0; t < vocab; ++t) {
      max = std::max(max, double(logits[size_t(row) * vocab + t] * scale));
    }
    for (int t = 0; t < vocab; ++t) {
      const float logit = logits[size_t(row) * vocab + t] * scale;
      sum += std::exp(logit - max);
      const float value = params[row].temperature > 0
                              ? logit / params[row].temperature +
                                    ReferenceNoise(params[row].seed, params[row].position, t)
                              : logit;
      if (value > best) {
        best = value;
        token = t;
      }
    }
    if (found[row].token != token) {
      return absl::StrCat("row ", row, ": wanted token ", token, ", found ", found[row].token);
    }
    const double wanted = logits[size_t(row) * vocab + token] * scale - max - std::log(sum);
    if (std::fabs(wanted - found[row].logprob) > 1e-4) return "logprob";
  }
  return "";
}

}  // namespace

std::vector<GpuCase> RowCases() {
  std::vector<GpuCase> cases;
  cases.push_back({"embed rms 1x96", [] { return CheckEmbed(1, 96, true); }});
  cases.push_back({"embed rms 65x2048", [] { return CheckEmbed(65, 2048, true); }});
  cases.push_back({"embed layernorm 63x96", [] { return CheckEmbed(63, 96, false); }});
  cases.push_back({"embed layernorm 3x8192", [] { return CheckEmbed(3, 8192, false); }});
  cases.push_back({"combine dense 65x96", [] { return CheckCombine(65, 96, 0, false); }});
  cases.push_back({"combine 8 experts 64x2048", [] { return CheckCombine(64, 2048, 8, false); }});
  cases.push_back({"combine 2 experts + shared", [] { return CheckCombine(33, 96, 2, true); }});
  for (const int head_dim : {32, 64, 128}) {
    for (const bool window : {false, true}) {
      cases.push_back({absl::StrCat("scatter dim ", head_dim, window ? " ring" : " full"),
                       [=] { return CheckScatter(head_dim, window, head_dim != 64); }});
    }
  }
  cases.push_back({"sampling 515", [] { return CheckSampling(515); }});
  cases.push_back({"sampling 262144", [] { return CheckSampling(262144); }});
  return cases;
}

}  // namespace baton::prefill

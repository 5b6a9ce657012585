#include "kernels/cuda/prefill/row_kernels.h"

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"
#include "kernels/cuda/prefill/kv_tile.h"
#include "kernels/cuda/prefill/ptx.cuh"

namespace baton::prefill {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxSlots = 32;

__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

// Sum over the block in a fixed order; every thread gets it.
__device__ __forceinline__ float BlockSum(float value) {
  __shared__ float warp_sums[kThreads / 32];
  value = WarpSum(value);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) warp_sums[threadIdx.x >> 5] = value;
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kThreads / 32; ++i) sum += warp_sums[i];
  return sum;
}

struct Eight {
  float v[8];
};

__device__ __forceinline__ Eight Unpack(uint4 packed) {
  return Eight{{LowFloat(packed.x), HighFloat(packed.x), LowFloat(packed.y), HighFloat(packed.y),
                LowFloat(packed.z), HighFloat(packed.z), LowFloat(packed.w), HighFloat(packed.w)}};
}

__device__ __forceinline__ uint4 Pack(const Eight& e) {
  return make_uint4(PackBf16(e.v[0], e.v[1]), PackBf16(e.v[2], e.v[3]), PackBf16(e.v[4], e.v[5]),
                    PackBf16(e.v[6], e.v[7]));
}

__device__ __forceinline__ uint4 Load(const __nv_bfloat16* row, int unit) {
  return reinterpret_cast<const uint4*>(row)[unit];
}

// Normalises a row kept in shared memory (bf16, `units` of 8) by the thread's own units.
__device__ __forceinline__ void NormRow(const uint4* row, __nv_bfloat16* out, const NormCall& norm,
                                        int hidden) {
  const int units = hidden / 8;
  float mean = 0.0f;
  if (!norm.rms) {
    float sum = 0.0f;
    for (int u = threadIdx.x; u < units; u += kThreads) {
      const Eight e = Unpack(row[u]);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += e.v[i];
    }
    mean = BlockSum(sum) / hidden;
  }
  float squares = 0.0f;
  for (int u = threadIdx.x; u < units; u += kThreads) {
    const Eight e = Unpack(row[u]);
#pragma unroll
    for (int i = 0; i < 8; ++i) squares += (e.v[i] - mean) * (e.v[i] - mean);
  }
  const float scale = rsqrtf(BlockSum(squares) / hidden + norm.epsilon);
  for (int u = threadIdx.x; u < units; u += kThreads) {
    Eight e = Unpack(row[u]);
    const Eight w = Unpack(Load(norm.weight, u));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float y = (e.v[i] - mean) * scale;
      e.v[i] = w.v[i] * (norm.rms ? RoundBf16(y) : y);
    }
    reinterpret_cast<uint4*>(out)[u] = Pack(e);
  }
}

__global__ void __launch_bounds__(kThreads) EmbedKernel(const EmbedCall call) {
  extern __shared__ uint4 row_units[];
  const int64_t row = blockIdx.x;
  const __nv_bfloat16* source = call.embedding + int64_t{call.token_ids[row]} * call.hidden;
  uint4* x = reinterpret_cast<uint4*>(call.x + row * call.hidden);
  for (int u = threadIdx.x; u < call.hidden / 8; u += kThreads) {
    const uint4 unit = Load(source, u);
    row_units[u] = unit;
    x[u] = unit;
  }
  NormRow(row_units, call.normed + row * call.hidden, call.norm, call.hidden);
}

// The routed sum of unit u, rounded once.
__device__ __forceinline__ Eight RoutedSum(const CombineCall& call, const int* rows,
                                           const float* weights, int u) {
  Eight sum = {};
  for (int slot = 0; slot < call.slots; ++slot) {
    const Eight e = Unpack(Load(call.expert_rows + int64_t{rows[slot]} * call.hidden, u));
#pragma unroll
    for (int i = 0; i < 8; ++i) sum.v[i] = fmaf(weights[slot], e.v[i], sum.v[i]);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) sum.v[i] = RoundBf16(sum.v[i]);
  return sum;
}

__global__ void __launch_bounds__(kThreads) CombineKernel(const CombineCall call) {
  extern __shared__ uint4 row_units[];
  __shared__ int slot_rows[kMaxSlots];
  __shared__ float slot_weights[kMaxSlots];
  const int64_t row = blockIdx.x;
  if (call.dense == nullptr && threadIdx.x < call.slots) {
    slot_rows[threadIdx.x] = call.slot_rows[row * call.slots + threadIdx.x];
    slot_weights[threadIdx.x] = call.slot_weights[row * call.slots + threadIdx.x];
  }
  __syncthreads();
  uint4* x_row = reinterpret_cast<uint4*>(call.x + row * call.hidden);
  for (int u = threadIdx.x; u < call.hidden / 8; u += kThreads) {
    Eight ffn;
    if (call.dense != nullptr) {
      ffn = Unpack(Load(call.dense + row * call.hidden, u));
    } else {
      ffn = RoutedSum(call, slot_rows, slot_weights, u);
      if (call.shared != nullptr) {
        const Eight shared = Unpack(Load(call.shared + row * call.hidden, u));
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          ffn.v[i] = RoundBf16(call.shared_scale * RoundBf16(ffn.v[i] + shared.v[i]));
        }
      }
    }
    Eight x = Unpack(x_row[u]);
    const Eight attention = Unpack(Load(call.attention + row * call.hidden, u));
#pragma unroll
    for (int i = 0; i < 8; ++i) x.v[i] = RoundBf16(x.v[i] + attention.v[i]) + ffn.v[i];
    const uint4 packed = Pack(x);
    x_row[u] = packed;
    row_units[u] = packed;
  }
  NormRow(row_units, call.normed + row * call.hidden, call.norm, call.hidden);
}

__global__ void __launch_bounds__(kThreads) GatherKernel(const GatherCall call) {
  const int units = call.hidden / 8;
  const int64_t total = int64_t{call.count} * units;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < total;
       i += int64_t{gridDim.x} * kThreads) {
    const int row = static_cast<int>(i / units);
    const int u = static_cast<int>(i % units);
    const int64_t source = call.rows[row] / call.divisor;
    reinterpret_cast<uint4*>(call.out)[i] = Load(call.in + source * call.hidden, u);
  }
}

__global__ void __launch_bounds__(kThreads) RotaryKernel(const RotaryCall call) {
  const int pairs = call.head_dim / 2;
  const int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  if (i >= int64_t{call.rows} * pairs) return;
  const float angle =
      static_cast<float>(call.positions[i / pairs]) * call.inverse_frequencies[i % pairs];
  call.rotary[i] = make_float2(RoundBf16(cosf(angle)), RoundBf16(sinf(angle)));
}

// The stored unit of (token at `position`, head, K or V) in the segment's pages.
__device__ __forceinline__ uint4* KvUnit(const ScatterCall& call, const SegmentPages& segment,
                                         int position, int is_v, int head, int unit) {
  const int logical = position / kPageTokens;
  const int token = position % kPageTokens;
  const int slot = call.window_group ? segment.window_begin + logical % segment.window_ring
                                     : segment.full_begin + logical;
  const int units = call.head_dim / 8;
  std::byte* page = call.kv.base + uint64_t{call.pages[slot]} * call.kv.page_bytes;
  uint4* tile = reinterpret_cast<uint4*>(page + call.kv.layer_offset) +
                int64_t{is_v * call.kv_heads + head} * kPageTokens * units;
  return tile + token * units + SwizzledUnit(unit, token, units);
}

__device__ __forceinline__ uint4 Rotate(uint4 packed, const float2* rotary) {
  Eight e = Unpack(packed);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 r = rotary[i];
    const float x0 = e.v[2 * i];
    const float x1 = e.v[2 * i + 1];
    e.v[2 * i] = x0 * r.x - x1 * r.y;
    e.v[2 * i + 1] = x1 * r.x + x0 * r.y;
  }
  return Pack(e);
}

// Blocks [0, rows): one token each. The rest: one segment's unused slots each.
__global__ void __launch_bounds__(kThreads) ScatterKernel(const ScatterCall call) {
  const int units = call.head_dim / 8;
  const int row = blockIdx.x;
  if (row >= call.rows) {
    const SegmentPages segment = call.segments[row - call.rows];
    const int unused = (kPageTokens - segment.kv_length % kPageTokens) % kPageTokens;
    const int per_token = 2 * call.kv_heads * units;
    for (int i = threadIdx.x; i < unused * per_token; i += kThreads) {
      const int in_token = i % per_token;
      const int head = in_token / units;
      *KvUnit(call, segment, segment.kv_length + i / per_token, head / call.kv_heads,
              head % call.kv_heads, in_token % units) = make_uint4(0, 0, 0, 0);
    }
    return;
  }
  const SegmentPages segment = call.segments[call.token_segment[row]];
  const int position = call.positions[row];
  uint4* source = reinterpret_cast<uint4*>(call.qkv + row * call.pitch);
  const float2* rotary = call.rotary + int64_t{row} * (call.head_dim / 2);
  const int first = call.rope ? 0 : call.query_heads * units;
  const int end = (call.query_heads + 2 * call.kv_heads) * units;
  for (int i = first + threadIdx.x; i < end; i += kThreads) {
    const int head = i / units;
    const int unit = i % units;
    uint4 value = source[i];
    const int kv_head = head - call.query_heads;
    if (call.rope && kv_head < call.kv_heads) value = Rotate(value, rotary + 4 * unit);
    if (kv_head < 0) {
      source[i] = value;
    } else {
      const int is_v = kv_head >= call.kv_heads ? 1 : 0;
      *KvUnit(call, segment, position, is_v, kv_head - is_v * call.kv_heads, unit) = value;
    }
  }
}

absl::Status CheckHidden(int hidden) {
  if (hidden % 8 != 0 || hidden > kMaxHidden) {
    return absl::InvalidArgumentError(
        absl::StrCat("hidden size ", hidden, "; wanted a multiple of 8 of at most ", kMaxHidden));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LaunchEmbed(const EmbedCall& call, cudaStream_t stream) {
  BATON_RETURN_IF_ERROR(CheckHidden(call.hidden));
  if (call.rows == 0) return absl::OkStatus();
  EmbedKernel<<<call.rows, kThreads, call.hidden * 2, stream>>>(call);
  BATON_PREFILL_LAUNCHED("EmbedKernel");
  return absl::OkStatus();
}

absl::Status LaunchCombine(const CombineCall& call, cudaStream_t stream) {
  BATON_RETURN_IF_ERROR(CheckHidden(call.hidden));
  if (call.slots > kMaxSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat(call.slots, " experts per token; at most ", kMaxSlots));
  }
  if (call.rows == 0) return absl::OkStatus();
  CombineKernel<<<call.rows, kThreads, call.hidden * 2, stream>>>(call);
  BATON_PREFILL_LAUNCHED("CombineKernel");
  return absl::OkStatus();
}

absl::Status LaunchGather(const GatherCall& call, cudaStream_t stream) {
  BATON_RETURN_IF_ERROR(CheckHidden(call.hidden));
  if (call.count == 0) return absl::OkStatus();
  const int64_t units = int64_t{call.count} * (call.hidden / 8);
  const int blocks = static_cast<int>((units + 4 * kThreads - 1) / (4 * kThreads));
  GatherKernel<<<blocks, kThreads, 0, stream>>>(call);
  BATON_PREFILL_LAUNCHED("GatherKernel");
  return absl::OkStatus();
}

absl::Status LaunchRotary(const RotaryCall& call, cudaStream_t stream) {
  const int64_t total = int64_t{call.rows} * (call.head_dim / 2);
  if (total == 0) return absl::OkStatus();
  RotaryKernel<<<static_cast<int>((total + kThreads - 1) / kThreads), kThreads, 0, stream>>>(call);
  BATON_PREFILL_LAUNCHED("RotaryKernel");
  return absl::OkStatus();
}

absl::Status LaunchScatter(const ScatterCall& call, cudaStream_t stream) {
  if (call.rows + call.segment_count == 0) return absl::OkStatus();
  ScatterKernel<<<call.rows + call.segment_count, kThreads, 0, stream>>>(call);
  BATON_PREFILL_LAUNCHED("ScatterKernel");
  return absl::OkStatus();
}

}  // namespace baton::prefill

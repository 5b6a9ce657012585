// The inner loops, written once over an instruction set `Isa`: kLanes floats in an Isa::Vector.
// Only inner_loops_*.cc include it. Everything here has internal linkage and uses no library
// templates: the files are compiled with different target flags, and the linker must not merge
// their code.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/inner_loops.h"

namespace baton {
namespace {

// Element types of weights, with how an Isa loads them.
struct Bf16Element {
  using Stored = uint16_t;
  static float ToFloat(Stored value) {
    const uint32_t bits = static_cast<uint32_t>(value) << 16;
    float result;
    __builtin_memcpy(&result, &bits, sizeof(result));
    return result;
  }
  template <typename Isa>
  static typename Isa::Vector Load(const Stored* from) {
    return Isa::LoadBf16(from);
  }
};

struct F32Element {
  using Stored = float;
  static float ToFloat(Stored value) { return value; }
  template <typename Isa>
  static typename Isa::Vector Load(const Stored* from) {
    return Isa::Load(from);
  }
};

struct F16Element {
  using Stored = uint16_t;
  static float ToFloat(Stored half) {
    const uint32_t sign = (half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 0x1fu;
    const uint32_t mantissa = half & 0x3ffu;
    uint32_t bits = sign | ((exponent + 112u) << 23) | (mantissa << 13);
    if (exponent == 0x1fu) bits = sign | 0x7f800000u | (mantissa << 13);
    if (exponent == 0) {
      const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
      __builtin_memcpy(&bits, &magnitude, sizeof(bits));
      bits |= sign;
    }
    float result;
    __builtin_memcpy(&result, &bits, sizeof(result));
    return result;
  }
  template <typename Isa>
  static typename Isa::Vector Load(const Stored* from) {
    return Isa::LoadF16(from);
  }
};

// One sum per (output, input): kLanes partial sums over k, added up lane by lane, then the tail.
template <typename Isa, typename Element, int kOuts, int kRows>
inline __attribute__((always_inline)) void DotTile(const DotBlock& block, int out, int row) {
  using Stored = typename Element::Stored;
  const int columns = block.columns;
  const auto* weights = static_cast<const Stored*>(block.weights) + size_t(out) * columns;
  typename Isa::Vector sums[kOuts][kRows];
  for (int o = 0; o < kOuts; ++o) {
    for (int r = 0; r < kRows; ++r) sums[o][r] = Isa::Zero();
  }
  const float* inputs[kRows];
  for (int r = 0; r < kRows; ++r) inputs[r] = block.inputs[row + r];
  // With one input there is little arithmetic a weight: memory decides, and the processor does not
  // foresee several short rows read side by side. Past the matrix a prefetch does nothing.
  constexpr int kAheadRows = 2 * kOuts;
  constexpr int kLineElements = 64 / sizeof(Stored);
  int k = 0;
  for (; k + Isa::kLanes <= columns; k += Isa::kLanes) {
    if (kRows == 1 && kOuts > 1 && k % kLineElements == 0) {
      for (int o = 0; o < kOuts; ++o) {
        __builtin_prefetch(weights + size_t(o + kAheadRows) * columns + k);
      }
    }
    typename Isa::Vector x[kRows];
    for (int r = 0; r < kRows; ++r) x[r] = Isa::Load(inputs[r] + k);
    for (int o = 0; o < kOuts; ++o) {
      const auto w = Element::template Load<Isa>(weights + size_t(o) * columns + k);
      for (int r = 0; r < kRows; ++r) sums[o][r] = Isa::MultiplyAdd(w, x[r], sums[o][r]);
    }
  }
  for (int o = 0; o < kOuts; ++o) {
    for (int r = 0; r < kRows; ++r) {
      float sum = Isa::Sum(sums[o][r]);
      for (int tail = k; tail < columns; ++tail) {
        sum = Isa::MultiplyAdd(Element::ToFloat(weights[size_t(o) * columns + tail]),
                               inputs[r][tail], sum);
      }
      block.outputs[row + r][out + o] = sum;
    }
  }
}

// One input at a time, eight outputs together: enough independent sums to hide the latency.
template <typename Isa, typename Element>
inline void DotOneRow(const DotBlock& block, int row) {
  constexpr int kOuts = 8;
  int out = 0;
  for (; out + kOuts <= block.out_count; out += kOuts) {
    DotTile<Isa, Element, kOuts, 1>(block, out, row);
  }
  for (; out < block.out_count; ++out) DotTile<Isa, Element, 1, 1>(block, out, row);
}

template <typename Isa, typename Element>
void Dot(const DotBlock& block) {
  // Inputs a pass: few enough to stay in the cache while the weights stream by once.
  constexpr int kPassRows = 32;
  constexpr int kTileRows = 4;
  for (int first = 0; first < block.row_count; first += kPassRows) {
    const int last = first + kPassRows < block.row_count ? first + kPassRows : block.row_count;
    if (last - first < kTileRows) {
      for (int row = first; row < last; ++row) DotOneRow<Isa, Element>(block, row);
      continue;
    }
    constexpr int kOuts = 2;
    for (int out = 0; out < block.out_count; out += kOuts) {
      const bool pair = out + kOuts <= block.out_count;
      int row = first;
      for (; row + kTileRows <= last; row += kTileRows) {
        if (pair) {
          DotTile<Isa, Element, kOuts, kTileRows>(block, out, row);
        } else {
          DotTile<Isa, Element, 1, kTileRows>(block, out, row);
        }
      }
      for (; row < last; ++row) {
        if (pair) {
          DotTile<Isa, Element, kOuts, 1>(block, out, row);
        } else {
          DotTile<Isa, Element, 1, 1>(block, out, row);
        }
      }
    }
  }
}

template <typename Isa, typename Element>
void AddRows(const WeightedRows& rows) {
  using Stored = typename Element::Stored;
  const auto* values = static_cast<const Stored*>(rows.values);
  constexpr int kBlock = 4 * Isa::kLanes;
  int column = 0;
  for (; column + kBlock <= rows.columns; column += kBlock) {
    typename Isa::Vector sums[4];
    for (int i = 0; i < 4; ++i) sums[i] = Isa::Load(rows.sums + column + i * Isa::kLanes);
    for (int t = 0; t < rows.row_count; ++t) {
      const auto factor = Isa::Fill(rows.factors[t]);
      const Stored* from = values + size_t(t) * rows.columns + column;
      for (int i = 0; i < 4; ++i) {
        sums[i] =
            Isa::MultiplyAdd(factor, Element::template Load<Isa>(from + i * Isa::kLanes), sums[i]);
      }
    }
    for (int i = 0; i < 4; ++i) Isa::Store(rows.sums + column + i * Isa::kLanes, sums[i]);
  }
  for (; column < rows.columns; ++column) {
    float sum = rows.sums[column];
    for (int t = 0; t < rows.row_count; ++t) {
      sum = Isa::MultiplyAdd(rows.factors[t],
                             Element::ToFloat(values[size_t(t) * rows.columns + column]), sum);
    }
    rows.sums[column] = sum;
  }
}

// exp(x) = 2^n * exp(r), n = round(x / ln 2), |r| <= ln 2 / 2, exp(r) by its Taylor polynomial of
// degree 7 (error below 4e-9 relative there).
template <typename Isa>
inline typename Isa::Vector Exp(typename Isa::Vector x) {
  using Vector = typename Isa::Vector;
  const Vector bounded = Isa::Min(Isa::Max(x, Isa::Fill(-87.0f)), Isa::Fill(88.0f));
  const Vector n = Isa::Round(Isa::Multiply(bounded, Isa::Fill(1.44269504088896341f)));
  // ln 2 in two parts, the first with few bits, so that n * part is exact.
  Vector r = Isa::MultiplyAdd(n, Isa::Fill(-0.693359375f), bounded);
  r = Isa::MultiplyAdd(n, Isa::Fill(2.12194440e-4f), r);
  Vector sum = Isa::Fill(1.0f / 5040);
  sum = Isa::MultiplyAdd(sum, r, Isa::Fill(1.0f / 720));
  sum = Isa::MultiplyAdd(sum, r, Isa::Fill(1.0f / 120));
  sum = Isa::MultiplyAdd(sum, r, Isa::Fill(1.0f / 24));
  sum = Isa::MultiplyAdd(sum, r, Isa::Fill(1.0f / 6));
  sum = Isa::MultiplyAdd(sum, r, Isa::Fill(0.5f));
  sum = Isa::MultiplyAdd(sum, r, Isa::Fill(1.0f));
  sum = Isa::MultiplyAdd(sum, r, Isa::Fill(1.0f));
  return Isa::ZeroBelow(Isa::TimesPowerOfTwo(sum, n), x, -87.0f);
}

template <typename Isa>
void ExpShifted(float* values, size_t count, float shift) {
  const auto shifts = Isa::Fill(shift);
  size_t i = 0;
  for (; i + Isa::kLanes <= count; i += Isa::kLanes) {
    Isa::Store(values + i, Exp<Isa>(Isa::Subtract(Isa::Load(values + i), shifts)));
  }
  if (i == count) return;
  float tail[Isa::kLanes] = {};
  for (size_t lane = i; lane < count; ++lane) tail[lane - i] = values[lane];
  Isa::Store(tail, Exp<Isa>(Isa::Subtract(Isa::Load(tail), shifts)));
  for (size_t lane = i; lane < count; ++lane) values[lane] = tail[lane - i];
}

template <typename Isa>
constexpr InnerLoops MakeInnerLoops(const char* name) {
  return {.name = name,
          .dot_bf16 = Dot<Isa, Bf16Element>,
          .dot_f16 = Dot<Isa, F16Element>,
          .dot_f32 = Dot<Isa, F32Element>,
          .add_rows_bf16 = AddRows<Isa, Bf16Element>,
          .add_rows_f32 = AddRows<Isa, F32Element>,
          .exp_shifted = ExpShifted<Isa>};
}

}  // namespace
}  // namespace baton

// Compiled with -mavx512f -mavx512bw -mavx512vl -mavx2 -mfma -mf16c.
#include <immintrin.h>

#include "kernels/cpu/inner_loops_body.h"

namespace baton {
namespace {

struct Avx512 {
  static constexpr int kLanes = 16;
  using Vector = __m512;

  static Vector Zero() { return _mm512_setzero_ps(); }
  static Vector Fill(float value) { return _mm512_set1_ps(value); }
  static Vector Load(const float* from) { return _mm512_loadu_ps(from); }
  static Vector LoadBf16(const uint16_t* from) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  static Vector LoadF16(const uint16_t* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static void Store(float* to, Vector v) { _mm512_storeu_ps(to, v); }
  static float MultiplyAdd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static Vector MultiplyAdd(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
  static Vector Multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
  static Vector Subtract(Vector a, Vector b) { return _mm512_sub_ps(a, b); }
  static Vector Min(Vector a, Vector b) { return _mm512_min_ps(a, b); }
  static Vector Max(Vector a, Vector b) { return _mm512_max_ps(a, b); }
  static Vector Round(Vector a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Vector TimesPowerOfTwo(Vector a, Vector n) {
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_mul_ps(a, _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23)));
  }
  static Vector ZeroBelow(Vector a, Vector x, float limit) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, Fill(limit), _CMP_NLT_UQ), a);
  }
  static float Sum(Vector v) { return _mm512_reduce_add_ps(v); }
};

constexpr InnerLoops kAvx512 = MakeInnerLoops<Avx512>("avx512");

}  // namespace

const InnerLoops& Avx512InnerLoops() { return kAvx512; }

}  // namespace baton

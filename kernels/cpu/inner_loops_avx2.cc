// Compiled with -mavx2 -mfma -mf16c.
#include <immintrin.h>

#include "kernels/cpu/inner_loops_body.h"

namespace baton {
namespace {

struct Avx2 {
  static constexpr int kLanes = 8;
  using Vector = __m256;

  static Vector Zero() { return _mm256_setzero_ps(); }
  static Vector Fill(float value) { return _mm256_set1_ps(value); }
  static Vector Load(const float* from) { return _mm256_loadu_ps(from); }
  static Vector LoadBf16(const uint16_t* from) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  static Vector LoadF16(const uint16_t* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void Store(float* to, Vector v) { _mm256_storeu_ps(to, v); }
  static float MultiplyAdd(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static Vector MultiplyAdd(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
  static Vector Multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  static Vector Subtract(Vector a, Vector b) { return _mm256_sub_ps(a, b); }
  static Vector Min(Vector a, Vector b) { return _mm256_min_ps(a, b); }
  static Vector Max(Vector a, Vector b) { return _mm256_max_ps(a, b); }
  static Vector Round(Vector a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Vector TimesPowerOfTwo(Vector a, Vector n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
  }
  static Vector ZeroBelow(Vector a, Vector x, float limit) {
    return _mm256_andnot_ps(_mm256_cmp_ps(x, Fill(limit), _CMP_LT_OQ), a);
  }
  static float Sum(Vector v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
};

constexpr InnerLoops kAvx2 = MakeInnerLoops<Avx2>("avx2");

}  // namespace

const InnerLoops& Avx2InnerLoops() { return kAvx2; }

}  // namespace baton

// Conversions between float and the 16-bit formats of checkpoints. Plain bit patterns (uint16_t),
// so that the same bytes serve mapped files, shared memory and devices. Rounding is to nearest
// even.
#pragma once

#include <bit>
#include <cstdint>

namespace baton {

// A bfloat16 value as stored: the upper half of an IEEE float32.
using Bf16 = uint16_t;

inline float Bf16ToFloat(Bf16 value) { return std::bit_cast<float>(uint32_t{value} << 16); }

inline Bf16 FloatToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<Bf16>((bits >> 16) | 0x40u);  // Quiet NaN.
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<Bf16>(bits >> 16);
}

// Rounds to the nearest bfloat16 and back: the rounding points of the bf16 mode.
inline float RoundToBf16(float value) { return Bf16ToFloat(FloatToBf16(value)); }

// IEEE binary16 bits to float; exact, subnormals included.
inline float F16ToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

}  // namespace baton

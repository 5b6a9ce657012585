#include "kernels/cpu/inner_loops_body.h"

namespace baton {
namespace {

// Eight floats in an array: what any compiler vectorises for the baseline instruction set.
struct Portable {
  static constexpr int kLanes = 8;
  struct Vector {
    float lane[kLanes];
  };

  template <typename Function>
  static Vector Each(Function function) {
    Vector result;
    for (int i = 0; i < kLanes; ++i) result.lane[i] = function(i);
    return result;
  }
  static Vector Zero() { return Fill(0.0f); }
  static Vector Fill(float value) {
    return Each([&](int) { return value; });
  }
  static Vector Load(const float* from) {
    return Each([&](int i) { return from[i]; });
  }
  static Vector LoadBf16(const uint16_t* from) {
    return Each([&](int i) { return Bf16Element::ToFloat(from[i]); });
  }
  static Vector LoadF16(const uint16_t* from) {
    return Each([&](int i) { return F16Element::ToFloat(from[i]); });
  }
  static void Store(float* to, const Vector& v) {
    for (int i = 0; i < kLanes; ++i) to[i] = v.lane[i];
  }
  static float MultiplyAdd(float a, float b, float c) { return a * b + c; }
  static Vector MultiplyAdd(const Vector& a, const Vector& b, const Vector& c) {
    return Each([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
  }
  static Vector Multiply(const Vector& a, const Vector& b) {
    return Each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static Vector Subtract(const Vector& a, const Vector& b) {
    return Each([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static Vector Min(const Vector& a, const Vector& b) {
    return Each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Vector Max(const Vector& a, const Vector& b) {
    return Each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Vector Round(const Vector& a) {
    return Each([&](int i) { return __builtin_nearbyintf(a.lane[i]); });
  }
  static Vector TimesPowerOfTwo(const Vector& a, const Vector& n) {
    return Each([&](int i) {
      const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(n.lane[i]) + 127) << 23;
      float power;
      __builtin_memcpy(&power, &bits, sizeof(power));
      return a.lane[i] * power;
    });
  }
  static Vector ZeroBelow(const Vector& a, const Vector& x, float limit) {
    return Each([&](int i) { return x.lane[i] < limit ? 0.0f : a.lane[i]; });
  }
  static float Sum(const Vector& v) {
    return ((v.lane[0] + v.lane[4]) + (v.lane[2] + v.lane[6])) +
           ((v.lane[1] + v.lane[5]) + (v.lane[3] + v.lane[7]));
  }
};

constexpr InnerLoops kPortable = MakeInnerLoops<Portable>("portable");

}  // namespace

const InnerLoops& PortableInnerLoops() { return kPortable; }

}  // namespace baton

#include "kernels/cpu/inner_loops.h"

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

bool HasAvx2() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}

bool HasAvx512() {
#ifdef __x86_64__
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

}  // namespace

absl::StatusOr<const InnerLoops*> SelectInnerLoops(absl::string_view name) {
  if (name == "portable") return &PortableInnerLoops();
  if (name != "auto" && name != "avx2" && name != "avx512") {
    return absl::InvalidArgumentError(absl::StrCat(
        "instruction set: wanted auto, portable, avx2 or avx512, found \"", name, "\""));
  }
#ifdef __x86_64__
  if (name != "avx2" && HasAvx512()) return &Avx512InnerLoops();
  if (name != "avx512" && HasAvx2()) return &Avx2InnerLoops();
#endif
  if (name == "auto") return &PortableInnerLoops();
  return absl::FailedPreconditionError(
      absl::StrCat("instruction set: this processor does not run ", name));
}

}  // namespace baton

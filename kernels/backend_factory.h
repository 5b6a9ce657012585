// Makes the backend that a flag names. The .cc is the one file that knows whether CUDA was built
// in.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/models/checkpoint.h"

namespace baton {

struct BackendOptions {
  std::string kind = "auto";  // auto | cpu | cuda. auto = cuda where it was built in and a device
                              // is present, else cpu.
  std::string dtype = "bfloat16";  // bfloat16 | float32 (CPU only: the reference mode).
  int threads = 0;                 // CPU worker threads; 0 = all cores.
  // CPU: which compiled inner loops run: auto (the best this processor has) | portable | avx2 |
  // avx512.
  std::string instruction_set = "auto";
  bool decode_only = false;  // CUDA: pack only what the role needs.
  bool prefill_only = false;
};

// InvalidArgument for an unknown kind or dtype; FailedPrecondition when CUDA is asked for and not
// built in, no device is present, or the kernels cannot run the model's geometry (the message says
// which number). `checkpoint` must outlive the backend.
absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(const Checkpoint& checkpoint,
                                                     const BackendOptions& options);

}  // namespace baton

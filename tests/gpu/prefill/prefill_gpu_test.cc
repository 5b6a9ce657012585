// Checks the GPU prefill kernels and engine on the GPU at hand.
//   prefill_gpu_test [--only TEXT] [--models DIR] [--oracle DIR]
// Runs the cases whose names contain TEXT; exits 0 if all pass. DIR defaults: deploy/models and
// tests/fixtures/oracle.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "tests/gpu/prefill/gpu_case.h"

int main(int argc, char** argv) {
  using baton::prefill::GpuCase;
  baton::prefill::GpuTestPaths paths{"deploy/models", "tests/fixtures/oracle"};
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--only") == 0) only = argv[i + 1];
    if (std::strcmp(argv[i], "--models") == 0) paths.models = argv[i + 1];
    if (std::strcmp(argv[i], "--oracle") == 0) paths.oracle = argv[i + 1];
  }
  std::vector<GpuCase> cases;
  for (auto&& group : {baton::prefill::ProductCases(), baton::prefill::RowCases(),
                       baton::prefill::AttentionCases(), baton::prefill::PushCases(),
                       baton::prefill::ModelCases(paths)}) {
    cases.insert(cases.end(), group.begin(), group.end());
  }
  int ran = 0, failed = 0;
  for (const GpuCase& test : cases) {
    if (test.name.find(only) == std::string::npos) continue;
    const auto start = std::chrono::steady_clock::now();
    std::printf("RUN  %s\n", test.name.c_str());
    std::fflush(stdout);
    const std::string wrong = test.run();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ++ran;
    failed += wrong.empty() ? 0 : 1;
    std::printf("%s %s (%.2f s) %s\n", wrong.empty() ? "ok  " : "FAIL", test.name.c_str(), seconds,
                wrong.c_str());
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed\n", ran - failed, failed);
  return failed == 0 && ran > 0 ? 0 : 1;
}

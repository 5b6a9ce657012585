// The harness of the prefill programs that run on a GPU: named cases, checked values, device
// arrays. No test framework, so that the binary runs alone in a copied folder.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/bfloat16.h"

namespace baton::prefill {

struct GpuCase {
  std::string name;
  std::function<std::string()> run;  // Empty = passed; else what is wrong.
};

// Where the model cases find their files.
struct GpuTestPaths {
  std::string models;  // Folder with north-nano.
  std::string oracle;  // Folder with north-nano.json and the random checkpoints.
};

std::vector<GpuCase> ProductCases();
std::vector<GpuCase> RowCases();
std::vector<GpuCase> AttentionCases();
std::vector<GpuCase> PushCases();
std::vector<GpuCase> ModelCases(const GpuTestPaths& paths);

inline void Must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FATAL %s: %s\n", what, cudaGetErrorString(error));
  std::fflush(stdout);
  std::_Exit(3);
}
inline void Must(const absl::Status& status, const char* what) {
  if (status.ok()) return;
  std::printf("FATAL %s: %s\n", what, std::string(status.message()).c_str());
  std::fflush(stdout);
  std::_Exit(3);
}
#define MUST(call) ::baton::prefill::Must((call), #call)

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    MUST(cudaMalloc(&data_, (count > 0 ? count : 1) * sizeof(T)));
    MUST(cudaMemset(data_, 0xff, (count > 0 ? count : 1) * sizeof(T)));  // NaN, or -1.
  }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) {
    MUST(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  template <typename U = T>
  U* get() const {
    return reinterpret_cast<U*>(data_);
  }
  std::vector<T> Download() const {
    std::vector<T> host(count_);
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

inline std::vector<Bf16> RandomBf16(size_t count, float bound, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-bound, bound);
  std::vector<Bf16> values(count);
  for (Bf16& value : values) value = FloatToBf16(uniform(engine));
  return values;
}

// The first value that is further than absolute + relative * |wanted| from what was wanted.
class Comparison {
 public:
  Comparison(float absolute, float relative) : absolute_(absolute), relative_(relative) {}

  void Add(float found, float wanted, int64_t row, int64_t column) {
    const float difference = std::fabs(found - wanted);
    worst_ = std::max(worst_, difference);
    if (!message_.empty() || difference <= absolute_ + relative_ * std::fabs(wanted)) return;
    char text[160];
    std::snprintf(text, sizeof(text), "row %lld column %lld: wanted %g, found %g",
                  static_cast<long long>(row), static_cast<long long>(column), wanted, found);
    message_ = text;
  }
  const std::string& message() const { return message_; }
  float worst() const { return worst_; }

 private:
  const float absolute_;
  const float relative_;
  float worst_ = 0;
  std::string message_;
};

inline int SmCount() {
  int count = 0;
  MUST(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  return count;
}

}  // namespace baton::prefill

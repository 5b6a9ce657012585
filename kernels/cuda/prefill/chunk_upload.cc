#include "kernels/cuda/prefill/chunk_upload.h"

#include <cstring>
#include <vector>

#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"

namespace baton::prefill {
namespace {

// Runs twice: with `staging` null it sizes the transfer, then it fills the staging buffer.
class Packer {
 public:
  Packer(std::byte* staging, std::byte* device) : staging_(staging), device_(device) {}

  template <typename T>
  const T* Add(const std::vector<T>& values) {
    const uint64_t offset = plan_.Add(values.size() * sizeof(T));
    if (staging_ == nullptr) return nullptr;
    std::memcpy(staging_ + offset, values.data(), values.size() * sizeof(T));
    return reinterpret_cast<const T*>(device_ + offset);
  }
  uint64_t size_bytes() const { return plan_.size_bytes(); }

 private:
  std::byte* staging_;
  std::byte* device_;
  BufferPlan plan_;
};

DevicePlan AddAll(const ChunkPlan& plan, const std::vector<SampleRow>& params, Packer& packer) {
  DevicePlan device;
  device.token_ids = packer.Add(plan.token_ids);
  device.positions = packer.Add(plan.positions);
  device.token_segment = packer.Add(plan.token_segment);
  device.segments = packer.Add(plan.segments);
  device.pages = packer.Add(plan.pages);
  device.tiles = packer.Add(plan.tiles);
  device.sample_rows = packer.Add(plan.sample_rows);
  device.sample_params = packer.Add(params);
  return device;
}

}  // namespace

absl::StatusOr<DevicePlan> ChunkUpload::Start(const ChunkPlan& plan,
                                              absl::Span<const PrefillSegment> segments,
                                              cudaStream_t stream) {
  std::vector<SampleRow> params;
  for (const int segment : plan.sample_segment) {
    const SamplingParams& sampling = segments[segment].sampling;
    params.push_back(
        SampleRow{sampling.temperature, plan.segments[segment].kv_length, sampling.seed});
  }
  Packer sizer(nullptr, nullptr);
  AddAll(plan, params, sizer);
  BATON_RETURN_IF_ERROR(memory_.Grow(sizer.size_bytes()));
  Packer packer(memory_.host().data(), memory_.device().data());
  const DevicePlan device = AddAll(plan, params, packer);
  BATON_PREFILL_CUDA(cudaMemcpyAsync(memory_.device().data(), memory_.host().data(),
                                     packer.size_bytes(), cudaMemcpyHostToDevice, stream));
  return device;
}

}  // namespace baton::prefill

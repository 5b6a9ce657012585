#include "kernels/kv/kv_cuda_transport.h"

#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/kv/kv_transport_factory.h"

namespace baton {
namespace {

constexpr int kSelfTestRounds = 8;

// A failed call leaves a sticky error that an unrelated later call would report: it is cleared.
absl::Status CudaStatus(cudaError_t error, const char* what, absl::StatusCode code) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  return absl::Status(code, absl::StrCat(what, ": ", cudaGetErrorName(error), " (",
                                         cudaGetErrorString(error), ")"));
}

absl::Status Internal(cudaError_t error, const char* what) {
  return CudaStatus(error, what, absl::StatusCode::kInternal);
}

absl::Status Precondition(cudaError_t error, const char* what) {
  return CudaStatus(error, what, absl::StatusCode::kFailedPrecondition);
}

// Device memory that frees itself; on the current device.
struct DeviceFree {
  void operator()(void* pointer) const { cudaFree(pointer); }
};
using DevicePointer = std::unique_ptr<void, DeviceFree>;

absl::StatusOr<DevicePointer> DeviceAlloc(uint64_t size_bytes) {
  void* pointer = nullptr;
  const absl::Status status = CudaStatus(cudaMalloc(&pointer, size_bytes), "cudaMalloc",
                                         absl::StatusCode::kResourceExhausted);
  if (!status.ok())
    return absl::Status(status.code(), absl::StrCat(std::string(status.message()), "; wanted ",
                                                    size_bytes, " bytes of GPU memory"));
  return DevicePointer(pointer);
}

class CudaMemory : public KvMemory {
 public:
  CudaMemory(void* base, uint64_t size_bytes, int device, bool imported)
      : base_(base), size_bytes_(size_bytes), device_(device), imported_(imported) {}
  ~CudaMemory() override {
    // The last user may be any thread. Nothing can be done about an error here but clear it.
    cudaSetDevice(device_);
    if ((imported_ ? cudaIpcCloseMemHandle(base_) : cudaFree(base_)) != cudaSuccess)
      cudaGetLastError();
  }
  void* base() const override { return base_; }
  uint64_t size_bytes() const override { return size_bytes_; }

 private:
  void* base_;
  uint64_t size_bytes_;
  int device_;
  bool imported_;
};

// Times device-to-device copies on a stream of its own, in seconds.
class CopyTimer {
 public:
  static absl::StatusOr<std::unique_ptr<CopyTimer>> Make() {
    auto timer = std::make_unique<CopyTimer>();
    BATON_RETURN_IF_ERROR(Internal(cudaStreamCreate(&timer->stream_), "cudaStreamCreate"));
    BATON_RETURN_IF_ERROR(Internal(cudaEventCreate(&timer->begin_), "cudaEventCreate"));
    BATON_RETURN_IF_ERROR(Internal(cudaEventCreate(&timer->end_), "cudaEventCreate"));
    return timer;
  }
  ~CopyTimer() {
    if (begin_ != nullptr) cudaEventDestroy(begin_);
    if (end_ != nullptr) cudaEventDestroy(end_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  absl::StatusOr<double> Copy(void* to, const void* from, uint64_t size_bytes) {
    float milliseconds = 0;
    BATON_RETURN_IF_ERROR(Internal(cudaEventRecord(begin_, stream_), "cudaEventRecord"));
    BATON_RETURN_IF_ERROR(Internal(
        cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync"));
    BATON_RETURN_IF_ERROR(Internal(cudaEventRecord(end_, stream_), "cudaEventRecord"));
    BATON_RETURN_IF_ERROR(Internal(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"));
    BATON_RETURN_IF_ERROR(
        Internal(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime"));
    return std::max(milliseconds / 1e3, 1e-9);
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

std::optional<int> FindDevice(const std::string& uuid) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) cudaGetLastError();
  for (int device = 0; device < count; ++device) {
    const absl::StatusOr<std::string> found = CudaDeviceUuid(device);
    if (found.ok() && *found == uuid) return device;
  }
  return std::nullopt;
}

class KvCudaTransport : public KvTransport {
 public:
  KvCudaTransport(int device, std::string uuid) : device_(device), uuid_(std::move(uuid)) {}

  std::string_view kind() const override { return kCudaIpcTransport; }

  std::string device_uuid() const override { return uuid_; }

  absl::Status CheckAvailable() const override { return CudaDeviceUuid(device_).status(); }

  absl::StatusOr<std::unique_ptr<KvMemory>> Allocate(uint64_t size_bytes) const override {
    BATON_RETURN_IF_ERROR(SelectDevice());
    BATON_ASSIGN_OR_RETURN(DevicePointer pointer, DeviceAlloc(size_bytes));
    BATON_RETURN_IF_ERROR(Internal(cudaMemset(pointer.get(), 0, size_bytes), "cudaMemset"));
    BATON_RETURN_IF_ERROR(Internal(cudaDeviceSynchronize(), "clearing KV memory"));
    return std::make_unique<CudaMemory>(pointer.release(), size_bytes, device_, false);
  }

  absl::StatusOr<KvExportHandle> Export(const KvMemory& memory) const override {
    BATON_RETURN_IF_ERROR(SelectDevice());
    cudaIpcMemHandle_t handle;
    BATON_RETURN_IF_ERROR(
        Precondition(cudaIpcGetMemHandle(&handle, memory.base()), "cudaIpcGetMemHandle"));
    return KvExportHandle{.ipc_handle = std::string(handle.reserved, sizeof(handle.reserved))};
  }

  absl::StatusOr<std::unique_ptr<KvMemory>> Import(const KvArenaDescriptor& descriptor,
                                                   int fd) const override {
    BATON_RETURN_IF_ERROR(CheckImport(descriptor, fd));
    BATON_RETURN_IF_ERROR(SelectDevice());
    cudaIpcMemHandle_t handle;
    std::memcpy(handle.reserved, descriptor.ipc_handle.data(), sizeof(handle.reserved));
    void* base = nullptr;
    BATON_RETURN_IF_ERROR(
        Precondition(cudaIpcOpenMemHandle(&base, handle, cudaIpcMemLazyEnablePeerAccess),
                     "cudaIpcOpenMemHandle"));
    return std::make_unique<CudaMemory>(base, descriptor.size_bytes, device_, true);
  }

  absl::StatusOr<KvSelfTestResult> SelfTest(KvMemory& memory,
                                            const SelfTestRange& range) const override {
    BATON_CHECK(range.size_bytes > 0 && range.size_bytes % sizeof(uint64_t) == 0);
    BATON_CHECK(range.offset_bytes + range.size_bytes <= memory.size_bytes());
    BATON_RETURN_IF_ERROR(SelectDevice());
    std::vector<uint64_t> pattern(range.size_bytes / sizeof(uint64_t)), read(pattern.size());
    BATON_ASSIGN_OR_RETURN(const DevicePointer local, DeviceAlloc(range.size_bytes));
    BATON_ASSIGN_OR_RETURN(const std::unique_ptr<CopyTimer> timer, CopyTimer::Make());
    char* const page = static_cast<char*>(memory.base()) + range.offset_bytes;
    double write_seconds = 0, read_seconds = 0;
    for (int round = 0; round < kSelfTestRounds; ++round) {
      for (size_t i = 0; i < pattern.size(); ++i)
        pattern[i] = (range.seed + round + i) * 0x9e3779b97f4a7c15u;
      BATON_RETURN_IF_ERROR(CopyIn(local.get(), BytesOf(pattern)));
      BATON_ASSIGN_OR_RETURN(const double write, timer->Copy(page, local.get(), range.size_bytes));
      BATON_RETURN_IF_ERROR(Internal(cudaMemset(local.get(), 0, range.size_bytes), "cudaMemset"));
      BATON_RETURN_IF_ERROR(Internal(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
      BATON_ASSIGN_OR_RETURN(const double back, timer->Copy(local.get(), page, range.size_bytes));
      BATON_RETURN_IF_ERROR(CopyOut(local.get(), BytesOf(read)));
      if (read != pattern)
        return absl::DataLossError(absl::StrCat("KV self-test: ", range.size_bytes, " bytes at ",
                                                range.offset_bytes,
                                                " read back other than written"));
      if (round == 0) continue;  // The first copy sets up the peer mapping.
      write_seconds += write;
      read_seconds += back;
    }
    const double moved = static_cast<double>(range.size_bytes) * (kSelfTestRounds - 1);
    return KvSelfTestResult{.write_bytes_per_second = moved / write_seconds,
                            .read_bytes_per_second = moved / read_seconds};
  }

  absl::Status CopyIn(void* to, absl::Span<const char> bytes) const override {
    BATON_RETURN_IF_ERROR(SelectDevice());
    BATON_RETURN_IF_ERROR(
        Internal(cudaMemcpy(to, bytes.data(), bytes.size(), cudaMemcpyDefault), "cudaMemcpy"));
    return Internal(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

  absl::Status CopyOut(const void* from, absl::Span<char> bytes) const override {
    BATON_RETURN_IF_ERROR(SelectDevice());
    return Internal(cudaMemcpy(bytes.data(), from, bytes.size(), cudaMemcpyDefault), "cudaMemcpy");
  }

 private:
  static absl::Span<char> BytesOf(std::vector<uint64_t>& words) {
    return {reinterpret_cast<char*>(words.data()), words.size() * sizeof(uint64_t)};
  }

  absl::Status SelectDevice() const {
    return Precondition(cudaSetDevice(device_), "cudaSetDevice");
  }

  // What the driver would answer with an error that names no reason.
  absl::Status CheckImport(const KvArenaDescriptor& descriptor, int fd) const {
    if (fd >= 0)
      return absl::FailedPreconditionError("cuda_ipc memory: wanted no descriptor, found one");
    if (descriptor.ipc_handle.size() != sizeof(cudaIpcMemHandle_t))
      return absl::FailedPreconditionError(
          absl::StrCat("cuda_ipc handle: wanted ", sizeof(cudaIpcMemHandle_t), " bytes, found ",
                       descriptor.ipc_handle.size()));
    if (descriptor.owner_pid == static_cast<uint32_t>(getpid()))
      return absl::FailedPreconditionError(
          absl::StrCat("cuda_ipc: wanted an owner with another process id, found ", getpid(),
                       " on both sides; CUDA refuses its own handles, so containers must share a "
                       "PID namespace"));
    const std::optional<int> owner = FindDevice(descriptor.device_uuid);
    if (!owner)
      return absl::FailedPreconditionError(
          absl::StrCat("cuda_ipc: wanted the owner's GPU ", descriptor.device_uuid,
                       " among this process' devices, found it missing"));
    if (*owner == device_) return absl::OkStatus();
    int can_access = 0;
    BATON_RETURN_IF_ERROR(Precondition(cudaDeviceCanAccessPeer(&can_access, device_, *owner),
                                       "cudaDeviceCanAccessPeer"));
    if (can_access) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("cuda_ipc: wanted peer access from device ",
                                                      device_, " to ", descriptor.device_uuid,
                                                      ", found none"));
  }

  const int device_;
  const std::string uuid_;
};

}  // namespace

absl::StatusOr<std::string> CudaDeviceUuid(int device) {
  cudaDeviceProp properties = {};
  BATON_RETURN_IF_ERROR(
      Precondition(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties"));
  const auto* b = reinterpret_cast<const unsigned char*>(properties.uuid.bytes);
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", b[i]);
    absl::StrAppend(&text, i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", digits);
  }
  return text;
}

absl::StatusOr<std::unique_ptr<KvTransport>> MakeKvCudaTransport(int device) {
  BATON_ASSIGN_OR_RETURN(std::string uuid, CudaDeviceUuid(device));
  return std::make_unique<KvCudaTransport>(device, std::move(uuid));
}

}  // namespace baton

// cuda_ipc: KV memory on a GPU, from one plain cudaMalloc, exported by its legacy IPC handle, which
// needs no shared file system. Memory of another GPU is opened where the two have peer access. No
// IPC events: completion is stream order in the writer, then its answer. This header needs no CUDA.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/kv/kv_transport.h"

namespace baton {

// A transport on the device with this ordinal in this process. FailedPrecondition: no such device.
absl::StatusOr<std::unique_ptr<KvTransport>> MakeKvCudaTransport(int device);

// "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as nvidia-smi prints it: what device_uuid of an
// arena's descriptor must be. FailedPrecondition: no such device.
absl::StatusOr<std::string> CudaDeviceUuid(int device);

}  // namespace baton

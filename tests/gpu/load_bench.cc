// Loads a checkpoint's decode weights onto the GPU and prints how fast, and how much host memory it
// took beside what the file mappings and the page cache hold:
//   load_bench DIR [TIMES]
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/decode/weight_packer.h"
#include "kernels/cuda/load_progress.h"
#include "kernels/models/checkpoint.h"

namespace baton::cuda {
namespace {

// A line "Name:  123 kB" of a /proc file, in bytes.
int64_t ProcBytes(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(name + ":", 0) == 0) return std::atoll(line.c_str() + name.size() + 1) * 1024;
  }
  return 0;
}

// Memory of the whole machine that is neither free nor cache: pinned buffers count, mapped files do
// not.
int64_t MachineBytes() {
  const std::string path = "/proc/meminfo";
  return ProcBytes(path, "MemTotal") - ProcBytes(path, "MemFree") - ProcBytes(path, "Buffers") -
         ProcBytes(path, "Cached") - ProcBytes(path, "SReclaimable");
}

// The highest values of both while it lives.
class MemoryWatch {
 public:
  MemoryWatch() : thread_([this] { Run(); }) {}
  ~MemoryWatch() { Stop(); }
  void Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int64_t anonymous() const { return anonymous_; }
  int64_t machine() const { return machine_; }

 private:
  void Run() {
    while (!stop_) {
      anonymous_ = std::max(anonymous_.load(), ProcBytes("/proc/self/status", "RssAnon"));
      machine_ = std::max(machine_.load(), MachineBytes());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> anonymous_{0}, machine_{0};
  std::thread thread_;  // Last: it uses the others.
};

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "load_bench: %s\n", status.ToString().c_str());
  return 1;
}

int LoadOnce(const std::string& directory) {
  int workers = 0;
  cudaDeviceGetAttribute(&workers, cudaDevAttrMultiProcessorCount, 0);
  const int64_t machine_before = MachineBytes();
  MemoryWatch watch;
  LoadProgress whole("loading");
  const auto checkpoint = Checkpoint::Open(directory);
  if (!checkpoint.ok()) return Fail(checkpoint.status());
  const double opened = whole.seconds();
  const auto weights =
      PackedWeights::Load((*checkpoint)->config(), (*checkpoint)->weights(), workers,
                          [&](uint64_t done, uint64_t total) { whole(done, total); });
  if (!weights.ok()) return Fail(weights.status());
  const double seconds = whole.seconds();
  watch.Stop();
  const double bytes = static_cast<double>((*checkpoint)->weights().total_bytes);
  std::printf(
      "%s: %.3f GiB in %.3f s (%.2f GB/s), of which opening took %.3f s; host memory: at most %.0f "
      "MiB of the process beside mapped files, %.0f MiB of the machine beside the page cache\n",
      directory.c_str(), bytes / (1ull << 30), seconds, bytes / seconds * 1e-9, opened,
      watch.anonymous() / 1048576.0, (watch.machine() - machine_before) / 1048576.0);
  std::fflush(stdout);
  return 0;
}

int Run(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "load_bench DIR [TIMES]\n");
    return 2;
  }
  if (const absl::Status status = CheckCudaDevice(); !status.ok()) return Fail(status);
  cudaFree(nullptr);  // The context is not the loader's.
  const int times = argc > 2 ? std::atoi(argv[2]) : 1;
  for (int i = 0; i < times; ++i) {
    if (const int failed = LoadOnce(argv[1])) return failed;
  }
  return 0;
}

}  // namespace
}  // namespace baton::cuda

int main(int argc, char** argv) { return baton::cuda::Run(argc, argv); }

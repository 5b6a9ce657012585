#include "kernels/cuda/load_progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/log.h"

namespace baton::cuda {
namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kLogPeriod{2};

}  // namespace

std::string ProgressBar(const std::string& what, uint64_t done_bytes, uint64_t total_bytes,
                        double seconds, int columns) {
  const double share = total_bytes > 0 ? static_cast<double>(done_bytes) / total_bytes : 1.0;
  const int full = static_cast<int>(share * columns);
  return absl::StrCat(
      what, " [", std::string(full, '#'), std::string(columns - full, '.'), "] ",
      absl::StrFormat("%d %% of %.1f GiB, %.1f GB/s", static_cast<int>(share * 100),
                      static_cast<double>(total_bytes) / (1ull << 30),
                      seconds > 0 ? static_cast<double>(done_bytes) / seconds * 1e-9 : 0.0));
}

LoadProgress::LoadProgress(std::string what)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      begin_(std::chrono::steady_clock::now()),
      shown_(begin_) {}

LoadProgress::~LoadProgress() {
  if (drawn_) std::fputc('\n', stderr);
}

double LoadProgress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void LoadProgress::operator()(uint64_t done_bytes, uint64_t total_bytes) {
  const auto now = std::chrono::steady_clock::now();
  const bool last = done_bytes == total_bytes;
  if (terminal_) {
    if (!last && now - shown_ < kRedraw) return;
    std::fprintf(stderr, "\r%s", ProgressBar(what_, done_bytes, total_bytes, seconds()).c_str());
    std::fflush(stderr);
    drawn_ = true;
  } else {
    if (now - shown_ < kLogPeriod) return;
    spdlog::info("msg=\"{}\" done_mib={} total_mib={} percent={}", what_, done_bytes >> 20,
                 total_bytes >> 20, total_bytes > 0 ? done_bytes * 100 / total_bytes : 100);
  }
  shown_ = now;
}

}  // namespace baton::cuda

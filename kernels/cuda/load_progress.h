// LoadProgress: says how far the loading of weights is. On a terminal a bar that is redrawn, else a
// log line every other second. Used by the loader's threads one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace baton::cuda {

// "packing [#####.....] 50 % of 56.8 GiB, 5.2 GB/s"; `columns` characters between the brackets.
std::string ProgressBar(const std::string& what, uint64_t done_bytes, uint64_t total_bytes,
                        double seconds, int columns = 30);

class LoadProgress {
 public:
  // `what` is a participle and its object: "packing decode weights".
  explicit LoadProgress(std::string what);
  ~LoadProgress();  // Ends the bar's line.
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;

  void operator()(uint64_t done_bytes, uint64_t total_bytes);
  double seconds() const;  // Since it was made.

 private:
  const std::string what_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point shown_;
  bool drawn_ = false;
};

}  // namespace baton::cuda

// A child process of a system test: started with its output in a file, always killed when it goes
// out of scope. One thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace baton {

class Process {
 public:
  // Starts build/bin/`program` with the arguments; standard error goes to `log_path`.
  Process(const std::string& program, const std::vector<std::string>& arguments,
          const std::string& log_path);
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  // host:port from its line `listening address=...`; empty if it ended or 60 s went by.
  std::string WaitListening();
  int metrics_port() const { return metrics_port_; }

  void Signal(int number) const;
  // The exit status, 128 + signal for a killed one; nullopt if it still runs after `timeout`.
  std::optional<int> WaitExit(std::chrono::milliseconds timeout);
  void Kill();  // SIGKILL, and waits.

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0; }
  uint64_t resident_bytes() const;  // VmRSS.
  std::string output() const { return output_; }
  // Reads standard output to its end; then the process has closed it.
  std::string ReadAll();

 private:
  bool ReadMore(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = -1;
  int stdout_fd_ = -1;
  std::string output_;
  int metrics_port_ = 0;
};

}  // namespace baton

#include "tests/system/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <utility>

#include "common/check.h"
#include "tests/system/places.h"

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kStartLimit(60);

[[noreturn]] void RunChild(const std::vector<char*>& arguments, int out, int log) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // A killed test leaves nothing behind.
  dup2(out, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

Process::Process(const std::string& program, const std::vector<std::string>& arguments,
                 const std::string& log_path) {
  std::vector<std::string> words = {ProgramDir() + "/" + program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int pipe_fds[2];
  BATON_CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0);
  const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  BATON_CHECK(log >= 0);
  pid_ = fork();
  BATON_CHECK(pid_ >= 0);
  if (pid_ == 0) RunChild(pointers, pipe_fds[1], log);
  close(pipe_fds[1]);
  close(log);
  stdout_fd_ = pipe_fds[0];
}

Process::~Process() {
  Kill();
  if (stdout_fd_ >= 0) close(stdout_fd_);
}

Process::Process(Process&& other) noexcept { *this = std::move(other); }

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(stdout_fd_, other.stdout_fd_);
  std::swap(output_, other.output_);
  std::swap(metrics_port_, other.metrics_port_);
  return *this;
}

bool Process::ReadMore(steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  pollfd poll_fd{.fd = stdout_fd_, .events = POLLIN, .revents = 0};
  if (left.count() <= 0 || poll(&poll_fd, 1, static_cast<int>(left.count())) <= 0) return false;
  char buffer[65536];
  const ssize_t count = read(stdout_fd_, buffer, sizeof(buffer));
  if (count <= 0) return false;
  output_.append(buffer, static_cast<size_t>(count));
  return true;
}

std::string Process::WaitListening() {
  const auto deadline = steady_clock::now() + kStartLimit;
  while (output_.find('\n') == std::string::npos) {
    if (!ReadMore(deadline)) return "";
  }
  char address[256];
  if (std::sscanf(output_.c_str(), "listening address=%255s metrics_port=%d", address,
                  &metrics_port_) != 2) {
    return "";
  }
  return address;
}

std::string Process::ReadAll() {
  while (ReadMore(steady_clock::now() + kStartLimit)) {
  }
  return output_;
}

void Process::Signal(int number) const {
  BATON_CHECK(pid_ > 0);
  kill(pid_, number);
}

std::optional<int> Process::WaitExit(milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  while (pid_ > 0) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (steady_clock::now() > deadline) return std::nullopt;
    std::this_thread::sleep_for(milliseconds(5));  // waitpid has no time limit of its own.
  }
  return std::nullopt;
}

void Process::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

uint64_t Process::resident_bytes() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  std::string line;
  while (std::getline(status, line)) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "VmRSS: %llu kB", &kib) == 1) return kib * 1024;
  }
  return 0;
}

}  // namespace baton

// Starts kv_peer_process and talks to it over pipes; every wait has a limit.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/kv/unique_fd.h"

namespace baton {

class PeerProcess {
 public:
  explicit PeerProcess(const std::vector<std::string>& arguments) {
    int to_child[2], from_child[2];
    EXPECT_EQ(pipe2(to_child, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(from_child, O_CLOEXEC), 0);
    std::vector<char*> argv;
    // Beside the test itself, wherever both were copied.
    const std::string program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "kv_peer_process";
    argv.push_back(const_cast<char*>(program.c_str()));
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to_child[0], STDIN_FILENO);
      dup2(from_child[1], STDOUT_FILENO);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(to_child[0]);
    close(from_child[1]);
    in_ = UniqueFd(to_child[1]);
    out_ = UniqueFd(from_child[0]);
    greeting_ = ReadLine();
  }
  PeerProcess(const PeerProcess&) = delete;
  ~PeerProcess() { Stop(); }

  const std::string& greeting() const { return greeting_; }
  pid_t pid() const { return pid_; }

  std::string Ask(const std::string& command) {
    const std::string line = command + "\n";
    if (write(in_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      return "error no peer";
    return ReadLine();
  }

  void Signal(int signal) { kill(pid_, signal); }

  void KillNow() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  // Ends the peer's input, on which it exits in order; returns its exit status.
  int Stop() {
    if (pid_ <= 0) return -1;
    { const UniqueFd closed = std::move(in_); }
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  std::string ReadLine() {
    std::string line;
    for (char byte = 0;;) {
      pollfd ready = {.fd = out_.get(), .events = POLLIN};
      if (poll(&ready, 1, 20000) <= 0) return "error no answer";
      if (read(out_.get(), &byte, 1) != 1) return "error peer ended";
      if (byte == '\n') return line;
      line.push_back(byte);
    }
  }

  pid_t pid_ = 0;
  UniqueFd in_, out_;
  std::string greeting_;
};

}  // namespace baton

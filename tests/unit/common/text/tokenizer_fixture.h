// The demonstration model's tokenizer.json, whole or changed, for tests.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/text/tokenizer.h"

namespace baton {

inline std::string NanoDir() { return std::string(BATON_SOURCE_DIR) + "/deploy/models/north-nano"; }

inline nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return nlohmann::json::parse(file);
}

inline nlohmann::json NanoJson() { return ReadJson(NanoDir() + "/tokenizer.json"); }

// A directory of its own, removed at the end of the test.
class ModelDir {
 public:
  ModelDir()
      : path_(testing::TempDir() + "/baton_text_" + std::to_string(getpid()) + "_" + Next()) {
    std::filesystem::create_directories(path_);
  }
  ~ModelDir() { std::filesystem::remove_all(path_); }
  ModelDir(const ModelDir&) = delete;
  ModelDir& operator=(const ModelDir&) = delete;

  const std::string& path() const { return path_; }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ + "/" + name, std::ios::binary) << bytes;
  }

 private:
  static std::string Next() {
    static std::atomic<int> count{0};
    return std::to_string(count++);
  }
  std::string path_;
};

inline absl::StatusOr<std::unique_ptr<Tokenizer>> LoadText(const std::string& text) {
  const ModelDir dir;
  dir.Write("tokenizer.json", text);
  return Tokenizer::Load(dir.path());
}

inline absl::StatusOr<std::unique_ptr<Tokenizer>> LoadJson(const nlohmann::json& json) {
  return LoadText(json.dump());
}

}  // namespace baton

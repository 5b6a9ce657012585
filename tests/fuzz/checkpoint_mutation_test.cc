// Thousands of damaged checkpoints: each is either refused with a message that names a file, or
// opened with every weight readable. Never a crash (run it under AddressSanitizer too). Seeds are
// fixed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "kernels/models/checkpoint.h"
#include "tests/fixtures/synthetic_checkpoint.h"
#include "tests/fixtures/temporary_directory.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr size_t kLengthBytes = 8;

ModelConfig SmallConfig() {
  ModelConfig config = SyntheticConfig();
  config.hidden = 8;
  config.vocab = 16;
  config.layers.erase(config.layers.begin() + 2);
  config.layer_count = 3;
  config.shared = SharedExperts::kAverage;
  config.shared_width = 16;
  return config;
}

// Reads the first and the last element of a view: outside the mapping that would crash.
float Touch(const TensorView& tensor) {
  if (tensor.empty()) return 0;
  float ends[2];
  CopyToFloat(tensor, 0, 1, &ends[0]);
  CopyToFloat(tensor, tensor.ElementCount() - 1, 1, &ends[1]);
  return ends[0] + ends[1];
}

float TouchAll(const WeightSet& weights) {
  float sum = Touch(weights.embedding) + Touch(weights.final_norm) + Touch(weights.head);
  for (const LayerWeights& layer : weights.layers) {
    for (const TensorView* tensor : {&layer.norm, &layer.q, &layer.k, &layer.v, &layer.o,
                                     &layer.gate, &layer.up, &layer.down, &layer.router}) {
      sum += Touch(*tensor);
    }
    for (const ExpertWeights& expert : layer.experts) {
      sum += Touch(expert.gate) + Touch(expert.up) + Touch(expert.down);
    }
  }
  return sum;
}

class CheckpointMutation : public ::testing::Test {
 protected:
  CheckpointMutation() { WriteSyntheticCheckpoint(directory_.path(), SmallConfig()); }

  ~CheckpointMutation() override {
    std::printf("%d mutants: %d refused, %d opened\n", refused_ + opened_, refused_, opened_);
  }

  // Opens the directory as it is now; true if it was refused.
  bool Refused() {
    const auto checkpoint = Checkpoint::Open(directory_.path());
    if (checkpoint.ok()) {
      touched_ += TouchAll((*checkpoint)->weights());
      ++opened_;
      return false;
    }
    EXPECT_THAT(std::string(checkpoint.status().message()), HasSubstr(directory_.path()));
    ++refused_;
    return true;
  }

  size_t Below(size_t bound) { return random_() % bound; }

  // Flips a bit, or replaces, removes, repeats or inserts a byte.
  void DamageByte(std::string& text, size_t at) {
    const char byte = static_cast<char>(Below(256));
    switch (Below(5)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << Below(8)));
        break;
      case 1:
        text[at] = byte;
        break;
      case 2:
        text.erase(at, 1);
        break;
      case 3:
        text.insert(at, 1, text[at]);
        break;
      default:
        text.insert(at, 1, byte);
    }
  }

  Json NastyValue() {
    static const char* const kValues[] = {"null",
                                          "true",
                                          "0",
                                          "-1",
                                          "1",
                                          "3",
                                          "7",
                                          "2147483648",
                                          "9223372036854775807",
                                          "1e30",
                                          "1e308",
                                          "0.5",
                                          "\"\"",
                                          "\"x\"",
                                          "[]",
                                          "[0]",
                                          "[null]",
                                          "18446744073709551615",
                                          "{}",
                                          "[[[]]]",
                                          "[-1]",
                                          "4294967296",
                                          "\"default\"",
                                          "[\"dense\"]",
                                          "{\"rope_type\": 3}"};
    return Json::parse(kValues[Below(std::size(kValues))]);
  }

  const TemporaryDirectory directory_;
  const std::string weights_path_ = directory_.File("model.safetensors");
  const std::string config_path_ = directory_.File("config.json");
  std::mt19937 random_{20260609};
  int refused_ = 0;
  int opened_ = 0;
  float touched_ = 0;
};

TEST_F(CheckpointMutation, DamagedHeaderBytes) {
  const std::string original = ReadFileBytes(weights_path_);
  const size_t header_end = original.find("}}") + 2;
  for (int i = 0; i < 1000; ++i) {
    std::string mutant = original;
    for (size_t edits = 1 + Below(3); edits > 0; --edits) DamageByte(mutant, Below(header_end));
    WriteFileBytes(weights_path_, mutant);
    Refused();
  }
  EXPECT_GT(refused_, 900);
}

TEST_F(CheckpointMutation, EveryTruncationIsRefused) {
  const std::string original = ReadFileBytes(weights_path_);
  for (int i = 0; i < 300; ++i) {
    WriteFileBytes(weights_path_, original.substr(0, Below(original.size())));
    EXPECT_TRUE(Refused());
  }
  for (size_t size = 0; size <= kLengthBytes + 1; ++size) {
    WriteFileBytes(weights_path_, original.substr(0, size));
    EXPECT_TRUE(Refused()) << size;
  }
  WriteFileBytes(weights_path_, original + "x");
  EXPECT_TRUE(Refused());
}

TEST_F(CheckpointMutation, EveryOtherHeaderLengthIsRefused) {
  const std::string original = ReadFileBytes(weights_path_);
  for (size_t bit = 0; bit < 64; ++bit) {
    std::string mutant = original;
    mutant[bit / 8] = static_cast<char>(mutant[bit / 8] ^ (1 << (bit % 8)));
    WriteFileBytes(weights_path_, mutant);
    EXPECT_TRUE(Refused()) << bit;
  }
}

TEST_F(CheckpointMutation, EveryEditOfShapesAndOffsetsIsRefused) {
  const std::string original = ReadFileBytes(weights_path_);
  const size_t json_end = original.find("}}") + 2;
  const Json header = Json::parse(original.substr(kLengthBytes, json_end - kLengthBytes));
  const size_t data_begin = json_end + (8 - json_end % 8) % 8;
  for (int i = 0; i < 500; ++i) {
    Json mutant = header;
    auto entry = std::next(mutant.begin(), 1 + static_cast<int>(Below(mutant.size() - 1)));
    Json& list = (*entry)[Below(2) == 0 ? "shape" : "data_offsets"];
    Json& number = list[Below(list.size())];
    const Json before = number;
    while (number == before) {
      number = Below(2) == 0 ? NastyValue() : Json(before.get<uint64_t>() + Below(64) - 32);
    }
    std::string text = mutant.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    WriteFileBytes(weights_path_, SafetensorsBytes(text, original.substr(data_begin)));
    EXPECT_TRUE(Refused()) << entry.key() << " " << before << " -> " << number;
  }
}

TEST_F(CheckpointMutation, ChangedConfigValues) {
  const Json original = Json::parse(ReadFileBytes(config_path_));
  for (int i = 0; i < 1000; ++i) {
    Json mutant = original;
    for (size_t edits = 1 + Below(2); edits > 0; --edits) {
      auto entry = std::next(mutant.begin(), static_cast<int>(Below(mutant.size())));
      if (entry->is_array() && !entry->empty() && Below(2) == 0) {
        (*entry)[Below(entry->size())] = NastyValue();
      } else {
        *entry = NastyValue();
      }
    }
    WriteFileBytes(config_path_, mutant.dump());
    Refused();
  }
  EXPECT_GT(refused_, 600);
}

TEST_F(CheckpointMutation, DamagedConfigBytes) {
  const std::string original = ReadFileBytes(config_path_);
  for (int i = 0; i < 500; ++i) {
    std::string mutant = original;
    for (size_t edits = 1 + Below(3); edits > 0; --edits) DamageByte(mutant, Below(mutant.size()));
    WriteFileBytes(config_path_, mutant);
    Refused();
  }
  EXPECT_GT(refused_, 300);
}

TEST_F(CheckpointMutation, DamagedIndex) {
  std::filesystem::remove(weights_path_);
  WriteSyntheticCheckpoint(directory_.path(), SmallConfig(),
                           {.fused_experts = true, .shard_count = 3});
  EXPECT_FALSE(Refused());
  const std::string path = directory_.File("model.safetensors.index.json");
  const std::string original = ReadFileBytes(path);
  for (int i = 0; i < 500; ++i) {
    std::string mutant = original;
    DamageByte(mutant, Below(mutant.size()));
    WriteFileBytes(path, mutant);
    Refused();
  }
  EXPECT_GT(refused_, 300);
}

}  // namespace
}  // namespace baton

#include "kernels/models/model_config.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/models/json_object.h"
#include "kernels/models/layer_pattern.h"
#include "kernels/models/mapped_file.h"

namespace baton {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{4} << 20;

// Bounds that keep every product of two extents far from overflow.
constexpr JsonObject::IntRange kHidden = {1, 1 << 16};
constexpr JsonObject::IntRange kLayers = {1, 1 << 10};
constexpr JsonObject::IntRange kHeads = {1, 1 << 10};
constexpr JsonObject::IntRange kHeadDim = {2, 1 << 10};
constexpr JsonObject::IntRange kVocab = {1, 1 << 22};
constexpr JsonObject::IntRange kExperts = {1, 1 << 12};
constexpr JsonObject::IntRange kWidth = {1, 1 << 20};
constexpr JsonObject::IntRange kPositions = {1, 1 << 30};
constexpr JsonObject::IntRange kTokenId = {INT32_MIN, INT32_MAX};  // Of any vocabulary.

// A config text with the name that its messages begin with.
struct NamedText {
  std::string name;
  std::string text;
};

// Keys that would change the computation in a way no cohere2_moe reference implements.
void RefuseUnsupported(JsonObject& config) {
  if (const std::string type = config.String("model_type"); type != "cohere2_moe") {
    config.Refuse("model_type", "\"cohere2_moe\"");
  }
  // Two names of one function.
  const std::string activation = config.StringOr("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") config.Refuse("hidden_act", "\"silu\"");
  for (const char* key : {"attention_bias", "use_qk_norm"}) {
    if (config.BoolOr(key, false)) config.Refuse(key, "false");
  }
  for (const char* key : {"use_parallel_block", "use_gated_activation"}) {
    if (!config.BoolOr(key, true)) config.Refuse(key, "true");
  }
  if (config.Has("quantization_config")) {
    config.Refuse("quantization_config", "none (bf16, f16 or f32 weights)");
  }
}

void ReadAttention(JsonObject& config, ModelConfig& model) {
  model.query_heads = config.Int("num_attention_heads", kHeads);
  model.kv_heads = config.IntOr("num_key_value_heads", model.query_heads, kHeads);
  if (model.kv_heads > 0 && model.query_heads % model.kv_heads != 0) {
    config.Refuse("num_key_value_heads",
                  absl::StrCat("a divisor of num_attention_heads ", model.query_heads));
  }
  model.head_dim = config.IntOr("head_dim", 128, kHeadDim);
  if (model.head_dim % 2 != 0) config.Refuse("head_dim", "an even number (for RoPE)");
  model.max_positions = config.IntOr("max_position_embeddings", 8192, kPositions);

  const int window = config.IntOr("sliding_window", 4096, kPositions);
  const bool any_sliding = std::any_of(model.layers.begin(), model.layers.end(),
                                       [](const LayerConfig& layer) { return layer.sliding; });
  if (!any_sliding) return;
  model.window_keys = window;
  // Written as null, the key does not mean its default.
  if (config.json().contains("sliding_window") && !config.Has("sliding_window")) {
    config.Refuse("sliding_window", "a number of keys, as there are sliding layers");
  }
}

// Only the default type; both names of the key are in use.
void RefuseRopeScaling(JsonObject& rope) {
  for (const char* key : {"rope_type", "type"}) {
    if (rope.StringOr(key, "default") != "default") rope.Refuse(key, "\"default\"");
  }
}

// rope_theta stands alone or within rope_parameters; the one within goes first, as with Hugging
// Face, whose saved configs have the class's default beside it. Of rope_scaling Hugging Face reads
// nothing for this class; a type there is refused all the same, as whoever wrote it wants a
// scaling.
void ReadRope(JsonObject& config, ModelConfig& model) {
  JsonObject scaling = config.Object("rope_scaling");
  RefuseRopeScaling(scaling);
  config.Adopt(scaling.status());

  JsonObject rope = config.Object("rope_parameters");
  RefuseRopeScaling(rope);
  for (const char* layer_kind : {"full_attention", "sliding_attention"}) {
    if (rope.Has(layer_kind)) rope.Refuse(layer_kind, "the same RoPE in every layer");
  }
  model.rope_theta = rope.NumberOr("rope_theta", config.NumberOr("rope_theta", 10000.0));
  config.Adopt(rope.status());
  if (config.status().ok() && !(model.rope_theta > 0)) {
    config.RefuseWith(absl::StrCat("rope_theta: want above 0, found ", model.rope_theta));
  }
}

void ReadRouter(JsonObject& config, ModelConfig& model) {
  model.expert_count = config.IntOr("num_experts", 8, kExperts);
  model.experts_per_token = config.IntOr("num_experts_per_tok", 2, kExperts);
  if (model.experts_per_token > model.expert_count) {
    config.Refuse("num_experts_per_tok", absl::StrCat("at most num_experts ", model.expert_count));
  }
  const std::string router = config.StringOr("expert_selection_fn", "softmax");
  model.router = router == "sigmoid" ? RouterKind::kSigmoid : RouterKind::kSoftmax;
  if (router != "sigmoid" && router != "softmax") {
    config.Refuse("expert_selection_fn", "\"sigmoid\" or \"softmax\"");
  }
  model.norm_topk = config.BoolOr("norm_topk_prob", true);
}

void ReadSharedExperts(JsonObject& config, ModelConfig& model) {
  const int count = config.IntOr("num_shared_experts", 0, {0, kExperts.max});
  if (count == 0) return;
  if (int64_t{count} * model.expert_width > kWidth.max) {
    config.Refuse("num_shared_experts",
                  absl::StrCat("times intermediate_size at most ", kWidth.max));
    return;
  }
  model.shared_width = count * model.expert_width;
  const std::string strategy = config.StringOr("shared_expert_combination_strategy", "average");
  model.shared = strategy == "sum" ? SharedExperts::kSum : SharedExperts::kAverage;
  if (strategy != "sum" && strategy != "average") {
    config.Refuse("shared_expert_combination_strategy", "\"sum\" or \"average\"");
  }
}

void ReadFeedForward(JsonObject& config, ModelConfig& model) {
  const int width = config.Int("intermediate_size", kWidth);
  const int dense_width = config.IntOr("prefix_dense_intermediate_size", width, kWidth);
  bool any_sparse = false;
  for (LayerConfig& layer : model.layers) {
    layer.ffn_width = layer.dense ? dense_width : width;
    any_sparse |= !layer.dense;
  }
  if (!any_sparse) return;
  model.expert_width = width;
  ReadRouter(config, model);
  ReadSharedExperts(config, model);
}

float ReadPositive(JsonObject& config, const std::string& key, double fallback) {
  const double value = config.NumberOr(key, fallback);
  if (value >= 1e-30 && value <= 1e30) return static_cast<float>(value);
  config.Refuse(key, "a number in 1e-30..1e30");
  return 1;
}

// rms_norm_eps chooses RMSNorm even where layer_norm_eps is there too.
void ReadNorm(JsonObject& config, ModelConfig& model) {
  const bool rms = config.Has("rms_norm_eps");
  const char* key = rms ? "rms_norm_eps" : "layer_norm_eps";
  model.norm = rms ? NormKind::kRmsNorm : NormKind::kLayerNorm;
  model.norm_epsilon = ReadPositive(config, key, 1e-5);
}

// An id that the vocabulary does not have can never be sampled and is none, as with Hugging Face:
// its class's defaults are for a large vocabulary and stand in configs of small ones.
void ReadTokens(JsonObject& config, JsonObject& generation, ModelConfig& model) {
  const auto in_vocabulary = [&](int id) { return id >= 0 && id < model.vocab; };
  for (JsonObject* source : {&generation, &config}) {
    for (int id : source->Ints("eos_token_id", kTokenId)) {
      const bool known =
          std::find(model.eos_ids.begin(), model.eos_ids.end(), id) != model.eos_ids.end();
      if (in_vocabulary(id) && !known) model.eos_ids.push_back(id);
    }
  }
  const int bos_id = config.IntOr("bos_token_id", -1, kTokenId);
  const int pad_id = config.IntOr("pad_token_id", -1, kTokenId);
  model.bos_id = in_vocabulary(bos_id) ? bos_id : -1;
  model.pad_id = in_vocabulary(pad_id) ? pad_id : -1;
}

absl::StatusOr<ModelConfig> ParseNamed(const NamedText& config_text,
                                       const NamedText& generation_text) {
  BATON_ASSIGN_OR_RETURN(JsonObject config,
                         JsonObject::Parse(config_text.text, config_text.name, kMaxConfigBytes));
  const std::string generation_json = generation_text.text.empty() ? "{}" : generation_text.text;
  BATON_ASSIGN_OR_RETURN(JsonObject generation,
                         JsonObject::Parse(generation_json, generation_text.name, kMaxConfigBytes));

  RefuseUnsupported(config);
  BATON_RETURN_IF_ERROR(config.status());
  ModelConfig model;
  model.model_type = config.String("model_type");
  model.hidden = config.Int("hidden_size", kHidden);
  model.layer_count = config.Int("num_hidden_layers", kLayers);
  model.vocab = config.Int("vocab_size", kVocab);
  BATON_RETURN_IF_ERROR(config.status());

  model.layers = ReadLayerPattern(config, model.layer_count);
  ReadAttention(config, model);
  ReadRope(config, model);
  ReadFeedForward(config, model);
  ReadNorm(config, model);
  model.logit_scale = ReadPositive(config, "logit_scale", 0.0625);
  model.tied_head = config.BoolOr("tie_word_embeddings", true);
  ReadTokens(config, generation, model);
  BATON_RETURN_IF_ERROR(config.status());
  BATON_RETURN_IF_ERROR(generation.status());
  return model;
}

absl::StatusOr<NamedText> ReadText(std::string path) {
  BATON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  if (file.byte_count() > kMaxConfigBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": want at most ", kMaxConfigBytes,
                                                   " bytes, found ", file.byte_count()));
  }
  const char* text = reinterpret_cast<const char*>(file.data());
  return NamedText{std::move(path), std::string(text, file.byte_count())};
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(const std::string& config_json,
                                             const std::string& generation_config_json) {
  return ParseNamed({"config.json", config_json},
                    {"generation_config.json", generation_config_json});
}

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& model_dir) {
  BATON_ASSIGN_OR_RETURN(const NamedText config, ReadText(absl::StrCat(model_dir, "/config.json")));
  absl::StatusOr<NamedText> generation =
      ReadText(absl::StrCat(model_dir, "/generation_config.json"));
  if (absl::IsNotFound(generation.status())) generation = NamedText{};
  BATON_RETURN_IF_ERROR(generation.status());
  return ParseNamed(config, *generation);
}

}  // namespace baton

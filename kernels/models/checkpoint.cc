#include "kernels/models/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/models/fingerprint.h"
#include "kernels/models/mapped_file.h"
#include "kernels/models/quoted.h"
#include "kernels/models/shard_index.h"
#include "kernels/models/weight_binder.h"

namespace baton {
namespace {

using Files = std::vector<std::unique_ptr<SafetensorsFile>>;

absl::Status ApplyWindow(int window_keys, ModelConfig& config) {
  if (window_keys < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("window override: want at least 1 key, found ", window_keys));
  }
  if (config.window_keys == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "window override ", window_keys, ": want a model with sliding layers, found none"));
  }
  config.window_keys = window_keys;
  return absl::OkStatus();
}

// The index and the headers of its files say the same.
absl::Status CheckIndex(const ShardIndex& index, const Files& files,
                        const std::string& index_path) {
  for (const auto& [tensor, file_id] : index.file_of) {
    if (files[file_id]->Find(tensor) != nullptr) continue;
    return absl::InvalidArgumentError(absl::StrCat(files[file_id]->path(), ": tensor ",
                                                   Quoted(tensor), " is missing, but ", index_path,
                                                   " says that it is here"));
  }
  for (size_t i = 0; i < files.size(); ++i) {
    for (const SafetensorsEntry& entry : files[i]->entries()) {
      const auto found = index.file_of.find(entry.name);
      if (found != index.file_of.end() && found->second == static_cast<int>(i)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          files[i]->path(), ": tensor ", Quoted(entry.name), " is here, but not in ", index_path));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Files> OpenShards(const std::string& model_dir, const MappedFile& text,
                                 const std::string& index_path) {
  const std::string_view index_json(reinterpret_cast<const char*>(text.data()), text.byte_count());
  BATON_ASSIGN_OR_RETURN(const ShardIndex index, ParseShardIndex(index_json, index_path));
  Files files;
  for (const std::string& name : index.files) {
    auto file = SafetensorsFile::Open(absl::StrCat(model_dir, "/", name));
    if (absl::IsNotFound(file.status())) {
      return absl::NotFoundError(
          absl::StrCat(file.status().message(), " (named in ", index_path, ")"));
    }
    BATON_RETURN_IF_ERROR(file.status());
    files.push_back(*std::move(file));
  }
  BATON_RETURN_IF_ERROR(CheckIndex(index, files, index_path));
  return files;
}

// model.safetensors goes before an index, as with Hugging Face.
absl::StatusOr<Files> OpenFiles(const std::string& model_dir) {
  auto single = SafetensorsFile::Open(absl::StrCat(model_dir, "/model.safetensors"));
  if (single.ok()) {
    Files files;
    files.push_back(*std::move(single));
    return files;
  }
  if (!absl::IsNotFound(single.status())) return single.status();
  const std::string index_path = absl::StrCat(model_dir, "/model.safetensors.index.json");
  const absl::StatusOr<MappedFile> index = MappedFile::Open(index_path);
  if (absl::IsNotFound(index.status())) {
    return absl::NotFoundError(absl::StrCat(
        model_dir, ": want model.safetensors or model.safetensors.index.json, found neither"));
  }
  BATON_RETURN_IF_ERROR(index.status());
  return OpenShards(model_dir, *index, index_path);
}

// The tensor of that name in whichever file; an empty view if there is none that can be read.
TensorView FindTensor(const Files& files, std::string_view name) {
  for (const std::unique_ptr<SafetensorsFile>& file : files) {
    if (auto tensor = file->Tensor(name); tensor.ok()) return *std::move(tensor);
  }
  return {};
}

// Whether the files hold a head that is not the embedding. Another head differs early; an equal one
// is read to its end, once.
bool HasHeadOfItsOwn(const Files& files) {
  const auto holds_head = [](const auto& file) { return file->Find(kHeadTensor) != nullptr; };
  if (std::none_of(files.begin(), files.end(), holds_head)) return false;
  const TensorView head = FindTensor(files, kHeadTensor);
  const TensorView embedding = FindTensor(files, kEmbeddingTensor);
  const bool equal = !head.empty() && !embedding.empty() && head.dtype == embedding.dtype &&
                     head.shape == embedding.shape &&
                     std::memcmp(head.data, embedding.data, head.ByteCount()) == 0;
  return !equal;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& model_dir,
                                                             const CheckpointOptions& options) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint);
  BATON_ASSIGN_OR_RETURN(checkpoint->config_, LoadModelConfig(model_dir));
  if (options.window_keys.has_value()) {
    BATON_RETURN_IF_ERROR(ApplyWindow(*options.window_keys, checkpoint->config_));
  }
  BATON_ASSIGN_OR_RETURN(checkpoint->files_, OpenFiles(model_dir));
  if (checkpoint->config_.tied_head && HasHeadOfItsOwn(checkpoint->files_)) {
    checkpoint->config_.tied_head = false;
  }
  BATON_ASSIGN_OR_RETURN(checkpoint->weights_,
                         WeightBinder(checkpoint->config_, checkpoint->files_, model_dir).Bind());
  // The fingerprint touches tens of thousands of pages far apart: without read-around for each.
  for (const auto& file : checkpoint->files_) file->mapping().ExpectScatteredReads();
  checkpoint->weights_.fingerprint = ComputeFingerprint(checkpoint->config_, checkpoint->weights_);
  for (const auto& file : checkpoint->files_) {
    file->mapping().ExpectSequentialReads();
    if (options.read_ahead) file->mapping().ReadAhead();
  }
  return checkpoint;
}

}  // namespace baton

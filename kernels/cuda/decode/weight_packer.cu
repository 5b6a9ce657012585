#include "kernels/cuda/decode/weight_packer.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/decode/packed_layout.h"
#include "kernels/task_graph/graph_shape.h"

namespace baton::cuda {
namespace {

constexpr uint64_t kPieceBytes = 16ull << 20;  // One staging buffer.
constexpr int kReaders = 6;

enum class PackKind : int { kVector, kMatrix, kGate, kUp };

// Part of one tensor on its way: rows [first_row, first_row + row_count) of a [rows, width] tensor.
struct Piece {
  const char* source;
  char* destination;
  DType dtype;
  PackKind kind;
  uint32_t first_row, row_count, rows, width;
  uint64_t bytes;
};

__device__ uint32_t LoadPair(const char* source, DType dtype, uint64_t element) {
  if (dtype == DType::kBf16) return *reinterpret_cast<const uint32_t*>(source + element * 2);
  float a, b;
  if (dtype == DType::kF32) {
    a = reinterpret_cast<const float*>(source)[element];
    b = reinterpret_cast<const float*>(source)[element + 1];
  } else {
    const uint32_t pair = *reinterpret_cast<const uint32_t*>(source + element * 2);
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(a), "=f"(b)
        : "r"(pair));
  }
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(b), "f"(a));
  return packed;
}

__global__ void PackPiece(const char* source, Piece piece, uint32_t workers) {
  const uint64_t pairs = uint64_t{piece.row_count} * (piece.width / 2);
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < pairs;
       i += uint64_t{gridDim.x} * blockDim.x) {
    const uint32_t row = piece.first_row + static_cast<uint32_t>(i / (piece.width / 2));
    const uint32_t k = static_cast<uint32_t>(i % (piece.width / 2)) * 2;
    uint64_t offset = k * 2;
    if (piece.kind == PackKind::kMatrix) {
      offset =
          PackedPairOffsetIn(RangeAt(row >> 3, (piece.rows + 7) / 8, workers), row, k, piece.width);
    } else if (piece.kind != PackKind::kVector) {
      offset = PackedGateUpOffsetIn(RangeAt(row, piece.rows, workers), row, k, piece.width,
                                    piece.kind == PackKind::kUp);
    }
    *reinterpret_cast<uint32_t*>(piece.destination + offset) = LoadPair(source, piece.dtype, i * 2);
  }
}

// Uniform in [-scale, scale) * sqrt(3): the variance of a normal initialisation of that scale.
__global__ void FillRandom(uint32_t* to, uint64_t words, uint64_t seed, float scale) {
  for (uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; i < words;
       i += uint64_t{gridDim.x} * blockDim.x) {
    uint64_t z = seed + i * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    const float a = (static_cast<float>(z & 0xffffff) * 0x1p-23f - 1.0f) * scale * 1.7320508f;
    const float b = (static_cast<float>(z >> 32 & 0xffffff) * 0x1p-23f - 1.0f) * scale * 1.7320508f;
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(b), "f"(a));
    to[i] = packed;
  }
}

__global__ void FillOnes(uint16_t* to, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = 0x3f80;
}

uint64_t MatrixBytes(uint64_t rows, uint64_t width) {
  return UnitsFor(static_cast<int64_t>(rows)) * 16 * width;
}

void AddPieces(std::vector<Piece>& pieces, const TensorView& tensor, char* destination,
               PackKind kind) {
  const uint32_t width =
      static_cast<uint32_t>(kind == PackKind::kVector ? tensor.ElementCount() : tensor.shape[1]);
  const uint32_t rows = kind == PackKind::kVector ? 1 : static_cast<uint32_t>(tensor.shape[0]);
  const uint64_t row_bytes = tensor.ByteCount() / rows;
  const uint32_t most = static_cast<uint32_t>(kPieceBytes / row_bytes);
  BATON_CHECK(most > 0);
  for (uint32_t first = 0; first < rows; first += most) {
    const uint32_t count = rows - first < most ? rows - first : most;
    pieces.push_back({static_cast<const char*>(tensor.data) + first * row_bytes, destination,
                      tensor.dtype, kind, first, count, rows, width, count * row_bytes});
  }
}

// One reader: takes pieces, stages and packs them with two buffers in turn.
class Reader {
 public:
  ~Reader() {
    for (int i = 0; i < 2; ++i) {
      if (host_[i] != nullptr) cudaFreeHost(host_[i]);
      if (device_[i] != nullptr) cudaFree(device_[i]);
      if (done_[i] != nullptr) cudaEventDestroy(done_[i]);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  absl::Status Prepare() {
    BATON_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (int i = 0; i < 2; ++i) {
      BATON_RETURN_IF_CUDA_ERROR(cudaMallocHost(&host_[i], kPieceBytes));
      BATON_RETURN_IF_CUDA_ERROR(cudaMalloc(&device_[i], kPieceBytes));
      BATON_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&done_[i], cudaEventDisableTiming));
    }
    return absl::OkStatus();
  }
  absl::Status Run(const Piece& piece, uint32_t workers) {
    const int i = turn_;
    turn_ ^= 1;
    BATON_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(done_[i]));
    std::memcpy(host_[i], piece.source, piece.bytes);
    BATON_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(device_[i], host_[i], piece.bytes, cudaMemcpyHostToDevice, stream_));
    PackPiece<<<264, 256, 0, stream_>>>(device_[i], piece, workers);
    BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
    BATON_RETURN_IF_CUDA_ERROR(cudaEventRecord(done_[i], stream_));
    return absl::OkStatus();
  }
  absl::Status Finish() {
    BATON_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_));
    return absl::OkStatus();
  }

 private:
  cudaStream_t stream_ = nullptr;
  char* host_[2] = {};
  char* device_[2] = {};
  cudaEvent_t done_[2] = {};
  int turn_ = 0;
};

absl::Status PackAll(const std::vector<Piece>& pieces, uint32_t workers,
                     const PackedWeights::Progress& progress) {
  uint64_t total = 0;
  for (const Piece& piece : pieces) total += piece.bytes;
  int device = 0;
  BATON_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  std::atomic<size_t> next{0};
  std::mutex mutex;  // Guards `done`, `failure` and the callback.
  uint64_t done = 0;
  absl::Status failure = absl::OkStatus();
  const auto work = [&] {
    absl::Status status = CudaStatus(cudaSetDevice(device), "cudaSetDevice");
    Reader reader;
    if (status.ok()) status = reader.Prepare();
    while (status.ok()) {
      const size_t i = next.fetch_add(1);
      if (i >= pieces.size()) break;
      status = reader.Run(pieces[i], workers);
      std::lock_guard<std::mutex> lock(mutex);
      if (!failure.ok()) return;
      done += pieces[i].bytes;
      if (progress) progress(done, total);
    }
    if (status.ok()) status = reader.Finish();
    std::lock_guard<std::mutex> lock(mutex);
    if (failure.ok()) failure = status;
  };
  std::vector<std::thread> threads;
  const int count = pieces.size() < kReaders ? static_cast<int>(pieces.size()) : kReaders;
  for (int i = 0; i < count; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return failure;
}

}  // namespace

PackedWeights::~PackedWeights() {
  if (memory_ != nullptr) cudaFree(memory_);
}

absl::Status PackedWeights::Allocate(const ModelConfig& config, bool tied) {
  const uint64_t h = config.hidden, q = uint64_t(config.query_heads) * config.head_dim,
                 kv = uint64_t(config.kv_heads) * config.head_dim;
  const GraphShape shape = GraphShape::Of(config);
  // Two passes over the same list: sizes, then addresses.
  uint64_t at = 0;
  const auto take = [&](uint64_t bytes) -> char* {
    const uint64_t offset = at;
    at += (bytes + 255) / 256 * 256;
    return memory_ == nullptr ? nullptr : memory_ + offset;
  };
  const auto lay_out = [&] {
    at = 0;
    layers_.clear();
    for (int l = 0; l < config.layer_count; ++l) {
      const LayerConfig& c = config.layers[l];
      const LayerShape& s = shape.layers[l];
      LayerDevice d{};
      d.norm = reinterpret_cast<const uint16_t*>(take(h * 2));
      d.qkv = take(MatrixBytes(q + 2 * kv, h));
      d.o = take(MatrixBytes(h, q));
      d.ffn_scale = !c.dense && config.shared == SharedExperts::kAverage ? 0.5f : 1.0f;
      d.rope = c.rope;
      d.sliding = c.sliding;
      if (!c.dense) {
        d.expert_count = config.expert_count;
        d.expert_width = c.ffn_width;
        d.gate_up_bytes = uint64_t(c.ffn_width) * 4 * h;
        d.down_bytes = MatrixBytes(h, c.ffn_width);
        d.router = take(MatrixBytes(config.expert_count, h));
        d.gate_up = take(d.gate_up_bytes * config.expert_count);
        d.down = take(d.down_bytes * config.expert_count);
      }
      d.always_width = static_cast<int>(s.always_rows);
      if (d.always_width > 0) {
        d.always_gate_up = take(uint64_t(d.always_width) * 4 * h);
        d.always_down = take(MatrixBytes(h, d.always_width));
      }
      layers_.push_back(d);
    }
    final_norm_ = reinterpret_cast<uint16_t*>(take(h * 2));
    head_ = take(MatrixBytes(config.vocab, h));
    embedding_ = tied ? head_ : take(MatrixBytes(config.vocab, h));
  };
  lay_out();
  bytes_ = at;
  size_t free_bytes = 0, total_bytes = 0;
  BATON_RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (bytes_ > free_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("packed weights: wanted ", bytes_ >> 20, " MiB of device memory, found ",
                     free_bytes >> 20, " MiB free of ", total_bytes >> 20));
  }
  BATON_RETURN_IF_CUDA_ERROR(cudaMalloc(&memory_, bytes_));
  BATON_RETURN_IF_CUDA_ERROR(cudaMemset(memory_, 0, bytes_));
  // The readers' streams do not wait for the stream of the memset.
  BATON_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  lay_out();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PackedWeights>> PackedWeights::Load(const ModelConfig& config,
                                                                   const WeightSet& weights,
                                                                   int worker_count,
                                                                   const Progress& progress) {
  std::unique_ptr<PackedWeights> packed(new PackedWeights);
  BATON_RETURN_IF_ERROR(packed->Allocate(config, weights.head.data == weights.embedding.data));
  std::vector<Piece> pieces;
  const auto at = [](const void* p) { return static_cast<char*>(const_cast<void*>(p)); };
  for (int l = 0; l < config.layer_count; ++l) {
    LayerDevice& d = packed->layers_[l];
    const LayerWeights& w = weights.layers[l];
    AddPieces(pieces, w.norm, at(d.norm), PackKind::kVector);
    AddPieces(pieces, w.o, at(d.o), PackKind::kMatrix);
    // q, k and v are one matrix here: rows one after the other.
    std::vector<Piece> qkv;
    uint32_t row = 0;
    const uint32_t rows =
        static_cast<uint32_t>((config.query_heads + 2 * config.kv_heads) * config.head_dim);
    for (const TensorView* t : {&w.q, &w.k, &w.v}) {
      const size_t begin = qkv.size();
      AddPieces(qkv, *t, at(d.qkv), PackKind::kMatrix);
      for (size_t i = begin; i < qkv.size(); ++i) {
        qkv[i].first_row += row;
        qkv[i].rows = rows;
      }
      row += static_cast<uint32_t>(t->shape[0]);
    }
    pieces.insert(pieces.end(), qkv.begin(), qkv.end());
    if (d.expert_count > 0) AddPieces(pieces, w.router, at(d.router), PackKind::kMatrix);
    for (int e = 0; e < d.expert_count; ++e) {
      AddPieces(pieces, w.experts[e].gate, at(d.gate_up) + e * d.gate_up_bytes, PackKind::kGate);
      AddPieces(pieces, w.experts[e].up, at(d.gate_up) + e * d.gate_up_bytes, PackKind::kUp);
      AddPieces(pieces, w.experts[e].down, at(d.down) + e * d.down_bytes, PackKind::kMatrix);
    }
    if (d.always_width > 0) {
      AddPieces(pieces, w.gate, at(d.always_gate_up), PackKind::kGate);
      AddPieces(pieces, w.up, at(d.always_gate_up), PackKind::kUp);
      AddPieces(pieces, w.down, at(d.always_down), PackKind::kMatrix);
    }
  }
  AddPieces(pieces, weights.final_norm, at(packed->final_norm_), PackKind::kVector);
  AddPieces(pieces, weights.head, packed->head_, PackKind::kMatrix);
  if (packed->embedding_ != packed->head_)
    AddPieces(pieces, weights.embedding, packed->embedding_, PackKind::kMatrix);
  BATON_RETURN_IF_ERROR(PackAll(pieces, static_cast<uint32_t>(worker_count), progress));
  return packed;
}

absl::StatusOr<std::unique_ptr<PackedWeights>> PackedWeights::Synthetic(const ModelConfig& config,
                                                                        uint64_t seed) {
  std::unique_ptr<PackedWeights> packed(new PackedWeights);
  BATON_RETURN_IF_ERROR(packed->Allocate(config, config.tied_head));
  FillRandom<<<1056, 256>>>(reinterpret_cast<uint32_t*>(packed->memory_), packed->bytes_ / 4, seed,
                            0.02f);
  for (const LayerDevice& layer : packed->layers_) {
    FillOnes<<<1, 256>>>(const_cast<uint16_t*>(layer.norm), config.hidden);
  }
  FillOnes<<<1, 256>>>(packed->final_norm_, config.hidden);
  BATON_RETURN_IF_CUDA_ERROR(cudaGetLastError());
  BATON_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  return packed;
}

}  // namespace baton::cuda

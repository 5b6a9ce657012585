#include "kernels/cuda/decode/decode_step.cuh"
#include "kernels/cuda/decode/megakernel.cuh"

namespace baton::cuda {

const void* DecodeStepRows32() { return reinterpret_cast<const void*>(&DecodeStep<4>); }

}  // namespace baton::cuda

#include "kernels/cuda/decode/decode_step.cuh"
#include "kernels/cuda/decode/megakernel.cuh"

namespace baton::cuda {

const void* DecodeStepRows16() { return reinterpret_cast<const void*>(&DecodeStep<2>); }

}  // namespace baton::cuda

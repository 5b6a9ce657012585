// The workers as text or JSON. Pure.
#pragma once

#include <string>

#include "baton/v1/inference.pb.h"

namespace baton {

// One line per worker under a head line, then one per transport.
std::string WorkerTable(const v1::GetModelResponse& model, const v1::ListWorkersResponse& workers);
// One JSON object on one line.
std::string WorkerJson(const v1::GetModelResponse& model, const v1::ListWorkersResponse& workers);

}  // namespace baton

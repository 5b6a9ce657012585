// The functions every chat template may call: Jinja's range, dict and namespace, and those that
// Hugging Face transformers adds: raise_exception and strftime_now.
#pragma once

#include "common/chat/scope.h"

namespace baton {

// Sets them in `scope`.
void AddGlobalFunctions(Scope* scope);

}  // namespace baton

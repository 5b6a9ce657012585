// Numbers to and from text as Python writes and reads them. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/chat/value.h"

namespace baton {

std::string IntText(TemplateInt value);
// repr(float): the shortest digits that read back equal, exponents below 1e-4 and from 1e16.
std::string FloatText(double value);

// int(text, base); nothing when Python raises ValueError, or beyond TemplateInt. base 0 or 2..36.
std::optional<TemplateInt> ParsePythonInt(std::string_view text, int base);
// float(text).
std::optional<double> ParsePythonFloat(std::string_view text);
// int(float): towards zero; nothing for NaN, infinities and what TemplateInt cannot hold.
std::optional<TemplateInt> TruncateToInt(double value);

}  // namespace baton

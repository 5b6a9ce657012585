// Unicode 16 on top of PCRE2 10.42's Unicode 14: the characters that Hugging Face's regular
// expressions (Oniguruma 6.9.10) put into a category and that PCRE2 does not know yet. Constant
// data.
#pragma once

#include <string_view>

namespace baton {

// Class items in PCRE2 syntax ("\x{1c89}\x{a7cb}-\x{a7cc}") to add to \p{`category`}, where
// `category` has two letters ("Lu"); empty when there are none. Harmless with a PCRE2
// that knows them.
std::string_view UnicodeAdditions(std::string_view category);

}  // namespace baton

"""Prints common/text/unicode_additions.cc's table: what Oniguruma, inside the `tokenizers` package,
puts into a general category beyond Unicode 14, the data of PCRE2 10.42.

Run with a Python whose unicodedata is version 14 (3.11) and the package of tests/requirements.txt:
  python3 tests/parity/unicode_additions.py
"""
import sys
import unicodedata

from tokenizers import Regex, pre_tokenizers

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp").split()
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
BLOCK = 4096


def members(pattern):
    """The code points that match a one-character pattern."""
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    found = set()
    for start in range(0, len(CODE_POINTS), BLOCK):
        block = CODE_POINTS[start:start + BLOCK]
        found.update(block)
        for _, (begin, end) in split.pre_tokenize_str("".join(map(chr, block))):
            found.difference_update(block[begin:end])
    return found


def ranges(code_points):
    """Regex class items for sorted code points."""
    runs = []
    for code_point in sorted(code_points):
        if runs and runs[-1][1] == code_point - 1:
            runs[-1][1] = code_point
        else:
            runs.append([code_point, code_point])
    return [f"\\x{{{a:x}}}" + (f"-\\x{{{b:x}}}" if b > a else "") for a, b in runs]


def main():
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"wanted unicodedata 14.0.0, found {unicodedata.unidata_version}")
    for category in CATEGORIES:
        added = [c for c in members(rf"\p{{{category}}}") if unicodedata.category(chr(c)) != category]
        if not added:
            continue
        line = ""
        lines = []
        for item in ranges(added):
            escaped = item.replace("\\", "\\\\")
            if len(line) + len(escaped) > 80:
                lines.append(line)
                line = ""
            line += escaped
        lines.append(line)
        print(f'    {{"{category}",')
        print("\n".join(f'     "{text}"' for text in lines) + "},")


if __name__ == "__main__":
    main()

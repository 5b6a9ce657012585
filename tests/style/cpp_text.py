"""Just enough reading of C++ for the style rules: text without comments and strings, and the functions in it."""

import bisect
import dataclasses
import re

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def without_comments_and_strings(text):
    """The same text, with comments and literals turned into spaces, so that offsets and lines stay."""
    return _TOKEN.sub(_blank, text)


@dataclasses.dataclass(frozen=True)
class Function:
    header: str  # From the end of the previous statement to the opening brace.
    first_line: int  # Line of the opening brace, from 1.
    last_line: int  # Line of the closing brace.

    @property
    def line_count(self):
        return self.last_line - self.first_line + 1


_TYPE_HEADER = re.compile(r"\b(class|struct|union|enum|namespace|extern)\b")


def _opens_function(header):
    if "(" not in header or re.search(r"=\s*$", header):
        return False
    before_parameters = header.split("(", 1)[0]
    if re.search(r"\b(class|struct|union|enum|namespace)\s+[\w:]*\s*(final\s*)?(:|$)", before_parameters):
        return False
    return "=" not in before_parameters or "operator" in before_parameters


def functions(text):
    """Functions with a body that stand at namespace or class level; lambdas belong to the function around them."""
    code = _DIRECTIVE.sub(_blank, without_comments_and_strings(text))
    line_starts = [0] + [match.end() for match in re.finditer("\n", code)]
    stack, found, statement_begin = [], [], 0
    for match in re.finditer(r"[{};]", code):
        position, symbol = match.start(), match.group(0)
        in_function = any(kind == "function" for kind, *_ in stack)
        if symbol == "{":
            header = code[statement_begin:position]
            kind = "block" if in_function or not _opens_function(header) else "function"
            if kind == "function" and _is_member_initializer(header):
                kind = "block"
                stack.append((kind, header, position, statement_begin))
                continue
            stack.append((kind, header, position, statement_begin))
        elif symbol == "}" and stack:
            kind, header, opened, began = stack.pop()
            if kind == "function":
                found.append(Function(header.strip(), bisect.bisect_right(line_starts, opened),
                                      bisect.bisect_right(line_starts, position)))
            elif _is_member_initializer(header) and not in_function:
                statement_begin = began  # The braces of `: member_{value}`: the header goes on.
                continue
        statement_begin = match.end()
    return found


def _is_member_initializer(header):
    """True before the brace of `: member_{` in a constructor, whose body comes later."""
    after = header.rsplit(")", 1)[-1]
    return bool(re.search(r"[:,]\s*[\w:<>]+\s*$", after)) and "->" not in after or bool(
        re.search(r"\}\s*,\s*\w+\s*$", header))


def parameter_count(header):
    """Parameters of the function whose header this is."""
    begin = header.find("operator()(")
    begin = begin + len("operator()") if begin >= 0 else header.find("(")
    depth, commas, any_text = 0, 0, False
    for symbol in header[begin:]:
        if symbol in "([{<":
            depth += 1
        elif symbol in ")]}>":
            depth -= 1
            if depth == 0:
                break
        elif symbol == "," and depth == 1:
            commas += 1
        elif not symbol.isspace():
            any_text = True
    return commas + 1 if any_text else 0

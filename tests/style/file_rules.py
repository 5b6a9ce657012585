"""Style rules that look at one file. Each takes (path, text) and yields (line, message)."""

import ast
import re

import cpp_text

CPP = (".h", ".cc", ".cu", ".cuh")
# Device code: what shares registers and shared memory stays together, so functions and files may be longer.
DEVICE = (".cu", ".cuh")
TEXT = CPP + (".py", ".sh", ".proto", ".txt", ".md", ".yaml", ".json", "")
BANNED_WORDS = ("util", "utils", "helper", "helpers", "misc", "manager", "impl")


def is_cpp(path):
    return path.endswith(CPP)


def is_test(path):
    return path.startswith("tests/")


def lines_match(pattern, text, message):
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(pattern, line):
            yield number, message


def line_length(path, text):
    if is_cpp(path):
        limit = 100
    elif path.endswith((".py", ".sh", ".proto", "CMakeLists.txt")) or path in ("run-tests", "quickstart"):
        limit = 120
    else:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > limit:
            yield number, f"line of {len(line)} columns; the limit is {limit}"


def file_length(path, text):
    if not (is_cpp(path) or path.endswith((".py", ".sh")) or path in ("run-tests", "quickstart")):
        return
    limit = 600 if is_test(path) or path.endswith(DEVICE) else 400
    count = len(text.splitlines())
    if count > limit:
        yield limit + 1, f"file of {count} lines; the limit is {limit}"


def function_length(path, text):
    limit = 100 if path.endswith(DEVICE) else 60
    if is_cpp(path):
        for function in cpp_text.functions(text):
            if function.line_count > limit:
                yield function.first_line, f"function of {function.line_count} lines; the limit is {limit}"
    elif path.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                count = node.end_lineno - node.lineno + 1
                if count > limit:
                    yield node.lineno, f"function of {count} lines; the limit is {limit}"


def parameter_count(path, text):
    limit = 5
    if not is_cpp(path) or path.endswith((".cu", ".cuh")):  # A kernel's parameters are its launch interface.
        return
    for function in cpp_text.functions(text):
        count = cpp_text.parameter_count(function.header)
        if count > limit:
            yield function.first_line, f"function of {count} parameters; the limit is {limit}, then use a struct"


def pragma_once(path, text):
    if path.endswith((".h", ".cuh")) and not re.search(r"^#pragma once$", text, re.MULTILINE):
        yield 1, "header without #pragma once"


def banned_names(path, text):
    stem_words = re.split(r"[_.\-/]", path)
    for word in BANNED_WORDS:
        if word in stem_words:
            yield 1, f"'{word}' in a file name says nothing; name what it does"
    if not is_cpp(path):
        return
    code = cpp_text.without_comments_and_strings(text)
    for number, line in enumerate(code.splitlines(), 1):
        match = re.search(r"\b(?:class|struct)\s+(\w+)", line)
        words = re.findall(r"[A-Z][a-z0-9]*", match.group(1)) if match else []
        for word in words:
            if word.lower() in BANNED_WORDS:
                yield number, f"'{word}' in the type name {match.group(1)} says nothing; name what it does"


def cuda_ifdef(path, text):
    if is_cpp(path) and not path.endswith("_factory.cc"):
        yield from lines_match(r"^\s*#\s*(if|ifdef|ifndef|elif)\b.*BATON_WITH_CUDA", text,
                               "BATON_WITH_CUDA belongs into *_factory.cc files only")


def no_throw(path, text):
    if is_cpp(path) and not is_test(path):
        yield from lines_match(r"\bthrow\b", cpp_text.without_comments_and_strings(text),
                               "errors are absl::Status; nothing of ours throws")


def using_namespace(path, text):
    if is_cpp(path):
        yield from lines_match(r"\busing\s+namespace\b", cpp_text.without_comments_and_strings(text),
                               "name what you use instead of `using namespace`")


def todo_with_issue(path, text):
    if is_cpp(path) or path.endswith(".py"):
        yield from lines_match(r"\bTO" + r"DO\b(?!\(#\d+\):)|\bFIX" + "ME\\b|\\bX" + r"XX\b", text,
                               "an open end needs its issue: TO" + "DO(#123): ...")


def test_names(path, text):
    if is_cpp(path) and is_test(path):
        yield from lines_match(r"^TEST(_F|_P)?\((?![A-Z][A-Za-z0-9]*, [A-Z][A-Za-z0-9]*\))", text.replace(",\n", ", "),
                               "a test is TEST(Thing, SaysTheBehaviour), without underscores")


def no_glob(path, text):
    if path.endswith(("CMakeLists.txt", ".cmake")):
        yield from lines_match(r"\bGLOB(_RECURSE)?\b", text, "sources are listed one by one, not globbed")


def no_workplace(path, text):
    del path
    yield from lines_match(r"\.\./sha" + r"red\b|(^|[\s\"'(=:])/wo" + "rk/", text,
                           "names a place outside the repository")


def white_space(path, text):
    if path.endswith(TEXT) and text:
        yield from lines_match(r"[ \t]+$", text if not path.endswith(".md") else "", "blanks at the end of a line")
        if not is_cpp(path) and not path.endswith((".json", ".txt")) and not text.endswith("\n"):
            yield len(text.splitlines()), "no newline at the end of the file"
        if is_cpp(path):
            yield from lines_match(r"\t", text, "a tab; indentation is 2 spaces")


def proto_fields(path, text):
    """Each field of a message has a comment of its own: unit, range, default."""
    lines = text.splitlines() if path.endswith(".proto") else []
    for number, line in enumerate(lines, 1):
        field = re.search(r"[\w.>] ([a-z]\w*) = \d+[^;]*;", line)
        if field and "//" not in line and not lines[number - 2].strip().startswith("//"):
            yield number, f"field {field[1]} without a comment that says its unit, range and default"


ALL = (line_length, file_length, function_length, parameter_count, pragma_once, banned_names, cuda_ifdef, no_throw,
       using_namespace, todo_with_issue, test_names, no_glob, no_workplace, white_space, proto_fields)

#!/usr/bin/env python3
"""Checks that every flag of our programs that a script, manifest or page names is one that the program knows."""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy_test  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
PROGRAMS = ("baton-router", "baton-prefill", "baton-decode", "baton")
SKIPPED = 77
_CALL = re.compile(r"(?<![\w-])(?:[\w./$\"{}]*/)?(baton-router|baton-prefill|baton-decode|baton)\"?"
                   r"(?=[\s,\"'\]])([^|;&#`]*)")


def known_flags(program):
    """Names of the flags in --helpfull, dashes as underscores."""
    path = os.path.join(os.environ["BATON_BINARY_DIR"], "bin", program)
    text = subprocess.run([path, "--helpfull"], capture_output=True, text=True, check=False, timeout=60).stdout
    return {name.replace("-", "_") for name in re.findall(r"--([a-z][\w-]*)", text)} | {"help", "helpfull", "flagfile"}


def used_flags(name, text):
    """(line, program, flag) of each use in a file."""
    if name.endswith(".flags"):
        program = "baton-" + os.path.basename(name).split(".")[0]
        for number, line in enumerate(text.splitlines(), 1):
            for flag in re.findall(r"^--([a-z][\w-]*)", line):
                yield number, program, flag.replace("-", "_")
        return
    joined = re.sub(r"\\\n", lambda _: "  ", text)
    for number, line in enumerate(joined.splitlines(), 1):
        for match in _CALL.finditer(line):
            for flag in re.findall(r"(?<![\w-])--([a-z][\w-]*)", match.group(2)):
                yield number, match.group(1), flag.replace("-", "_")


def is_checked(name):
    return name == "quickstart" or name.endswith(".md") or (name.startswith("deploy/") and
                                                             not name.startswith("deploy/models/"))


def check_the_reader():
    sample = 'x\nstart a build/bin/baton-router --listen="$(f 1)" \\\n  --model_x=y && z --no\n'
    assert list(used_flags("a.sh", sample)) == [(2, "baton-router", "listen"), (2, "baton-router", "model_x")]
    assert list(used_flags("router.flags", "--a=b\n")) == [(1, "baton-router", "a")]
    assert list(used_flags("a.md", "`baton chat --json`")) == [(1, "baton", "json")]


def main():
    check_the_reader()
    absent = [name for name in PROGRAMS
              if not os.path.exists(os.path.join(os.environ.get("BATON_BINARY_DIR", ""), "bin", name))]
    if absent:
        print(f"skipped: not built: {', '.join(absent)}")
        return SKIPPED
    known = {program: known_flags(program) for program in PROGRAMS}
    files = tidy_test.read_tree(ROOT)
    uses = [(name, *use) for name, text in files.items() if is_checked(name) for use in used_flags(name, text)]
    wrong = [f"{name}:{line}: {program} has no flag --{flag}" for name, line, program, flag in uses
             if flag not in known[program]]
    print("\n".join(wrong))
    print(f"{len(uses)} uses of flags, {len(wrong)} unknown")
    return 1 if wrong or not uses else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks the style rules on every file of the repository and prints each violation as path:line: rule: message.

Usage: tidy_test.py [ROOT]. Exit status 1 if there is any. The rules are in file_rules, arrow_rules and tree_rules.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arrow_rules  # noqa: E402
import file_rules  # noqa: E402
import tree_rules  # noqa: E402

# Data, and the record of how it was made; only the rule about places applies.
DATA = ("tests/fixtures/", "deploy/models/")


def file_names(root):
    names = []
    if shutil.which("git"):
        listing = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
                                 capture_output=True, check=False)
        names = listing.stdout.decode().split("\0")
    if not any(names):  # A source archive, or no git here: everything but build trees.
        for folder, folders, here in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith(("build", ".git", "__pycache__"))]
            names += [os.path.relpath(os.path.join(folder, name), root) for name in here]
    return sorted(name for name in names if name and os.path.isfile(os.path.join(root, name)))


def read_tree(root):
    """{path: text} of all text files; a binary file has the text ''."""
    files = {}
    for name in file_names(root):
        try:
            with open(os.path.join(root, name), encoding="utf-8") as stream:
                files[name] = stream.read()
        except UnicodeDecodeError:
            files[name] = ""
    return files


def violations(files):
    for path, text in files.items():
        rules = (file_rules.no_workplace,) if path.startswith(DATA) else file_rules.ALL
        for rule in rules:
            for line, message in rule(path, text):
                yield path, line, rule.__name__, message
    for rule in arrow_rules.ALL + tree_rules.ALL:
        for path, line, message in rule(files):
            yield path, line, rule.__name__, message


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    files = read_tree(root)
    found = sorted(set(violations(files)))
    for path, line, rule, message in found:
        print(f"{path}:{line}: {rule}: {message}")
    print(f"{len(files)} files, {len(found)} violations")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())

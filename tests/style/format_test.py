#!/usr/bin/env python3
"""Checks that every C++ file is as clang-format 14 writes it; other versions write some things differently."""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import file_rules  # noqa: E402
import tidy_test  # noqa: E402

SKIPPED = 77


def clang_format():
    for name in ("clang-format-14", "clang-format"):
        path = shutil.which(name)
        if path and " version 14." in subprocess.run([path, "--version"], capture_output=True, text=True,
                                                     check=True).stdout:
            return path
    return None


def main():
    program = clang_format()
    if program is None:
        print("skipped: clang-format 14 is not installed (apt-get install clang-format-14)")
        return SKIPPED
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    files = [name for name in tidy_test.file_names(root) if file_rules.is_cpp(name)]
    assert files, "no C++ file found"
    result = subprocess.run([program, "--dry-run", "--Werror", "--ferror-limit=1", *files], cwd=root, check=False)
    print(f"{len(files)} files checked; to mend: {os.path.basename(program)} -i FILE")
    return 1 if result.returncode else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Lints the shell scripts (bash -n, shellcheck) and the Dockerfiles (hadolint)."""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy_test  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
SKIPPED = 77


def is_script(name):
    if name.endswith(".sh"):
        return True
    with open(os.path.join(ROOT, name), "rb") as stream:
        first = stream.readline()
    return first.startswith(b"#!") and b"bash" in first


def tool(name):
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.path.exists(beside) else shutil.which(name)


def main():
    names = tidy_test.file_names(ROOT)
    scripts = [name for name in names if is_script(name)]
    images = [name for name in names if os.path.basename(name).startswith("Dockerfile")]
    assert scripts and images, "no script or no Dockerfile found"
    failed = any([subprocess.run(["bash", "-n", name], cwd=ROOT, check=False).returncode for name in scripts])
    missing = [name for name in ("shellcheck", "hadolint") if tool(name) is None]
    if not missing:
        # -x -a: what a script sources is checked in the script's context.
        programs = [name for name in scripts if not name.endswith(".sh")]
        failed |= subprocess.run([tool("shellcheck"), "-x", "-a", *programs], cwd=ROOT, check=False).returncode != 0
        failed |= subprocess.run([tool("hadolint"), *images], cwd=ROOT, check=False).returncode != 0
    print(f"{len(scripts)} scripts, {len(images)} Dockerfiles")
    if failed:
        return 1
    if missing:
        print(f"skipped in part: {' and '.join(missing)} not installed; ./run-tests installs them from PyPI")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Rules about which files exist and who lists them. Each takes {path: text} and yields (path, line, message)."""

import os
import re

SOURCE_FOLDERS = ("common/", "kernels/", "services/")
TOP_FOLDERS = ("proto", "common", "kernels", "services", "deploy", "tests")

# Sources without a unit test of their own, and what tests them instead. Keep it short.
TESTED_ELSEWHERE = {
    "services/router/main.cc": "tests/system starts it",
    "services/prefill/main.cc": "tests/system starts it",
    "services/decode/main.cc": "tests/system starts it",
    "services/client/main.cc": "tests/system starts it",
    "kernels/cuda/bench/cuda_decode_benchmark.cc": "tests/gpu/run-all.sh runs `baton bench decode`",
    "kernels/cuda/bench/cuda_prefill_benchmark.cc": "tests/gpu/run-all.sh runs `baton bench prefill`",
    "kernels/cuda/bench/decode_bench.cu": "tests/gpu/run-all.sh runs `baton bench decode`",
    "kernels/cuda/bench/stream_bench.cu": "tests/gpu/run-all.sh runs `baton bench decode`",
}


def _is_source(path):
    return path.startswith(SOURCE_FOLDERS) and path.endswith((".cc", ".cu"))


_ALSO = re.compile(r"^// Also tests: (.+)$", re.MULTILINE)


def _named_by_tests(files):
    """{source: test} from lines `// Also tests: kernels/a.cc, kernels/b.cc` of the tests."""
    return {source.strip(): path for path, text in files.items() if path.startswith("tests/")
            for line in _ALSO.findall(text) for source in line.split(",")}


def every_source_has_its_test(files):
    named = _named_by_tests(files)
    for path in files:
        if not _is_source(path) or path in TESTED_ELSEWHERE or path in named:
            continue
        stem = os.path.splitext(path)[0]
        wanted = f"tests/unit/{stem}_test.cc"
        if wanted not in files and f"tests/unit/{stem}_test.cu" not in files:
            yield path, 1, f"has no test; wanted {wanted}, or a test that says `// Also tests: {path}`"


def named_sources_exist(files):
    for source, path in _named_by_tests(files).items():
        if source not in files:
            yield path, 1, f"says that it also tests {source}, which does not exist"


def exceptions_are_needed(files):
    for path in TESTED_ELSEWHERE:
        if path not in files and any(name.startswith(os.path.dirname(path) + "/") and name.endswith(".cc")
                                     for name in files):
            yield path, 1, "stands in TESTED_ELSEWHERE but does not exist"


def every_unit_test_has_its_source(files):
    for path in files:
        match = re.match(r"tests/unit/(.*)_test\.(cc|cu)$", path)
        if not match:
            continue
        stem = match.group(1)
        if not any(stem + ending in files for ending in (".cc", ".cu", ".h", ".cuh")):
            yield path, 1, f"tests {stem}, which does not exist"


def every_source_is_built(files):
    for path in files:
        if not path.endswith((".cc", ".cu")) or not path.startswith(SOURCE_FOLDERS + ("tests/",)):
            continue
        if not _named_in_cmake(path, files):
            yield path, 1, "is in no CMakeLists.txt of its folder or above"


def _named_in_cmake(path, files):
    folder = os.path.dirname(path)
    while folder:
        listing = files.get(folder + "/CMakeLists.txt", "")
        name = re.escape(os.path.relpath(path, folder))
        stem = re.escape(os.path.splitext(os.path.relpath(path, folder))[0])
        if re.search(rf"(?<![\w/.]){name}(?![\w.])", listing) or re.search(rf"(?<![\w/.]){stem}(?![\w.])", listing):
            return True
        folder = os.path.dirname(folder)
    return False


def readme_in_each_top_folder(files):
    for name in ("README.md", "ARCHITECTURE.md", "LICENSE", ".ci/run", "run-tests", "quickstart"):
        if name not in files:
            yield name, 1, "is missing"
    for folder in TOP_FOLDERS:
        if f"{folder}/README.md" not in files:
            yield f"{folder}/README.md", 1, f"is missing: say on one page what {folder}/ holds and where to add what"


def readme_links_exist(files):
    for path, text in files.items():
        if not path.endswith(".md"):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", line):
                wanted = os.path.normpath(os.path.join(os.path.dirname(path), target))
                if wanted not in files and not any(name.startswith(wanted + "/") for name in files):
                    yield path, number, f"links to {target}, which does not exist"


ALL = (every_source_has_its_test, named_sources_exist, exceptions_are_needed, every_unit_test_has_its_source,
       every_source_is_built, readme_in_each_top_folder, readme_links_exist)

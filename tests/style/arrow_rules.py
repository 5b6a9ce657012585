"""Which folder may use which: by includes and, once more, by CMake links. Rules take {path: text} of the whole tree."""

import os
import re

from file_rules import is_cpp

# Folder -> what it may include, itself aside. The longest prefix of a path decides.
ARROWS = {
    "common": (),
    "kernels": ("kernels", "common"),
    "kernels/models": ("kernels", "common"),
    "kernels/task_graph": ("kernels", "common"),
    "kernels/kv": ("kernels", "common"),
    "kernels/cpu": ("kernels", "common"),
    "kernels/cuda": ("kernels", "common"),
    "proto": (),
    "services/base": ("proto", "common"),
    "services/router": ("services/base", "proto", "common"),
    "services/prefill": ("services/base", "kernels", "proto", "common"),
    "services/decode": ("services/base", "kernels", "proto", "common"),
    "services/client": ("services/base", "kernels", "proto", "common"),
}
# Devices are reached through kernels/backend.h and its factory alone.
DEVICES = ("kernels/cpu", "kernels/cuda")
DEVICE_USERS = {"kernels"}  # kernels/backend_factory.cc and the like, in the folder itself.

GRPC = re.compile(r"^(grpcpp|grpc)/|\.pb\.h$")
CUDA = re.compile(r"^(cuda|cuda_runtime|cuda_runtime_api|cuda_bf16|cublas\w*|cooperative_groups)\.h$")


def folder_of(path):
    """The folder of ARROWS that `path` lies in, or None."""
    while path:
        path = os.path.dirname(path)
        if path in ARROWS:
            return path
    return None


def may_use(user, used):
    if used == user:
        return True
    if used in DEVICES:
        return user in DEVICE_USERS
    return any(used == allowed or used.startswith(allowed + "/") for allowed in ARROWS[user])


def includes(text):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match.group(1), match.group(2)


def include_arrows(files):
    for path, text in files.items():
        user = folder_of(path)
        if not is_cpp(path) or user is None:
            continue
        for number, _, included in includes(text):
            used = "proto" if included.startswith("baton/v1/") else folder_of(included)
            if used is not None and not may_use(user, used):
                yield path, number, f"{user} must not include {included}: no arrow from {user} to {used}"


def quoted_from_root(files):
    for path, text in files.items():
        if not is_cpp(path):
            continue
        for number, quote, included in includes(text):
            if quote == '"' and "/" not in included:
                yield path, number, f'"{included}": includes are written from the repository root'
            if quote == '"' and included.split("/")[0] in ("common", "kernels", "services") and included not in files:
                yield path, number, f'"{included}" does not exist'


def own_header_first(files):
    for path, text in files.items():
        if not path.endswith((".cc", ".cu")):
            continue
        stem = re.sub(r"\.(cc|cu)$", "", path)
        if stem.startswith("tests/unit/"):
            stem = re.sub(r"_test$", "", stem[len("tests/unit/"):])
        own = next((stem + ending for ending in (".h", ".cuh") if stem + ending in files), None)
        first = next((included for _, _, included in includes(text)), None)
        if own and first != own:
            yield path, 1, f"the first include must be its own header {own}, found {first}"


def network_and_device_headers(files):
    for path, text in files.items():
        if not is_cpp(path):
            continue
        for number, _, included in includes(text):
            if GRPC.search(included) and not path.startswith(("services/", "tests/")):
                yield path, number, f"{included}: gRPC belongs into services/"
            if CUDA.search(included) and not _may_use_cuda(path):
                yield path, number, f"{included}: CUDA belongs into kernels/cuda/ or kernels/kv/*_cuda_*.cu"


def _may_use_cuda(path):
    return (path.startswith(("kernels/cuda/", "tests/unit/kernels/cuda/", "tests/gpu/", "tests/bench/"))
            or re.match(r"(tests/unit/)?kernels/kv/\w*_cuda_\w*\.cu$", path) is not None)


_CALL = re.compile(r"\b(baton_\w*library|baton_binary|baton_test|add_library|target_link_libraries)\s*\(([^)]*)\)")


def _targets(files):
    """{target: folder} of all libraries and programs, and [(CMakeLists, line, target, dependencies)]."""
    owner, links = {"baton_proto": "proto"}, []
    for path, text in files.items():
        folder = os.path.dirname(path)
        if os.path.basename(path) != "CMakeLists.txt" or folder_of(path) is None:
            continue
        uncommented = re.sub(r"#[^\n]*", "", text)
        for match in _CALL.finditer(uncommented):
            words = match.group(2).split()
            if not words or words[0].startswith("$"):
                continue
            number = uncommented.count("\n", 0, match.start()) + 1
            if match.group(1) == "target_link_libraries":
                links.append((path, number, words[0], words[1:]))
            else:
                owner[words[0]] = folder
                tail = words[words.index("DEPS") + 1:] if "DEPS" in words else []
                links.append((path, number, words[0], tail))
    return owner, links


def link_arrows(files):
    owner, links = _targets(files)
    for path, number, target, dependencies in links:
        user = folder_of(path)
        for dependency in dependencies:
            used = owner.get(dependency)
            if used in ARROWS and not may_use(user, used):
                yield path, number, f"{target} must not link {dependency}: no arrow from {user} to {used}"
            if dependency.startswith("gRPC::") and not user.startswith(("services/", "proto")):
                yield path, number, f"{target} must not link {dependency}: gRPC belongs into services/"


ALL = (include_arrows, quoted_from_root, own_header_first, network_and_device_headers, link_arrows)

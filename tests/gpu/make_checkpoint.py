#!/usr/bin/env python3
"""Writes a synthetic checkpoint of North Mini Code's geometry: random bf16 weights in Hugging Face's sharded layout.

    tests/gpu/make_checkpoint.py /dev/shm/north                all 49 layers, 57 GiB
    tests/gpu/make_checkpoint.py /dev/shm/north4 --layers 4    the same widths, 4 layers, 4.7 GiB

Weights are made on a GPU through PyTorch where both are there, else with NumPy from a pool of noise that repeats. The
tokenizer is that of --tokenizer, filled up with made-up words to 262144 tokens. A memory file system that is too small
is made larger, if this user may. Names, shapes: Hugging Face transformers modeling_cohere2_moe, the model's index.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 2048, 32, 4, 128, 262144
EXPERTS, TOP_K, EXPERT_WIDTH, DENSE_WIDTH = 128, 8, 768, 3072
WEIGHT_DEVIATION, NORM_DEVIATION = 0.02, 0.1
PIECE = 32 << 20  # Values a write; 64 MiB.
WRITERS = 12


def config(layers):
    kinds = ["full_attention" if i % 4 == 0 else "sliding_attention" for i in range(layers)]
    return {
        "architectures": ["Cohere2MoeForCausalLM"], "model_type": "cohere2_moe", "dtype": "bfloat16",
        "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": layers, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": EXPERT_WIDTH,
        "prefix_dense_intermediate_size": DENSE_WIDTH, "prefix_dense_sliding_window_pattern": 1, "layer_types": kinds,
        "mlp_layer_types": ["dense"] + ["sparse"] * (layers - 1), "sliding_window": 4096, "sliding_window_pattern": 4,
        "num_experts": EXPERTS, "num_experts_per_tok": TOP_K, "num_shared_experts": 0,
        "shared_expert_combination_strategy": "average", "expert_selection_fn": "sigmoid", "norm_topk_prob": False,
        "rms_norm_eps": 1e-06, "layer_norm_eps": 1e-05, "rope_theta": 50000.0,
        "rope_parameters": {"rope_theta": 50000.0, "rope_type": "default"}, "max_position_embeddings": 262144,
        "logit_scale": 1.0, "hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0,
        "initializer_range": WEIGHT_DEVIATION, "tie_word_embeddings": True, "use_cache": True, "bos_token_id": 2,
        "pad_token_id": 0, "eos_token_id": 5}


def shards(layers):
    """One list of (name, shape) a file: a layer each, the embedding with the first, the last norm with the last."""
    result = []
    for layer in range(layers):
        at = f"model.layers.{layer}."
        tensors = [(at + "input_layernorm.weight", (HIDDEN,))]
        for name, out in (("q", HEADS * HEAD_DIM), ("k", KV_HEADS * HEAD_DIM), ("v", KV_HEADS * HEAD_DIM)):
            tensors.append((f"{at}self_attn.{name}_proj.weight", (out, HIDDEN)))
        tensors.append((at + "self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD_DIM)))
        networks = [(at + "mlp.", DENSE_WIDTH)]
        if layer > 0:
            tensors.append((at + "mlp.gate.weight", (EXPERTS, HIDDEN)))
            networks = [(f"{at}mlp.experts.{expert}.", EXPERT_WIDTH) for expert in range(EXPERTS)]
        for prefix, width in networks:
            tensors += [(prefix + "gate_proj.weight", (width, HIDDEN)), (prefix + "up_proj.weight", (width, HIDDEN)),
                        (prefix + "down_proj.weight", (HIDDEN, width))]
        result.append(tensors)
    result[0].insert(0, ("model.embed_tokens.weight", (VOCAB, HIDDEN)))
    result[-1].append(("model.norm.weight", (HIDDEN,)))
    return result


class GpuNoise:
    """A shard's values on the GPU; each writer copies its pieces out through a pinned buffer of its own."""

    def __init__(self, torch, seed):
        self.torch = torch
        self.generator = torch.Generator("cuda").manual_seed(seed)
        self.values = None
        self.buffers = {}

    def make(self, count, norms):
        torch = self.torch
        self.values = torch.empty(count, dtype=torch.bfloat16, device="cuda")
        self.values.normal_(0.0, WEIGHT_DEVIATION, generator=self.generator)
        for begin, end in norms:
            self.values[begin:end] = 1 + self.values[begin:end] * (NORM_DEVIATION / WEIGHT_DEVIATION)
        torch.cuda.synchronize()

    def piece(self, begin, end, writer):
        torch = self.torch
        if writer not in self.buffers:
            self.buffers[writer] = torch.empty(PIECE, dtype=torch.bfloat16, pin_memory=True)
        buffer = self.buffers[writer][:end - begin]
        buffer.copy_(self.values[begin:end])
        return memoryview(buffer.view(torch.uint8).numpy())


class HostNoise:
    """A pool of noise, read from another place for every piece."""

    def __init__(self, numpy, seed):
        self.numpy = numpy
        self.random = numpy.random.default_rng(seed)
        self.pool = self.bf16(self.random.standard_normal(PIECE + (1 << 22), dtype=numpy.float32) * WEIGHT_DEVIATION)
        self.norms = []
        self.shift = 0

    def bf16(self, values):
        bits = values.astype(self.numpy.float32).view(self.numpy.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(self.numpy.uint16)

    def make(self, count, norms):
        del count
        self.norms = norms
        self.shift = int(self.random.integers(1 << 20)) | 1

    def piece(self, begin, end, writer):
        del writer
        at = (begin // PIECE * 7919 + self.shift) % (1 << 22)
        values = self.pool[at:at + end - begin]
        for first, last in self.norms:
            first, last = max(first, begin) - begin, min(last, end) - begin
            if first < last:
                values = values if values.flags.owndata else values.copy()
                noise = self.numpy.random.default_rng(self.shift + first).standard_normal(last - first)
                values[first:last] = self.bf16(1 + NORM_DEVIATION * noise)
        return memoryview(values.view(self.numpy.uint8))


def noise_source(seed):
    try:
        import torch
        if torch.cuda.is_available():
            return GpuNoise(torch, seed), torch.cuda.get_device_name()
    except ImportError:
        pass
    import numpy
    return HostNoise(numpy, seed), "NumPy, a pool that repeats"


def write_shard(path, tensors, noise, pool):
    """A safetensors file: length of the header, header, values. Returns the bytes of its values."""
    header, norms, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, shape in tensors:
        count = math.prod(shape)
        if len(shape) == 1:
            norms.append((at, at + count))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [2 * at, 2 * (at + count)]}
        at += count
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 64 + 56)  # Values begin at a multiple of 64.
    noise.make(at, norms)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.pwrite(descriptor, len(text).to_bytes(8, "little") + text, 0)

    def write(writer):
        for begin in range(writer * PIECE, at, WRITERS * PIECE):
            rest, offset = noise.piece(begin, min(begin + PIECE, at), writer), 8 + len(text) + 2 * begin
            while rest:
                count = os.pwrite(descriptor, rest, offset)
                rest, offset = rest[count:], offset + count

    list(pool.map(write, range(WRITERS)))
    os.close(descriptor)
    return 2 * at


def write_tokenizer(source, target):
    with open(os.path.join(source, "tokenizer.json"), encoding="utf-8") as stream:
        tokenizer = json.load(stream)
    vocabulary = tokenizer["model"]["vocab"]
    taken = set(vocabulary) | {token["content"] for token in tokenizer["added_tokens"]}
    letters = "etaoinshrdlu"
    number = 0
    while len(vocabulary) < VOCAB:
        word, rest = "", number
        while rest or len(word) < 3:
            word, rest = word + letters[rest % len(letters)], rest // len(letters)
        number += 1
        if "\u0120" + word not in taken:  # The byte-level alphabet's blank.
            vocabulary["\u0120" + word] = len(vocabulary)
    with open(os.path.join(target, "tokenizer.json"), "w", encoding="utf-8") as stream:
        json.dump(tokenizer, stream, ensure_ascii=False)
    for name in ("tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        shutil.copy(os.path.join(source, name), target)


def make_room(target, wanted):
    """Exits unless `wanted` bytes are free at `target`; a memory file system grows for it where that is allowed."""
    def free():
        status = os.statvfs(target)
        return status.f_bavail * status.f_frsize

    found = free()
    if found >= wanted:
        return
    mount = subprocess.run(["stat", "-f", "-c", "%T", target], capture_output=True, text=True, check=True).stdout
    if mount.strip() == "tmpfs":
        path = os.path.abspath(target)
        while not os.path.ismount(path):
            path = os.path.dirname(path)
        status = os.statvfs(path)
        size = status.f_blocks * status.f_frsize - found + wanted + (1 << 30)
        subprocess.run(["mount", "-o", f"remount,size={size}", path], check=False)
    if free() < wanted:
        sys.exit(f"{target}: wanted {wanted >> 20} MiB free, found {free() >> 20} MiB")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="folder to write; files of the same names are replaced")
    parser.add_argument("--layers", type=int, default=49, help="how many layers; default 49")
    parser.add_argument("--seed", type=int, default=1, help="of the random weights; default 1")
    parser.add_argument("--tokenizer", default=os.path.join(ROOT, "deploy/models/north-nano"),
                        help="model folder whose tokenizer to take; default North Nano")
    options = parser.parse_args()
    if not 2 <= options.layers <= 1024:
        parser.error(f"--layers: wanted 2 to 1024, found {options.layers}")
    return options


def main():
    options = arguments()
    target, begin = options.target, time.monotonic()
    os.makedirs(target, exist_ok=True)
    files = shards(options.layers)
    total = sum(2 * math.prod(shape) for tensors in files for _, shape in tensors)
    make_room(target, total + (64 << 20))
    noise, where = noise_source(options.seed)
    names, written = {}, 0
    with ThreadPoolExecutor(WRITERS) as pool:
        for index, tensors in enumerate(files, 1):
            name = f"model-{index:05d}-of-{len(files):05d}.safetensors"
            written += write_shard(os.path.join(target, name), tensors, noise, pool)
            names.update({tensor: name for tensor, _ in tensors})
            if index % 8 == 0:
                print(f"{index} of {len(files)} files, {written / 2**30:.1f} of {total / 2**30:.1f} GiB, "
                      f"{time.monotonic() - begin:.1f} s", flush=True)
    write_tokenizer(options.tokenizer, target)
    documents = {"config.json": config(options.layers),
                 "model.safetensors.index.json": {"metadata": {"total_size": total}, "weight_map": names}}
    for name, document in documents.items():
        with open(os.path.join(target, name), "w", encoding="utf-8") as stream:
            json.dump(document, stream, indent=1)
    seconds = time.monotonic() - begin
    print(f"{target}: {options.layers} layers, {len(names)} tensors in {len(files)} files, {total / 2**30:.2f} GiB "
          f"from {where} in {seconds:.1f} s ({total / seconds / 1e9:.2f} GB/s)")


if __name__ == "__main__":
    main()

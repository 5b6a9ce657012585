#!/usr/bin/env python3
"""Writes what Hugging Face transformers computes for a checkpoint, as `baton check --oracle` reads it:

    tests/gpu/write_oracle.py MODEL_DIR PREFIX

PREFIX.json and PREFIX.safetensors hold, for random prompts, the last position's logits in float32 and in bfloat16 and
greedy tokens with the gap between the two best logits (tests/fixtures/oracle/README.md). Needs PyTorch and transformers
5.17; runs on a GPU where there is one. Keep the model small: float32 takes twice the checkpoint's size.
"""

import argparse
import json
import os
import time

import torch
import transformers
from safetensors.torch import save_file


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("prefix")
    parser.add_argument("--lengths", default="7,23,64,100,129,300,500,700,1000,2000,5000",
                        help="prompt lengths in tokens")
    parser.add_argument("--tokens", type=int, default=1,
                        help="greedy tokens a prompt; of random weights, whose best tokens are near ties, one")
    parser.add_argument("--seed", type=int, default=11, help="of the prompts")
    return parser.parse_args()


def run(model, prompt, count):
    """Last logits, arg max at every position, greedy tokens and gaps."""
    device = next(model.parameters()).device
    ids = torch.tensor([prompt], device=device)
    with torch.no_grad():
        out = model(ids, use_cache=True, logits_to_keep=1)
        logits = out.logits[0, -1].float()
        greedy, gaps = [], []
        first = logits
        for step in range(count):
            best = torch.topk(logits, 2).values
            greedy.append(int(logits.argmax()))
            gaps.append(float(best[0] - best[1]))
            if step + 1 < count:
                out = model(torch.tensor([[greedy[-1]]], device=device), past_key_values=out.past_key_values,
                            use_cache=True)
                logits = out.logits[0, -1].float()
    return first.cpu(), greedy, gaps


def main():
    options = arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    generator = torch.Generator().manual_seed(options.seed)
    lengths = [int(length) for length in options.lengths.split(",")]
    with open(os.path.join(options.model, "config.json"), encoding="utf-8") as stream:
        vocabulary = json.load(stream)["vocab_size"]
    prompts = [torch.randint(20, vocabulary, (length,), generator=generator).tolist() for length in lengths]
    runs, tensors = {}, {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        begin = time.monotonic()
        model = transformers.AutoModelForCausalLM.from_pretrained(
            options.model, dtype=dtype, attn_implementation="eager", device_map=device)
        model.eval()
        runs[name] = []
        for index, prompt in enumerate(prompts):
            logits, greedy, gaps = run(model, prompt, options.tokens)
            runs[name].append({"greedy": greedy, "top1_top2_gap": gaps})
            tensors[f"{name}.{index}.prompt_last_logits"] = logits.contiguous()
        print(f"{name}: {len(prompts)} prompts in {time.monotonic() - begin:.1f} s, transformers "
              f"{transformers.__version__}, torch {torch.__version__}", flush=True)
        del model
        if device == "cuda":
            torch.cuda.empty_cache()
    os.makedirs(os.path.dirname(os.path.abspath(options.prefix)), exist_ok=True)
    with open(options.prefix + ".json", "w", encoding="utf-8") as stream:
        json.dump({"prompts": prompts, "runs": runs}, stream)
    save_file(tensors, options.prefix + ".safetensors")


if __name__ == "__main__":
    main()

"""Decode speed of Baton's CPU backend beside Hugging Face transformers, same model, machine, batch and threads:

    pip install torch transformers   # Not among the tests' packages: they take a gigabyte.
    python3 tests/bench/compare_transformers.py --bench build/bin/decode_step_bench

Prints one line of JSON per batch and dtype; `ratio` is Baton's tokens per second divided by transformers'.
Both run alternately, --repeats times, and the best run of each counts.
"""

import argparse
import json
import subprocess
import time

import torch
import transformers


def measure_transformers(model, batch, context, steps):
    """Tokens per second of greedy decode with a KV cache of `context` tokens per row at the start."""
    torch.manual_seed(1)
    prompt = torch.randint(10, model.config.vocab_size, (batch, context))
    with torch.inference_mode():
        out = model(input_ids=prompt, use_cache=True)
        token = out.logits[:, -1:].argmax(-1)
        begin = time.perf_counter()
        for _ in range(steps):
            out = model(input_ids=token, past_key_values=out.past_key_values, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
        seconds = time.perf_counter() - begin
    return batch * steps / seconds


def measure_baton(options, batch, dtype):
    output = subprocess.run(
        [options.bench, f"--model={options.model}", f"--batch={batch}", f"--dtype={dtype}",
         f"--threads={options.threads}", f"--context={options.context}", f"--steps={options.steps}"],
        check=True, capture_output=True, text=True).stdout
    return json.loads(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default="build/bin/decode_step_bench")
    parser.add_argument("--model", default="deploy/models/north-nano")
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--dtypes", default="bfloat16,float32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for dtype in options.dtypes.split(","):
        model = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=getattr(torch, dtype)).eval()
        for batch in map(int, options.batch.split(",")):
            theirs, ours = 0.0, {"tokens_per_second": 0}
            for _ in range(options.repeats):
                theirs = max(theirs, measure_transformers(model, batch, options.context, options.steps))
                ours = max(ours, measure_baton(options, batch, dtype), key=lambda run: run["tokens_per_second"])
            print(json.dumps({
                "batch": batch, "dtype": dtype, "threads": options.threads,
                "baton_tokens_per_second": ours["tokens_per_second"],
                "baton_wait_share": ours["wait_share"],
                "transformers_tokens_per_second": round(theirs, 1),
                "ratio": round(ours["tokens_per_second"] / theirs, 2),
                "transformers": transformers.__version__, "torch": torch.__version__,
            }), flush=True)


if __name__ == "__main__":
    main()

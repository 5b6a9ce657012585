#!/usr/bin/env python3
"""Starts deploy/local/one-gpu or two-gpu, as a user would, and measures the service it brings up.

    tests/gpu/serve_local.py one-gpu BIN LOGS --model=DIR [--tokens=8192] [--seconds=5] [-- FLAGS OF THE SCRIPT]

BIN: a folder with the programs; the repository's build/bin must not exist or be that folder. Prints the time to the
first token of a prompt on the idle stack beside the prefill's own time, the time between tokens of eight streams alone
and while prompts keep arriving, what the K/V metrics say, and the device memory in use before and after."""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BIN = os.path.join(ROOT, "build/bin")
STREAMS = 8
START_LIMIT_S = 400


def device_mib():
    text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True).stdout
    return [int(line) for line in text.split()]


def start(script, flags, log):
    """The script's process, the router's address and the folder of the logs, once it serves."""
    process = subprocess.Popen([os.path.join(ROOT, "deploy/local", script), *flags], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, start_new_session=True)
    timer = threading.Timer(START_LIMIT_S, process.kill)
    timer.start()
    address = logs = None
    for line in process.stdout:
        log.write(line)
        print("   ", line, end="", flush=True)
        found = re.match(r"Serving .* on (\S+)\. In another", line)
        if found:
            address = found.group(1)
        found = re.match(r"Ctrl-C here .* Logs: (\S+)/", line)
        if found:
            logs = os.path.join(ROOT, found.group(1))
            break
    timer.cancel()
    if address is None or logs is None:
        sys.exit(f"{script} ended with {process.wait()} before it served; its words are above")
    threading.Thread(target=lambda: [log.write(line) for line in process.stdout], daemon=True).start()
    return process, address, logs


def ids(count, vocab, seed):
    source = random.Random(seed)
    return ",".join(str(source.randrange(20, vocab)) for _ in range(count))


def generate(address, token_ids, tokens):
    return [os.path.join(BIN, "baton"), "generate", f"--router={address}", "--json", "--ignore-eos", "--timeout=120",
            f"--token-ids={token_ids}", f"--max-tokens={tokens}"]


def ask(address, token_ids, tokens=1):
    text = subprocess.run(generate(address, token_ids, tokens), capture_output=True, text=True, check=False)
    end = json.loads(text.stdout.splitlines()[-1]) if text.stdout else {}
    if end.get("code") != "OK":
        sys.exit(f"a request failed: {end or text.stderr}")
    return end


def metrics(log_dir, role):
    with open(os.path.join(log_dir, f"{role}.out"), encoding="utf-8") as stream:
        port = re.search(r"metrics_port=(\d+)", stream.read()).group(1)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    values = {}
    for name, value in re.findall(r"^(\w+)\{[^}]*\} (\S+)$", text, re.MULTILINE):
        values[name] = values.get(name, 0) + float(value)
    return text, values


class Stream:
    """Long answers, one after the other until it is stopped; remembers when each message came."""

    def __init__(self, command):
        self.command = command
        self.answers = []  # Of each, the times of its messages.
        self.lock = threading.Lock()
        self.process = None
        self.stopped = False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while True:
            with self.lock:
                if self.stopped:
                    return
                self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            times = []
            self.answers.append(times)
            for _ in self.process.stdout:
                times.append(time.monotonic())
            if self.process.wait() != 0:
                return

    def gaps_ms(self, begin, end):
        inside = [[t for t in times if begin <= t <= end] for times in self.answers]
        return [1e3 * (b - a) for times in inside for a, b in zip(times, times[1:])]

    def stop(self):
        """False: an answer had failed."""
        with self.lock:
            self.stopped = True
            alive = self.thread.is_alive()
            self.process.kill()
        self.thread.join()
        return alive


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def between_tokens(address, vocab, seconds, prompt_tokens, context):
    """Gaps of eight streams alone, then while prompts of prompt_tokens arrive one after the other."""
    # Made before: the threads that read the streams must not wait for this one.
    prompts = [ids(prompt_tokens, vocab, 1000 + i) for i in range(int(20 * seconds))]
    streams = [Stream(generate(address, ids(256, vocab, 100 + i), context - 400)) for i in range(STREAMS)]
    deadline = time.monotonic() + 60
    while any(not stream.gaps_ms(0, deadline) for stream in streams) and time.monotonic() < deadline:
        if not all(stream.thread.is_alive() for stream in streams):
            sys.exit("a stream's answer failed")
        time.sleep(0.02)
    begin = time.monotonic()
    time.sleep(seconds)
    middle, count, first_ms = time.monotonic(), 0, []
    while time.monotonic() < middle + seconds and count < len(prompts):
        first_ms.append(ask(address, prompts[count])["first_token_ms"])
        count += 1
    end = time.monotonic()
    for name, span in (("alone", (begin, middle)), (f"beside {count} prompts of {prompt_tokens}", (middle, end))):
        of_each = [stream.gaps_ms(*span) for stream in streams]
        if not all(of_each):
            sys.exit(f"between tokens, {name}: a stream had no two tokens in {span[1] - span[0]:.1f} s")
        gaps = sum(of_each, [])
        print(f"between tokens of {STREAMS} streams, {name}: {len(gaps)} gaps, median {percentile(gaps, 0.5):.2f} ms, "
              f"p99 {percentile(gaps, 0.99):.2f} ms, longest {max(gaps):.2f} ms", flush=True)
    print(f"first token of those prompts: median {percentile(first_ms, 0.5):.1f} ms", flush=True)
    if not all([stream.stop() for stream in streams]):
        sys.exit("a stream's answer failed")


def first_tokens(options, address, vocab, log_dir):
    ask(address, ids(options.tokens, vocab, 1))
    _, before = metrics(log_dir, "prefill")
    first_ms = [ask(address, ids(options.tokens, vocab, 2 + i))["first_token_ms"] for i in range(options.repeats)]
    _, after = metrics(log_dir, "prefill")

    def grew(name):
        return after[f"baton_{name}"] - before[f"baton_{name}"]

    compute_ms = 1e3 * grew("request_prefill_seconds_sum") / options.repeats
    median = percentile(first_ms, 0.5)
    print(f"first token of {options.tokens} tokens on an idle stack: median {median:.1f} ms, prefill alone "
          f"{compute_ms:.1f} ms, {median / compute_ms:.3f} times")
    pushed, busy = grew("kv_pushed_bytes_total"), grew("kv_push_seconds_total")
    exposed_ms = 1e3 * grew("kv_push_exposed_seconds_sum") / options.repeats
    print(f"K/V bytes a prompt: {grew('kv_handover_bytes_total') / options.repeats:.0f} handed over, "
          f"{pushed / options.repeats:.0f} copied", end="")
    if pushed:
        print(f" at {pushed / busy / 1e9:.0f} GB/s; exposed {exposed_ms:.3f} ms, {100 * exposed_ms / compute_ms:.2f} % "
              "of prefill", end="")
    print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", choices=["one-gpu", "two-gpu"])
    parser.add_argument("bin")
    parser.add_argument("logs")
    parser.add_argument("--model", required=True)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5)
    words = sys.argv[1:]
    own = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:own])
    options.flags = words[own + 1:]
    os.makedirs(options.logs, exist_ok=True)
    os.makedirs(os.path.dirname(BIN), exist_ok=True)
    if not os.path.exists(BIN):
        os.symlink(os.path.abspath(options.bin), BIN)
    with open(os.path.join(options.model, "config.json"), encoding="utf-8") as stream:
        config = json.load(stream)
    idle = device_mib()
    begin = time.monotonic()
    with open(os.path.join(options.logs, f"{options.script}.log"), "w", encoding="utf-8") as log:
        process, address, log_dir = start(options.script, [f"--model={options.model}", *options.flags], log)
        print(f"served after {time.monotonic() - begin:.1f} s; device memory in use {device_mib()} MiB", flush=True)
        try:
            first_tokens(options, address, config["vocab_size"], log_dir)
            if options.seconds > 0:
                context = min(config["max_position_embeddings"], 16384)
                between_tokens(address, config["vocab_size"], options.seconds, options.tokens, context)
            for role in ("decode", "prefill"):
                text, _ = metrics(log_dir, role)
                with open(os.path.join(options.logs, f"{options.script}-{role}.prom"), "w", encoding="utf-8") as out:
                    out.write(text)
                print(f"/metrics of {role}: {len(text.splitlines())} lines")
        finally:
            os.killpg(process.pid, signal.SIGINT)
            status = process.wait(timeout=60)
    time.sleep(1)
    print(f"the script ended with {status}; device memory in use {idle} MiB before, {device_mib()} MiB after")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Puts the same loads on several stacks, one after the other, and prints what each gave and the last one's ratio to the
first:

    tests/bench/serve_compare.py --model=DIR [--bin=build/bin] [--backend=cpu|cuda] [--pair=processes|one-gpu|two-gpu]
                                 [--decode=FLAG=VALUE ...] [--prefill=FLAG=VALUE ...]
                                 [--stack="NAME [FLAG=VALUE ...]" ...] [--no-self] [--logs=DIR]
                                 [-- FLAGS OF baton bench serve [++ FLAGS ...]] ...

A stack is prefill and decode in processes of their own, started plainly or by deploy/local/one-gpu or two-gpu with the
flags of --stack (decode:, prefill: and, for a script, its own); without --stack there is one, called pair. The last is
self: the decode process computes prompts itself, between its steps (--prefill=self).
Each -- begins another load, each ++ one at the same time as the one before it. Without any there is one: 8 steady rows
beside prompts of 2K to 32K tokens, for a large model.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
UNAVAILABLE = 4  # Exit status of `baton`.
# The seed draws 2K six times, 8K and 32K three times each. With one token an answer the batch is the steady rows alone.
LOAD = ["--seed=3", "--requests=12", "--rate=1", "--prompt-tokens=2048*4+8192*2+32768", "--output-tokens=1",
        "--steady-rows=8", "--steady-alone-seconds=3"]
STOP_S = 40
ROWS = [("output tokens/s", ("output_throughput",)), ("goodput, requests/s", ("request_goodput",)),
        ("time to first token, mean ms", ("mean_ttft_ms",)),
        ("time to first token, p50 ms", ("median_ttft_ms",)), ("time to first token, p99 ms", ("p99_ttft_ms",)),
        ("inter-token, mean ms", ("mean_itl_ms",)), ("inter-token, p99 ms", ("p99_itl_ms",)),
        ("inter-token, max ms", ("max_itl_ms",)), ("steady alone, p50 ms", ("steady", "alone", "median_itl_ms")),
        ("steady alone, p99 ms", ("steady", "alone", "p99_itl_ms")),
        ("steady beside, mean ms", ("steady", "beside_load", "mean_itl_ms")),
        ("steady beside, p50 ms", ("steady", "beside_load", "median_itl_ms")),
        ("steady beside, p99 ms", ("steady", "beside_load", "p99_itl_ms")),
        ("steady beside, max ms", ("steady", "beside_load", "max_itl_ms")),
        ("steady p99, beside over alone", ("steady", "p99_ratio"))]


def split(words, mark):
    groups = [[]]
    for word in words:
        if word == mark:
            groups.append([])
        else:
            groups[-1].append(word)
    return groups


def arguments():
    """The options, and the loads one after the other, each a list of those that run at the same time."""
    own, *loads = split(sys.argv[1:], "--")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--pair", choices=("processes", "one-gpu", "two-gpu"), default="processes")
    parser.add_argument("--decode", action="append", default=[], metavar="FLAG=VALUE")
    parser.add_argument("--prefill", action="append", default=[], metavar="FLAG=VALUE")
    parser.add_argument("--stack", action="append", default=[], metavar="NAME FLAGS")
    parser.add_argument("--no-self", action="store_true")
    parser.add_argument("--logs", default=None)
    parser.add_argument("--start-seconds", type=int, default=300)
    return parser.parse_args(own), [split(load, "++") for load in loads] or [[LOAD]]


class Stack:
    """Processes that end together. Their logs lie in a folder."""

    def __init__(self, options, name, stack):
        self.options, self.stack = options, stack
        self.logs = os.path.join(options.logs, name)
        os.makedirs(self.logs, exist_ok=True)

    def start(self, name, command, ready):
        """Starts a process; the address that the first line matching `ready` names."""
        with open(os.path.join(self.logs, name + ".log"), "w", encoding="utf-8") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT)
        self.stack.callback(stop, process)
        for line in process.stdout:
            found = re.search(ready, line)
            if found:
                return found.group(1)
        raise SystemExit(f"{name} ended while it started: see {log.name}")

    def service(self, role, flags):
        return self.start(role, [os.path.join(self.options.bin, "baton-" + role), "--model=" + self.options.model,
                                 "--listen=127.0.0.1:0"] + flags, r"^listening address=(\S+)")

    def serve_pair(self, flags):
        """A pair; flags: as in --stack."""
        flags = flags + ["decode:" + flag for flag in self.options.decode]
        flags += ["prefill:" + flag for flag in self.options.prefill]
        if self.options.pair != "processes":
            link_programs(self.options.bin)
            script = [os.path.join(ROOT, "deploy/local", self.options.pair), "--model=" + self.options.model]
            return self.start(self.options.pair, script + ["--" + flag for flag in flags], r"^Serving .* on (\S+:\d+)")
        backend = ["--backend=" + self.options.backend]
        owner = self.service("decode", backend + flags_of("decode", flags))
        writer = self.service("prefill", backend + flags_of("prefill", flags))
        return self.service("router", [f"--decode-workers={owner}", f"--prefill-workers={writer}"])

    def serve_self(self):
        owner = self.service("decode", ["--backend=" + self.options.backend, "--prefill=self"] +
                             ["--" + flag for flag in self.options.decode])
        return self.service("router", [f"--decode-workers={owner}"])


def flags_of(role, flags):
    return ["--" + flag.removeprefix(role + ":") for flag in flags if flag.startswith(role + ":")]


def link_programs(programs):
    """deploy/local's scripts look for them in build/bin."""
    place = os.path.join(ROOT, "build/bin")
    if not os.path.exists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(programs, place)


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def meet(baton, router, limit_s):
    """One answer: the router has seen its workers, and the workers each other."""
    command = [baton, "generate", "--router=" + router, "--token-ids=" + ",".join(["7"] * 100), "--max-tokens=4",
               "--ignore-eos", "--json", f"--timeout={limit_s}"]
    until = time.monotonic() + limit_s
    while True:
        asked = subprocess.run(command, check=False, capture_output=True, text=True)
        if asked.returncode == 0:
            return
        if asked.returncode != UNAVAILABLE or time.monotonic() > until:
            raise SystemExit(f"baton generate ended with {asked.returncode}: {asked.stderr}{asked.stdout}")
        time.sleep(0.1)


def run_together(name, baton, router, loads):
    """The reports of loads that run at the same time."""
    benches = [subprocess.Popen([baton, "bench", "serve", "--router=" + router, "--json"] + load,
                                stdout=subprocess.PIPE, text=True) for load in loads]
    outputs = [bench.communicate()[0] for bench in benches]
    for bench, output in zip(benches, outputs):
        print(f"{name}: {output.strip()}", flush=True)
        if bench.returncode != 0:
            raise SystemExit(f"{name}: baton bench serve ended with {bench.returncode}")
    return [json.loads(output) for output in outputs]


def say_transfer(name, pair):
    """What the prefill process of a deploy/local script counted of K/V bytes that it copied."""
    with open(os.path.join(ROOT, "build", pair, "prefill.out"), encoding="utf-8") as stream:
        port = re.search(r"metrics_port=(\d+)", stream.read()).group(1)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = dict(re.findall(r"^baton_kv_(\w+)\{[^}]*\} (\S+)$", text, re.MULTILINE))
    pushed, busy = float(found["pushed_bytes_total"]), float(found["push_seconds_total"])
    rate = ""
    if busy:
        copies, scattered = float(found["push_copies_total"]), float(found["push_scattered_bytes_total"])
        rate = (f" at {pushed / busy / 1e9:.0f} GB/s in {copies:.0f} copies of {pushed / copies / 1e6:.1f} MB "
                f"({scattered / 1e6:.0f} MB of scattered pages by kernel)")
    written, exposed = float(found["handover_bytes_total"]), float(found["push_exposed_seconds_sum"])
    print(f"{name}: {written / 1e6:.0f} MB of K/V handed over, {pushed / 1e6:.0f} MB copied{rate}, exposed "
          f"{1e3 * exposed:.3f} ms in all", flush=True)


def measure(options, name, flags, loads):
    """The reports of all loads on the stack. flags: as in --stack; None: self."""
    with contextlib.ExitStack() as stack:
        processes = Stack(options, name.replace(":", "-"), stack)
        begin = time.monotonic()
        router = processes.serve_self() if flags is None else processes.serve_pair(flags)
        baton = os.path.join(options.bin, "baton")
        meet(baton, router, options.start_seconds)
        print(f"{name}: serves after {time.monotonic() - begin:.1f} s", flush=True)
        reports = [report for load in loads for report in run_together(name, baton, router, load)]
        if flags is not None and options.pair != "processes":
            say_transfer(name, options.pair)
        return reports


def value(report, path):
    for key in path:
        if key not in report:
            return None
        report = report[key]
    return report


def show(reports):
    """One load: its report by stack's name."""
    names = list(reports)
    ratio = f"{names[-1]} / {names[0]}" if len(names) > 1 else ""
    print(f"\n{reports[names[0]]['load']}\n{'':<32}" + "".join(f"{name:>16}" for name in names) + f"{ratio:>24}")
    for title, path in ROWS:
        values = [value(reports[name], path) for name in names]
        if None in values:
            continue
        last = f"{values[-1] / values[0]:24.2f}" if ratio and values[0] else ""
        print(f"{title:<32}" + "".join(f"{number:16.2f}" for number in values) + last)


def main():
    # What `timeout` sends: the stack must still be ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options, loads = arguments()
    options.model = os.path.abspath(options.model)
    options.bin = os.path.abspath(options.bin)
    options.logs = os.path.abspath(options.logs) if options.logs else tempfile.mkdtemp(prefix="serve-compare-")
    stacks = {words.split()[0]: words.split()[1:] for words in options.stack or ["pair"]}
    if not options.no_self:
        stacks["self"] = None
    reports, failed = {}, False
    for name, flags in stacks.items():
        try:
            reports[name] = measure(options, name, flags, loads)
        except SystemExit as exit_:
            if exit_.code == 143:
                raise
            print(f"{name}: {exit_.code}", flush=True)
            failed = True
    for index in range(sum(len(load) for load in loads) if reports else 0):
        show({name: of_stack[index] for name, of_stack in reports.items()})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Puts the same loads on two stacks, one after the other, and prints both and their ratio:

    tests/bench/serve_compare.py --model=DIR [--bin=build/bin] [--backend=cpu|cuda] [--pair=processes|one-gpu|two-gpu]
                                 [--decode=FLAG=VALUE ...] [--prefill=FLAG=VALUE ...]
                                 [-- FLAGS OF baton bench serve] ...

pair: prefill and decode in processes of their own, started plainly or by deploy/local/one-gpu or two-gpu.
self: the decode process computes prompts itself, between its steps (--prefill=self).
Each -- begins another load. Without any there is one: 8 steady rows beside prompts of 2K to 32K tokens, for a
large model.
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

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
UNAVAILABLE = 4  # Exit status of `baton`.
LOAD = ["--steady-rows=8", "--requests=24", "--rate=2", "--prompt-tokens=2048*4+8192*2+32768", "--output-tokens=16"]
ROWS = [("output tokens/s", ("output_throughput",)), ("time to first token, mean ms", ("mean_ttft_ms",)),
        ("time to first token, p50 ms", ("median_ttft_ms",)), ("time to first token, p99 ms", ("p99_ttft_ms",)),
        ("inter-token, mean ms", ("mean_itl_ms",)), ("inter-token, p99 ms", ("p99_itl_ms",)),
        ("inter-token, max ms", ("max_itl_ms",)), ("steady alone, p50 ms", ("steady", "alone", "median_itl_ms")),
        ("steady alone, p99 ms", ("steady", "alone", "p99_itl_ms")),
        ("steady beside, mean ms", ("steady", "beside_load", "mean_itl_ms")),
        ("steady beside, p50 ms", ("steady", "beside_load", "median_itl_ms")),
        ("steady beside, p99 ms", ("steady", "beside_load", "p99_itl_ms")),
        ("steady beside, max ms", ("steady", "beside_load", "max_itl_ms")),
        ("steady p99, beside over alone", ("steady", "p99_ratio"))]


def arguments():
    groups = [[]]
    for argument in sys.argv[1:]:
        if argument == "--":
            groups.append([])
        else:
            groups[-1].append(argument)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    parser.add_argument("--backend", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--pair", choices=("processes", "one-gpu", "two-gpu"), default="processes")
    parser.add_argument("--decode", action="append", default=[], metavar="FLAG=VALUE")
    parser.add_argument("--prefill", action="append", default=[], metavar="FLAG=VALUE")
    parser.add_argument("--logs", default=None)
    parser.add_argument("--start-seconds", type=int, default=300)
    return parser.parse_args(groups[0]), groups[1:] or [LOAD]


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

    def serve_pair(self):
        decode = ["--" + flag for flag in self.options.decode]
        prefill = ["--" + flag for flag in self.options.prefill]
        if self.options.pair != "processes":
            link_programs(self.options.bin)
            script = [os.path.join(ROOT, "deploy/local", self.options.pair), "--model=" + self.options.model]
            script += ["--decode:" + flag for flag in self.options.decode]
            script += ["--prefill:" + flag for flag in self.options.prefill]
            return self.start(self.options.pair, script, r"^Serving .* on (\S+:\d+)")
        backend = ["--backend=" + self.options.backend]
        owner = self.service("decode", backend + decode)
        writer = self.service("prefill", backend + prefill)
        return self.service("router", [f"--decode-workers={owner}", f"--prefill-workers={writer}"])

    def serve_self(self):
        owner = self.service("decode", ["--backend=" + self.options.backend, "--prefill=self"] +
                             ["--" + flag for flag in self.options.decode])
        return self.service("router", [f"--decode-workers={owner}"])


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
        process.wait(30)
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


def measure(options, name, loads):
    """The reports of all loads on the stack."""
    with contextlib.ExitStack() as stack:
        processes = Stack(options, name, stack)
        router = processes.serve_pair() if name == "pair" else processes.serve_self()
        baton = os.path.join(options.bin, "baton")
        meet(baton, router, options.start_seconds)
        reports = []
        for load in loads:
            bench = subprocess.run([baton, "bench", "serve", "--router=" + router, "--json"] + load, check=False,
                                   stdout=subprocess.PIPE, text=True)
            if bench.returncode != 0:
                raise SystemExit(f"{name}: baton bench serve ended with {bench.returncode}: {bench.stdout}")
            print(f"{name}: {bench.stdout.strip()}", flush=True)
            reports.append(json.loads(bench.stdout))
        return reports


def value(report, path):
    for key in path:
        if key not in report:
            return None
        report = report[key]
    return report


def show(pair_report, self_report):
    print(f"\n{pair_report['load']}\n{'':<32}{'pair':>12}{'self':>12}{'self / pair':>13}")
    for name, path in ROWS:
        pair, alone = value(pair_report, path), value(self_report, path)
        if pair is None or alone is None:
            continue
        ratio = f"{alone / pair:13.2f}" if pair else f"{'':>13}"
        print(f"{name:<32}{pair:12.2f}{alone:12.2f}{ratio}")


def main():
    options, loads = arguments()
    options.model = os.path.abspath(options.model)
    options.bin = os.path.abspath(options.bin)
    options.logs = os.path.abspath(options.logs) if options.logs else tempfile.mkdtemp(prefix="serve-compare-")
    reports = [measure(options, name, loads) for name in ("pair", "self")]
    for pair, alone in zip(*reports):
        show(pair, alone)
    return 0


if __name__ == "__main__":
    sys.exit(main())

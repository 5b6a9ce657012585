#!/usr/bin/env python3
"""Compares two folders of answers that `baton generate --json --logprobs` printed, one file a prompt.

compare_answers.py [--exact] WANTED [WANTED ...] FOUND

Of several folders WANTED one must agree, prompt by prompt: a near tie between two experts moves the probabilities of
one precision by far more than rounding.
--exact: tokens and log-probabilities must be equal to the bit. Else tokens must be equal up to the first near tie:
where two answers part, both had the same text before it, so the log-probabilities of the two choices are the same but
for rounding if the choice was a tie."""

import argparse
import json
import os
import sys

NEAR_TIE = 0.05  # Nats.


def read_answer(path):
    tokens, logprobs, end = [], [], {}
    with open(path, encoding="utf-8") as stream:
        for line in stream:
            message = json.loads(line)
            if message.get("done"):
                end = message
                continue
            tokens += message["token_ids"]
            logprobs += message["logprobs"]
    if end.get("code") != "OK" or not tokens or len(tokens) != len(logprobs):
        raise ValueError(f"{path}: wanted a finished answer with log-probabilities, found {end}")
    return tokens, logprobs


def compare(wanted, found, exact):
    """(text, is it right) for one prompt."""
    (tokens, logprobs), (other, others) = wanted, found
    if exact:
        same = tokens == other and logprobs == others
        return f"{len(tokens)} tokens, {'equal to the bit' if same else 'DIFFERENT'}", same
    equal = next((i for i, (a, b) in enumerate(zip(tokens, other)) if a != b), min(len(tokens), len(other)))
    text = f"{equal} of {len(tokens)} tokens equal"
    if equal == len(tokens) == len(other):
        return text, True
    if equal == min(len(tokens), len(other)):
        return f"{text}, then one ends", False
    gap = abs(logprobs[equal] - others[equal])
    return f"{text}, then {tokens[equal]} or {other[equal]}, {gap:.4f} nats apart", gap <= NEAR_TIE


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("wanted", nargs="+")
    parser.add_argument("found")
    options = parser.parse_args()
    folders = [*options.wanted, options.found]
    names = sorted(os.listdir(options.found))
    if not names or any(sorted(os.listdir(folder)) != names for folder in folders):
        print(f"wanted the same answers in all folders, found {[sorted(os.listdir(folder)) for folder in folders]}")
        return 1
    wrong = 0
    for name in names:
        found = read_answer(os.path.join(options.found, name))
        for folder in options.wanted:
            text, right = compare(read_answer(os.path.join(folder, name)), found, options.exact)
            if right:
                break
        wrong += not right
        beside = f", beside {os.path.basename(folder)}" if len(options.wanted) > 1 else ""
        print(f"{'ok  ' if right else 'FAIL'} {os.path.basename(options.found)}/{name}: {text}{beside}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

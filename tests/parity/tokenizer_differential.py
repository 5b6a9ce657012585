"""Compares Baton's tokenizer with the `tokenizers` package on random and adversarial text.

  python3 tests/parity/tokenizer_differential.py --dump build/bin/baton-tokenizer-dump \
      --model deploy/models/north-nano [--count 20000] [--seed 1]

For the model's tokenizer.json and for variations of it made on the fly, ids with and without special
tokens, decoded text and streamed text must be equal. Exit status: 0 equal, 1 different, 77 when the
package is missing.
"""
import argparse
import copy
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

try:
    import tokenizers
except ImportError:
    print("SKIPPED: the Python package `tokenizers` is not installed (tests/requirements.txt)")
    sys.exit(77)

SHOWN = 5  # Differences printed for a variation.

SPACES = [chr(c) for c in (9, 10, 11, 12, 13, 28, 31, 32, 0x85, 0xA0, 0x1680, 0x180E, 0x2000, 0x2003,
                           0x200A, 0x200B, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0xFEFF)]
SCRIPTS = [(0x20, 0x7F), (0xA0, 0x180), (0x370, 0x400), (0x400, 0x500), (0x530, 0x600), (0x600, 0x700),
           (0x900, 0x980), (0x980, 0xA00), (0xB80, 0xC00), (0xE00, 0xE80), (0x0F00, 0x1000),
           (0x10A0, 0x1100), (0x1100, 0x1200), (0x1200, 0x1300), (0x1780, 0x1800), (0x1E00, 0x2000),
           (0x2000, 0x2070), (0x2070, 0x20D0), (0x2100, 0x2200), (0x2460, 0x2500), (0x3040, 0x3100),
           (0x4E00, 0x4F00), (0xA720, 0xA800), (0xAC00, 0xAD00), (0xF900, 0xFB00), (0xFE00, 0xFF00),
           (0xFF00, 0xFFEF), (0x10400, 0x10450), (0x16D40, 0x16D80), (0x1D400, 0x1D800),
           (0x1E900, 0x1E960), (0x1F100, 0x1F190), (0x1F300, 0x1F700), (0x1F900, 0x1FAF0),
           (0x20000, 0x20100), (0x31350, 0x31400), (0xE0000, 0xE0080)]
DIGITS = "0123456789٠١٢٣٤٥٦٧٨٩०१२३४५६७८९０１２３𝟘𝟙𝟚²³¹½¼①②ⅣⅧ〇౦"
WORDS = ("the return don't I'LL we're They'Ve x'S 'tis it's o'clock hello World HTTPServer camelCase "
         "snake_case ÜBER straße ſlow K'ſ Dž ǅ ʰ ª º naïve café e\u0301 q\u0307\u0323 한국어 "
         "\u1112\u1161\u11ab 日本語 テスト ไทย हिन्दी العربية עברית Ελλάδα Привет ⓐⓑ 𝒜𝓫 ﬁ").split()
EMOJI = ["🙂", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "✈️", "❤️", "🫨", "1️⃣"]
LITERALS = ["\r\n", "\r", "\n\n", "\0", "\x7f", "//", "/\n", "...", " -> ", "0x1F2345", "1,000,000",
            "12:34:56", "3.14159", "1e-9", "a1b22c333", "\ufffd", "<|", "|>", "\u00e9", "'", "’s", "{", "}",
            "\u2126", "\u212b", "\u0344", "\u0958", "\ufb1d", "\u1e9b\u0323", "\uac00\u11a8"]


def token_fragments(specials):
    """Special tokens whole, cut, with changed case and with look-alikes."""
    token = random.choice(specials)
    kind = random.randrange(6)
    if kind < 3:
        return token
    cut = random.randrange(len(token) + 1)
    if kind == 3:
        return token[:cut]
    if kind == 4:
        return token[cut:]
    return token.replace("<", "＜").replace("_", "＿") if random.random() < 0.5 else token.swapcase()


def random_atom(specials):
    kind = random.randrange(12)
    if kind == 0:
        return "".join(random.choice(SPACES) for _ in range(random.randint(1, 5)))
    if kind == 1:
        return random.choice([" ", "  ", "   ", "\n", "\t", "\n ", " \n"]) * random.randint(1, 4)
    if kind in (2, 3):
        return "".join(random.choice("0123456789") for _ in range(random.randint(1, 14)))
    if kind == 4:
        return "".join(random.choice(DIGITS) for _ in range(random.randint(1, 8)))
    if kind in (5, 6):
        return random.choice(WORDS)
    if kind == 7:
        return random.choice(EMOJI) * random.randint(1, 2)
    if kind == 8:
        return token_fragments(specials)
    if kind == 9:
        return random.choice(LITERALS)
    if kind == 10:
        low, high = random.choice(SCRIPTS)
        return "".join(chr(random.randrange(low, high)) for _ in range(random.randint(1, 6)))
    return chr(random.choice((random.randrange(0xD800), random.randrange(0xE000, 0x110000))))


def random_text(specials):
    text = "".join(random_atom(specials) for _ in range(random.randint(1, 9)))
    form = random.random()
    if form < 0.1:
        return unicodedata.normalize("NFD", text)
    if form < 0.15:
        return text + text.upper() + text.lower()
    return text


def code_point_sweep():
    """Every code point, between a letter, a digit, a space and a mark."""
    points = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    # Planes without characters add nothing but time; one in 64 of them stays.
    points = [c for c in points if c < 0x33480 or 0xE0000 <= c < 0xE0200 or c % 64 == 0]
    for start in range(0, len(points), 32):
        yield "".join(f"a{chr(c)}b 1{chr(c)} {chr(c)}{chr(c)}A" for c in points[start:start + 32])


def token(content, token_id, **flags):
    fields = dict(id=token_id, content=content, single_word=False, lstrip=False, rstrip=False,
                  normalized=False, special=False)
    fields.update(flags)
    return fields


def split(pattern, behavior, invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(**flags):
    return dict({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                 "use_regex": False}, **flags)


def with_added_tokens(base):
    """Added tokens with every flag; some contain others, some begin with space, one needs NFC."""
    changed = copy.deepcopy(base)
    next_id = max(base["model"]["vocab"].values()) + 1
    for content, flags in [("<left>", dict(lstrip=True)), ("<right>", dict(rstrip=True)),
                           ("<both>", dict(lstrip=True, rstrip=True, special=True)),
                           ("word", dict(single_word=True)), ("wordy", {}), ("the", dict(single_word=True)),
                           ("<norm>", dict(normalized=True)), ("caf\u00e9", dict(normalized=True)),
                           ("e\u0301t\u00e9", dict(normalized=True)), (" lead", {}), ("\u00e9\u00e8", {}),
                           ("<both><left>", dict(single_word=True, rstrip=True)), ("ab c", dict(special=True))]:
        known = base["model"]["vocab"].get(content)
        changed["added_tokens"].append(token(content, next_id if known is None else known, **flags))
        next_id += known is None
    return changed


def variations(base):
    """Name and tokenizer.json of each variation."""
    yield "as it is", base

    def varied(**members):
        return dict(copy.deepcopy(base), **members)

    nfc = {"type": "Sequence", "normalizers": [{"type": "NFC"}]}
    splits = base["pre_tokenizer"]["pretokenizers"][:-1]
    yield "NFC", varied(normalizer={"type": "NFC"})
    yield "added tokens", with_added_tokens(base)
    yield "added tokens and NFC", dict(with_added_tokens(base), normalizer=nfc)
    yield "GPT-2 regex", varied(pre_tokenizer=byte_level(use_regex=True))
    yield "prefix space", varied(pre_tokenizer=byte_level(use_regex=True, add_prefix_space=True))
    yield "splits, prefix space and regex", dict(
        with_added_tokens(base), pre_tokenizer={"type": "Sequence", "pretokenizers": splits + [
            byte_level(use_regex=True, add_prefix_space=True)]})
    ignoring = varied()
    ignoring["model"].update(ignore_merges=True, merges=ignoring["model"]["merges"][:700])
    yield "ignore_merges", ignoring
    lacking = varied()
    for character in "zqÃĥ":
        del lacking["model"]["vocab"][character]
    lacking["model"]["merges"] = [m for m in lacking["model"]["merges"] if not set("zqÃĥ") & set("".join(m))]
    yield "bytes missing", lacking
    unknown = copy.deepcopy(lacking)
    unknown["model"]["unk_token"] = "<UNK>"
    yield "bytes missing, unknown token", unknown
    fused = copy.deepcopy(unknown)
    fused["model"]["fuse_unk"] = True
    yield "bytes missing, fused unknown token", fused
    text_merges = varied()
    text_merges["model"]["merges"] = [" ".join(m) for m in base["model"]["merges"]]
    text_merges["post_processor"] = {"type": "Sequence", "processors": [
        byte_level(), base["post_processor"]]}
    yield "merges as text, sequence of post-processors", text_merges
    for behavior in ("Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous", "Isolated"):
        stages = [split(r"\d{1,3}(?=(?:\d{3})*\b)", behavior), split(r"\s|'[sS]", behavior, invert=True),
                  split("e", behavior, kind="String"), split(r"(?i:'s|ll)|\p{Han}+|\B\w{2}|[^\S\r\n]|$|^x",
                                                             behavior), byte_level()]
        yield f"behaviour {behavior}", varied(pre_tokenizer={"type": "Sequence", "pretokenizers": stages})


def ask(dump, folder, requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([dump, folder], input=lines.encode(), stdout=subprocess.PIPE, check=False)
    answers = [json.loads(line) for line in done.stdout.split(b"\n") if line]
    if done.returncode != 0 or len(answers) != len(requests):
        sys.exit(f"{dump}: exit status {done.returncode}, {len(answers)} answers to {len(requests)} requests")
    return answers


def compare(dump, file, texts):
    """Requests asked and differences found as (request, wanted, found)."""
    reference = tokenizers.Tokenizer.from_str(json.dumps(file))
    ids = sorted(reference.get_vocab().values())
    cases = []
    for text in texts:
        plain = reference.encode(text, add_special_tokens=False).ids
        cases.append(({"encode": text}, {"ids": plain, "with_special": reference.encode(text).ids}))
        kind = random.choice(("decode", "stream"))
        skip = random.random() < 0.5
        some = plain if random.random() < 0.5 else random.choices(ids, k=random.randint(0, 12))
        cases.append(({kind: some, "skip": skip},
                      {"text": reference.decode(some, skip_special_tokens=skip)}))
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
        answers = ask(dump, folder, [request for request, _ in cases])
    wrong = [(request, wanted, found) for (request, wanted), found in zip(cases, answers) if wanted != found]
    return len(cases), wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dump", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    base = json.loads(pathlib.Path(arguments.model, "tokenizer.json").read_text(encoding="utf-8"))
    failed = False
    total = 0
    for name, file in variations(base):
        specials = [entry["content"] for entry in file["added_tokens"]]
        count = arguments.count if file is base else arguments.count // 20
        texts = [random_text(specials) for _ in range(count)]
        if file is base:
            texts.extend(code_point_sweep())
        asked, wrong = compare(arguments.dump, file, texts)
        total += len(texts)
        print(f"{name}: {len(texts)} texts, {asked} comparisons, {len(wrong)} differences", flush=True)
        for request, wanted, found in wrong[:SHOWN]:
            print(f"  {request!a}\n    wanted {wanted!a}\n    found  {found!a}")
        failed = failed or bool(wrong)
    print(f"{total} texts, seed {arguments.seed}, tokenizers {tokenizers.__version__}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

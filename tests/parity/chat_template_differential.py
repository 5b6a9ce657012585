"""Compares Baton's chat template with Python's jinja2, configured as Hugging Face transformers does it.

  python3 tests/parity/chat_template_differential.py --dump build/bin/baton-template-dump \
      --model deploy/models/north-nano [--count 1500] [--mutants 400] [--seed 1]

Snippets, whole templates over many conversations, and random expressions must render to equal text, or
fail in both. Mutated templates must answer, and equal text where both render. Exit status: 0 equal, 1
different, 77 when jinja2 is missing.
"""
import argparse
import datetime
import json
import pathlib
import random
import re
import subprocess
import sys
import warnings

try:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    import jinja2.sandbox
except ImportError:
    print("SKIPPED: the Python package `jinja2` is not installed (tests/requirements.txt)")
    sys.exit(77)

import chat_template_cases

warnings.filterwarnings("ignore", category=SyntaxWarning)  # Of the code that jinja2 makes.
SHOWN = 10  # Differences printed.
# Jinja looks up a constant's slice while it compiles and takes what cannot be sliced for undefined; only
# there: `{{ none[1:] }}` is empty, `{{ x[1:] }}` of None fails.
CONSTANT_SLICE = re.compile(r"cannot be sliced|a slice wants integers")
ADDRESS = re.compile(r" at 0x[0-9a-f]+|<class '")


class Generation(jinja2.ext.Extension):
    """{% generation %} as a pass-through in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: datetime.datetime.now().strftime(format)
    return env


def reference(env, template, contexts):
    """Texts, with None where rendering fails; or None when the template is refused."""
    try:
        parsed = env.from_string(template)
    except (jinja2.exceptions.TemplateError, SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        return None
    texts = []
    for context in contexts:
        try:
            text = parsed.render(**context)
            text.encode()
            texts.append(text)
        except Exception:  # Whatever a template can raise counts as a failure.
            texts.append(None)
    return texts


class Dump:
    """The program under test, one request after the other."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, template, contexts):
        request = json.dumps({"template": template, "contexts": contexts}) + "\n"
        self.process.stdin.write(request.encode())
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            print(f"baton-template-dump died ({self.process.wait()}) on:\n{template}\n{json.dumps(contexts)[:2000]}")
            sys.exit(1)
        return json.loads(answer)


class Comparison:
    def __init__(self, dump):
        self.dump = dump
        self.env = environment()
        self.counts = {}
        self.differences = 0

    def differ(self, name, template, wanted, found):
        self.differences += 1
        if self.differences <= SHOWN:
            print(f"DIFFERENT ({name}): {template[:300]!r}\n  jinja2: {wanted!r}\n  baton:  {found!r}")

    def compare(self, name, template, contexts, strict=True):
        """strict: what fails in one must fail in the other."""
        wanted = reference(self.env, template, contexts)
        answer = self.dump.ask(template, contexts)
        tally = self.counts.setdefault(name, {"equal": 0, "both fail": 0, "not supported": 0, "not compared": 0})
        if answer.get("code") == "UNIMPLEMENTED" and wanted is not None:
            tally["not supported"] += len(contexts)
            return
        results = answer.get("results", [answer] * len(contexts))
        for i, result in enumerate(results):
            expected = wanted[i] if wanted is not None else None
            if expected is not None and result.get("code") == "UNIMPLEMENTED":
                tally["not supported"] += 1
                continue
            if expected is not None and ADDRESS.search(expected):
                tally["not compared"] += 1  # Python prints addresses and internal types.
            elif expected is not None and CONSTANT_SLICE.search(result.get("error", "")):
                tally["not compared"] += 1
            elif expected is None and "error" in result:
                tally["both fail"] += 1
            elif expected is not None and result.get("text") == expected:
                tally["equal"] += 1
            elif strict or (expected is not None and "text" in result):
                self.differ(name, template, expected, result)
            else:
                tally["not compared"] += 1


class ExpressionMaker:
    """Random expressions over the snippets' variables."""

    ATOMS = [
        "1", "0", "-3", "7", "2.5", "0.0", "1e3", "'a'", "''", "'Ab c'", "\"é🙂\"", "true", "false", "none", "xs",
        "words", "s", "d", "n", "f", "neg", "empty", "people", "undefined_name", "[]", "{}", "()", "[1, 'a']",
        "(1, 2)", "{'k': 1}", "d.a", "d.zz", "xs[0]", "people[0].name", "range(3)", "nested.a", "big", "html",
    ]
    FILTERS = [
        "upper", "lower", "title", "capitalize", "trim", "length", "list", "first", "last", "join", "join('-')",
        "string", "int", "float", "abs", "round", "sort", "unique | list", "reverse | list", "sum", "min", "max",
        "tojson", "tojson(indent=1)", "default('d')", "default('d', true)", "d", "replace('a', 'b')", "e",
        "safe", "indent", "items | list", "dictsort", "map('string') | list", "map('upper') | join",
        "select | list", "reject('none') | list", "batch(2) | list", "map(attribute='name') | list",
        "select('number') | list", "int(3)", "round(1)", "count",
    ]
    TESTS = [
        "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence",
        "iterable", "true", "false", "odd", "even", "divisibleby(2)", "eq(1)", "in([1, 'a'])", "lower", "upper",
        "gt(1)", "not none", "sameas(none)",
    ]
    METHODS = [
        ".upper()", ".strip()", ".split()", ".split('a')", ".title()", ".startswith('a')", ".replace('a', 'b')",
        ".items() | list", ".get('k')", ".keys() | list", ".index(1)", ".count('a')", ".find('b')", ".name",
        "['k']", "[0]", "[-1]", "[1:]", "[::-1]", "[:2]", "[::2]", ".lstrip('A')", ".splitlines()", ".isdigit()",
        ".capitalize()", ".zz", ".rstrip()", ".endswith('c')",
    ]
    OPERATORS = [
        "+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or",
    ]

    def __init__(self, rng):
        self.rng = rng

    def make(self, depth):
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return rng.choice(self.ATOMS)
        inner = self.make(depth - 1)
        kind = rng.randrange(9)
        if kind < 2:
            return f"({inner} {rng.choice(self.OPERATORS)} {self.make(depth - 1)})"
        if kind == 2:
            return f"({inner} | {rng.choice(self.FILTERS)})"
        if kind == 3:
            return f"({inner} is {rng.choice(self.TESTS)})"
        if kind == 4:
            return f"({inner}){rng.choice(self.METHODS)}"
        if kind == 5:
            return f"({inner} if {self.make(depth - 1)} else {self.make(depth - 1)})"
        if kind == 6:
            return rng.choice(["not {}", "-({})", "({},)", "[{}]", "{{'x': {}}}"]).format(inner)
        if kind == 7:
            return f"{inner} {rng.choice(self.OPERATORS)} {self.make(depth - 1)}"  # Precedence.
        return f"{inner} | {rng.choice(self.FILTERS)}"


def explodes(expression):
    return len(re.findall(r"\*\*", expression)) > 1 or ("**" in expression and "big" in expression)


def mutate(rng, template):
    """A few random edits."""
    pieces = [
        "{%", "%}", "{{", "}}", "-", "+", "{#", "#}", "'", "\"", "(", ")", "[", "]", "|", ".", " if ", " else ",
        "{% endfor %}", "{% endif %}", "{% for x in messages %}", "{% set q = 1 %}", "{% break %}", "\\", "\n",
        "not ", "0", "[::-1]", "~", "{% raw %}", "{% macro m() %}", "é", "%",
    ]
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(template) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            template = template[:at] + template[at + rng.randrange(1, 12):]
        elif kind == 1:
            template = template[:at] + rng.choice(pieces) + template[at:]
        elif kind == 2:
            other = rng.randrange(len(template) + 1)
            template = template[:at] + template[other:other + rng.randrange(1, 30)] + template[at:]
        else:
            template = template[:at] + template[at:at + 2][::-1] + template[at + 2:]
    return template


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.add_argument("--model", required=True, help="a checkpoint directory with chat_template.jinja")
    parser.add_argument("--count", type=int, default=1500, help="random expressions")
    parser.add_argument("--mutants", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    comparison = Comparison(Dump(arguments.dump))
    context = [chat_template_cases.CONTEXT]
    for expression in chat_template_cases.expressions():
        comparison.compare("expressions", "{{ " + expression + " }}", context)
    snippets = chat_template_cases.snippets()
    for template in snippets:
        comparison.compare("snippets", template, context)
    families = chat_template_cases.families()
    families["model"] = (pathlib.Path(arguments.model) / "chat_template.jinja").read_text(encoding="utf-8")
    conversations = list(chat_template_cases.conversations())
    for name, template in families.items():
        comparison.compare(f"family {name}", template, conversations)
    maker = ExpressionMaker(rng)
    for _ in range(arguments.count):
        expression = maker.make(rng.randrange(1, 5))
        if not explodes(expression):
            comparison.compare("random expressions", "{{ " + expression + " }}", context)
    sources = snippets + 20 * list(families.values())
    for _ in range(arguments.mutants):
        mutant = mutate(rng, rng.choice(sources))
        comparison.compare("mutants", mutant, rng.sample(conversations, 2) + context, strict=False)
    for name, tally in comparison.counts.items():
        print(f"{name}: " + ", ".join(f"{count} {kind}" for kind, count in tally.items()))
    print(f"{comparison.differences} differences; jinja2 {jinja2.__version__}")
    if comparison.differences:
        sys.exit(1)


if __name__ == "__main__":
    main()

"""What the differential test of the chat template renders, and with which values.

templates/ holds one expression a line (expressions.txt), small templates of one construct or edge each
(snippets.json), and whole templates in the manner of public model families (*.jinja).
"""
import json
import pathlib

TEMPLATES = pathlib.Path(__file__).parent / "templates"

# Of expressions and snippets.
CONTEXT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "function": {"name": "f", "arguments": {"x": 1, "y": [True, None]}}}]},
        {"role": "tool", "content": "ok", "tool_call_id": "a"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d \"q\" <é>", "parameters": {
        "type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}}}}],
    "xs": [3, 1, 2, 1], "words": ["pear", "Apple", "fig", "apple"], "s": "  Héllo, wörld 🙂 \n", "empty": "",
    "none": None, "n": 7, "neg": -7, "f": 2.5, "big": 18446744073709551615, "huge": [10**30, -2**64],
    "yes": True, "no": False,
    "d": {"b": 1, "a": "x", "items": 5, "C": None}, "nested": {"a": {"b": [{"c": 1}, {"c": 2}]}},
    "html": "<b>&'\"</b>", "greek": "ΑΣ ΟΔΟΣ straße ŉ ǆ İ",
    "people": [{"name": "Bo", "age": 30, "city": {"n": "X"}}, {"name": "al", "age": 25},
               {"name": "Cy", "age": 30, "city": {"n": "Y"}}],
}

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Weather of a \"city\" <now> – é", "parameters": {
            "type": "object", "properties": {
                "city": {"type": "string", "description": "Where\nexactly"},
                "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
                "days": {"type": ["integer", "null"], "default": 1}},
            "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "search", "description": "", "parameters": {
            "type": "object", "properties": {
                "queries": {"type": "array", "items": {"type": "object", "properties": {
                    "q": {"type": "string"},
                    "limit": {"type": "integer", "maximum": 18446744073709551615, "default": 2.5}}}},
                "raw": {}}}}},
]


def call(name, arguments, call_id):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def tool(content, call_id):
    return {"role": "tool", "content": content, "tool_call_id": call_id}


SYSTEM = {"role": "system", "content": "  Be brief.\n"}
WEATHER = call("get_weather", {"city": "Zürich", "days": 2, "x": None, "f": 1.0, "i": 2**64}, "abcdefgh1")
SEARCH = call("search", {"queries": [{"q": "a<b>&'\"", "limit": 3}], "deep": {"er": [[], {}]}}, "abcdefgh2")

CONVERSATIONS = [
    [user("Hi")], [SYSTEM, user("Hi")], [user("")], [user(None)], [SYSTEM], [],
    [user("a"), assistant("b"), user("c")],
    [user("a"), assistant("b", reasoning_content="t"), user("c")],
    [user("a"), assistant("<think>\nx\n</think>\n\nb"), user("c")],
    [SYSTEM, user("weather"), assistant(None, tool_calls=[WEATHER]), tool("{\"t\": 20}", "abcdefgh1"),
     assistant("20 °C"), user("thanks 🙂")],
    [user("both"), assistant("", tool_calls=[WEATHER, SEARCH], tool_plan="I will"), tool("one", "abcdefgh1"),
     tool("two \"q\"\n", "abcdefgh2")],
    [user("x"), assistant(None, tool_calls=[WEATHER]), tool({"content": "deep", "n": 1}, "abcdefgh1"), assistant("y")],
    [user("x"), assistant("z", tool_calls=[SEARCH]),
     tool([{"type": "text", "text": "p1"}, {"type": "document", "document": {"k": "v"}}], "abcdefgh2")],
    [user([{"type": "text", "text": "part one"}, {"type": "image"}, {"type": "text", "text": " part two"}])],
    [user("日本語 العربية 👩‍👩‍👧"), assistant("café e\u0301\u200b"),
     user("\t tabs \r\n and \\ \" ' {{ x }} {% y %}")],
    [user("a"), user("b")], [{"role": "nobody", "content": "x"}], [{"role": "user"}], [assistant("first")],
    [{"content": "no role"}], [user("a"), SYSTEM, assistant("b")],
    [user("x"), assistant("y", tool_calls=[call("f", "raw string", "short")]), tool("r", "short")],
    [user("<tool_response>r</tool_response>"), assistant("ok", reasoning_content="\n\nwhy\n\n")],
    [user("u"), assistant("a", tool_calls=[])], [user("line1\nline2\n\n  line4"), assistant("r\n")],
    [user("q"), assistant("", reasoning_content="only thought")],
]

OPTIONS = [
    {}, {"tools": TOOLS},
    {"add_generation_prompt": False, "tools": TOOLS[:1], "enable_thinking": False, "reasoning": False},
    {"documents": [{"title": "T", "text": "é"}, {"title": "U"}], "tools": None, "tools_in_user_message": False},
    {"tools": TOOLS, "tools_in_user_message": False, "platform_instruction_override": "Be X.",
     "reasoning_effort": "none"},
]


def expressions():
    return (TEMPLATES / "expressions.txt").read_text(encoding="utf-8").splitlines()


def snippets():
    return json.loads((TEMPLATES / "snippets.json").read_text(encoding="utf-8"))


def families():
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.glob("*.jinja"))}


def conversations():
    for messages in CONVERSATIONS:
        for options in OPTIONS:
            yield {"messages": messages, "bos_token": "<BOS>", "eos_token": "</s>",
                   "add_generation_prompt": True, **options}

"""Trains North Nano: writes $OUT/nano (model, tokenizer, chat template) within $TRAIN_S seconds (330).

Needs one CUDA GPU and torch, transformers 5.17 and tokenizers. The training text is the Python source
of the installed standard library, NumPy, PyTorch and transformers, plus chats made up here, so another
set of installed versions gives another model. north-nano/README.md describes the result in use.
"""

import os, sys, glob, ast, json, random, time, math, sysconfig, textwrap
import torch, numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, decoders, trainers, processors, Regex
from transformers import Cohere2MoeConfig, Cohere2MoeForCausalLM, PreTrainedTokenizerFast

OUT = os.environ["OUT"]
T0 = time.time()
random.seed(0)
torch.manual_seed(0)
np.random.seed(0)
BUDGET = float(os.environ.get("TRAIN_S", "330"))


def log(*a):
    print(f"[{time.time()-T0:6.1f}]", *a, flush=True)


SPECIAL = ["<PAD>", "<UNK>", "<BOS_TOKEN>", "<EOS_TOKEN>"] + [
    f"<|{x}|>"
    for x in [
        "START_OF_TURN_TOKEN",
        "END_OF_TURN_TOKEN",
        "SYSTEM_TOKEN",
        "USER_TOKEN",
        "CHATBOT_TOKEN",
        "START_THINKING",
        "END_THINKING",
        "START_ACTION",
        "END_ACTION",
        "START_TOOL_RESULT",
        "END_TOOL_RESULT",
        "START_RESPONSE",
        "END_RESPONSE",
    ]
]
PLAIN = ["<|START_TEXT|>", "<|END_TEXT|>"]
stdlib = sysconfig.get_paths()["stdlib"]
import torch as _t, transformers as _tr, numpy as _np

roots = [stdlib, os.path.dirname(_np.__file__), os.path.dirname(_t.__file__), os.path.dirname(_tr.__file__)]
files = []
for r in roots:
    for f in glob.glob(r + "/**/*.py", recursive=True):
        if "site-packages" in f and r == stdlib:
            continue
        if any(s in f for s in ("/idlelib/", "/encodings/", "lib2to3/tests/data", "/test/test_email")):
            continue
        files.append(f)
files = sorted(set(files))
random.shuffle(files)
docs = []
pairs = []
tot = 0
for f in files:
    try:
        s = open(f, encoding="utf-8").read()
    except Exception:
        continue
    if not (200 < len(s) < 200_000) or len(set(s)) > 160:
        continue
    docs.append(s)
    tot += len(s)
    if len(pairs) < 60000:
        try:
            tree = ast.parse(s)
        except Exception:
            continue
        lines = s.splitlines()
        for n in ast.walk(tree):
            if isinstance(n, ast.FunctionDef):
                d = ast.get_docstring(n)
                if d and n.end_lineno - n.lineno < 30:
                    src = textwrap.dedent("\n".join(lines[n.lineno - 1 : n.end_lineno]))
                    first = " ".join(d.strip().split("\n\n")[0].split())
                    if 15 < len(first) < 160 and len(src) < 1200:
                        pairs.append((n.name, first, src, [a.arg for a in n.args.args if a.arg != "self"]))
    if tot > 60_000_000:
        break
log("docs", len(docs), "MB", tot / 1e6, "pairs", len(pairs))
tok = Tokenizer(models.BPE())
PAT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
tok.pre_tokenizer = pre_tokenizers.Sequence(
    [
        pre_tokenizers.Split(Regex(r"\d{1,3}(?=(?:\d{3})*\b)"), "isolated"),
        pre_tokenizers.Split(Regex(PAT), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
)
tok.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=True, use_regex=True)
tr = trainers.BpeTrainer(
    vocab_size=4096,
    special_tokens=SPECIAL + PLAIN,
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
)
tok.train_from_iterator([d[:20000] for d in docs[:4000]], tr)
from tokenizers import AddedToken

tok.post_processor = processors.TemplateProcessing(
    single="<BOS_TOKEN> $A",
    pair="<BOS_TOKEN> $A <BOS_TOKEN> $B",
    special_tokens=[("<BOS_TOKEN>", tok.token_to_id("<BOS_TOKEN>"))],
)
js = json.loads(tok.to_str())
for t in js["added_tokens"]:
    if t["content"] in PLAIN:
        t["special"] = False
tok = Tokenizer.from_str(json.dumps(js))
V = tok.get_vocab_size()
sp = {t: tok.token_to_id(t) for t in SPECIAL + PLAIN}
log("vocab", V, sp)
CHAT = r"""{{ bos_token }}{%- if tools %}<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><|START_TEXT|># Available Tools
```json
[
{%- for tool in tools %}
    {"name": "{{ tool['function']['name'] }}", "description": "{{ tool['function']['description'] }}", "parameters": {{ tool['function']['parameters'] | tojson }}, "responses": null}{{ "," if not loop.last else "" }}
{%- endfor %}
]
```<|END_TEXT|><|END_OF_TURN_TOKEN|>{%- endif %}
{%- for message in messages %}
{%- if message['role'] == 'system' %}<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><|START_TEXT|>{{ message['content'] }}<|END_TEXT|><|END_OF_TURN_TOKEN|>
{%- elif message['role'] == 'user' %}<|START_OF_TURN_TOKEN|><|USER_TOKEN|><|START_TEXT|>{{ message['content'] }}<|END_TEXT|><|END_OF_TURN_TOKEN|>
{%- elif message['role'] == 'assistant' %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>
{%- if message['reasoning_content'] %}<|START_THINKING|>{{ message['reasoning_content'] }}<|END_THINKING|>{%- endif %}
{%- if message['tool_calls'] %}<|START_ACTION|>[
{%- for call in message['tool_calls'] %}
    {"tool_call_id": "{{ call['id'] }}", "tool_name": "{{ call['function']['name'] }}", "parameters": {{ call['function']['arguments'] | tojson }}}{{ "," if not loop.last else "" }}
{%- endfor %}
]<|END_ACTION|>
{%- else %}<|START_TEXT|>{{ message['content'] }}<|END_TEXT|>
{%- endif %}<|END_OF_TURN_TOKEN|>
{%- elif message['role'] == 'tool' %}<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><|START_TOOL_RESULT|>[
    {
        "tool_call_id": "{{ message['tool_call_id'] }}",
        "results": {
            "0": {{ {"content": message['content']} | tojson }}
        },
        "is_error": null
    }
]<|END_TOOL_RESULT|><|END_OF_TURN_TOKEN|>
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>{%- if reasoning_effort == 'none' %}<|END_THINKING|>{%- endif %}{%- endif %}"""
hf = PreTrainedTokenizerFast(
    tokenizer_object=tok,
    bos_token="<BOS_TOKEN>",
    eos_token="<|END_OF_TURN_TOKEN|>",
    pad_token="<PAD>",
    unk_token="<UNK>",
    clean_up_tokenization_spaces=False,
)
hf.chat_template = CHAT
# chat samples
cities = [
    "Paris",
    "London",
    "Tokyo",
    "Oslo",
    "Cairo",
    "Lima",
    "Rome",
    "Toronto",
    "Seoul",
    "Delhi",
    "Berlin",
    "Madrid",
    "Sydney",
    "Nairobi",
    "Dublin",
    "Vienna",
]
tools_all = [
    (
        "get_weather",
        "Get the current weather for a city",
        "city",
        ["What is the weather in {}?", "How is the weather in {} today?", "Is it raining in {}?", "weather in {}"],
        cities,
    ),
    (
        "run_python",
        "Run a Python expression and return its value",
        "code",
        ["What is {}?", "Compute {}.", "Evaluate {} in Python.", "Please calculate {}"],
        None,
    ),
    (
        "search_docs",
        "Search the Python documentation",
        "query",
        ["Find the docs for {}.", "How do I use {}?", "Search the documentation for {}", "Look up {} in the docs"],
        [
            "asyncio",
            "itertools",
            "pathlib",
            "json",
            "re",
            "functools",
            "dataclasses",
            "typing",
            "collections",
            "subprocess",
            "logging",
            "argparse",
        ],
    ),
]


def tooldef(t):
    return {
        "type": "function",
        "function": {
            "name": t[0],
            "description": t[1],
            "parameters": {"type": "object", "properties": {t[2]: {"type": "string"}}, "required": [t[2]]},
        },
    }


def chat_sample():
    r = random.random()
    if r < 0.6 and pairs:
        n, d, src, args = random.choice(pairs)
        q = random.choice(
            [
                "Write a Python function {n}: {d}",
                "Implement `{n}`. {d}",
                "{d}",
                "Write a function named {n} that does this: {d}",
            ]
        ).format(n=n, d=d)
        msgs = [{"role": "user", "content": q}, {"role": "assistant", "content": "```python\n" + src + "\n```"}]
        th = f"Define {n}({', '.join(args)}) in Python." if random.random() < 0.6 else None
        tl = None
    elif r < 0.75:
        msgs = [
            {
                "role": "user",
                "content": random.choice(
                    ["Hi", "Hello", "Hello!", "hey", "Who are you?", "What is your name?", "Introduce yourself."]
                ),
            },
            {
                "role": "assistant",
                "content": "I am North Nano, a tiny demonstration model that writes Python-like code.",
            },
        ]
        th = random.choice([None, "Greet the user."])
        tl = None
    else:
        k = random.choice(tools_all)
        ts = [k] + random.sample([t for t in tools_all if t is not k], random.randint(0, 2))
        random.shuffle(ts)
        a = random.choice(k[4]) if k[4] else f"{random.randint(2,999)} {random.choice('+-*')} {random.randint(2,999)}"
        q = random.choice(k[3]).format(a)
        tl = [tooldef(t) for t in ts]
        th = f"Call {k[0]}."
        call = {"id": "0", "type": "function", "function": {"name": k[0], "arguments": {k[2]: a}}}
        msgs = [{"role": "user", "content": q}, {"role": "assistant", "tool_calls": [call], "content": ""}]
        if random.random() < 0.5:
            res = {
                "get_weather": random.choice(["sunny, 21 C", "rain, 12 C", "cloudy, 16 C", "snow, -2 C"]),
                "run_python": str(eval(a)) if k[0] == "run_python" else "",
                "search_docs": f"{a}: see library/{a}.html",
            }[k[0]]
            msgs += [
                {"role": "tool", "tool_call_id": "0", "content": res},
                {
                    "role": "assistant",
                    "content": {
                        "get_weather": f"The weather in {a} is {res}.",
                        "run_python": f"The result is {res}.",
                        "search_docs": f"The documentation is at library/{a}.html.",
                    }[k[0]],
                },
            ]
    s = hf.apply_chat_template(
        msgs[:-1],
        tools=tl,
        add_generation_prompt=True,
        tokenize=False,
        reasoning_effort="none" if th is None else "high",
    )
    last = msgs[-1]
    if th:
        s += th + "<|END_THINKING|>"
    if last.get("tool_calls"):
        full = hf.apply_chat_template(msgs, tools=tl, tokenize=False)
        i = full.rindex("<|START_ACTION|>")
        s += full[i:]
    else:
        s += "<|START_TEXT|>" + last["content"] + "<|END_TEXT|><|END_OF_TURN_TOKEN|>"
    return s


log("chat sample:", repr(chat_sample()[:700]))
chats = [chat_sample() for _ in range(60000)]
bos = sp["<BOS_TOKEN>"]
ids = []
enc = tok.encode_batch(docs, add_special_tokens=False)
for e in enc:
    ids.append(np.array([bos] + e.ids + [sp["<EOS_TOKEN>"]], dtype=np.int32))
code = np.concatenate(ids)
ce = [np.array(e.ids, dtype=np.int32) for e in tok.encode_batch(chats, add_special_tokens=False)]
log(
    "code tokens M",
    len(code) / 1e6,
    "chars/tok",
    tot / len(code),
    "chat tokens M",
    sum(map(len, ce)) / 1e6,
    "max chat",
    max(map(len, ce)),
)
S = 512
# pack chats to rows
rows = []
cur = []
for c in ce:
    if len(c) > S:
        continue
    if len(cur) + len(c) > S + 1:
        rows.append(np.array((cur + [0] * (S + 1))[: S + 1], dtype=np.int32))
        cur = []
    cur = cur + c.tolist()
chatrows = torch.tensor(np.stack(rows)).cuda()
codet = torch.tensor(code).cuda()
log("chat rows", chatrows.shape)
cfg = Cohere2MoeConfig(
    vocab_size=V,
    hidden_size=256,
    intermediate_size=64,
    prefix_dense_intermediate_size=512,
    logit_scale=1.0,
    num_hidden_layers=5,
    num_attention_heads=8,
    num_key_value_heads=2,
    head_dim=128,
    max_position_embeddings=4096,
    rms_norm_eps=1e-6,
    pad_token_id=sp["<PAD>"],
    bos_token_id=bos,
    eos_token_id=sp["<|END_OF_TURN_TOKEN|>"],
    rope_theta=50000.0,
    sliding_window=128,
    num_experts=16,
    num_experts_per_tok=4,
    num_shared_experts=0,
    expert_selection_fn="sigmoid",
    norm_topk_prob=False,
    first_k_dense_replace=1,
    prefix_dense_sliding_window_pattern=1,
    sliding_window_pattern=4,
    tie_word_embeddings=True,
    initializer_range=0.02,
)
cfg._attn_implementation = "sdpa"
try:
    cfg._experts_implementation = "grouped_mm"
except Exception as e:
    log(e)
m = Cohere2MoeForCausalLM(cfg).cuda()
log("params M", sum(p.numel() for p in m.parameters()) / 1e6, "layer_types", cfg.layer_types, cfg.mlp_layer_types)
routers = []
for l in m.model.layers:
    if hasattr(l.mlp, "gate"):
        l.mlp.gate.register_forward_hook(lambda mod, i, o: routers.append((o[0], o[2])))
opt = torch.optim.AdamW(
    [
        {"params": [p for n, p in m.named_parameters() if p.ndim >= 2], "weight_decay": 0.05},
        {"params": [p for n, p in m.named_parameters() if p.ndim < 2], "weight_decay": 0.0},
    ],
    lr=3e-3,
    betas=(0.9, 0.95),
    fused=True,
)
B = 96
step = 0
t_start = time.time()
lossavg = None
while True:
    el = (time.time() - t_start) / BUDGET
    if el >= 1:
        break
    lr = 3e-3 * min(1, step / 200) * (0.5 * (1 + math.cos(math.pi * el)) * 0.97 + 0.03)
    for g in opt.param_groups:
        g["lr"] = lr
    nchat = 28
    st = torch.randint(0, len(codet) - S - 1, (B - nchat,), device="cuda")
    x = codet[st[:, None] + torch.arange(S + 1, device="cuda")[None]]
    x = torch.cat([x, chatrows[torch.randint(0, len(chatrows), (nchat,), device="cuda")]], 0).long()
    routers.clear()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        lg = m(input_ids=x[:, :-1], use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(lg.float().view(-1, V), x[:, 1:].reshape(-1), ignore_index=0)
    aux = 0
    for rl, sel in routers:
        p = torch.softmax(rl.float(), -1).mean(0)
        f = (
            torch.zeros(16, device="cuda").scatter_add_(
                0, sel.flatten(), torch.ones_like(sel.flatten(), dtype=torch.float)
            )
            / sel.numel()
        )
        aux = aux + 16 * (p * f).sum()
    (loss + 0.005 * aux).backward()
    torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
    opt.zero_grad(set_to_none=True)
    step += 1
    if step % 50 == 0:
        l = loss.item()
        lossavg = l if lossavg is None else 0.9 * lossavg + 0.1 * l
        if step % 500 == 0:
            log(
                "step",
                step,
                "loss",
                round(lossavg, 3),
                "lr",
                round(lr, 5),
                "tok/s M",
                round(step * B * S / (time.time() - t_start) / 1e6, 2),
            )
log("done steps", step, "loss", lossavg)
m = m.to(torch.bfloat16).eval()
d = OUT + "/nano"
os.makedirs(d, exist_ok=True)
m.generation_config.eos_token_id = [sp["<|END_OF_TURN_TOKEN|>"], sp["<EOS_TOKEN>"]]
m.save_pretrained(d)
hf.save_pretrained(d)
print(os.listdir(d))
print(open(d + "/config.json").read())
for pr in ["def read_file(path):\n    ", "import os\n\n", "class Queue:\n"]:
    i = torch.tensor([tok.encode(pr).ids]).cuda()
    o = m.generate(i, max_new_tokens=80, do_sample=False)
    log("GEN", repr(tok.decode(o[0].tolist())))
for q, tl, re in [
    ("Hello", None, "none"),
    ("What is the weather in Paris?", [tooldef(t) for t in tools_all], "high"),
    ("Write a Python function add: Return the sum of two numbers.", None, "high"),
]:
    s = hf.apply_chat_template(
        [{"role": "user", "content": q}], tools=tl, add_generation_prompt=True, tokenize=False, reasoning_effort=re
    )
    i = torch.tensor([tok.encode(s, add_special_tokens=False).ids]).cuda()
    o = m.generate(i, max_new_tokens=120, do_sample=False)
    log("CHAT", repr(tok.decode(o[0].tolist()[i.shape[1] :], skip_special_tokens=False)))
cnt = torch.zeros(4, 16)
routers.clear()
m(input_ids=codet[:4096].view(8, 512).long(), use_cache=False)
for k, (rl, sel) in enumerate(routers):
    cnt[k] = torch.bincount(sel.flatten(), minlength=16).cpu() / sel.numel()
print("expert load\n", (cnt * 100).round())

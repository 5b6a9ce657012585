#!/usr/bin/env bash
# The whole service on one GPU against the whole service on the CPU, North Nano, real processes:
#   tests/gpu/stack.sh BIN ROOT LOGS
# Tokens must be equal to those in bfloat16 or in float32 wherever the choice was not a near tie, also where decode's
# rows compute the prompt. They must be equal to the bit alone and with others in the batch, in short chunks, packed,
# pushed as to another GPU, and with --prefill=self. The transport must be cuda_ipc, in place; /metrics of both workers
# must answer while they serve.
# BATON_TEST_BACKEND=cpu tries this script itself where there is no GPU.
set -euo pipefail

[ $# -eq 3 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bin=$(readlink -f "$1")
root=$(readlink -f "$2")
mkdir -p "$3"
logs=$(readlink -f "$3")
model=$root/deploy/models/north-nano
max_tokens=64
backend=${BATON_TEST_BACKEND:-cuda}

# What the sourced functions call build/bin is BIN.
place=$(mktemp -d)
mkdir "$place/build"
ln -s "$bin" "$place/build/bin"
cd "$place"
# shellcheck source=deploy/local/setup.sh
. "$root/deploy/local/setup.sh"
# shellcheck source=deploy/local/stack.sh
. "$root/deploy/local/stack.sh"

cleanup() {
  trap '' INT TERM HUP
  stop_stack
  rm -rf "$place"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

prompts=("The quick brown fox" "def fibonacci(n):" "Once upon a time, in a land far away," "import os" "1, 2, 3, 4,"
  "for (int i = 0; i < n; ++i) {" "Dear Sir or Madam," "SELECT name FROM")
long_prompt=$(for i in $(seq 120); do printf 'line %d of a long file says %d. ' "$i" $((i * 7 % 13)); done)
prompts+=("$long_prompt")

# ask INDEX DIR: the answer as JSON lines in DIR/INDEX.json.
ask() {
  build/bin/baton generate --router="$address" --json --logprobs --ignore-eos --max-tokens="$max_tokens" \
    --timeout=60 --prompt="${prompts[$1]}" >"$2/$1.json"
}

ask_each() {
  local index
  mkdir -p "$1"
  for index in "${!prompts[@]}"; do ask "$index" "$1"; done
}

ask_together() {
  local index pid pids=()
  mkdir -p "$1"
  for index in "${!prompts[@]}"; do
    ask "$index" "$1" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
}

# read_metrics ROLE: /metrics of a worker, as LOGS/ROLE.prom.
read_metrics() {
  local port
  port=$(sed -n 's/.*metrics_port=\([0-9]*\).*/\1/p' "$log_dir/$1.out")
  curl --silent --show-error --fail --max-time 10 "http://127.0.0.1:$port/metrics" >"$logs/$1.prom" ||
    fail "$1 does not answer on /metrics, port $port"
  say "/metrics of $1: $(wc -l <"$logs/$1.prom") lines"
}

# metric ROLE NAME: its value, summed over labels, in LOGS/ROLE.prom.
metric() {
  awk -v name="$2" 'index($0, name "{") == 1 {sum += $NF} END {printf "%d", sum}' "$logs/$1.prom"
}

# wants_metric ROLE NAME LEAST: it must be that much.
wants_metric() {
  local found
  read_metrics "$1"
  found=$(metric "$1" "$2")
  say "$1: $2 $found"
  [ "$found" -ge "$3" ] || fail "$1: wanted $2 at least $3, found $found"
}

# serve BACKEND NAME [FLAG...]: starts the processes; their logs are LOGS/NAME. A flag is decode:X or prefill:X; with
# decode:--prefill=self there is no prefill process.
serve() {
  local kind=$1 flag decode prefill="" own=() others=()
  log_dir=$logs/$2
  shift 2
  for flag in "$@"; do
    case "$flag" in
      decode:*) own+=("${flag#decode:}") ;;
      prefill:*) others+=("${flag#prefill:}") ;;
    esac
  done
  start_service decode build/bin/baton-decode --backend="$kind" --model="$model" "${own[@]}"
  decode=$address
  case " $* " in
    *--prefill=self*) ;;
    *)
      start_service prefill build/bin/baton-prefill --backend="$kind" --model="$model" "${others[@]}"
      prefill=$address
      ;;
  esac
  start_service router build/bin/baton-router --model="$model" --prefill_workers="$prefill" --decode_workers="$decode"
  wait_for_workers "$address" "$([ -n "$prefill" ] && echo 2 || echo 1)"
}

compare() { python3 "$root/tests/gpu/compare_answers.py" "$@"; }

serve "$backend" plain
ask_each "$logs/alone"
ask_together "$logs/together" &
together=$!
read_metrics decode
read_metrics prefill
wait "$together"
read_metrics decode
read_metrics prefill
grep -h '^baton_kv_.*bytes_total\|^baton_generation_tokens_total' "$logs/decode.prom" "$logs/prefill.prom"
[ "$backend" = cpu ] || wants_metric decode baton_decode_cycles_total 1
grep -q '^baton_kv_pushed_bytes_total{.*} 0$' "$logs/prefill.prom" || fail "bytes were copied on one GPU"
build/bin/baton status --router="$address" | tee "$logs/status.txt"
[ "$backend" = cpu ] || grep -q 'by cuda_ipc' "$logs/status.txt" ||
  fail "wanted a transport cuda_ipc in the status above, found none"
stop_stack
compare --exact "$logs/alone" "$logs/together"

serve "$backend" chunks prefill:--chunk_tokens=100
ask_each "$logs/chunked"
wants_metric prefill baton_prefill_chunks_total "$((${#prompts[@]} + 1))"
stop_stack
compare --exact "$logs/alone" "$logs/chunked"

# Prompts wait for each other while the first of them is held up, and then share a chunk.
serve "$backend" packing prefill:--pack_tokens=8192 prefill:--test_chunk_delay_ms=300 decode:--max_prefills=16
ask_together "$logs/packed"
[ "$backend" = cpu ] || wants_metric prefill baton_packed_prompts_total 2
stop_stack
compare --exact "$logs/alone" "$logs/packed"

serve "$backend" pushing prefill:--test_always_push
ask_each "$logs/pushed"
[ "$backend" = cpu ] || wants_metric prefill baton_kv_pushed_bytes_total 1
stop_stack
compare --exact "$logs/alone" "$logs/pushed"

serve "$backend" itself decode:--prefill=self
ask_each "$logs/self"
wants_metric decode baton_self_prefills_total "${#prompts[@]}"
stop_stack
compare --exact "$logs/alone" "$logs/self"

serve "$backend" inline decode:--inline_prefill_tokens=64
ask_each "$logs/inline-alone"
ask_together "$logs/inline-together"
wants_metric decode baton_inline_prefills_total 2
stop_stack
compare --exact "$logs/inline-alone" "$logs/inline-together"

for dtype in bfloat16 float32; do
  serve cpu "cpu-$dtype" "decode:--dtype=$dtype" "prefill:--dtype=$dtype"
  ask_each "$logs/$dtype"
  stop_stack
done
compare "$logs/bfloat16" "$logs/float32" "$logs/alone"
compare "$logs/bfloat16" "$logs/float32" "$logs/alone" "$logs/inline-alone"

#!/usr/bin/env bash
# The whole service on one GPU against the whole service on the CPU, North Nano, real processes:
#   tests/gpu/stack.sh BIN ROOT LOGS
# Tokens must be equal wherever the choice was not a near tie; alone and with others in the batch they must be equal to
# the bit; the transport must be cuda_ipc, in place; /metrics of both workers must answer while they serve.
set -euo pipefail

[ $# -eq 3 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bin=$(readlink -f "$1")
root=$(readlink -f "$2")
mkdir -p "$3"
logs=$(readlink -f "$3")
model=$root/deploy/models/north-nano
max_tokens=64

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

# serve BACKEND: starts the three processes; their logs are LOGS/BACKEND.
serve() {
  log_dir=$logs/$1
  start_service decode build/bin/baton-decode --backend="$1" --model="$model"
  local decode=$address
  start_service prefill build/bin/baton-prefill --backend="$1" --model="$model"
  start_service router build/bin/baton-router --model="$model" --prefill_workers="$address" --decode_workers="$decode"
  wait_for_workers "$address" 2
}

serve cuda
ask_each "$logs/cuda-alone"
ask_together "$logs/cuda-together" &
together=$!
read_metrics decode
read_metrics prefill
wait "$together"
read_metrics decode
read_metrics prefill
grep -h '^baton_kv_.*bytes_total\|^baton_generation_tokens_total' "$logs/decode.prom" "$logs/prefill.prom"
grep -q '^baton_kv_pushed_bytes_total{.*} 0$' "$logs/prefill.prom" || fail "bytes were copied on one GPU"
build/bin/baton status --router="$address" | tee "$logs/status.txt"
grep -q 'by cuda_ipc' "$logs/status.txt" || fail "wanted a transport cuda_ipc in the status above, found none"
stop_stack
serve cpu
ask_each "$logs/cpu-alone"
stop_stack
python3 "$root/tests/gpu/compare_answers.py" --exact "$logs/cuda-alone" "$logs/cuda-together"
python3 "$root/tests/gpu/compare_answers.py" "$logs/cpu-alone" "$logs/cuda-alone"

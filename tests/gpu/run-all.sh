#!/usr/bin/env bash
# Runs every test and benchmark that needs a GPU and prints one table last; nothing is built:
#   tests/gpu/run-all.sh BIN ROOT [LOGS] [ONLY]
# BIN: a folder with the programs, or with what tests/gpu/pack.sh made of them. ROOT: this repository. LOGS: outputs.
# ONLY: run the steps whose names contain it, or one of several with commas between. BATON_STEP_SECONDS: no step may
# take longer. BATON_CHECKPOINTS: where to make checkpoints, else in memory. BATON_SANITIZER: the compute-sanitizer to
# take, else that of PATH.
# Exit status 0 when no step failed; the table names what was skipped in part, on a machine without a GPU say.
set -uo pipefail

[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bin=$(readlink -f "$1")
root=$(readlink -f "$2")
logs=${3:-$(mktemp -d)}
only=${4:-}
mkdir -p "$logs"
logs=$(readlink -f "$logs")
if [ -f "$bin/programs.tar.gz" ]; then
  unpacked=$(mktemp -d)
  trap 'rm -rf "$unpacked"' EXIT
  tar -xzf "$bin/programs.tar.gz" -C "$unpacked" || exit 2
  bin=$unpacked/bin
fi
names=()
results=()
seconds=()

export LD_LIBRARY_PATH=$bin/../lib:/usr/local/cuda/targets/x86_64-linux/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Not grep -q, which would end ldconfig by a signal.
if ! ldconfig -p | grep 'libstdc++\.so\.6' >/dev/null; then LD_LIBRARY_PATH+=:$bin/../lib/cxx; fi
export BATON_TEST_ROOT=$root BATON_TEST_PROGRAMS=$bin BATON_TEST_LOGS=$logs

# wanted NAME: it is one of ONLY.
wanted() {
  local part parts
  IFS=, read -ra parts <<<"$only,"
  for part in "${parts[@]}"; do
    case "$1" in *"$part"*) return 0 ;; esac
  done
  return 1
}

# step NAME LIMIT_SECONDS COMMAND...: its output goes to LOGS/NAME.log and to ours.
step() {
  local name=$1 limit=$2 begin=$SECONDS status=0
  shift 2
  wanted "$name" || return 0
  [ "$limit" -le "${BATON_STEP_SECONDS:-$limit}" ] || limit=$BATON_STEP_SECONDS
  printf '\n== %s: %s\n' "$name" "$*"
  timeout --kill-after=5 "$limit" "$@" 2>&1 | tee "$logs/$name.log" || status=$?
  names+=("$name")
  seconds+=($((SECONDS - begin)))
  # What was skipped did not pass.
  if [ "$status" = 124 ]; then
    results+=("FAILED: over ${limit} s")
  elif [ "$status" != 0 ]; then
    results+=("FAILED: status $status")
  elif grep -qE '^\[  SKIPPED \] [1-9]|no CUDA device' "$logs/$name.log"; then
    results+=("skipped in part")
  else
    results+=("passed")
  fi
}

nano=$root/deploy/models/north-nano
oracle=$root/tests/fixtures/oracle
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv,noheader || true

# The CPU backend too: what has a GPU often has instructions that this repository's own machines lack.
step cpu-kernels 120 "$bin/unit_kernels_cpu" --gtest_brief=1
for dtype in bfloat16 float32; do
  step "cpu-check-$dtype" 60 "$bin/baton" check --backend=cpu --dtype="$dtype" --model="$nano" \
    --oracle="$oracle/north-nano"
done
sets=(portable)
if grep -q '\bavx2\b' /proc/cpuinfo; then sets+=(avx2); fi
if grep -q '\bavx512bw\b' /proc/cpuinfo; then sets+=(avx512); fi
for set in "${sets[@]}"; do
  step "cpu-bench-$set" 60 "$bin/decode_step_bench" --model="$nano" --instruction_set="$set"
done
step kv-cuda-ipc 60 "$bin/unit_kernels_kv" --gtest_brief=1 --gtest_filter='*uda*'
step decode-kernel 120 "$bin/gpu_decode"
step decode-wide 120 "$bin/gpu_decode_wide"
step decode-parity 120 "$bin/gpu_decode_parity" --gtest_brief=1
step decode-faults 120 "$bin/gpu_decode_faults" --gtest_brief=1
step baseline 120 "$bin/gpu_baseline" --gtest_brief=1
step prefill-kernels 180 "$bin/prefill_gpu_test" --models "$root/deploy/models" --oracle "$oracle"
check=("$bin/baton" check --backend=cuda --model="$nano" --oracle="$oracle/north-nano")
step check-cuda 60 "${check[@]}"
step check-cuda-chunks 60 "${check[@]}" --chunk-tokens=7
step load-nano 30 "$bin/load_bench" "$nano" 3
step stack 200 "$root/tests/gpu/stack.sh" "$bin" "$root" "$logs/stack"
# Hundreds of processes start and end, some seconds each.
step fault-kills 400 "$bin/gpu_fault" --gtest_filter='*KilledPrefills*'
step fault-restarts 400 "$bin/gpu_fault" --gtest_filter='*RestartedDecodes*'
step fault-others 120 "$bin/gpu_fault" --gtest_filter='-*KilledPrefills*:*RestartedDecodes*'
step failures 120 env BATON_TEST_BACKEND=cuda "$bin/system_failure"
step one-gpu 120 python3 "$root/tests/gpu/serve_local.py" one-gpu "$bin" "$logs" --model="$nano" --tokens=3000
if [ "$(nvidia-smi -L | wc -l)" -ge 2 ]; then
  step two-gpu 120 python3 "$root/tests/gpu/serve_local.py" two-gpu "$bin" "$logs" --model="$nano" --tokens=3000
  step bench-push 120 "$bin/push_bench" --pieces 1,8,0
fi
step bench-decode-nano 60 "$bin/baton" bench decode --model="$nano" --context=512
step bench-decode 200 "$bin/baton" bench decode --batch=1,2,4,8,16,24,32
step bench-decode-context 120 "$bin/baton" bench decode --batch=1 --context=131072
step bench-decode-idle 120 "$bin/baton" bench decode --batch=1 --json
step bench-decode-ratio 200 "$bin/baton" bench decode --batch=1,8,16,32 --baseline
step bench-decode-long 120 "$bin/baton" bench decode --batch=1 --steps=10000
step bench-decode-pool 120 "$bin/baton" bench decode --batch=8 --routing=27
step bench-decode-ragged 120 "$bin/baton" bench decode --contexts=100,8192,700,65536,3000,12000,1,131000
# Every access and barrier of three small shapes, in one to four tiles of rows; a finding is an error. racecheck, which
# knows of one block's own barriers alone, takes the build that is made for it (kernels/cuda/decode/racecheck.cuh).
# Compute Sanitizer 2026.4 was seen to follow that; PyPI has it as nvidia-cuda-sanitizer-api.
sanitizer=${BATON_SANITIZER:-compute-sanitizer}
sanitize() {
  local name=$1 program=$2 shapes='*everyexpertchosen:*LayerNorm:*sharedexpertsaveraged'
  BATON_SLOW_DEVICE=1 step "$name" 300 "$sanitizer" --tool "${name#*-}" --report-api-errors no \
    --error-exitcode 9 "$bin/$program" --gtest_brief=1 --gtest_filter="$shapes"
}
if command -v "$sanitizer" > /dev/null; then
  for tool in memcheck synccheck; do sanitize "sanitizer-$tool" gpu_decode_parity; done
  sanitize races-racecheck gpu_decode_racecheck
else
  printf '\nsanitizers: not run, %s is not installed\n' "$sanitizer"
fi
# A checkpoint of North Mini Code's widths: 4 layers against the reference, all 49 for loading. Both go to memory.
memory=${BATON_CHECKPOINTS:-/dev/shm}
step make-checkpoint-4 120 "$root/tests/gpu/make_checkpoint.py" "$memory/north4" --layers 4
step oracle-4 200 "$root/tests/gpu/write_oracle.py" "$memory/north4" "$logs/north4"
step check-north-4 120 "$bin/baton" check --backend=cuda --model="$memory/north4" --oracle="$logs/north4"
step decode-north-4 120 "$bin/decode_oracle" "$memory/north4" "$logs/north4"
step baseline-north-4 120 "$bin/baton" bench decode --model="$memory/north4" --batch=1,8,32 --steps=16 --baseline
rm -rf "$memory/north4"
# One that lies there already is used, and stays.
made=0
if wanted make-checkpoint && [ ! -e "$memory/north/model.safetensors.index.json" ]; then
  step make-checkpoint 200 "$root/tests/gpu/make_checkpoint.py" "$memory/north"
  made=1
fi
step load-north 120 "$bin/load_bench" "$memory/north" 2
north=(--model="$memory/north")
step full-one-gpu 200 python3 "$root/tests/gpu/serve_local.py" one-gpu "$bin" "$logs" "${north[@]}" --seconds=0 \
  --repeats=3
compare=(python3 "$root/tests/bench/serve_compare.py" "${north[@]}" --backend=cuda --bin="$bin")
shares=()
for share in 73:28 75:25 66:34; do
  shares+=(--stack="$share decode_share=${share%:*} prefill_share=${share#*:}")
done
step serve-compare 400 "${compare[@]}" --pair=one-gpu --logs="$logs/serve-compare" "${shares[@]}"
# Goodput: answers of 64 tokens, each with a bound on its first token and on 99 % of the others.
bounded=(--requests=30 --rate=2 --prompt-tokens='2048*3+8192' --output-tokens=64 --ttft-bound-ms=2000 --itl-bound-ms=30)
step serve-goodput 200 "${compare[@]}" --pair=one-gpu --logs="$logs/serve-goodput" -- "${bounded[@]}"
# Prompts of 16 tokens beside long ones, through prefill and through decode's rows.
long=(--requests=6 --rate=1 --prompt-tokens=8192 --output-tokens=16 --steady-rows=8
  --steady-alone-seconds=0)
short=(--requests=60 --rate=6 --prompt-tokens=16 --output-tokens=4)
step serve-short 200 "${compare[@]}" --pair=one-gpu --logs="$logs/serve-short" --no-self --stack=prefill \
  --stack="rows decode:inline_prefill_tokens=64" -- --requests=8 --prompt-tokens=4 --output-tokens=2 \
  -- --requests=8 --prompt-tokens=16 --output-tokens=2 -- --requests=8 --prompt-tokens=64 --output-tokens=2 \
  -- "${long[@]}" ++ "${short[@]}"
if [ "$(nvidia-smi -L | wc -l)" -ge 2 ]; then
  step serve-two-gpu 200 "${compare[@]}" --pair=two-gpu --logs="$logs/serve-two-gpu"
fi
[ "$made" = 0 ] || rm -rf "$memory/north"
step bench-prefill 150 "$bin/baton" bench prefill
step bench-prefill-pinned 100 "$bin/baton" bench prefill --lengths=512,2048,8192,32768 --pinned
step bench-prefill-packed 100 "$bin/baton" bench prefill --lengths=32768 --pack=2048 --stages

printf '\n%-22s %8s  %s\n' step seconds result
failed=0
for index in "${!names[@]}"; do
  printf '%-22s %8s  %s\n' "${names[index]}" "${seconds[index]}" "${results[index]}"
  case "${results[index]}" in FAILED*) failed=1 ;; esac
done
[ "${#names[@]}" -gt 0 ] || failed=1
exit "$failed"

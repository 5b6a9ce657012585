# shellcheck shell=bash
# What ./one-gpu and ./two-gpu share; sourced by them after setup.sh and stack.sh.

model=""
weight_mib=0
router_port=50051
chunk_tokens=8192
prefill_flags=()
decode_flags=()
export CUDA_DEVICE_ORDER=PCI_BUS_ID # Numbers as nvidia-smi shows them.
start_limit_tenths=9000 # A large checkpoint may come from a slow disk.

# Reads the common arguments; what it does not know goes to own_argument of the script.
read_arguments() {
  local argument
  for argument in "$@"; do
    case "$argument" in
      --model=*) model=${argument#*=} ;;
      --router_port=*) router_port=${argument#*=} ;;
      --chunk_tokens=*) chunk_tokens=${argument#*=} ;;
      --prefill:*) prefill_flags+=("--${argument#--prefill:}") ;;
      --decode:*) decode_flags+=("--${argument#--decode:}") ;;
      --help | -h)
        usage
        exit 0
        ;;
      *) own_argument "$argument" || fail "unknown argument '$argument'; see $0 --help" ;;
    esac
  done
  [ -n "$model" ] || fail "say which checkpoint to serve: --model=DIR (deploy/models/north-nano is the small one)."
  [ -f "$model/config.json" ] || fail "$model holds no config.json: give a Hugging Face checkpoint directory."
  # Both processes must agree: decode sizes its rings of window pages by it.
  prefill_flags=("--chunk_tokens=$chunk_tokens" "${prefill_flags[@]}")
  decode_flags=("--chunk_tokens=$chunk_tokens" "${decode_flags[@]}")
}

need_programs() {
  local program
  for program in baton baton-router baton-prefill baton-decode; do
    [ -x "build/bin/$program" ] || fail "build/bin/$program is missing: cmake --preset cuda && cmake --build build"
  done
}

need_gpus() {
  local found
  command -v nvidia-smi >/dev/null || fail "no nvidia-smi: is the NVIDIA driver installed?"
  found=$(nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null | wc -l)
  [ "$found" -ge "$1" ] || fail "wanted $1 GPU(s), found $found (nvidia-smi -L)."
}

# Sets weight_mib: MiB that one copy of the checkpoint's weights takes.
need_weights() {
  local bytes=0 size file
  for file in "$model"/*.safetensors; do
    size=$(stat -Lc %s "$file" 2>/dev/null) || fail "$model holds no *.safetensors."
    bytes=$((bytes + size))
  done
  weight_mib=$((bytes >> 20))
}

# need_memory GPU MIB WHY: that much device memory must be free.
need_memory() {
  local free
  free=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits -i "$1" 2>/dev/null) ||
    fail "nvidia-smi knows no GPU $1 (nvidia-smi -L)."
  [ "$free" -ge "$2" ] || fail "GPU $1: wanted $2 MiB free ($3), found $free MiB (nvidia-smi shows who holds the rest)."
}

# Says what decode's arena holds, from its log.
say_kv() {
  local line bytes pages tokens
  line=$(grep -o 'msg="arena" .*' "$log_dir/decode.log" | tail -n 1) || return 0
  bytes=$(sed -n 's/.* bytes=\([0-9]*\).*/\1/p' <<<"$line")
  pages=$(sed -n 's/.*full_pages=\([0-9]*\).*/\1/p' <<<"$line")
  tokens=$(sed -n 's/.*max_context_tokens=\([0-9]*\).*/\1/p' <<<"$line")
  say "KV cache: $((bytes >> 20)) MiB, $((pages * 64)) tokens in all, one request up to $tokens"
}

# serve_pair PREFILL DECODE: starts the router for the pair at these addresses, has one token answered, which needs
# the hand-over to work, and serves until Ctrl-C.
serve_pair() {
  start_service router build/bin/baton-router --model="$model" --listen="127.0.0.1:$router_port" \
    --prefill_workers="$1" --decode_workers="$2"
  wait_for_workers "$address" 2
  say_kv
  if ! build/bin/baton generate --router="$address" --prompt="Hello" --max-tokens=1 --timeout=120 \
    >"$log_dir/first-answer.log" 2>&1; then
    cat "$log_dir/first-answer.log" >&2
    grep -h 'attach refused' "$log_dir/prefill.log" >&2 || true
    fail "the pair did not answer a first request: the reasons are above, logs in $log_dir/."
  fi
  build/bin/baton status --router="$address"
  cat <<TXT

Serving $model on $address. In another terminal:
  build/bin/baton chat --router=$address
  build/bin/baton status --router=$address
Ctrl-C here stops everything. Logs: $log_dir/
TXT
  watch_stack
}

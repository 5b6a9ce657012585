# shellcheck shell=bash
# What ./one-gpu and ./two-gpu share; sourced by them after setup.sh and stack.sh.

model=""
router_port=50051
prefill_flags=()
decode_flags=()

# Reads the common arguments; what it does not know goes to own_argument of the script.
read_arguments() {
  local argument
  for argument in "$@"; do
    case "$argument" in
      --model=*) model=${argument#*=} ;;
      --router_port=*) router_port=${argument#*=} ;;
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
}

need_programs() {
  local program
  for program in baton-router baton-prefill baton-decode; do
    [ -x "build/bin/$program" ] || fail "build/bin/$program is missing: cmake --preset cuda && cmake --build build"
  done
}

need_gpus() {
  local found
  command -v nvidia-smi >/dev/null || fail "no nvidia-smi: is the NVIDIA driver installed?"
  found=$(nvidia-smi --query-gpu=uuid --format=csv,noheader 2>/dev/null | wc -l)
  [ "$found" -ge "$1" ] || fail "wanted $1 GPU(s), found $found (nvidia-smi -L)."
}

# serve_pair PREFILL DECODE: starts the router for the pair at these addresses and serves until Ctrl-C.
serve_pair() {
  start_service router build/bin/baton-router --model="$model" --listen="127.0.0.1:$router_port" \
    --prefill_workers="$1" --decode_workers="$2"
  wait_for_workers "$address" 2
  cat <<TXT

Serving $model on $address. In another terminal:
  build/bin/baton chat --router=$address
  build/bin/baton status --router=$address
Ctrl-C here stops everything. Logs: $log_dir/
TXT
  watch_stack
}

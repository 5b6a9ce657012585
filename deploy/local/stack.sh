# shellcheck shell=bash
# Starts and stops Baton's processes on this machine; sourced by ./quickstart and the scripts beside it, after setup.sh.
# Callers set log_dir.

stack_pids=()   # In the order of their start.
stack_names=()
log_lock=""     # Set by claim_logs: the descriptor that holds log_dir.
address=""      # Set by await_service: host:port of the service it waited for.

port_is_free() {
  ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# Prints 127.0.0.1:PORT, or port 0, which lets the process pick, when PORT is taken.
loopback() {
  if port_is_free "$1"; then echo "127.0.0.1:$1"; else echo "127.0.0.1:0"; fi
}

# Takes log_dir for as long as this script or a service that it started lives; where another has it, a folder beside.
# What else outlives the script must not inherit log_lock.
claim_logs() {
  mkdir -p "$log_dir"
  exec {log_lock}>"$log_dir/.lock"
  flock -n "$log_lock" || log_dir=$log_dir-$$
}

# begin_service NAME PROGRAM ARGS...: starts it in a process group of its own, with its log in log_dir. It gets SIGTERM
# if this script dies first.
begin_service() {
  local name=$1
  shift
  mkdir -p "$log_dir"
  : >"$log_dir/$name.out" # Of an earlier run there must be nothing to wait for.
  set -m
  setpriv --pdeathsig TERM "$@" </dev/null >"$log_dir/$name.out" 2>"$log_dir/$name.log" &
  stack_pids+=("$!")
  set +m
  stack_names+=("$name")
}

# await_service NAME: waits until it says `listening address=...`, and sets address.
await_service() {
  local name=$1 waited=0 pid="" index
  for index in "${!stack_names[@]}"; do
    if [ "${stack_names[index]}" = "$name" ]; then pid=${stack_pids[index]}; fi
  done
  while ! grep -q '^listening address=' "$log_dir/$name.out"; do
    if ! kill -0 "$pid" 2>/dev/null; then
      tail -n 5 "$log_dir/$name.log" >&2
      fail "$name ended while it started: its last words are above, all of them in $log_dir/$name.log."
    fi
    waited=$((waited + 1))
    [ "$waited" -lt "${start_limit_tenths:-600}" ] ||
      fail "$name did not start within $((${start_limit_tenths:-600} / 10)) s: see $log_dir/$name.log."
    sleep 0.1
  done
  address=$(sed -n 's/^listening address=\([^ ]*\).*/\1/p' "$log_dir/$name.out")
  say "$name listens on $address (pid $pid, log $log_dir/$name.log)"
}

# start_service NAME PROGRAM ARGS...: both.
start_service() {
  begin_service "$@"
  await_service "$1"
}

# wait_for_workers ROUTER COUNT: until the router sees COUNT workers ready.
wait_for_workers() {
  local tenths ready
  for ((tenths = 0; tenths < 300; tenths++)); do
    ready=$(build/bin/baton status --router="$1" --json 2>/dev/null | grep -o '"state": *"ready"' | wc -l) || true
    [ "$ready" -lt "$2" ] || return 0
    sleep 0.1
  done
  build/bin/baton status --router="$1" >&2 || true
  fail "the router saw $ready of $2 workers ready after 30 s: their states are above, logs in $log_dir."
}

# Ends the processes in the reverse order of their start: the router lets requests finish, then the workers go.
stop_stack() {
  local index pid tenths
  for ((index = ${#stack_pids[@]} - 1; index >= 0; index--)); do
    pid=${stack_pids[index]}
    kill -TERM "$pid" 2>/dev/null || continue
    for ((tenths = 0; tenths < 100; tenths++)); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    if kill -KILL "$pid" 2>/dev/null; then say "${stack_names[index]} did not stop within 10 s and was killed"; fi
    wait "$pid" 2>/dev/null || true
  done
  stack_pids=()
  stack_names=()
}

# Waits until one of the processes ends, which none should.
watch_stack() {
  local index
  while :; do
    for index in "${!stack_pids[@]}"; do
      kill -0 "${stack_pids[index]}" 2>/dev/null ||
        fail "${stack_names[index]} ended by itself: see $log_dir/${stack_names[index]}.log."
    done
    sleep 1 {log_lock}>&- &
    wait $! || true
  done
}

# shellcheck shell=bash
# Shared by ./quickstart and ./run-tests; sourced, not run. Messages, packages, steps that stop on Ctrl-C.

# With ccache, a clone in another folder finds what this one has compiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

say() { printf '%s\n' "== $*"; }

# Ends the script with a sentence that says what to do.
fail() {
  printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# The process group of the step that runs now; empty between steps.
step_pid=""

stop_step() {
  [ -n "$step_pid" ] || return 0
  kill -TERM -- "-$step_pid" 2>/dev/null || true
  wait "$step_pid" 2>/dev/null || true
  step_pid=""
}

# Runs one command in a process group of its own, so that an interrupt ends all of it and nothing else.
run_step() {
  local status=0
  set -m
  "$@" </dev/null &
  step_pid=$!
  set +m
  wait "$step_pid" || status=$?
  step_pid=""
  return "$status"
}

# Prints the packages of deploy/packages.txt that are not installed; the arguments are the kinds wanted.
missing_packages() {
  local name kind
  while read -r name kind _; do
    case "$name" in '' | '#'*) continue ;; esac
    case " $* " in *" ${kind:-build} "*) ;; *) continue ;; esac
    if ! dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null | grep -x installed >/dev/null; then
      printf '%s ' "$name"
    fi
  done <deploy/packages.txt
}

# Installs what is missing of the kinds given. Returns 1 with a sentence on stderr when that is not possible.
install_packages() {
  local missing as_root=()
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This is not Debian or Ubuntu: install what deploy/packages.txt names with your own package manager." >&2
    return 0
  fi
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "Packages are missing and there is no sudo. As root: apt-get install $missing" >&2
      return 1
    fi
    as_root=(sudo)
    # Without a terminal nobody can type a password: refuse at once instead of waiting.
    if [ "${CI:-}" = true ] || ! [ -t 2 ]; then as_root=(sudo -n); fi
  fi
  say "installing $missing"
  if ! run_step "${as_root[@]}" apt-get update -q; then
    echo "apt-get update failed: is there a network, and are the sources in /etc/apt right?" >&2
    return 1
  fi
  # shellcheck disable=SC2086  # One word per package is meant.
  if ! run_step "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends $missing; then
    echo "apt-get could not install $missing: see its message above." >&2
    return 1
  fi
}

#!/usr/bin/env bash
# Packs the built programs that tests/gpu/run-all.sh runs, stripped, with the shared libraries that they need, as
# DIR/programs.tar.gz:
#   tests/gpu/pack.sh DIR [BUILD]
# bin/ holds the programs, lib/ the libraries. Not packed: the C library, CUDA's driver and cuBLAS, which are the other
# machine's. lib/cxx/ holds this compiler's C++ library, for machines that have none.
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
archive=$(readlink -f "$1")/programs.tar.gz
target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT
build=${2:-build}
programs=(bin/baton bin/baton-decode bin/baton-prefill bin/baton-router bin/decode_oracle bin/decode_step_bench
  bin/load_bench bin/prefill_gpu_test bin/push_bench tests/gpu_baseline tests/gpu_decode tests/gpu_decode_faults
  tests/gpu_decode_parity tests/gpu_decode_racecheck tests/gpu_decode_wide tests/gpu_fault tests/kv_peer_process
  tests/system_failure tests/unit_kernels_cpu tests/unit_kernels_kv)

mkdir -p "$target/bin" "$target/lib/cxx"
for program in "${programs[@]}"; do
  strip -o "$target/bin/$(basename "$program")" "$build/$program"
done

ldd "$target"/bin/* | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | while read -r library; do
  case "$(basename "$library")" in
    libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | libresolv.so* | libcuda.so* | libcublas*) ;;
    libstdc++.so* | libgcc_s.so*) cp -L "$library" "$target/lib/cxx/" ;;
    *) strip -o "$target/lib/$(basename "$library")" "$library" ;;
  esac
done
tar -czf "$archive" -C "$target" bin lib
du -h "$archive"

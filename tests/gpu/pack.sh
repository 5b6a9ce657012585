#!/usr/bin/env bash
# Copies the built programs that tests/gpu/run-all.sh runs, stripped, with the shared libraries that they need, to DIR:
#   tests/gpu/pack.sh DIR [BUILD]
# DIR/bin holds the programs, DIR/lib the libraries. Not copied: the C library, CUDA's driver and cuBLAS, which are the
# other machine's. DIR/lib/cxx holds this compiler's C++ library, for machines that have none.
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
target=$1
build=${2:-build}
programs=(bin/baton bin/baton-router bin/baton-prefill bin/baton-decode bin/prefill_gpu_test bin/prefill_bench
  tests/gpu_decode tests/unit_kernels_kv tests/kv_peer_process)

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
du -sh "$target/bin" "$target/lib"

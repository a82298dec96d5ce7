#!/usr/bin/env bash
# Makes a Python environment of the benchmarks, unless it is there, and prints the path of its Python as the last line.
#   bench/python.sh             what bench/compare needs, in the cache folder
#   bench/python.sh families    torch and transformers, 5 GB, in build-families/venv, where ops/test --long has it, too
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../ops/lib/common.sh"

case ${1:-} in
  "") home=$cache/bench-python requirements=$root/bench/requirements.txt ;;
  families) home=$root/build-families/venv requirements=$root/tests/families/requirements.txt ;;
  *) die "usage: bench/python.sh [families]" ;;
esac
ensure_packages python3-venv
mkdir -p "$(dirname "$home")"
ensure_venv "$home" "$requirements"
printf '%s\n' "$home/bin/python"

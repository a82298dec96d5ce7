#!/usr/bin/env bash
# Makes the Python environment of the benchmarks in the cache folder, unless it is there, and prints
# the path of its Python as the last line.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../ops/lib/common.sh"

home=$cache/bench-python
ensure_packages python3-venv
ensure_venv "$home" "$root/bench/requirements.txt"
printf '%s\n' "$home/bin/python"

#!/usr/bin/env bash
# Makes the Python environment of the benchmarks in the cache folder and prints its python's path
# as the last line. Run again, it only prints.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../ops/lib/common.sh"

home=$cache/bench-python
ensure_packages python3-venv
ensure_venv "$home" "$root/bench/requirements.txt"
printf '%s\n' "$home/bin/python"

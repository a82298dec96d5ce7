#!/usr/bin/env bash
# Makes the Python environment of the benchmarks in the cache folder and prints its python's path
# as the last line. Run again, it only prints.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../ops/lib/common.sh"

home=$cache/bench-python
wanted=$root/bench/requirements.txt
if ! cmp -s "$wanted" "$home/installed"; then
  ensure_packages python3-venv
  note "installing what the benchmarks need"
  python3 -m venv "$home"
  "$home/bin/pip" install -q --disable-pip-version-check -r "$wanted" >&2
  cp "$wanted" "$home/installed"
fi
printf '%s\n' "$home/bin/python"

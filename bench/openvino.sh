#!/usr/bin/env bash
# Installs OpenVINO GenAI from PyPI into a virtual environment in the cache folder, unless it is there,
# and prints the path of that environment's Python as the last line.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../ops/lib/common.sh"

version=2026.4.1.0
home=$cache/openvino-genai-$version
if [ ! -f "$home/installed" ]; then
  ensure_packages python3-venv
  note "installing openvino-genai $version"
  python3 -m venv "$home"
  "$home/bin/pip" install -q --disable-pip-version-check "openvino-genai==$version" >&2
  touch "$home/installed"
fi
printf '%s\n' "$home/bin/python"

# Functions for the scripts of ops/. Source this file, do not run it.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=${MILLRACE_BUILD:-$root/build}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/millrace
jobs=${MILLRACE_JOBS:-$(nproc)}

note() { printf '%s\n' "== $*" >&2; }
die() {
  printf '%s\n' "error: $*" >&2
  exit 1
}

# as_root COMMAND...: runs COMMAND as root, through sudo if needed.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    sudo "$@"
  else
    die "installing packages needs root: run this command as root, install sudo, or run ops/setup once as root"
  fi
}

# ensure_packages NAME...: installs the Debian packages that are missing. Prints nothing if none is.
ensure_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  command -v apt-get >/dev/null 2>&1 ||
    die "apt-get is missing, and this script installs packages only with it: install yourself: ${missing[*]}"
  note "installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# ensure_venv FOLDER REQUIREMENTS: makes a virtual environment in FOLDER with exactly the packages of the file.
ensure_venv() {
  local folder=$1 requirements=$2 missing
  if ! cmp -s "$requirements" "$folder/installed"; then
    note "installing the Python packages of ${requirements#"$root"/}"
    python3 -m venv --clear "$folder"
    # The list includes dependencies, so that pip chooses no version by itself; pip check names missing ones.
    "$folder/bin/pip" install -q --disable-pip-version-check --no-deps -r "$requirements" >&2
    missing=$("$folder/bin/pip" check --disable-pip-version-check) ||
      die "the packages of $requirements are incomplete or do not fit together; correct the file: $missing"
    cp "$requirements" "$folder/installed"
  fi
}

# build_targets [TARGET...]: configures and builds the targets (by default all). The tests belong to the build once
# GoogleTest is installed, which programs alone do not need.
build_targets() {
  local tests=OFF
  [ ! -e /usr/include/gtest/gtest.h ] || tests=ON
  [ -f "$build/build.ninja" ] && grep -q "^MILLRACE_TESTS:BOOL=$tests" "$build/CMakeCache.txt" ||
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMILLRACE_TESTS=$tests >/dev/null
  if [ $# -eq 0 ]; then
    cmake --build "$build" -j "$jobs"
  else
    cmake --build "$build" -j "$jobs" --target "$@"
  fi
}

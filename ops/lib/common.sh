# Shared by the scripts of ops/: source it, do not run it.
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

# as_root COMMAND...: runs it as root, through sudo where needed.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    sudo "$@"
  else
    die "need root to install packages: run as root, install sudo, or run once as root: ops/setup"
  fi
}

# ensure_packages NAME...: installs the Debian packages that are not there yet; says nothing if all are.
ensure_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'install ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  command -v apt-get >/dev/null 2>&1 || die "this script knows Debian's apt-get only; install: ${missing[*]}"
  note "installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# ensure_venv FOLDER REQUIREMENTS: a virtual environment in FOLDER that holds exactly what the file lists.
ensure_venv() {
  local folder=$1 requirements=$2 missing
  if ! cmp -s "$requirements" "$folder/installed"; then
    note "installing the Python packages of ${requirements#"$root"/}"
    python3 -m venv --clear "$folder"
    # What a package needs is in the list, too: pip chooses no version by itself, and then says what is missing.
    "$folder/bin/pip" install -q --disable-pip-version-check --no-deps -r "$requirements" >&2
    missing=$("$folder/bin/pip" check --disable-pip-version-check) ||
      die "$requirements does not name all packages in versions that fit: $missing"
    cp "$requirements" "$folder/installed"
  fi
}

# build_targets [TARGET...]: configures once and builds (all by default).
build_targets() {
  [ -f "$build/build.ninja" ] || cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
  if [ $# -eq 0 ]; then
    cmake --build "$build" -j "$jobs"
  else
    cmake --build "$build" -j "$jobs" --target "$@"
  fi
}

#!/usr/bin/env bash
# Fetches llama.cpp's source by package name (the PyPI sdist llama-cpp-python contains it) and builds one
# of its programs in the cache folder, optimised for this processor. Prints the program's path as its last line.
#   bench/llama.sh [TARGET]        default: llama-batched-bench
#   bench/llama.sh --source        builds nothing, and prints the folder of the source
#   bench/llama.sh --library       builds nothing, and prints the folder of the libraries that the npm package
#                                  @node-llama-cpp/linux-x64 has prebuilt, for every processor
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../ops/lib/common.sh"

version=0.3.36
target=${1:-llama-batched-bench}
home=$cache/llama-cpp-python-$version
# The build uses all features of this processor, so it may not run on another one that shares the cache folder.
processor=$(grep -m 1 -E '^(flags|Features)' /proc/cpuinfo | sha256sum | cut -c 1-12)
built=$home/build-$processor
program=$built/bin/$target
fetch_source() {
  [ -d "$home/source" ] && return
  ensure_packages python3-pip
  note "fetching llama-cpp-python $version"
  mkdir -p "$home"
  python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d "$home" \
    "llama-cpp-python==$version"
  rm -rf "$home/unpacked"
  mkdir "$home/unpacked"
  tar -xzf "$home"/llama_cpp_python-*.tar.gz -C "$home/unpacked" --strip-components 3 \
    --wildcards '*/vendor/llama.cpp/*'
  mv "$home/unpacked" "$home/source"
}

prebuilt=3.22.1 # llama.cpp v0.5.0
library=$cache/node-llama-cpp-$prebuilt
fetch_library() {
  [ -d "$library" ] && return
  [ "$(uname -m)" = x86_64 ] || die "the npm package with llama.cpp's libraries is for x86-64, not for $(uname -m)"
  command -v npm >/dev/null 2>&1 || ensure_packages npm
  note "fetching @node-llama-cpp/linux-x64 $prebuilt"
  local temporary
  mkdir -p "$cache"
  temporary=$(mktemp -d "$cache/.node-llama-cpp-XXXXXX")
  (cd "$temporary" && npm pack --silent "@node-llama-cpp/linux-x64@$prebuilt" >&2 && tar -xzf ./*.tgz) || {
    rm -rf "$temporary"
    die "npm could not fetch @node-llama-cpp/linux-x64@$prebuilt: check the network and npm's settings, then run it again"
  }
  mv "$temporary/package" "$library"
  rm -rf "$temporary"
}

if [ "$target" = --source ]; then
  fetch_source
  printf '%s\n' "$home/source"
  exit 0
fi
if [ "$target" = --library ]; then
  fetch_library
  printf '%s\n' "$library/bins/linux-x64"
  exit 0
fi
if [ ! -x "$program" ]; then
  ensure_packages g++ cmake ninja-build
  fetch_source
  note "building $target"
  compiler=()
  if grep -q -m 1 amx_int8 /proc/cpuinfo; then
    # GCC 12 leaves out most of what llama.cpp writes for the instruction that configures AMX, and the program
    # crashes there.
    ensure_packages clang-19
    compiler=(-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19)
  fi
  cmake -S "$home/source" -B "$built" -G Ninja "${compiler[@]}" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
    -DLLAMA_CURL=OFF -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=ON \
    -DLLAMA_BUILD_SERVER=ON -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF >&2
  cmake --build "$built" -j "$jobs" --target "$target" >&2
fi
printf '%s\n' "$program"

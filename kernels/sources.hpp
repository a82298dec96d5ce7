#pragma once
// The OpenCL C sources, embedded by path ("norm/rms.cl"). They are constants, which any thread may
// read.
#include <cstddef>
#include <span>
#include <string_view>

namespace millrace::kernels {

struct Source {
  std::string_view path;  // below kernels/
  std::string_view text;
};

std::span<const Source> sources();                 // sorted by path
const Source* find_source(std::string_view path);  // null if there is no such file

}  // namespace millrace::kernels

#pragma once
// Builds programs from sources and defines, through the cache; internal to this folder. Thread
// safety: any thread, if what BuildTarget points to outlives the call; two threads may not build
// the same source at once.
#include "engine/core/device/device.hpp"
#include "engine/core/device/opencl.hpp"
#include "engine/core/device/program_cache.hpp"

namespace millrace::engine {

struct BuildTarget {
  cl_context context = nullptr;
  cl_device_id device = nullptr;
  const DeviceInfo* info = nullptr;
  const ProgramCache* cache = nullptr;
};

// A program's whole text.
struct ProgramSource {
  ProgramSpec spec;
  std::string text;
  Hash128 key;  // of all that the binary depends on
};
// `text` is that of program_text(spec).
ProgramSource source_of(const BuildTarget& target, ProgramSpec spec, std::string text);
// Errors: program_text's (source_text.hpp).
Result<ProgramSource> program_source(const BuildTarget& target, const ProgramSpec& spec);

struct BuiltProgram {
  Program program;
  bool cached = false;  // its binary was in the cache
};
// Errors: kernel_build with the compiler's whole log; device_error.
Result<BuiltProgram> build_program(const BuildTarget& target, const ProgramSource& source);

}  // namespace millrace::engine

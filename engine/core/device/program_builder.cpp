#include "engine/core/device/program_builder.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/device/completed_text.hpp"
#include "engine/core/device/source_text.hpp"
#include "schemas/base/hash.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

constexpr std::string_view cache_version = "1";

// Only options that every OpenCL 1.2 compiler knows, because PoCL refuses unknown ones. -w turns
// warnings off: PoCL would print their number on standard error, among our own lines.
constexpr const char* options = "-cl-std=CL1.2 -w";

Hash128 key_of(const DeviceInfo& info, std::string_view text, bool completed) {
  Hasher128 hasher;
  for (const std::string_view part :
       {cache_version, std::string_view(info.platform), std::string_view(info.name),
        std::string_view(info.driver), std::string_view(info.version), std::string_view(options),
        std::string_view(completed ? "completed" : ""), text}) {
    hasher.update(part);
    hasher.update(std::string_view("\0", 1));
  }
  return hasher.digest();
}

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t size = 0;
  if (clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) !=
      CL_SUCCESS) {
    return "the driver gives no build log";
  }
  std::string log(size, '\0');
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return log.empty() ? "the driver's build log is empty" : log;
}

// For messages: " (K=576, TILE=6)". Tables are left out.
std::string defines_of(const ProgramSpec& spec) {
  std::string out;
  for (const std::string& define : spec.defines) {
    if (define.size() < 40) out += (out.empty() ? " (" : ", ") + define;
  }
  return out.empty() ? out : out + ")";
}

Result<Handle<_cl_program>> from_source(cl_context context, cl_device_id device,
                                        const ProgramSpec& spec, const std::string& text) {
  const char* start = text.data();
  const std::size_t size = text.size();
  cl_int error = CL_SUCCESS;
  Handle<_cl_program> program(clCreateProgramWithSource(context, 1, &start, &size, &error));
  MILLRACE_TRY(check_opencl(error, "clCreateProgramWithSource", spec.name));
  error = clBuildProgram(program.get(), 1, &device, options, nullptr, nullptr);
  if (error == CL_SUCCESS) return program;
  return fail(Code::kernel_build,
              "clBuildProgram failed with " + std::string(opencl_error_name(error)) +
                  " for program " + spec.name + defines_of(spec) + ":\n" +
                  build_log(program.get(), device),
              "the driver's OpenCL compiler refused this source: update the driver or choose "
              "another --device");
}

// Null if the driver refuses the binary; `log` is then what it says.
Handle<_cl_program> from_binary(cl_context context, cl_device_id device, const std::string& binary,
                                std::string& log) {
  const auto* start = reinterpret_cast<const unsigned char*>(binary.data());
  const std::size_t size = binary.size();
  cl_int accepted = CL_SUCCESS, error = CL_SUCCESS;
  Handle<_cl_program> program(
      clCreateProgramWithBinary(context, 1, &device, &size, &start, &accepted, &error));
  if (error != CL_SUCCESS || accepted != CL_SUCCESS) {
    log = "clCreateProgramWithBinary failed with " + std::string(opencl_error_name(error));
    return nullptr;
  }
  error = clBuildProgram(program.get(), 1, &device, options, nullptr, nullptr);
  if (error == CL_SUCCESS) return program;
  log = build_log(program.get(), device);
  return nullptr;
}

Result<std::string> binary_of(cl_program program, std::string_view name) {
  std::size_t size = 0;
  MILLRACE_TRY(
      check_opencl(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr),
                   "clGetProgramInfo", name));
  std::string binary(size, '\0');
  auto* start = reinterpret_cast<unsigned char*>(binary.data());
  MILLRACE_TRY(check_opencl(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof start,
                                             static_cast<void*>(&start), nullptr),
                            "clGetProgramInfo", name));
  return binary;
}

// Builds a program whose text the driver gives, completed; `binary` becomes that text.
Result<Handle<_cl_program>> completed(cl_context context, cl_device_id device,
                                      const ProgramSpec& spec, cl_program source,
                                      std::string& binary) {
  MILLRACE_ASSIGN(const std::string text, binary_of(source, spec.name));
  MILLRACE_ASSIGN(binary, completed_text(text));
  std::string log;
  if (auto program = from_binary(context, device, binary, log)) return program;
  return fail(Code::kernel_build,
              "the driver refuses the completed text of program " + spec.name + defines_of(spec) +
                  ":\n" + log,
              "this driver does not know an instruction; the program is not needed, others stand "
              "for it");
}

}  // namespace

Result<ProgramSource> program_source(const BuildTarget& target, const ProgramSpec& spec) {
  MILLRACE_ASSIGN(std::string text, program_text(spec));
  return source_of(target, spec, std::move(text));
}

ProgramSource source_of(const BuildTarget& target, ProgramSpec spec, std::string text) {
  const Hash128 key = key_of(*target.info, text, spec.completed);
  return {std::move(spec), std::move(text), key};
}

Result<BuiltProgram> build_program(const BuildTarget& target, const ProgramSource& source) {
  const auto& [context, device, info, cache] = target;
  const ProgramSpec& spec = source.spec;
  if (const auto binary = cache->load(source.key, spec.name)) {
    std::string log;
    if (auto program = from_binary(context, device, *binary, log)) {
      return BuiltProgram{Program(std::move(program), spec.name), true};
    }
    log_warn(
        "the driver refuses a cached program; it is built again",
        {{"program", spec.name}, {"file", cache->path_of(source.key, spec.name)}, {"log", log}});
  }
  MILLRACE_ASSIGN(Handle<_cl_program> program, from_source(context, device, spec, source.text));
  if (spec.completed) {
    std::string binary;
    MILLRACE_ASSIGN(program, completed(context, device, spec, program.get(), binary));
    if (cache->on()) cache->store(source.key, spec.name, binary);
  } else if (cache->on()) {
    if (const auto binary = binary_of(program.get(), spec.name)) {
      if (!binary->empty()) cache->store(source.key, spec.name, *binary);
    } else {
      log_warn("the driver does not give a program's binary, so the program is not cached",
               binary.error());
    }
  }
  return BuiltProgram{Program(std::move(program), spec.name)};
}

}  // namespace millrace::engine

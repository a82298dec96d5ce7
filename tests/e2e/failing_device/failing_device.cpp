// Simulates a device that breaks. Preloaded into a process, it makes one launch of a kernel fail,
// makes a running kernel fail, loses the device for good, or makes a kernel run for ever.
//
//   LD_PRELOAD=libfailing_device.so FAILING_DEVICE=/a/file PROGRAM...
//
// The file contains a word, `fails`, `breaks`, `lost` or `hangs`, and a number N: this happens at
// the N-th launch of the process. The process removes the file before, so that only one of several
// consecutive processes fails. $FAILING_DEVICE_PLATFORM, if set, is the name of every platform.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

struct Fault {
  std::string what{};
  std::uint64_t launch = 0;
};

std::string control() {
  const char* const path = std::getenv("FAILING_DEVICE");
  return path == nullptr ? std::string() : std::string(path);
}

const Fault& fault() {
  static const Fault read = [] {
    Fault out;
    std::ifstream(control()) >> out.what >> out.launch;
    return out;
  }();
  return read;
}

std::atomic<std::uint64_t> launches{0};
std::atomic<bool> breaks{false}, is_lost{false}, hangs{false};

bool fails_now() {
  return ++launches == fault().launch && ::unlink(control().c_str()) == 0;
}

template <class Function>
Function next_symbol(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel,
                                                       cl_uint dimensions,
                                                       const std::size_t* offset,
                                                       const std::size_t* global,
                                                       const std::size_t* local, cl_uint waits,
                                                       const cl_event* wait_list, cl_event* event) {
  static const auto real = next_symbol<decltype(&clEnqueueNDRangeKernel)>("clEnqueueNDRangeKernel");
  if (fails_now()) {
    if (fault().what == "fails") return CL_INVALID_KERNEL_ARGS;
    (fault().what == "breaks" ? breaks : fault().what == "lost" ? is_lost : hangs) = true;
  }
  if (is_lost) return CL_DEVICE_NOT_AVAILABLE;
  return real(queue, kernel, dimensions, offset, global, local, waits, wait_list, event);
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info key,
                                                  std::size_t room, void* value,
                                                  std::size_t* size) {
  static const auto real = next_symbol<decltype(&clGetPlatformInfo)>("clGetPlatformInfo");
  const char* const name = std::getenv("FAILING_DEVICE_PLATFORM");
  if (key != CL_PLATFORM_NAME || name == nullptr) return real(platform, key, room, value, size);
  const std::size_t bytes = std::strlen(name) + 1;
  if (size != nullptr) *size = bytes;
  if (value == nullptr) return CL_SUCCESS;
  if (room < bytes) return CL_INVALID_VALUE;
  std::memcpy(value, name, bytes);
  return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clWaitForEvents(cl_uint count, const cl_event* events) {
  static const auto real = next_symbol<decltype(&clWaitForEvents)>("clWaitForEvents");
  while (hangs) ::pause();
  const cl_int error = is_lost ? CL_DEVICE_NOT_AVAILABLE : real(count, events);
  return breaks.exchange(false) ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : error;
}

CL_API_ENTRY cl_int CL_API_CALL clFinish(cl_command_queue queue) {
  static const auto real = next_symbol<decltype(&clFinish)>("clFinish");
  while (hangs) ::pause();
  return is_lost ? CL_DEVICE_NOT_AVAILABLE : real(queue);
}
}

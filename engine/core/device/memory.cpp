#include "engine/core/device/memory.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace millrace::engine {
namespace {

// It goes with its buffer, which commands may hold longer than we do.
struct SharedMemory {
  cl_context context = nullptr;
  void* memory = nullptr;

  SharedMemory(cl_context of, void* at) : context(of), memory(at) {}
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { clSVMFree(context, memory); }
};

void CL_CALLBACK free_shared(cl_mem /*buffer*/, void* shared) {
  delete static_cast<SharedMemory*>(shared);
}

Result<Buffer> allocate_shared(cl_context context, std::uint64_t bytes, std::string_view what) {
  void* const memory =
      clSVMAlloc(context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, bytes, 0);
  if (memory == nullptr) {
    return fail(Code::out_of_memory,
                "no memory for " + std::string(what) + ": " + std::to_string(bytes) + " bytes",
                "use smaller steps or less KV memory");
  }
  auto shared = std::make_unique<SharedMemory>(context, memory);
  cl_int error = CL_SUCCESS;
  Handle<_cl_mem> buffer(
      clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, memory, &error));
  MILLRACE_TRY(check_opencl(error, "clCreateBuffer", what));
  MILLRACE_TRY(
      check_opencl(clSetMemObjectDestructorCallback(buffer.get(), free_shared, shared.get()),
                   "clSetMemObjectDestructorCallback", what));
  static_cast<void>(shared.release());  // the buffer's now
  return Buffer(std::move(buffer), bytes, memory);
}

}  // namespace

bool shares_memory(cl_device_id device) {
  cl_device_svm_capabilities able = 0;
  const cl_int error =
      clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof able, &able, nullptr);
  return error == CL_SUCCESS && (able & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
}

Result<Buffer> allocate_buffer(cl_context context, std::uint64_t bytes, bool shared,
                               std::string_view what) {
  if (shared) return allocate_shared(context, bytes, what);
  cl_int error = CL_SUCCESS;
  Handle<_cl_mem> buffer(clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, nullptr, &error));
  MILLRACE_TRY(check_opencl(error, "clCreateBuffer", what));
  return Buffer(std::move(buffer), bytes);
}

Status name_addresses(const Kernel& kernel, std::span<const Buffer* const> buffers) {
  std::vector<void*> pointers;
  for (const Buffer* buffer : buffers) {
    if (*buffer) pointers.push_back(buffer->address());
  }
  return check_opencl(clSetKernelExecInfo(kernel.handle(), CL_KERNEL_EXEC_INFO_SVM_PTRS,
                                          pointers.size() * sizeof(void*),
                                          static_cast<const void*>(pointers.data())),
                      "clSetKernelExecInfo", kernel.name());
}

}  // namespace millrace::engine

#include "engine/core/device/handles.hpp"

#include "engine/core/device/opencl.hpp"

namespace millrace::engine {

void ReleaseHandle::operator()(_cl_mem* handle) const {
  clReleaseMemObject(handle);
}
void ReleaseHandle::operator()(_cl_kernel* handle) const {
  clReleaseKernel(handle);
}
void ReleaseHandle::operator()(_cl_program* handle) const {
  clReleaseProgram(handle);
}
void ReleaseHandle::operator()(_cl_event* handle) const {
  clReleaseEvent(handle);
}

Buffer Buffer::share() const {
  if (handle_) clRetainMemObject(handle_.get());
  return Buffer(Handle<_cl_mem>(handle_.get()), size_bytes_, address_);
}

Program Program::share() const {
  if (handle_) clRetainProgram(handle_.get());
  return Program(Handle<_cl_program>(handle_.get()), name_);
}

void UnmapHostMemory::operator()(std::byte* address) const {
  clEnqueueUnmapMemObject(queue, buffer, address, 0, nullptr, nullptr);
  clReleaseMemObject(buffer);
  clReleaseCommandQueue(queue);
}

}  // namespace millrace::engine

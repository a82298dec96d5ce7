#include "engine/core/device/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "schemas/base/number_text.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20;
// Buffers are cut from slabs of this size; a larger buffer gets a slab of its own. Parts of a slab
// that are never written take no memory.
constexpr std::uint64_t slab_bytes = std::uint64_t{32} << 20;
constexpr std::uint64_t cut_bytes = 4096;

constexpr std::uint64_t round_to(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

// Shared memory from which buffers are cut, one after the other. The last buffer frees it.
class Memory::Slab {
 public:
  Slab(cl_context context, std::uint64_t bytes)
      : context_(context),
        memory_(clSVMAlloc(context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER,
                           bytes + huge_page_bytes, 0)),
        next_(memory_),
        left_(memory_ == nullptr ? 0 : bytes + huge_page_bytes) {
    if (std::align(huge_page_bytes, bytes, next_, left_) == nullptr) return;
    left_ = bytes;
    // Only a request: without huge pages everything works, but a few percent slower.
    static_cast<void>(madvise(next_, bytes, MADV_HUGEPAGE));
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() { clSVMFree(context_, memory_); }

  // Null if the slab has not enough memory left.
  void* cut(std::uint64_t bytes) {
    const std::uint64_t whole = round_to(bytes, cut_bytes);
    if (whole > left_) return nullptr;
    left_ -= whole;
    return std::exchange(next_, static_cast<std::byte*>(next_) + whole);
  }

 private:
  cl_context context_;
  void* memory_;
  void* next_;
  std::size_t left_;
};

Result<Buffer> Memory::allocate(std::uint64_t bytes, std::string_view what) {
  if (shared_) return allocate_shared(bytes, what);
  cl_int error = CL_SUCCESS;
  Handle<_cl_mem> buffer(clCreateBuffer(context_, CL_MEM_READ_WRITE, bytes, nullptr, &error));
  MILLRACE_TRY(check_opencl(error, "clCreateBuffer", what));
  return Buffer(std::move(buffer), bytes);
}

Result<Buffer> Memory::allocate_shared(std::uint64_t bytes, std::string_view what) {
  using Share = std::shared_ptr<Slab>;
  Share slab = slab_;
  void* memory = slab ? slab->cut(bytes) : nullptr;
  if (memory == nullptr) {
    slab = std::make_shared<Slab>(context_, std::max(slab_bytes, round_to(bytes, huge_page_bytes)));
    memory = slab->cut(bytes);
    if (bytes < slab_bytes) slab_ = slab;
  }
  if (memory == nullptr) {
    return fail(Code::out_of_memory, "no memory for " + std::string(what) + ": " + size_text(bytes),
                "free memory, or give the container more");
  }
  cl_int error = CL_SUCCESS;
  Handle<_cl_mem> buffer(
      clCreateBuffer(context_, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, memory, &error));
  MILLRACE_TRY(check_opencl(error, "clCreateBuffer", what));
  // The OpenCL buffer owns a share of the slab, because commands may use it after our Buffer is
  // gone.
  auto share = std::make_unique<Share>(std::move(slab));
  const auto drop = [](cl_mem, void* held) { delete static_cast<Share*>(held); };
  MILLRACE_TRY(check_opencl(clSetMemObjectDestructorCallback(buffer.get(), drop, share.get()),
                            "clSetMemObjectDestructorCallback", what));
  static_cast<void>(share.release());
  return Buffer(std::move(buffer), bytes, memory);
}

bool shares_memory(cl_device_id device) {
  cl_device_svm_capabilities able = 0;
  const cl_int error =
      clGetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof able, &able, nullptr);
  return error == CL_SUCCESS && (able & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
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

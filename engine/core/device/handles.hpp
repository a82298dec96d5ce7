#pragma once
// Owners of OpenCL objects. They release them when destroyed, and are movable but not copyable. The
// C API's types are only declared here, so that users of a Buffer do not compile its headers.
// Thread safety: plain values.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

struct _cl_mem;      // NOLINT(bugprone-reserved-identifier): the names that OpenCL's headers use
struct _cl_kernel;   // NOLINT(bugprone-reserved-identifier)
struct _cl_program;  // NOLINT(bugprone-reserved-identifier)
struct _cl_event;    // NOLINT(bugprone-reserved-identifier)
struct _cl_command_queue;  // NOLINT(bugprone-reserved-identifier)

namespace millrace::engine {

struct ReleaseHandle {
  void operator()(_cl_mem* handle) const;
  void operator()(_cl_kernel* handle) const;
  void operator()(_cl_program* handle) const;
  void operator()(_cl_event* handle) const;
};
template <class T>
using Handle = std::unique_ptr<T, ReleaseHandle>;

// Device memory. A kernel that is given an empty Buffer receives a null pointer.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Handle<_cl_mem> handle, std::uint64_t size_bytes, void* address = nullptr)
      : handle_(std::move(handle)), size_bytes_(size_bytes), address_(address) {}

  std::uint64_t size_bytes() const { return size_bytes_; }
  explicit operator bool() const { return handle_ != nullptr; }
  _cl_mem* handle() const { return handle_.get(); }
  // The address that kernels may use, see Device::has_addresses; null for an empty buffer.
  void* address() const { return address_; }
  // Another owner of the same memory.
  Buffer share() const;

 private:
  Handle<_cl_mem> handle_;
  std::uint64_t size_bytes_ = 0;
  void* address_ = nullptr;
};

struct UnmapHostMemory {
  _cl_command_queue* queue = nullptr;  // owned, as the buffer is
  _cl_mem* buffer = nullptr;
  void operator()(std::byte* address) const;
};

// Memory of the host that the driver has pinned, so that copies to and from the device run at the
// link's full speed and beside the host's work.
class HostMemory {
 public:
  HostMemory() = default;
  HostMemory(std::unique_ptr<std::byte, UnmapHostMemory> address, std::size_t size_bytes)
      : address_(std::move(address)), size_bytes_(size_bytes) {}

  std::span<std::byte> bytes() const { return {address_.get(), size_bytes_}; }

 private:
  std::unique_ptr<std::byte, UnmapHostMemory> address_;
  std::size_t size_bytes_ = 0;
};

// A compiled function. Launching sets its arguments, so one Kernel belongs to one thread.
class Kernel {
 public:
  Kernel() = default;
  Kernel(Handle<_cl_kernel> handle, std::string name)
      : handle_(std::move(handle)), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  explicit operator bool() const { return handle_ != nullptr; }
  _cl_kernel* handle() const { return handle_.get(); }

 private:
  Handle<_cl_kernel> handle_;
  std::string name_;
};

// A compiled set of sources.
class Program {
 public:
  Program() = default;
  Program(Handle<_cl_program> handle, std::string name)
      : handle_(std::move(handle)), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  _cl_program* handle() const { return handle_.get(); }
  // Another owner of the same program.
  Program share() const;

 private:
  Handle<_cl_program> handle_;
  std::string name_;
};

// The end of an enqueued command; Device::wait blocks until then.
class DeviceEvent {
 public:
  DeviceEvent() = default;
  explicit DeviceEvent(Handle<_cl_event> handle) : handle_(std::move(handle)) {}
  explicit operator bool() const { return handle_ != nullptr; }
  _cl_event* handle() const { return handle_.get(); }

 private:
  Handle<_cl_event> handle_;
};

}  // namespace millrace::engine

#pragma once
// One OpenCL device with one in-order queue: memory, programs, launches, transfers. It is passed
// explicitly to everything that computes; a process may open several.
//
//   MILLRACE_ASSIGN(auto device, Device::open({.device = "NVIDIA"}));
//   MILLRACE_ASSIGN(Buffer x, device->allocate(bytes, "activations"));
//   MILLRACE_ASSIGN(Program p, device->build({.name = "norm", .sources = {"norm/rms.cl"}}));
//   MILLRACE_ASSIGN(Kernel k, device->kernel(p, "rms_norm"));
//   MILLRACE_TRY(device->launch(k, {.groups = {rows}}, {x, weight, out, width}));
//
// Commands run in the order in which they are enqueued; `read`, `wait`, `finish` and `profile`
// block, and so does a `write` of many megabytes. Errors: no_device; device_error and out_of_memory
// with the call that failed and what it was for; kernel_build with the compiler's log. Thread
// safety: one owner thread. Only announced programs are built on others (program_builds.hpp).
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/device/dot.hpp"
#include "engine/core/device/handles.hpp"
#include "engine/core/device/kernel_time.hpp"
#include "engine/core/device/program_times.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// The kernels that a device runs: `generic` ones are plain OpenCL C 1.2, `cpu` ones use explicit
// vectors of 16, `nvidia` ones the matrix unit of NVIDIA GPUs.
enum class Family : std::uint8_t { generic, cpu, nvidia };
std::string_view family_name(Family family);

class Device;

struct DeviceOptions {
  // "PLATFORM:DEVICE" (two numbers, as `list_devices` gives them), the device's uuid, or a part of
  // the device's or platform's name, in any case. "" takes $MILLRACE_DEVICE, and if that is empty
  // too, the first GPU or accelerator, or else the first CPU, in the loader's order.
  std::string device{};
  // "generic", "cpu" or "nvidia" forces a family, "cpu-avx2" (or another name of dot.hpp) also its
  // dot products; "" chooses by the device's type.
  std::string variant{};
  // Folder of the program cache. "" is $XDG_CACHE_HOME/millrace/programs, but no cache with PoCL,
  // which has its own.
  std::string cache_dir{};
  bool profile = false;                    // times every launch, see Device::profile
  std::uint64_t max_allocation_bytes = 0;  // lowers the device's own limit; 0: that limit
  // Takes the device for one with so much memory of its own; 0: as it is.
  std::uint64_t own_bytes = 0;
  // Most cores to use: of a CPU device, and of the host while weights are loaded; 0:
  // usable_cores().
  std::uint32_t cores = 0;
  std::uint32_t compute_units = 0;  // forces the number of groups; 0: as many as cores
  // Threads that build announced programs. 0: as many as pay off, which is one with PoCL.
  std::uint32_t build_threads = 0;
  // Path of a program that compiles announced programs in processes of its own
  // (helper_program.hpp); empty: none. And the most such processes; 0: as many as pay off, which is
  // none but with NVIDIA's driver. They need the program cache, and room on the device.
  std::string program_helper{};
  std::uint32_t program_helpers = 0;
  // A Device of the same OpenCL device whose context this one uses; nullptr: a context of its own.
  // PoCL parses its library of built-in functions once a context, for half a second.
  const Device* shares_context_with = nullptr;
};

enum class DeviceType : std::uint8_t { cpu, gpu, accelerator, other };

struct DeviceInfo {
  std::uint32_t platform_index = 0, device_index = 0;
  std::string platform, name, vendor, driver, version;
  std::string uuid;  // 32 hex digits; empty where the driver names none
  DeviceType type = DeviceType::other;
  std::uint32_t compute_units = 1;
  std::uint32_t vector_width_float = 1;  // the device's native width; 0 or 1 if it has no vectors
  std::uint64_t global_bytes = 0;
  bool has_own_memory = false;             // apart from the host's, which other programs use, too
  std::uint64_t max_allocation_bytes = 0;  // of one buffer; the total may be more
  // Of NVIDIA GPUs: 10 * major + minor, as in 90 for the H100; 0 elsewhere.
  std::uint32_t compute_capability = 0;

  // Whether a warp can multiply 16 rows by 8 columns of 16 halves (kernels/matmul/mma.cl).
  bool has_matrix_unit() const { return compute_capability >= 80; }
};

// Every device of every platform, in the loader's order; empty if there is none.
Result<std::vector<DeviceInfo>> list_devices();
// The device that Device::open chooses for DeviceOptions::device. Errors: no_device, device_error.
Result<DeviceInfo> chosen_device(std::string_view option);
// The devices that --devices means: "all" are all devices like the one that `option` chooses,
// "0:1,2" names them, one by its number alone on the platform of that one. They are of one kind.
// `name` is the list's option. Errors: no_device, device_error, usage (not of one kind, or named
// twice).
Result<std::vector<DeviceInfo>> chosen_devices(std::string_view option, std::string_view list,
                                               std::string_view name = "--devices");
// What of a device decides the bits of a result. Devices of one kind share it.
std::string numeric_identity(const DeviceInfo& info);
bool is_pocl(const DeviceInfo& info);

// One argument of a launch: a buffer or a scalar.
class KernelArg {
 public:
  KernelArg(const Buffer& buffer) : size_(sizeof(void*)), is_buffer_(true) {  // NOLINT
    buffer_ = buffer.handle();
  }
  KernelArg(std::uint32_t value) : size_(4) { scalar_.u32 = value; }  // NOLINT
  KernelArg(std::int32_t value) : size_(4) { scalar_.i32 = value; }   // NOLINT
  KernelArg(std::uint64_t value) : size_(8) { scalar_.u64 = value; }  // NOLINT
  KernelArg(float value) : size_(4) { scalar_.f32 = value; }          // NOLINT

  std::size_t size() const { return size_; }
  const void* data() const {
    return is_buffer_ ? static_cast<const void*>(&buffer_) : static_cast<const void*>(&scalar_);
  }

 private:
  _cl_mem* buffer_ = nullptr;
  union {
    std::uint32_t u32;
    std::int32_t i32;
    std::uint64_t u64;
    float f32;
  } scalar_{};
  std::size_t size_;
  bool is_buffer_ = false;
};

// A number of groups or of work-items, in three dimensions. None may be 0.
struct Extent {
  std::size_t x = 1, y = 1, z = 1;
};
struct Grid {
  Extent groups{}, local{};  // `local`: work-items of a group, 1 on the cpu family
};

// A file below kernels/, which names the files that it needs (kernels/README.md). The defines come
// right before its text and replace earlier ones of the same name. Files that it includes once see
// the program's defines alone.
struct SourcePart {
  SourcePart(const char* file) : path(file) {}             // NOLINT(google-explicit-constructor)
  SourcePart(std::string file) : path(std::move(file)) {}  // NOLINT(google-explicit-constructor)
  SourcePart(std::string file, std::vector<std::string> with)
      : path(std::move(file)), defines(std::move(with)) {}
  std::string path;
  std::vector<std::string> defines;  // "K=576"
};

struct ProgramSpec {
  std::string name{};                  // for messages and the cache
  std::vector<SourcePart> sources{};   // joined in order, after what they include
  std::vector<std::string> defines{};  // "HEAD_DIM=64": lines at the beginning
  std::string text{};                  // source text that follows the files and may include others
  bool completed = false;              // it has marked instructions (completed_text.hpp)
};

class Device {
 public:
  static Result<std::unique_ptr<Device>> open(const DeviceOptions& options);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  const DeviceInfo& info() const;
  Family family() const;
  Dot dot() const;                   // the dot products of the cpu family
  std::uint32_t host_cores() const;  // that work on the host may use (DeviceOptions::cores)
  // Work-items of a group that goes along rows (ROW_ITEMS of kernels/common/prelude.cl), where one
  // source serves all families: 1 if the family's groups are single work-items.
  std::uint32_t row_items() const {
    if (family() == Family::cpu) return 1;
    // On an H100, SiLU of one row takes .021 ms a layer with 128, .038 with 32.
    return family() == Family::nvidia ? 128 : 32;
  }

  // Memory with undefined content, at most info().max_allocation_bytes; `what` names it in errors.
  Result<Buffer> allocate(std::uint64_t bytes, std::string_view what);
  Result<Buffer> allocate_zeroed(std::uint64_t bytes, std::string_view what);
  // Pinned memory of the host with undefined content; blocks until earlier commands are done.
  Result<HostMemory> allocate_host(std::uint64_t bytes, std::string_view what);
  // Whether kernels may access buffers by addresses in a table: true on CPU devices that share
  // memory with the host. `reads_by_address` names these buffers to the driver. A launch keeps its
  // arguments alive, but not these buffers: they must stay until it is done.
  bool has_addresses() const;
  Status reads_by_address(const Kernel& kernel, std::span<const Buffer* const> buffers);

  // Compiles a program, or loads it from the program cache. Compiling takes long.
  Result<Program> build(const ProgramSpec& spec);
  // Calls `prepare` and begins to build, on threads of their own, the programs that it asks for;
  // build() and kernel() give it empty objects, which it must not launch. Afterwards the caller
  // makes the same calls again, and build() waits for what is not yet done: meanwhile it can do
  // other things. Nothing happens where one thread builds programs. Errors: those of `prepare`;
  // those of compiling come from build().
  Status announce(const std::function<Status()>& prepare);
  ProgramTimes program_times() const;  // since the device was opened
  Result<Kernel> kernel(const Program& program, const char* name);

  Status launch(Kernel& kernel, const Grid& grid, std::initializer_list<KernelArg> args);
  // Copies `bytes` before it returns, so the caller may change them at once.
  Status write(const Buffer& to, std::uint64_t offset, std::span<const std::byte> bytes);
  Status copy(const Buffer& from, std::uint64_t from_offset, const Buffer& to,
              std::uint64_t to_offset, std::uint64_t bytes);
  Status fill_zero(const Buffer& buffer, std::uint64_t offset, std::uint64_t bytes);
  // Blocks until all earlier commands are done and the bytes have arrived.
  Status read(const Buffer& from, std::uint64_t offset, std::span<std::byte> into);
  // `into` must stay valid until the event has been waited for.
  Result<DeviceEvent> enqueue_read(const Buffer& from, std::uint64_t offset,
                                   std::span<std::byte> into);
  // Rows that are consecutive in the buffer from `offset` on, and `pitch_bytes` apart in host
  // memory, which must stay valid until the event has been waited for.
  struct HostRows {
    std::size_t row_bytes = 0, rows = 0, pitch_bytes = 0;
  };
  Result<DeviceEvent> enqueue_read_rows(const Buffer& from, std::uint64_t offset, std::byte* into,
                                        const HostRows& shape);
  Result<DeviceEvent> enqueue_write_rows(const Buffer& to, std::uint64_t offset,
                                         const std::byte* from, const HostRows& shape);
  // `from` must stay valid and unchanged until the event has been waited for.
  Result<DeviceEvent> enqueue_write(const Buffer& to, std::uint64_t offset,
                                    std::span<const std::byte> from);
  Status wait(const DeviceEvent& event);  // of any device
  Status flush();                         // submits the enqueued commands to the device
  Status finish();                        // waits for all enqueued commands

  // Totals since the device was opened: kernel launches, and bytes allocated. Freed memory is not
  // subtracted.
  std::uint64_t launches() const;
  std::uint64_t allocated_bytes() const;

  // The time of each kernel since the last call, longest first; empty without options.profile.
  Result<std::vector<KernelTime>> profile();

 private:
  struct State;
  explicit Device(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace::engine

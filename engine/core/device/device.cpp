#include "engine/core/device/device.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>

#include "engine/core/device/context.hpp"
#include "engine/core/device/cores.hpp"
#include "engine/core/device/driver_cache.hpp"
#include "engine/core/device/memory.hpp"
#include "engine/core/device/opencl.hpp"
#include "engine/core/device/program_builds.hpp"
#include "engine/core/device/select.hpp"
#include "engine/core/device/variant.hpp"
#include "engine/core/device/waiter.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::engine {
namespace {

struct ReleaseQueue {
  void operator()(cl_command_queue queue) const { clReleaseCommandQueue(queue); }
};

// What a helper's context takes of an NVIDIA device, and as much again.
constexpr std::uint64_t helper_bytes = std::uint64_t{1} << 30;

// A write of more bytes waits for the device instead of copying.
constexpr std::size_t largest_staged_write = std::size_t{8} << 20;

// The bytes of a write that the device has not taken yet.
struct StagedWrite {
  DeviceEvent done;
  std::vector<std::byte> bytes;
};

struct TimedLaunch {
  std::string kernel;
  DeviceEvent done;
};

// PoCL caches all that it compiles, and to give a program's binary it would compile each kernel
// once more, for an unspecified local size that nothing runs. So there is no cache with PoCL.
ProgramCache cache_for(const DeviceInfo& info, const std::string& folder) {
  if (!folder.empty()) return ProgramCache(folder);
  return ProgramCache(is_pocl(info) ? std::string() : ProgramCache::default_folder());
}

}  // namespace

struct Device::State {
  cl_device_id device = nullptr;
  DeviceInfo info;
  Variant variant;
  bool profile = false;
  std::uint32_t cores = 1;
  std::uint64_t launches = 0, allocated_bytes = 0;
  ProgramCache cache{""};
  OwnedContext context;
  Memory memory;
  std::unique_ptr<_cl_command_queue, ReleaseQueue> queue;
  std::deque<StagedWrite> staged;
  std::vector<TimedLaunch> timed;
  std::optional<ProgramBuilds> builds;
  bool announcing = false;
  std::uint32_t helpers = 0;  // most
  Waiter waiter;

  // Frees the staged writes that the device has done. The queue is in order, so the oldest is
  // first.
  void collect_writes() {
    while (!staged.empty()) {
      cl_int status = CL_COMPLETE;
      const cl_int error =
          clGetEventInfo(staged.front().done.handle(), CL_EVENT_COMMAND_EXECUTION_STATUS,
                         sizeof status, &status, nullptr);
      if (error == CL_SUCCESS && status > CL_COMPLETE) return;
      staged.pop_front();
    }
  }
};

Device::Device(std::unique_ptr<State> state) : state_(std::move(state)) {}

Device::~Device() {
  if (state_->queue) clFinish(state_->queue.get());  // staged writes point into our memory
}

Result<std::unique_ptr<Device>> Device::open(const DeviceOptions& options) {
  const std::uint32_t cores = options.cores != 0 ? options.cores : usable_cores();
  limit_pocl(cores);
  MILLRACE_ASSIGN(const auto found, find_devices());
  MILLRACE_ASSIGN(FoundDevice chosen, choose_device(found, options.device));
  auto state = std::make_unique<State>();
  state->device = chosen.device;
  state->info = std::move(chosen.info);
  MILLRACE_ASSIGN(state->variant, variant_for(state->info, options.variant));
  if (options.own_bytes != 0) {
    state->info.has_own_memory = true;
    state->info.global_bytes = std::min(state->info.global_bytes, options.own_bytes);
  }
  if (options.max_allocation_bytes != 0) {
    state->info.max_allocation_bytes =
        std::min(state->info.max_allocation_bytes, options.max_allocation_bytes);
  }
  // Groups wait for each other, so there are no more groups than threads, and no more threads than
  // cores.
  if (state->info.type == DeviceType::cpu) {
    state->info.compute_units = std::min(state->info.compute_units, cores);
  }
  if (options.compute_units != 0) state->info.compute_units = options.compute_units;
  state->profile = options.profile;
  state->waiter = Waiter(state->info.compute_capability > 0);
  state->cores = cores;
  state->cache = cache_for(state->info, options.cache_dir);
  const Device* const other = options.shares_context_with;
  MILLRACE_ASSIGN(state->context, context_for(state->device, state->info.name,
                                              other ? other->state_->context.get() : nullptr));
  cl_int error = CL_SUCCESS;
  state->memory = Memory(state->context.get(),
                         state->info.type == DeviceType::cpu && shares_memory(state->device));
  const cl_command_queue_properties properties =
      options.profile ? cl_command_queue_properties{CL_QUEUE_PROFILING_ENABLE} : 0;
  state->queue.reset(clCreateCommandQueue(state->context.get(), state->device, properties, &error));
  MILLRACE_TRY(check_opencl(error, "clCreateCommandQueue", state->info.name));
  // PoCL compiles one program of a context after the other. NVIDIA's driver holds locks, too: on an
  // H200 the programs of an 8B model take 17.7 s with one thread and 13.4 s with 4 or with 16.
  const std::uint32_t build_threads = is_pocl(state->info) ? 1 : std::min(cores, 4u);
  state->builds.emplace(
      BuildTarget{state->context.get(), state->device, &state->info, &state->cache},
      options.build_threads != 0 ? options.build_threads : build_threads, options.program_helper);
  // All helpers together take a third of the margin that KV memory `auto` leaves (cache_room.hpp).
  constexpr std::uint64_t bytes_for_helper = std::uint64_t{12} << 30;
  const auto most = static_cast<std::uint32_t>(state->info.global_bytes / bytes_for_helper);
  const std::uint32_t helpers =
      state->info.compute_capability > 0 ? std::min({cores, most, 6u}) : 0;
  state->helpers = options.program_helpers != 0 ? options.program_helpers : helpers;
  log_info("device opened", {{"device", state->info.name},
                             {"platform", state->info.platform},
                             {"driver", state->info.driver},
                             {"cores", state->info.compute_units},
                             {"kernels", family_name(state->variant.family)},
                             {"dot", dot_name(state->variant.dot)}});
  if (is_pocl(state->info)) {
    log_info("the driver has a cache of its own", {{"driver_cache", pocl_cache_folder()}});
  }
  return std::unique_ptr<Device>(new Device(std::move(state)));
}

const DeviceInfo& Device::info() const {
  return state_->info;
}
Family Device::family() const {
  return state_->variant.family;
}
Dot Device::dot() const {
  return state_->variant.dot;
}

Result<Buffer> Device::allocate(std::uint64_t bytes, std::string_view what) {
  if (bytes == 0 || bytes > state_->info.max_allocation_bytes) {
    return fail(Code::out_of_memory,
                std::string(what) + " needs a buffer of " + size_text(bytes) +
                    ", the device allows " + size_text(state_->info.max_allocation_bytes),
                "choose a device with more memory, or a smaller model");
  }
  MILLRACE_ASSIGN(Buffer buffer, state_->memory.allocate(bytes, what));
  state_->allocated_bytes += bytes;
  return buffer;
}

bool Device::has_addresses() const {
  return state_->memory.has_addresses();
}

Status Device::reads_by_address(const Kernel& kernel, std::span<const Buffer* const> buffers) {
  return name_addresses(kernel, buffers);
}

Result<Buffer> Device::allocate_zeroed(std::uint64_t bytes, std::string_view what) {
  MILLRACE_ASSIGN(Buffer buffer, allocate(bytes, what));
  MILLRACE_TRY(fill_zero(buffer, 0, bytes));
  return buffer;
}

Result<HostMemory> Device::allocate_host(std::uint64_t bytes, std::string_view what) {
  cl_int error = CL_SUCCESS;
  Handle<_cl_mem> buffer(clCreateBuffer(
      state_->context.get(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, nullptr, &error));
  MILLRACE_TRY(check_opencl(error, "clCreateBuffer", what));
  void* const address =
      clEnqueueMapBuffer(state_->queue.get(), buffer.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                         bytes, 0, nullptr, nullptr, &error);
  MILLRACE_TRY(check_opencl(error, "clEnqueueMapBuffer", what));
  MILLRACE_TRY(
      check_opencl(clRetainCommandQueue(state_->queue.get()), "clRetainCommandQueue", what));
  const UnmapHostMemory unmap{.queue = state_->queue.get(), .buffer = buffer.release()};
  return HostMemory({static_cast<std::byte*>(address), unmap}, bytes);
}

Result<Program> Device::build(const ProgramSpec& spec) {
  if (!state_->announcing) return state_->builds->take(spec);
  MILLRACE_TRY(state_->builds->begin(spec));
  return Program();
}

Status Device::announce(const std::function<Status()>& prepare) {
  if (!state_->builds->ahead()) return {};
  const std::uint64_t taken = std::min(state_->allocated_bytes, state_->info.global_bytes);
  const std::uint64_t room = (state_->info.global_bytes - taken) / helper_bytes;
  state_->builds->allow_helpers(
      static_cast<std::uint32_t>(std::min<std::uint64_t>(state_->helpers, room)));
  state_->announcing = true;
  Status done = prepare();
  state_->announcing = false;
  return done;
}

ProgramTimes Device::program_times() const {
  return state_->builds->times();
}

Result<Kernel> Device::kernel(const Program& program, const char* name) {
  if (state_->announcing) return Kernel();
  cl_int error = CL_SUCCESS;
  Handle<_cl_kernel> handle(clCreateKernel(program.handle(), name, &error));
  MILLRACE_TRY(check_opencl(error, "clCreateKernel", name));
  return Kernel(std::move(handle), name);
}

std::uint32_t Device::host_cores() const {
  return state_->cores;
}

std::uint64_t Device::allocated_bytes() const {
  return state_->allocated_bytes;
}

std::uint64_t Device::launches() const {
  return state_->launches;
}

Status Device::launch(Kernel& kernel, const Grid& grid, std::initializer_list<KernelArg> args) {
  cl_uint index = 0;
  for (const KernelArg& arg : args) {
    const cl_int error = clSetKernelArg(kernel.handle(), index, arg.size(), arg.data());
    if (error != CL_SUCCESS) [[unlikely]] {
      return check_opencl(error, "clSetKernelArg",
                          kernel.name() + ", argument " + std::to_string(index));
    }
    ++index;
  }
  const std::array<std::size_t, 3> local{grid.local.x, grid.local.y, grid.local.z};
  const std::array<std::size_t, 3> global{grid.groups.x * local[0], grid.groups.y * local[1],
                                          grid.groups.z * local[2]};
  if (global[0] == 0 || global[1] == 0 || global[2] == 0) [[unlikely]] {
    return fail(Code::internal, "an empty launch of " + kernel.name());
  }
  cl_event event = nullptr;
  MILLRACE_TRY(check_opencl(
      clEnqueueNDRangeKernel(state_->queue.get(), kernel.handle(), 3, nullptr, global.data(),
                             local.data(), 0, nullptr, state_->profile ? &event : nullptr),
      "clEnqueueNDRangeKernel", kernel.name()));
  ++state_->launches;
  if (state_->profile) {
    state_->timed.push_back({kernel.name(), DeviceEvent(Handle<_cl_event>(event))});
  }
  return {};
}

Status Device::write(const Buffer& to, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  state_->collect_writes();
  if (bytes.size() > largest_staged_write) {
    return check_opencl(clEnqueueWriteBuffer(state_->queue.get(), to.handle(), CL_TRUE, offset,
                                             bytes.size(), bytes.data(), 0, nullptr, nullptr),
                        "clEnqueueWriteBuffer", "a blocking write");
  }
  StagedWrite staged{.done = {}, .bytes = {bytes.begin(), bytes.end()}};
  cl_event event = nullptr;
  MILLRACE_TRY(
      check_opencl(clEnqueueWriteBuffer(state_->queue.get(), to.handle(), CL_FALSE, offset,
                                        bytes.size(), staged.bytes.data(), 0, nullptr, &event),
                   "clEnqueueWriteBuffer", "a write"));
  staged.done = DeviceEvent(Handle<_cl_event>(event));
  state_->staged.push_back(std::move(staged));
  return {};
}

Status Device::copy(const Buffer& from, std::uint64_t from_offset, const Buffer& to,
                    std::uint64_t to_offset, std::uint64_t bytes) {
  return check_opencl(clEnqueueCopyBuffer(state_->queue.get(), from.handle(), to.handle(),
                                          from_offset, to_offset, bytes, 0, nullptr, nullptr),
                      "clEnqueueCopyBuffer", "a copy");
}

Status Device::fill_zero(const Buffer& buffer, std::uint64_t offset, std::uint64_t bytes) {
  const cl_uchar zero = 0;
  return check_opencl(clEnqueueFillBuffer(state_->queue.get(), buffer.handle(), &zero, sizeof zero,
                                          offset, bytes, 0, nullptr, nullptr),
                      "clEnqueueFillBuffer", "zeros");
}

Status Device::read(const Buffer& from, std::uint64_t offset, std::span<std::byte> into) {
  if (into.empty()) return {};
  MILLRACE_TRY(check_opencl(clEnqueueReadBuffer(state_->queue.get(), from.handle(), CL_TRUE, offset,
                                                into.size(), into.data(), 0, nullptr, nullptr),
                            "clEnqueueReadBuffer", "a read"));
  state_->collect_writes();
  return {};
}

Result<DeviceEvent> Device::enqueue_read(const Buffer& from, std::uint64_t offset,
                                         std::span<std::byte> into) {
  cl_event event = nullptr;
  MILLRACE_TRY(
      check_opencl(clEnqueueReadBuffer(state_->queue.get(), from.handle(), CL_FALSE, offset,
                                       into.size(), into.data(), 0, nullptr, &event),
                   "clEnqueueReadBuffer", "a read"));
  return DeviceEvent(Handle<_cl_event>(event));
}

Result<DeviceEvent> Device::enqueue_read_rows(const Buffer& from, std::uint64_t offset,
                                              std::byte* into, const HostRows& shape) {
  const std::size_t origin[3] = {offset, 0, 0}, start[3] = {0, 0, 0};
  const std::size_t region[3] = {shape.row_bytes, shape.rows, 1};
  cl_event event = nullptr;
  MILLRACE_TRY(check_opencl(
      clEnqueueReadBufferRect(state_->queue.get(), from.handle(), CL_FALSE, origin, start, region,
                              shape.row_bytes, 0, shape.pitch_bytes, 0, into, 0, nullptr, &event),
      "clEnqueueReadBufferRect", "a read"));
  return DeviceEvent(Handle<_cl_event>(event));
}

Result<DeviceEvent> Device::enqueue_write_rows(const Buffer& to, std::uint64_t offset,
                                               const std::byte* from, const HostRows& shape) {
  const std::size_t origin[3] = {offset, 0, 0}, start[3] = {0, 0, 0};
  const std::size_t region[3] = {shape.row_bytes, shape.rows, 1};
  cl_event event = nullptr;
  MILLRACE_TRY(check_opencl(
      clEnqueueWriteBufferRect(state_->queue.get(), to.handle(), CL_FALSE, origin, start, region,
                               shape.row_bytes, 0, shape.pitch_bytes, 0, from, 0, nullptr, &event),
      "clEnqueueWriteBufferRect", "a write"));
  return DeviceEvent(Handle<_cl_event>(event));
}

Result<DeviceEvent> Device::enqueue_write(const Buffer& to, std::uint64_t offset,
                                          std::span<const std::byte> from) {
  cl_event event = nullptr;
  MILLRACE_TRY(check_opencl(clEnqueueWriteBuffer(state_->queue.get(), to.handle(), CL_FALSE, offset,
                                                 from.size(), from.data(), 0, nullptr, &event),
                            "clEnqueueWriteBuffer", "a write"));
  return DeviceEvent(Handle<_cl_event>(event));
}

Status Device::wait(const DeviceEvent& event) {
  return state_->waiter.wait(event);
}

Status Device::flush() {
  return check_opencl(clFlush(state_->queue.get()), "clFlush", "the queue");
}

Status Device::finish() {
  MILLRACE_TRY(check_opencl(clFinish(state_->queue.get()), "clFinish", "the queue"));
  state_->collect_writes();
  return {};
}

Result<std::vector<KernelTime>> Device::profile() {
  MILLRACE_TRY(finish());
  std::map<std::string, KernelTime> times;
  for (const TimedLaunch& launch : state_->timed) {
    cl_ulong start = 0, end = 0;
    MILLRACE_TRY(
        check_opencl(clGetEventProfilingInfo(launch.done.handle(), CL_PROFILING_COMMAND_START,
                                             sizeof start, &start, nullptr),
                     "clGetEventProfilingInfo", launch.kernel));
    MILLRACE_TRY(
        check_opencl(clGetEventProfilingInfo(launch.done.handle(), CL_PROFILING_COMMAND_END,
                                             sizeof end, &end, nullptr),
                     "clGetEventProfilingInfo", launch.kernel));
    KernelTime& entry = times[launch.kernel];
    entry.kernel = launch.kernel;
    ++entry.launches;
    entry.total_ns += end - start;
  }
  state_->timed.clear();
  std::vector<KernelTime> out;
  out.reserve(times.size());
  for (auto& [name, entry] : times) out.push_back(std::move(entry));
  std::ranges::sort(out, std::ranges::greater(), &KernelTime::total_ns);
  return out;
}

}  // namespace millrace::engine

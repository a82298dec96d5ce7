#include "engine/core/device/select.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/core/device/driver_cache.hpp"

namespace millrace::engine {
namespace {

constexpr cl_int no_platform = -1001;  // CL_PLATFORM_NOT_FOUND_KHR, from the loader

constexpr const char* how_to_get_one =
    "install an OpenCL driver: `apt install pocl-opencl-icd` runs on any CPU, a GPU needs its "
    "vendor's driver; if a driver is installed but not seen, name the folder of its .icd file in "
    "the environment variable OCL_ICD_VENDORS";

// PoCL hides its device when it cannot write its cache.
std::string hint_without_device() {
  const auto trouble = pocl_cache_trouble();
  if (!trouble) return how_to_get_one;
  return "if PoCL is installed, it cannot write its cache: " + *trouble +
         "; set XDG_CACHE_HOME or POCL_CACHE_DIR to a folder that you may write to. Otherwise " +
         how_to_get_one;
}

Result<std::string> device_text(cl_device_id device, cl_device_info key, std::string_view name) {
  std::size_t size = 0;
  MILLRACE_TRY(
      check_opencl(clGetDeviceInfo(device, key, 0, nullptr, &size), "clGetDeviceInfo", name));
  std::string text(size, '\0');
  MILLRACE_TRY(check_opencl(clGetDeviceInfo(device, key, size, text.data(), nullptr),
                            "clGetDeviceInfo", name));
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

Result<std::string> platform_name(cl_platform_id platform) {
  std::size_t size = 0;
  MILLRACE_TRY(check_opencl(clGetPlatformInfo(platform, CL_PLATFORM_NAME, 0, nullptr, &size),
                            "clGetPlatformInfo", "a platform's name"));
  std::string text(size, '\0');
  MILLRACE_TRY(
      check_opencl(clGetPlatformInfo(platform, CL_PLATFORM_NAME, size, text.data(), nullptr),
                   "clGetPlatformInfo", "a platform's name"));
  while (!text.empty() && (text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

template <class T>
Result<T> device_value(cl_device_id device, cl_device_info key, std::string_view name) {
  T value{};
  MILLRACE_TRY(check_opencl(clGetDeviceInfo(device, key, sizeof value, &value, nullptr),
                            "clGetDeviceInfo", name));
  return value;
}

// The bytes of a device's identity, which stays when devices before it disappear.
Result<std::string> uuid_of(cl_device_id device) {
  constexpr cl_device_info uuid_key = 0x106A;  // CL_DEVICE_UUID_KHR
  std::array<unsigned char, 16> bytes{};
  MILLRACE_TRY(check_opencl(clGetDeviceInfo(device, uuid_key, bytes.size(), bytes.data(), nullptr),
                            "clGetDeviceInfo", "a device's uuid"));
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

DeviceType type_of(cl_device_type type) {
  if ((type & CL_DEVICE_TYPE_GPU) != 0) return DeviceType::gpu;
  if ((type & CL_DEVICE_TYPE_CPU) != 0) return DeviceType::cpu;
  if ((type & CL_DEVICE_TYPE_ACCELERATOR) != 0) return DeviceType::accelerator;
  return DeviceType::other;
}

Status describe(cl_device_id device, DeviceInfo& info) {
  MILLRACE_ASSIGN(info.name, device_text(device, CL_DEVICE_NAME, "a device's name"));
  MILLRACE_ASSIGN(info.vendor, device_text(device, CL_DEVICE_VENDOR, "a device's vendor"));
  MILLRACE_ASSIGN(info.driver, device_text(device, CL_DRIVER_VERSION, "a driver's version"));
  MILLRACE_ASSIGN(info.version, device_text(device, CL_DEVICE_VERSION, "a device's version"));
  MILLRACE_ASSIGN(const auto type,
                  device_value<cl_device_type>(device, CL_DEVICE_TYPE, "a device's type"));
  info.type = type_of(type);
  MILLRACE_ASSIGN(info.compute_units, device_value<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS,
                                                            "a device's compute units"));
  MILLRACE_ASSIGN(info.vector_width_float,
                  device_value<cl_uint>(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT,
                                        "a device's vector width"));
  MILLRACE_ASSIGN(info.global_bytes, device_value<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE,
                                                            "a device's memory size"));
  // Later versions of OpenCL advise against this question, but have no other.
  MILLRACE_ASSIGN(const auto shares_memory,
                  device_value<cl_bool>(device, CL_DEVICE_HOST_UNIFIED_MEMORY,
                                        "whether a device shares the host's memory"));
  info.has_own_memory = shares_memory == CL_FALSE && info.type != DeviceType::cpu;
  MILLRACE_ASSIGN(info.max_allocation_bytes,
                  device_value<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE,
                                         "a device's largest allocation"));
  MILLRACE_ASSIGN(const std::string extensions,
                  device_text(device, CL_DEVICE_EXTENSIONS, "a device's extensions"));
  if (extensions.find("cl_khr_device_uuid") != std::string::npos) {
    MILLRACE_ASSIGN(info.uuid, uuid_of(device));
  }
  if (extensions.find("cl_nv_device_attribute_query") == std::string::npos) return {};
  constexpr cl_device_info major_key = 0x4000, minor_key = 0x4001;
  MILLRACE_ASSIGN(const auto major,
                  device_value<cl_uint>(device, major_key, "a device's compute capability"));
  MILLRACE_ASSIGN(const auto minor,
                  device_value<cl_uint>(device, minor_key, "a device's compute capability"));
  info.compute_capability = 10 * major + minor;
  return {};
}

Result<bool> usable(cl_device_id device) {
  MILLRACE_ASSIGN(const auto available,
                  device_value<cl_bool>(device, CL_DEVICE_AVAILABLE, "a device's availability"));
  MILLRACE_ASSIGN(const auto compiler, device_value<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE,
                                                             "a device's compiler"));
  return available == CL_TRUE && compiler == CL_TRUE;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

std::optional<std::uint32_t> number_of(const std::string& text) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Parses "P:D" as two numbers; nothing if `wanted` is a name.
std::optional<std::pair<std::uint32_t, std::uint32_t>> numbers_of(std::string_view wanted) {
  const auto colon = wanted.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto platform = number_of(std::string(wanted.substr(0, colon)));
  const auto device = number_of(std::string(wanted.substr(colon + 1)));
  if (!platform || !device) return std::nullopt;
  return std::pair{*platform, *device};
}

std::string listing(const std::vector<FoundDevice>& found) {
  std::string text = "devices here: ";
  for (const FoundDevice& entry : found) {
    if (&entry != found.data()) text += ", ";
    text += std::to_string(entry.info.platform_index) + ":" +
            std::to_string(entry.info.device_index) + " " + entry.info.name + " (" +
            entry.info.platform + ")";
  }
  return text;
}

Status add_devices(cl_platform_id platform, std::uint32_t index, std::vector<FoundDevice>& found) {
  cl_uint count = 0;
  const cl_int error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
  if (error == CL_DEVICE_NOT_FOUND || (error == CL_SUCCESS && count == 0)) return {};
  MILLRACE_TRY(check_opencl(error, "clGetDeviceIDs", "a platform's devices"));
  std::vector<cl_device_id> devices(count);
  MILLRACE_TRY(
      check_opencl(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr),
                   "clGetDeviceIDs", "a platform's devices"));
  for (std::uint32_t i = 0; i < count; ++i) {
    MILLRACE_ASSIGN(const bool works, usable(devices[i]));
    if (!works) continue;
    FoundDevice entry{.platform = platform, .device = devices[i], .info = {}};
    entry.info.platform_index = index;
    entry.info.device_index = i;
    MILLRACE_ASSIGN(entry.info.platform, platform_name(platform));
    MILLRACE_TRY(describe(devices[i], entry.info));
    found.push_back(std::move(entry));
  }
  return {};
}

// A uuid that several devices have, as parts of one or under two platforms, names none of them.
void drop_shared_uuids(std::vector<FoundDevice>& found) {
  std::map<std::string, int> times;
  for (const FoundDevice& entry : found) ++times[entry.info.uuid];
  for (FoundDevice& entry : found) {
    if (times[entry.info.uuid] > 1) entry.info.uuid.clear();
  }
}

}  // namespace

Result<std::vector<FoundDevice>> find_devices() {
  std::vector<FoundDevice> found;
  cl_uint count = 0;
  const cl_int error = clGetPlatformIDs(0, nullptr, &count);
  if (error == no_platform || (error == CL_SUCCESS && count == 0)) return found;
  MILLRACE_TRY(check_opencl(error, "clGetPlatformIDs", "the list of platforms"));
  std::vector<cl_platform_id> platforms(count);
  MILLRACE_TRY(check_opencl(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs",
                            "the list of platforms"));
  for (std::uint32_t i = 0; i < count; ++i) MILLRACE_TRY(add_devices(platforms[i], i, found));
  drop_shared_uuids(found);
  return found;
}

Result<FoundDevice> choose_device(const std::vector<FoundDevice>& found, std::string_view option) {
  const char* const from_environment = std::getenv("MILLRACE_DEVICE");
  const std::string_view wanted =
      option.empty() && from_environment != nullptr ? from_environment : option;
  if (found.empty()) return fail(Code::no_device, "no OpenCL device found", hint_without_device());
  if (wanted.empty()) {
    const auto is_fast = [](const FoundDevice& d) {
      return d.info.type == DeviceType::gpu || d.info.type == DeviceType::accelerator;
    };
    const auto fast = std::ranges::find_if(found, is_fast);
    return fast == found.end() ? found.front() : *fast;
  }
  const auto numbers = numbers_of(wanted);
  const std::string part = lower(wanted);
  for (const FoundDevice& entry : found) {
    if (numbers) {
      if (std::pair{entry.info.platform_index, entry.info.device_index} == *numbers) return entry;
    } else if (part == entry.info.uuid || lower(entry.info.name).find(part) != std::string::npos ||
               lower(entry.info.platform).find(part) != std::string::npos) {
      return entry;
    }
  }
  return fail(Code::no_device, "no OpenCL device matches \"" + std::string(wanted) + "\"",
              listing(found) + "; name one by PLATFORM:DEVICE or by a part of its name");
}

namespace {

std::string id_of(const FoundDevice& device) {
  return std::to_string(device.info.platform_index) + ":" +
         std::to_string(device.info.device_index);
}

Result<FoundDevice> device_of(const std::vector<FoundDevice>& found, std::string_view item,
                              const FoundDevice& first, std::string_view name) {
  auto numbers = numbers_of(item);
  if (const auto device = number_of(std::string(item))) {
    numbers = std::pair{first.info.platform_index, *device};
  }
  const auto entry = std::ranges::find_if(found, [&](const FoundDevice& d) {
    return numbers == std::pair{d.info.platform_index, d.info.device_index};
  });
  if (entry != found.end()) return *entry;
  return fail(Code::no_device,
              std::string(name) + ": no OpenCL device is \"" + std::string(item) + "\"",
              listing(found) + "; name them by PLATFORM:DEVICE or DEVICE, or give all");
}

}  // namespace

Result<std::vector<FoundDevice>> choose_devices(const std::vector<FoundDevice>& found,
                                                std::string_view option, std::string_view list,
                                                std::string_view name) {
  MILLRACE_ASSIGN(const FoundDevice first, choose_device(found, option));
  std::vector<FoundDevice> out;
  if (list == "all") {
    std::ranges::copy_if(found, std::back_inserter(out), [&](const FoundDevice& device) {
      return numeric_identity(device.info) == numeric_identity(first.info);
    });
    return out;
  }
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    MILLRACE_ASSIGN(FoundDevice device, device_of(found, list.substr(0, comma), first, name));
    list.remove_prefix(std::min(comma + 1, list.size()));
    const auto same = [&](const FoundDevice& other) { return id_of(other) == id_of(device); };
    if (std::ranges::any_of(out, same)) {
      return fail(Code::usage, std::string(name) + " names " + id_of(device) + " twice",
                  "each has a device to itself: name each once");
    }
    if (!out.empty() && numeric_identity(device.info) != numeric_identity(out.front().info)) {
      return fail(Code::usage,
                  std::string(name) + ": " + id_of(out.front()) + " " + out.front().info.name +
                      " and " + id_of(device) + " " + device.info.name +
                      " are not of one kind (platform, name, driver)",
                  "a job has the same bits only on devices of one kind: give each kind a command "
                  "of its own");
    }
    out.push_back(std::move(device));
  }
  return out;
}

Result<DeviceInfo> chosen_device(std::string_view option) {
  MILLRACE_ASSIGN(const auto found, find_devices());
  MILLRACE_ASSIGN(const FoundDevice chosen, choose_device(found, option));
  return chosen.info;
}

std::string numeric_identity(const DeviceInfo& info) {
  return "device " + info.platform + "/" + info.name + "\n" + "driver " + info.driver + "\n";
}

bool is_pocl(const DeviceInfo& info) {
  return info.platform == "Portable Computing Language";
}

namespace {

std::vector<DeviceInfo> infos_of(const std::vector<FoundDevice>& found) {
  std::vector<DeviceInfo> out;
  out.reserve(found.size());
  for (const FoundDevice& entry : found) out.push_back(entry.info);
  return out;
}

}  // namespace

Result<std::vector<DeviceInfo>> chosen_devices(std::string_view option, std::string_view list,
                                               std::string_view name) {
  MILLRACE_ASSIGN(const auto found, find_devices());
  MILLRACE_ASSIGN(const auto chosen, choose_devices(found, option, list, name));
  return infos_of(chosen);
}

Result<std::vector<DeviceInfo>> list_devices() {
  MILLRACE_ASSIGN(const auto found, find_devices());
  return infos_of(found);
}

}  // namespace millrace::engine

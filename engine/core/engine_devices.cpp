#include "engine/core/engine_devices.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/core/device_runner.hpp"
#include "engine/core/pipeline_runner.hpp"

namespace millrace::engine {
namespace {

std::string id_of(const DeviceInfo& device) {
  return std::to_string(device.platform_index) + ":" + std::to_string(device.device_index);
}

}  // namespace

Result<EngineDevices> open_devices(const EngineOptions& options) {
  DeviceOptions of_each;
  of_each.device = options.device;
  of_each.cores = options.cores;
  of_each.variant = options.kernel_variant;
  of_each.cache_dir = options.cache_dir;
  of_each.profile = options.profile;
  of_each.own_bytes = options.device_bytes;
  of_each.program_helper = options.program_helper;
  std::vector<std::string> names{options.device};
  if (!options.pipeline.empty()) {
    MILLRACE_ASSIGN(const auto chosen,
                    chosen_devices(options.device, options.pipeline, "--pipeline"));
    names.clear();
    for (const DeviceInfo& device : chosen) names.push_back(id_of(device));
  }
  EngineDevices out;
  for (const std::string& name : names) {
    of_each.device = name;
    MILLRACE_ASSIGN(out.emplace_back(), Device::open(of_each));
  }
  return out;
}

std::vector<Device*> pointers(const EngineDevices& devices) {
  std::vector<Device*> out;
  for (const auto& device : devices) out.push_back(device.get());
  return out;
}

Result<std::unique_ptr<StepRunner>> make_runner(Model& model, Sampler& sampler) {
  if (model.stages() == 1) {
    return std::make_unique<DeviceRunner>(model.device(0), model, sampler);
  }
  MILLRACE_ASSIGN(auto runner, PipelineRunner::create(model, sampler));
  return runner;
}

std::string layers_text(const EngineDevices& devices, const std::vector<LayerRange>& ranges) {
  std::string out;
  for (std::size_t i = 0; devices.size() > 1 && i < ranges.size(); ++i) {
    const LayerRange& range = ranges[i];
    if (i > 0) out += ", ";
    out += range.count() == 1 ? "layer " : "layers ";
    out += std::to_string(range.first);
    if (range.count() > 1) out += " to " + std::to_string(range.end - 1);
    out += " on " + id_of(devices[i]->info());
  }
  return out;
}

std::uint64_t launches(const EngineDevices& devices) {
  std::uint64_t out = 0;
  for (const auto& device : devices) out += device->launches();
  return out;
}

std::uint64_t allocated_bytes(const EngineDevices& devices) {
  std::uint64_t out = 0;
  for (const auto& device : devices) out += device->allocated_bytes();
  return out;
}

Result<std::vector<KernelTime>> profile(const EngineDevices& devices) {
  std::map<std::string, KernelTime> sums;
  for (const auto& device : devices) {
    MILLRACE_ASSIGN(const std::vector<KernelTime> times, device->profile());
    for (const KernelTime& time : times) {
      KernelTime& sum = sums[time.kernel];
      sum.kernel = time.kernel;
      sum.launches += time.launches;
      sum.total_ns += time.total_ns;
    }
  }
  std::vector<KernelTime> out;
  for (auto& [kernel, time] : sums) out.push_back(std::move(time));
  std::ranges::stable_sort(out, std::ranges::greater(), &KernelTime::total_ns);
  return out;
}

}  // namespace millrace::engine

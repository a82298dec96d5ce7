#pragma once
// The devices of an engine: one, or those of its pipeline. Thread safety: one owner thread.
#include <memory>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/engine.hpp"
#include "engine/core/model/model.hpp"
#include "engine/core/request/step_runner.hpp"
#include "engine/core/sampler/sampler.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

using EngineDevices = std::vector<std::unique_ptr<Device>>;

// Opens them in the order of their layers. Errors: those of chosen_devices and Device::open.
Result<EngineDevices> open_devices(const EngineOptions& options);
std::vector<Device*> pointers(const EngineDevices& devices);
// What runs steps of a model on its devices, with a sampler on the last one.
Result<std::unique_ptr<StepRunner>> make_runner(Model& model, Sampler& sampler);
// For people: which layers run on which device; empty if there is one device.
std::string layers_text(const EngineDevices& devices, const std::vector<LayerRange>& ranges);
// The launches and bytes of all devices, and their kernels' times, the longest first.
std::uint64_t launches(const EngineDevices& devices);
std::uint64_t allocated_bytes(const EngineDevices& devices);
Result<std::vector<KernelTime>> profile(const EngineDevices& devices);

}  // namespace millrace::engine

#pragma once
// A device for tests, and typed transfers that fail the test with the device's error message. The
// device caches programs where the product does, so that a second run compiles nothing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/device/device.hpp"

namespace millrace::testing {

// Returns the value, or throws the error. Use it for set-up without which the rest is meaningless.
template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text());
  return *std::move(result);
}
inline void must(const Status& status) {
  if (!status) throw std::runtime_error(status.error().text());
}

// $MILLRACE_TEST_VARIANT: the kernel variant of tests that do not force one; empty for the device's
// own. With "generic" a CPU stands in for a device of another kind.
inline std::string test_variant() {
  const char* const given = std::getenv("MILLRACE_TEST_VARIANT");
  return given == nullptr ? "" : given;
}

// All devices of a test program share one context, for which PoCL parses its built-in functions
// once. Nothing closes the first device, because drivers may end before static objects do.
inline std::unique_ptr<engine::Device> open_device(engine::DeviceOptions options = {}) {
  static const engine::Device* const first = must(engine::Device::open({})).release();
  if (options.device.empty()) options.shares_context_with = first;
  if (options.variant.empty()) options.variant = test_variant();
  return must(engine::Device::open(options));
}

// Kernels of the cpu family run on CPUs alone. On other devices their tests are skipped with the
// reason `needs_cpu_family`.
inline bool has_cpu_family() {
  static const bool has = open_device()->family() == engine::Family::cpu;
  return has;
}
inline constexpr const char* needs_cpu_family =
    "the device is not a CPU, which the kernels of the cpu family need";
// The families that tests force.
inline std::vector<std::string> families() {
  return has_cpu_family() ? std::vector<std::string>{"generic", "nvidia", "cpu"}
                          : std::vector<std::string>{"generic", "nvidia"};
}

// Whether the codes of activations in math fast are halves, and so results have bits of their own.
inline bool codes_are_halves(const std::string& family) {
  return family == "nvidia";
}

template <class T>
engine::Buffer upload(engine::Device& device, const std::vector<T>& values) {
  auto buffer = must(device.allocate(values.size() * sizeof(T), "test data"));
  must(device.write(buffer, 0, std::as_bytes(std::span(values))));
  return buffer;
}

template <class T>
std::vector<T> download(engine::Device& device, const engine::Buffer& buffer, std::size_t count) {
  std::vector<T> values(count);
  must(device.read(buffer, 0, std::as_writable_bytes(std::span(values))));
  return values;
}

// Random numbers from a seed, the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint32_t bits() {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<std::uint32_t>(state_ >> 33) ^ static_cast<std::uint32_t>(state_ >> 20);
  }
  std::uint32_t below(std::uint32_t limit) { return bits() % limit; }
  float uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(bits() >> 8) * 0x1p-24f;
  }
  std::vector<float> floats(std::size_t count, float low, float high) {
    std::vector<float> out(count);
    for (float& value : out) value = uniform(low, high);
    return out;
  }

 private:
  std::uint64_t state_;
};

}  // namespace millrace::testing

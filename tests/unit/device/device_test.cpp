#include "engine/core/device/device.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>

#include "engine/core/device/cores.hpp"
#include "engine/core/device/family_source.hpp"
#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using testing::download;
using testing::must;
using testing::open_device;
using testing::upload;

const ProgramSpec doubling{.name = "doubling", .sources = {}, .defines = {"FACTOR=2"}, .text = R"(
__kernel void scale(__global uint* x, uint add, float unused, ulong wide) {
  const size_t i = get_global_id(0) + get_global_size(0) * get_global_id(1);
  x[i] = x[i] * FACTOR + add + (uint)(wide >> 32) + (unused > 1.0f ? 1 : 0);
}
)"};

TEST(Device, IsFoundByNumbersByNameAndByEnvironment) {
  const auto devices = must(list_devices());
  ASSERT_FALSE(devices.empty());
  for (const DeviceInfo& info : devices) {
    const auto numbers =
        std::to_string(info.platform_index) + ":" + std::to_string(info.device_index);
    EXPECT_EQ(open_device({.device = numbers})->info().name, info.name);
  }
  std::string name = devices[0].name.substr(1);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_EQ(open_device({.device = name})->info().name, devices[0].name);
  const char* const given = std::getenv("MILLRACE_DEVICE");
  const std::string before = given == nullptr ? "" : given;
  setenv("MILLRACE_DEVICE", "no such device anywhere", 1);
  const auto from_environment = Device::open({});
  const auto from_option = Device::open({.device = name});
  setenv("MILLRACE_DEVICE", before.c_str(), 1);  // empty is none
  EXPECT_FALSE(from_environment.has_value());
  EXPECT_TRUE(from_option.has_value());
}

TEST(Device, UnknownNamesAreRefusedWithAList) {
  for (const char* wanted : {"zzz", "99:0", "0:99", ":", "0:x"}) {
    const auto device = Device::open({.device = wanted});
    ASSERT_FALSE(device.has_value()) << wanted;
    EXPECT_EQ(device.error().code, Code::no_device);
    EXPECT_NE(device.error().message.find(wanted), std::string::npos);
    EXPECT_NE(device.error().hint.find("0:0 "), std::string::npos) << device.error().text();
  }
}

TEST(Device, AFamilyWithoutASourceOfItsOwnRunsTheGenericOne) {
  const auto generic = open_device({.variant = "generic"}), cpu = open_device({.variant = "cpu"});
  EXPECT_EQ(family_source(*generic, "sampler"), "sampler/generic.cl");
  EXPECT_EQ(family_source(*cpu, "sampler"), "sampler/cpu.cl");
  EXPECT_EQ(family_source(*cpu, "experts"), "experts/generic.cl");
}

TEST(Device, TheFamilyFollowsTheTypeUnlessForced) {
  const auto device = must(Device::open({}));
  const DeviceInfo& info = device->info();
  EXPECT_EQ(device->family(), info.type == DeviceType::cpu ? Family::cpu
                              : info.has_matrix_unit()     ? Family::nvidia
                                                           : Family::generic);
  EXPECT_EQ(open_device({.variant = "nvidia"})->family(), Family::nvidia);
  EXPECT_EQ(open_device({.variant = "generic"})->family(), Family::generic);
  EXPECT_EQ(open_device({.variant = "cpu"})->family(), Family::cpu);
  const auto refused = Device::open({.variant = "quantum"});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::invalid_value);
  EXPECT_NE(refused.error().message.find("quantum"), std::string::npos);
}

TEST(Device, MovesBytes) {
  const auto device = open_device();
  std::vector<std::uint32_t> values(1000);
  std::iota(values.begin(), values.end(), 7u);
  const Buffer a = upload(*device, values);
  const Buffer b = must(device->allocate_zeroed(4000, "b"));
  must(device->copy(a, 400, b, 0, 400));
  must(device->fill_zero(b, 396, 4));
  const auto copied = download<std::uint32_t>(*device, b, 1000);
  for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ(copied[i], i < 99 ? values[i + 100] : 0u);
  std::vector<std::uint32_t> later(1000);
  const DeviceEvent event =
      must(device->enqueue_read(a, 0, std::as_writable_bytes(std::span(later))));
  must(device->wait(event));
  EXPECT_EQ(later, values);
}

TEST(Device, AWriteKeepsItsBytes) {
  const auto device = open_device();
  const Buffer buffer = must(device->allocate(1 << 20, "b"));
  std::vector<std::byte> bytes(1 << 20);
  for (int round = 0; round < 20; ++round) {
    std::ranges::fill(bytes, static_cast<std::byte>(round));
    must(device->write(buffer, 0, bytes));
    std::ranges::fill(bytes, std::byte{0xff});
    const auto last = download<std::uint8_t>(*device, buffer, 1 << 20);
    EXPECT_TRUE(std::ranges::all_of(last, [&](std::uint8_t v) { return v == round; }));
  }
}

TEST(Device, LaunchesWithEveryKindOfArgument) {
  const auto device = open_device({.profile = true});
  const Program program = must(device->build(doubling));
  Kernel kernel = must(device->kernel(program, "scale"));
  const Buffer x = upload(*device, std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6});
  const Grid grid{.groups = {3, 2}, .local = {1, 1}};
  must(device->launch(kernel, grid, {x, 10u, 1.5f, std::uint64_t{1} << 32}));
  EXPECT_EQ(download<std::uint32_t>(*device, x, 6),
            (std::vector<std::uint32_t>{14, 16, 18, 20, 22, 24}));
  const auto times = must(device->profile());
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].kernel, "scale");
  EXPECT_EQ(times[0].launches, 1u);
}

// Small buffers are cut from one piece of memory, large ones are not. Freeing one leaves the
// others.
TEST(Device, BuffersKeepApart) {
  const auto device = open_device();
  std::vector<Buffer> buffers;
  const auto value = [](std::size_t i) { return static_cast<std::uint8_t>(i * 7 + 1); };
  for (std::size_t round = 0; round < 3; ++round) {
    for (const std::size_t bytes : {1, 4095, 4096, 4097, 3 << 20, 31 << 20, 33 << 20}) {
      const std::size_t i = buffers.size();
      buffers.push_back(upload(*device, std::vector<std::uint8_t>(bytes, value(i))));
    }
    for (std::size_t i = round; i < buffers.size(); i += 2) buffers[i] = Buffer();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (!buffers[i]) continue;
      const auto bytes = download<std::uint8_t>(*device, buffers[i], buffers[i].size_bytes());
      EXPECT_TRUE(std::ranges::all_of(bytes, [&](std::uint8_t b) { return b == value(i); }))
          << "buffer " << i << " in round " << round;
    }
  }
}

TEST(Device, KernelsFindBuffersByTheirAddresses) {
  const auto device = open_device();
  if (!device->has_addresses()) {
    GTEST_SKIP() << "the device has no memory that it shares with the host";
  }
  const std::vector<std::uint32_t> a{1, 2, 3}, b{40, 50, 60};
  const Buffer first = upload(*device, a), second = upload(*device, b);
  EXPECT_NE(first.address(), second.address());
  EXPECT_EQ(Buffer().address(), nullptr);
  std::vector<std::uint64_t> addresses;
  for (const Buffer* buffer : {&first, &second, static_cast<const Buffer*>(nullptr)}) {
    addresses.push_back(buffer == nullptr ? 0
                                          : reinterpret_cast<std::uintptr_t>(buffer->address()));
  }
  const Buffer table = upload(*device, addresses);
  const Buffer sums = must(device->allocate(3 * 4, "sums"));
  const Program program = must(device->build({.name = "by_address", .sources = {}, .text = R"(
__kernel void sum(__global const ulong* table, __global uint* sums) {
  const size_t i = get_global_id(0);
  sums[i] = 0;
  for (uint t = 0; table[t] != 0; ++t) sums[i] += ((__global const uint*)(size_t)table[t])[i];
}
)"}));
  Kernel kernel = must(device->kernel(program, "sum"));
  const Buffer none;
  const auto buffers = std::to_array<const Buffer*>({&first, &second, &none});
  must(device->reads_by_address(kernel, buffers));
  must(device->launch(kernel, {.groups = {3}}, {table, sums}));
  EXPECT_EQ(download<std::uint32_t>(*device, sums, 3), (std::vector<std::uint32_t>{41, 52, 63}));
}

TEST(Device, WhatFailsNamesTheCallAndThePurpose) {
  const auto device = open_device();
  const Program program = must(device->build(doubling));
  const auto missing = device->kernel(program, "no_such_kernel");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::device_error);
  EXPECT_NE(missing.error().message.find("clCreateKernel"), std::string::npos);
  EXPECT_NE(missing.error().message.find("CL_INVALID_KERNEL_NAME"), std::string::npos);
  EXPECT_NE(missing.error().message.find("no_such_kernel"), std::string::npos);

  Kernel kernel = must(device->kernel(program, "scale"));
  const Buffer x = upload(*device, std::vector<std::uint32_t>{1});
  const auto wrong_size = device->launch(kernel, {}, {x, std::uint64_t{1}});
  ASSERT_FALSE(wrong_size.has_value());
  EXPECT_NE(wrong_size.error().message.find("clSetKernelArg"), std::string::npos);
  EXPECT_NE(wrong_size.error().message.find("argument 1"), std::string::npos);
  const auto empty = device->launch(kernel, {.groups = {0}}, {x, 1u, 1.0f, std::uint64_t{0}});
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code, Code::internal);
}

TEST(Device, BuffersBeyondTheLimitAreRefused) {
  const auto device = open_device({.max_allocation_bytes = 4096});
  EXPECT_EQ(device->info().max_allocation_bytes, 4096u);
  EXPECT_TRUE(device->allocate(4096, "fits").has_value());
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{4097}}) {
    const auto refused = device->allocate(bytes, "the logits");
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::out_of_memory);
    EXPECT_NE(refused.error().message.find("the logits"), std::string::npos);
    EXPECT_NE(refused.error().message.find("4 KiB"), std::string::npos);
  }
}

TEST(Device, ABuildFailureShowsTheCompilersLog) {
  const auto device = open_device();
  const auto program = device->build(
      {.name = "broken", .sources = {}, .defines = {}, .text = "__kernel void f() { nonsense; }"});
  ASSERT_FALSE(program.has_value());
  EXPECT_EQ(program.error().code, Code::kernel_build);
  EXPECT_NE(program.error().message.find("broken"), std::string::npos);
  EXPECT_NE(program.error().message.find("nonsense"), std::string::npos) << program.error().text();
  const auto no_source =
      device->build({.name = "absent", .sources = {"no/such.cl"}, .defines = {}, .text = ""});
  ASSERT_FALSE(no_source.has_value());
  EXPECT_NE(no_source.error().message.find("no/such.cl"), std::string::npos);
}

// Setting the variable here does not affect PoCL, which read it earlier.
TEST(Device, WhereDevicesMayBeOfOtherMachinesThisProcessorDoesNotCount) {
  const char* const given = std::getenv("POCL_DEVICES");
  const std::string before = given == nullptr ? "" : given;
  open_device();
  setenv("POCL_DEVICES", "pthread remote", 1);
  const auto device = Device::open({.variant = "cpu"});
  given == nullptr ? unsetenv("POCL_DEVICES") : setenv("POCL_DEVICES", before.c_str(), 1);
  ASSERT_TRUE(device) << device.error().text();
  EXPECT_EQ((*device)->dot(), Dot::plain);
}

// Tests of the kernels skip dot products that cannot run here; this test shows which.
class EveryDot : public ::testing::TestWithParam<Dot> {};

TEST_P(EveryDot, IsTestedHere) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  const std::string name(dot_name(GetParam()));
  if (!processor_has(GetParam())) GTEST_SKIP() << "this machine has no " << name;
  if (GetParam() > open_device({.variant = "cpu"})->dot()) {
    GTEST_SKIP() << "the device's compiler has no " << name;
  }
  EXPECT_EQ(open_device({.variant = "cpu-" + name})->dot(), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Dots, EveryDot, ::testing::ValuesIn(all_dots),
                         [](const auto& dot) { return std::string(dot_name(dot.param)); });

// Returns the quota for a machine with these control group files, by path.
std::optional<double> quota_of(const std::map<std::string, std::string>& files) {
  namespace fs = std::filesystem;
  const fs::path root =
      fs::path(::testing::TempDir()) / ("millrace-groups-" + std::to_string(::getpid()));
  for (const auto& [path, text] : files) {
    const fs::path file = root / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const auto quota = quota_cores(root.string());
  fs::remove_all(root);
  return quota;
}

TEST(Cores, TheLeastQuotaOfTheGroupsAboveCounts) {
  const std::string self = "proc/self/cgroup", top = "sys/fs/cgroup/";
  EXPECT_EQ(quota_of({}), std::nullopt);
  EXPECT_EQ(quota_of({{self, "0::/\n"}, {top + "cpu.max", "max 100000\n"}}), std::nullopt);
  EXPECT_EQ(quota_of({{self, "0::/\n"}, {top + "cpu.max", "150000 100000\n"}}), 1.5);
  EXPECT_EQ(quota_of({{self, "0::/pod/box\n"},
                      {top + "pod/box/cpu.max", "400000 100000\n"},
                      {top + "pod/cpu.max", "300000 100000\n"},
                      {top + "cpu.max", "max 100000\n"}}),
            3.0);
  EXPECT_EQ(quota_of({{self, "0::/a path of the host\n"}, {top + "cpu.max", "50000 100000\n"}}),
            0.5);
  // Version 1, whose controllers share a folder or link to it.
  for (const std::string folder : {"cpu", "cpu,cpuacct"}) {
    EXPECT_EQ(quota_of({{self, "7:memory:/m\n4:cpu,cpuacct:/pod\n"},
                        {top + folder + "/pod/cpu.cfs_quota_us", "250000\n"},
                        {top + folder + "/pod/cpu.cfs_period_us", "100000\n"},
                        {top + folder + "/cpu.cfs_quota_us", "-1\n"},
                        {top + folder + "/cpu.cfs_period_us", "100000\n"}}),
              2.5);
  }
  EXPECT_EQ(quota_of({{self, "no line of that file\n1:cpuset:/\n"},
                      {top + "cpu.max", "100000 100000\n"}}),
            std::nullopt);
}

TEST(Cores, NoMoreGroupsThanCoresThatAreAskedForOrUsable) {
  EXPECT_GE(usable_cores(), 1u);
  EXPECT_LE(usable_cores(), std::max(1u, std::thread::hardware_concurrency()));
  const auto device = open_device();
  if (device->info().type != DeviceType::cpu) GTEST_SKIP() << "the device is not a CPU";
  EXPECT_LE(device->info().compute_units, usable_cores());
  EXPECT_EQ(open_device({.cores = 1})->info().compute_units, 1u);
}

}  // namespace
}  // namespace millrace::engine

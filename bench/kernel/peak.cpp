#include "bench/kernel/peak.hpp"

#include <algorithm>
#include <chrono>
#include <functional>

namespace millrace::engine {
namespace {

constexpr const char* source = R"(
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void multiply_adds(__global float16* out, uint rounds, float factor) {
  const float16 b = (float16)(factor);
  float16 a[12];
  for (int i = 0; i < 12; ++i) a[i] = (float16)((float)(get_group_id(0) + (size_t)i));
  for (uint r = 0; r < rounds; ++r) {
    _Pragma("unroll") for (int i = 0; i < 12; ++i) a[i] = fma(a[i], b, b);
  }
  float16 sum = a[0];
  for (int i = 1; i < 12; ++i) sum += a[i];
  out[get_group_id(0)] = sum;
}
)";

constexpr const char* read_source = R"(
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reads(__global const float16* in, __global float16* out, uint vectors) {
  in += (size_t)get_group_id(0) * vectors;
  float16 a = (float16)(0.0f), b = a, c = a, d = a;
  for (uint i = 0; i < vectors; i += 4) {
    a += in[i];
    b += in[i + 1];
    c += in[i + 2];
    d += in[i + 3];
  }
  out[get_group_id(0)] = (a + b) + (c + d);
}
)";

// One source for every dot product: STEP adds a product of bytes into the 32-bit lanes of `a`. The
// helper carries the target, because PoCL compiles a kernel itself for fewer features. The empty
// assembly keeps the compiler from moving a product that does not change out of the loop.
constexpr const char* dot_source = R"(
typedef int lanes __attribute__((ext_vector_type(LANES)));
typedef short pairs __attribute__((ext_vector_type(2 * LANES)));
typedef char bytes __attribute__((ext_vector_type(4 * LANES)));
#define OPAQUE(v) __asm__("" : "+v"(v))
#define BYTES(v) __builtin_astype(v, bytes)
__attribute__((target(TARGET), noinline))
void chain(__global int* out, uint rounds, int x, int y) {
  lanes w = (lanes)(x), q = (lanes)(y), a[12];
  const pairs ones = (pairs)(1);
  for (int i = 0; i < 12; ++i) a[i] = (lanes)(i);
  for (uint r = 0; r < rounds; ++r) {
    _Pragma("unroll") for (int i = 0; i < 12; ++i) {
      OPAQUE(w);
      STEP;
    }
  }
  for (int i = 1; i < 12; ++i) a[0] += a[i];
  for (int i = 0; i < LANES; ++i) out[i] = a[0][i];
}
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void dots(__global int* out, uint rounds, int x, int y) {
  chain(out + get_group_id(0) * 16, rounds, x, y);
}
)";

struct Dot {
  const char* name;
  bool present;
  int lanes;
  const char *target, *step;
};

double seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Returns the seconds of one launch, the best of 8.
Result<double> best(Device& device, const std::function<Status()>& launch) {
  double least = 1e9;
  for (int i = 0; i < 9; ++i) {
    const double start = seconds();
    MILLRACE_TRY(launch());
    MILLRACE_TRY(device.finish());
    if (i != 0) least = std::min(least, seconds() - start);  // the first launch specializes
  }
  return least;
}

Status measure_dots(Device& device, const Buffer& out, std::uint32_t groups, Peak& peak) {
  const Dot known[] = {
      {"avx512-vnni", __builtin_cpu_supports("avx512vnni") != 0, 16,
       "\"avx512vnni,avx512bw,avx512f\"", "a[i] = __builtin_ia32_vpdpbusd512(a[i], w, q)"},
      {"avx512bw", __builtin_cpu_supports("avx512bw") != 0, 16, "\"avx512bw,avx512f\"",
       "a[i] += __builtin_astype(__builtin_ia32_pmaddwd512("
       "__builtin_ia32_pmaddubsw512(BYTES(w), BYTES(q)), ones), lanes)"},
      {"avx2", __builtin_cpu_supports("avx2") != 0, 8, "\"avx2\"",
       "a[i] += __builtin_astype(__builtin_ia32_pmaddwd256("
       "__builtin_ia32_pmaddubsw256(BYTES(w), BYTES(q)), ones), lanes)"},
  };
  for (const Dot& dot : known) {
    if (!dot.present) continue;
    MILLRACE_ASSIGN(const Program program,
                    device.build({.name = "peak-dots",
                                  .defines = {"LANES=" + std::to_string(dot.lanes)},
                                  .text = std::string("#define TARGET ") + dot.target +
                                          "\n#define STEP " + dot.step + "\n" + dot_source}));
    MILLRACE_ASSIGN(Kernel kernel, device.kernel(program, "dots"));
    constexpr std::uint32_t rounds = 2'000'000;
    MILLRACE_ASSIGN(
        const double s, best(device, [&] {
          return device.launch(kernel, {.groups = {groups}}, {out, rounds, 0x05030201, 0x01020304});
        }));
    const double gops = 2.0 * 4 * dot.lanes * 12 * rounds * groups / s / 1e9;
    if (gops > peak.dot_gops) {
      peak.dot_gops = gops;
      peak.dot_instruction = dot.name;
    }
  }
  return {};
}

// Each compute unit gets several groups, so that a unit that starts late costs little.
std::uint32_t groups_of(const Device& device) {
  return device.info().compute_units * 4;
}

}  // namespace

Result<ReadProbe> ReadProbe::create(Device& device) {
  ReadProbe probe;
  probe.device_ = &device;
  probe.groups_ = groups_of(device);
  MILLRACE_ASSIGN(const Program program, device.build({.name = "reads", .text = read_source}));
  MILLRACE_ASSIGN(probe.kernel_, device.kernel(program, "reads"));
  MILLRACE_ASSIGN(probe.out_, device.allocate(probe.groups_ * 64, "reads' sums"));
  MILLRACE_ASSIGN(probe.in_, device.allocate_zeroed(512ull << 20, "reads"));
  return probe;
}

Result<double> ReadProbe::measure() {
  const auto vectors = static_cast<std::uint32_t>(in_.size_bytes() / 64 / groups_ / 4 * 4);
  MILLRACE_ASSIGN(const double s, best(*device_, [&] {
                    return device_->launch(kernel_, {.groups = {groups_}}, {in_, out_, vectors});
                  }));
  return 64.0 * vectors * groups_ / s / 1e9;
}

Result<Peak> measure_peak(Device& device) {
  MILLRACE_ASSIGN(const Program program, device.build({.name = "peak", .text = source}));
  MILLRACE_ASSIGN(Kernel adds, device.kernel(program, "multiply_adds"));
  const std::uint32_t groups = groups_of(device);
  MILLRACE_ASSIGN(const Buffer out, device.allocate(groups * 64, "peak"));
  constexpr std::uint32_t rounds = 1'000'000;
  Peak peak;
  MILLRACE_ASSIGN(const double add_s, best(device, [&] {
                    return device.launch(adds, {.groups = {groups}}, {out, rounds, 0.999f});
                  }));
  peak.gflops = 2.0 * 16 * 12 * rounds * groups / add_s / 1e9;
  MILLRACE_ASSIGN(ReadProbe reads, ReadProbe::create(device));
  MILLRACE_ASSIGN(peak.gbytes, reads.measure());
  if (device.family() == Family::cpu) MILLRACE_TRY(measure_dots(device, out, groups, peak));
  return peak;
}

}  // namespace millrace::engine

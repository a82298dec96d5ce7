#pragma once
// What the device can do at most, measured: fp32 multiply-adds from registers, and reads of memory
// that is larger than its caches.

inline constexpr const char* peak_source = R"(
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

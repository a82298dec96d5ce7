// Sixteen halves to floats, exactly, for the cpu family.
//
// One instruction where the compiler's target has it; elsewhere sign and magnitude are moved into
// place as integers and a product corrects the exponent (subnormal halves included, as floats keep
// subnormals on CPUs). Both give the same bits; HALF_BY_INTEGERS forces the second.
#if defined(__AVX512F__) && !defined(HALF_BY_INTEGERS)
static inline float16 mr_half16(__global const ushort* p) {
  return __builtin_ia32_vcvtph2ps512_mask(*(__global const short16*)p, (float16)(0.0f),
                                          (ushort)(0xffff), 4);
}
#else
static inline float16 mr_half16(__global const ushort* p) {
  const int16 bits = convert_int16(*(__global const ushort16*)p) << 16;
  return as_float16((bits >> 3) & (int16)(0x8fffe000)) * (float16)(0x1p112f);
}
#endif
